//! The number of workers: MATE thesis (2007), section 5.1.6, Table 5.3, on `nbody`.
//!
//! Phases of iterations follow each other in which work and latency are longer in turns. Fixed numbers of workers run against one that
//! the rule `optimal-workers` tunes from 1. A load that varies computation alone by a factor r could gain at most
//! 1 - 2·√s / (s + 1), s = √r, which is 12 % for 8, for one fixed number lies between two optima; latency that varies too puts the
//! optima further apart.

use std::path::PathBuf;

use tuneagent_e2e::programs;

use super::chart::{Line, Panel, Picture};
use super::rounds::{self, Rounds};
use super::scenario::{self, Run, Scenario, With};
use super::stats::{Spread, less};
use super::table::Table;
use super::{Claim, Outcome, Section, Settings};
use crate::Result;

/// Workers, and minutes of Table 5.3, its min,sec read as such.
const THESIS: [(usize, f64); 6] = [
    (1, 817.0),
    (2, 462.0),
    (4, 246.0),
    (8, 138.0),
    (16, 178.0),
    (25, 214.0),
];
/// Its run that was tuned from 1.
const THESIS_TUNED: f64 = 102.0;

/// The names of the rule, as the library `mw` has them.
pub(crate) const NAMES: [(&str, &str); 11] = [
    ("begin_iteration", "mw_begin_iteration"),
    ("end_iteration", "mw_end_iteration"),
    ("send_task", "mw_send"),
    ("receive_result", "mw_receive"),
    ("compute_task", "mw_compute"),
    ("iteration", "mw_iteration"),
    ("current_iteration", "mw_current_iteration"),
    ("nw", "mw_nw"),
    ("NOptWorkers", "mw_workers"),
    ("last_worker", "mw_last_worker"),
    ("nbytes", "mw_nbytes"),
];

/// How the load varies, and how many iterations there are of it.
#[derive(Clone, Copy)]
struct Load {
    iterations: usize,
    phase: usize,
    swing: usize,
    /// Every second phase is plain.
    has_plain: bool,
    work_us: usize,
    latency_us: usize,
}

/// What is longer in a phase.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    MoreWork,
    MoreLatency,
}

impl Load {
    fn varying(quick: bool, has_plain: bool) -> Load {
        let phase = if quick { 15 } else { 100 };
        Load {
            iterations: 4 * phase,
            phase,
            swing: 8,
            has_plain,
            work_us: 36_000,
            latency_us: 500,
        }
    }

    /// With an optimum near 12.
    fn constant(quick: bool) -> Load {
        Load {
            iterations: if quick { 40 } else { 400 },
            phase: 0,
            swing: 1,
            has_plain: true,
            work_us: 72_000,
            latency_us: 500,
        }
    }

    fn arguments(&self) -> Vec<String> {
        let Load {
            iterations,
            phase,
            swing,
            has_plain,
            work_us,
            latency_us,
        } = self;
        vec![
            format!("no_plain={}", u8::from(!has_plain)),
            format!("iterations={iterations}"),
            format!("phase={phase}"),
            format!("swing={swing}"),
            format!("work_us={work_us}"),
            format!("latency_us={latency_us}"),
        ]
    }

    fn kind(&self, iteration: usize) -> Kind {
        let phase = iteration.checked_div(self.phase);
        let phase = phase.map(|phase| {
            if self.has_plain {
                phase % 4
            } else {
                phase % 2 * 2 + 1
            }
        });
        match phase {
            Some(1) => Kind::MoreWork,
            Some(3) => Kind::MoreLatency,
            _ => Kind::Plain,
        }
    }

    /// Work and latency of an iteration, in seconds.
    fn at(&self, iteration: usize) -> (f64, f64) {
        let kind = self.kind(iteration);
        let swings = |of| if kind == of { self.swing as f64 } else { 1.0 };
        (
            self.work_us as f64 * swings(Kind::MoreWork) / 1e6,
            self.latency_us as f64 * swings(Kind::MoreLatency) / 1e6,
        )
    }

    /// The number of workers at which the model has its minimum.
    fn optimum(&self, iteration: usize) -> f64 {
        let (work, latency) = self.at(iteration);
        (work / latency).sqrt().clamp(1.0, MOST as f64)
    }
}

const MOST: usize = 25;

/// One program under one load, in all the ways in which it is run.
struct Bench<'a> {
    settings: &'a Settings,
    program: PathBuf,
    load: Load,
}

impl Bench<'_> {
    fn run(&self, more: &[String], with: With) -> Result<Run> {
        let scenario = Scenario {
            program: self.program.clone(),
            mpi: self.settings.mpi,
            ranks: MOST + 1,
            arguments: [self.load.arguments(), more.to_vec()].concat(),
            is_apart: false,
            with,
        };
        scenario.run()
    }

    fn fixed(&self, workers: usize) -> Result<Run> {
        self.run(&[format!("workers={workers}")], With::Nobody)
    }

    /// Fixed numbers, and around the best of them the numbers between, until its neighbours were tried: one run each.
    fn search(&self, begin: &[usize]) -> Result<Vec<(usize, Run)>> {
        let mut tried: Vec<(usize, Run)> = Vec::new();
        let mut next = begin.to_vec();
        while !next.is_empty() {
            for workers in std::mem::take(&mut next) {
                rounds::progress(&format!("{workers} workers, a first look"));
                tried.push((workers, self.fixed(workers)?));
            }
            tried.sort_by_key(|(workers, _)| *workers);
            let seconds = |(_, run): &&(usize, Run)| run.seconds();
            let best = tried.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
            let Some(best) = best.map(|(workers, _)| *workers) else {
                break;
            };
            next = beside(
                best,
                &tried.iter().map(|(workers, _)| *workers).collect::<Vec<_>>(),
            );
        }
        Ok(tried)
    }

    /// What a scenario of the rounds is, by its name.
    fn scenario(&self, name: &str, best: usize, oracle: &[String]) -> Result<Run> {
        let rule = |flags: &[&str]| With::rule("optimal-workers", &NAMES, flags);
        match name {
            TUNED => self.run(&["workers=1".to_owned()], rule(&["--apply"])),
            WATCHED => self.run(&[format!("workers={best}")], rule(&[])),
            ORACLE => self.run(oracle, With::Nobody),
            workers => self.fixed(workers.parse().map_err(|_| format!("no scenario {workers}"))?),
        }
    }
}

const TUNED: &str = "tuned from 1";
const WATCHED: &str = "watched";
const ORACLE: &str = "oracle";

/// The numbers to try next around the best one: half way to its neighbours that were tried.
fn beside(best: usize, tried: &[usize]) -> Vec<usize> {
    let below = tried.iter().filter(|of| **of < best).max();
    let above = tried.iter().filter(|of| **of > best).min();
    let between = |of: Option<&usize>| of.map(|of| (of + best) / 2);
    // Rounded down, half way from above may be the best itself.
    let half = [
        between(below).filter(|of| !tried.contains(of)),
        above
            .map(|of| (of + best).div_ceil(2))
            .filter(|of| !tried.contains(of)),
    ];
    half.into_iter().flatten().collect()
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    scenario::build_agent(&crate::root())?;
    let program = programs::master_worker("nbody", settings.mpi).map_err(|problem| problem.to_string())?;
    let fixed: Vec<usize> = if settings.quick {
        vec![1, 8, 25]
    } else {
        THESIS.map(|(workers, _)| workers).to_vec()
    };
    let of = |load, fixed: &[usize]| {
        let bench = Bench {
            settings,
            program: program.clone(),
            load,
        };
        bench.measure(fixed)
    };
    let varying = of(Load::varying(settings.quick, false), &fixed)?;
    let constant = of(
        Load::constant(settings.quick),
        if settings.quick { &[12] } else { &[8, 12, 16] },
    )?;
    let mut sections = vec![
        varying.section("Varying load", true),
        constant.section("Constant load", false),
    ];
    if !settings.quick {
        let with_plain = of(Load::varying(false, true), &[6, 8, 10])?;
        sections.insert(
            1,
            with_plain.section("Varying load with plain phases between", false),
        );
    }
    let mut claims = varying.varying_claims();
    claims.extend(constant.constant_claims());
    claims.extend([
        varying.logic("under varying load"),
        constant.logic("under constant load"),
    ]);
    Ok(Outcome {
        sections,
        picture: Picture {
            title: "Number of workers: fixed against tuned".to_owned(),
            panels: vec![
                varying.panel("varying load"),
                thesis(),
                varying.course("a tuned run under varying load"),
                constant.course("a tuned run under constant load"),
            ],
        },
        claims,
    })
}

fn thesis() -> Panel {
    let points = THESIS.map(|(workers, seconds)| (workers as f64, Spread::exactly(seconds)));
    Panel {
        title: "MATE thesis, Table 5.3".to_owned(),
        across: "workers".to_owned(),
        up: "s".to_owned(),
        lines: vec![Line {
            name: "fixed".to_owned(),
            points: points.to_vec(),
        }],
        levels: vec![(TUNED.to_owned(), THESIS_TUNED)],
    }
}

/// What was measured under one load.
struct Measured {
    load: Load,
    /// With the seconds of the first look.
    fixed: Vec<(usize, f64)>,
    best: usize,
    rounds: Rounds<Run>,
}

impl Bench<'_> {
    fn measure(&self, fixed: &[usize]) -> Result<Measured> {
        let tried = if self.settings.quick {
            fixed
                .iter()
                .map(|workers| Ok((*workers, self.fixed(*workers)?)))
                .collect::<Result<Vec<_>>>()?
        } else {
            self.search(fixed)?
        };
        // What was near the best in one run may be the best in the median; what was not is not run again.
        let seconds = |run: &Run| run.seconds();
        let least = tried.iter().map(|(_, run)| seconds(run)).fold(f64::MAX, f64::min);
        let near = tried.iter().filter(|(_, run)| seconds(run) < 1.05 * least);
        let again: Vec<usize> = near.map(|(workers, _)| *workers).collect();
        let oracle = self.oracle(&tried);
        let best_first = tried
            .iter()
            .min_by(|a, b| a.1.seconds().total_cmp(&b.1.seconds()));
        let watched = best_first.map_or(1, |(workers, _)| *workers);
        let mut names: Vec<String> = again.iter().map(usize::to_string).collect();
        names.extend([TUNED, WATCHED, ORACLE].map(str::to_owned));
        let rounds = rounds::interleaved(&names, self.settings.repeats, |name| {
            self.scenario(name, watched, &oracle)
        })?;
        let median = |workers: &usize| rounds.spread(&workers.to_string(), Run::seconds);
        let medians: Vec<f64> = again
            .iter()
            .map(|of| Ok(median(of)?.median))
            .collect::<Result<_>>()?;
        let best = again.iter().zip(&medians).min_by(|a, b| a.1.total_cmp(b.1));
        let best = *best.ok_or("no fixed number of workers was tried")?.0;
        let runs = names.iter().flat_map(|name| rounds.of(name));
        let runs = runs.chain(tried.iter().map(|(_, run)| run));
        let sums: Vec<&str> = runs.map(|run| run.checksum.as_str()).collect();
        if sums.iter().any(|sum| *sum != sums[0]) {
            return Err(format!("the program computed different results: {sums:?}"));
        }
        Ok(Measured {
            load: self.load,
            fixed: tried
                .iter()
                .map(|(workers, run)| (*workers, run.seconds()))
                .collect(),
            best,
            rounds,
        })
    }

    /// Of each kind of phase the number of workers that was quickest in it, for the program to choose by itself.
    fn oracle(&self, tried: &[(usize, Run)]) -> Vec<String> {
        let best_in = |kind: Kind| {
            let seconds = |run: &Run| -> f64 {
                let each = run.each("seconds").into_iter().enumerate();
                each.filter(|(iteration, _)| self.load.kind(*iteration) == kind)
                    .map(|(_, seconds)| seconds)
                    .sum()
            };
            let best = tried
                .iter()
                .min_by(|a, b| seconds(&a.1).total_cmp(&seconds(&b.1)));
            best.map_or(1, |(workers, _)| *workers)
        };
        let plain = best_in(Kind::Plain);
        if self.load.phase == 0 {
            return vec![format!("workers={plain}")];
        }
        vec![
            format!("workers={plain}"),
            format!("workers_work={}", best_in(Kind::MoreWork)),
            format!("workers_latency={}", best_in(Kind::MoreLatency)),
        ]
    }
}

impl Measured {
    fn spread(&self, name: &str) -> Spread {
        // Every scenario was run at least once.
        self.rounds
            .spread(name, Run::seconds)
            .unwrap_or(Spread::exactly(f64::NAN))
    }

    /// Of a fixed number; of one that was far from the best the one run that it had.
    fn of_fixed(&self, workers: usize) -> Spread {
        let rounds = self.rounds.spread(&workers.to_string(), Run::seconds);
        let first = self.fixed.iter().find(|(of, _)| *of == workers);
        rounds.unwrap_or(Spread::exactly(first.map_or(f64::NAN, |(_, seconds)| *seconds)))
    }

    fn best(&self) -> Spread {
        self.spread(&self.best.to_string())
    }

    fn section(&self, title: &str, beside_thesis: bool) -> Section {
        let best = self.best().median;
        let mut table = Table::new([
            "workers",
            "s, median (least to greatest)",
            "to the best fixed",
            "thesis, s",
            "thesis, to its best",
        ]);
        let mut row = |name: String, spread: Spread, thesis: Option<f64>| {
            let against = format!("{:+.1} %", 0.0 - less(spread.median, best));
            let thesis = thesis.filter(|_| beside_thesis);
            let theirs = thesis.map_or(String::new(), |of| format!("{of:.0}"));
            let against_theirs =
                thesis.map_or(String::new(), |of| format!("{:+.1} %", 0.0 - less(of, 138.0)));
            table.row([name, spread.to_string(), against, theirs, against_theirs]);
        };
        for (workers, _) in &self.fixed {
            let thesis = THESIS.iter().find(|(of, _)| of == workers);
            let mark = if *workers == self.best {
                ", the best fixed"
            } else {
                ""
            };
            row(
                format!("{workers}{mark}"),
                self.of_fixed(*workers),
                thesis.map(|(_, seconds)| *seconds),
            );
        }
        row(format!("{WATCHED}, advising only"), self.spread(WATCHED), None);
        row(TUNED.to_owned(), self.spread(TUNED), Some(THESIS_TUNED));
        row(ORACLE.to_owned(), self.spread(ORACLE), None);
        let Load {
            iterations,
            phase,
            swing,
            has_plain,
            work_us,
            latency_us,
        } = self.load;
        let mut notes = vec![format!(
            "{iterations} iterations of {} ms of work and {} ms for each send; {}. {} runs of each.",
            work_us as f64 / 1e3,
            latency_us as f64 / 1e3,
            match phase {
                0 => "nothing varies".to_owned(),
                _ => format!(
                    "in phases of {phase} iterations {}work and latency are in turns {swing} times as long",
                    if has_plain { "with plain ones between " } else { "" }
                ),
            },
            self.rounds.of(TUNED).len()
        )];
        if phase > 0 {
            let s = (swing as f64).sqrt();
            notes.push(format!(
                "With the work alone varying by {swing}, no more than {:.0} % could be gained over one fixed number.",
                100.0 * (1.0 - 2.0 * s.sqrt() / (s + 1.0))
            ));
        }
        Section {
            title: title.to_owned(),
            table,
            notes,
        }
    }

    fn varying_claims(&self) -> Vec<Claim> {
        let gain = less(self.spread(TUNED).median, self.best().median);
        vec![Claim::of_times(
            format!(
                "tuned is {gain:.1} % faster than the best fixed number, {}; at least 25 % are wanted, the thesis has 26 %",
                self.best
            ),
            gain >= 25.0,
        )]
    }

    fn constant_claims(&self) -> Vec<Claim> {
        let loss = -less(self.spread(TUNED).median, self.best().median);
        let wide = self.settled();
        vec![
            Claim::of_times(
                format!(
                    "tuned from 1 takes {loss:+.1} % of the best fixed number, {}; 5 % are allowed, the start included",
                    self.best
                ),
                loss <= 5.0,
            ),
            Claim::of_times(
                format!("settled, the workers stay within {wide:.1} of the model's optimum; 2 are allowed"),
                wide <= 2.0,
            ),
        ]
    }

    fn logic(&self, load: &str) -> Claim {
        let moved = |run: &Run| {
            let workers = run.each("workers");
            workers.first() == Some(&1.0) && workers.last().is_some_and(|last| *last > 1.0)
        };
        let all = self.rounds.of(TUNED).iter().all(moved);
        Claim::of_logic(
            format!("{load} every tuned run begins with one worker and ends with more"),
            all,
        )
    }

    /// How far from the optimum the number of workers is at most in the second half of the tuned runs.
    fn settled(&self) -> f64 {
        let optimum = self.load.optimum(0);
        let runs = self.rounds.of(TUNED).iter().map(|run| run.each("workers"));
        let late = runs.flat_map(|workers| workers.split_at(workers.len() / 2).1.to_vec());
        late.map(|workers| (workers - optimum).abs()).fold(0.0, f64::max)
    }

    fn panel(&self, title: &str) -> Panel {
        let points = self
            .fixed
            .iter()
            .map(|(workers, _)| (*workers as f64, self.of_fixed(*workers)));
        Panel {
            title: title.to_owned(),
            across: "workers".to_owned(),
            up: "s".to_owned(),
            lines: vec![Line {
                name: "fixed".to_owned(),
                points: points.collect(),
            }],
            levels: [TUNED, ORACLE]
                .map(|name| (name.to_owned(), self.spread(name).median))
                .to_vec(),
        }
    }

    /// The number of workers of the last tuned run, and the model's optimum.
    fn course(&self, title: &str) -> Panel {
        let workers = self
            .rounds
            .of(TUNED)
            .last()
            .map(|run| run.each("workers"))
            .unwrap_or_default();
        let line = |name: &str, value: &dyn Fn(usize) -> f64| Line {
            name: name.to_owned(),
            points: (0..workers.len())
                .map(|iteration| (iteration as f64, Spread::exactly(value(iteration))))
                .collect(),
        };
        Panel {
            title: title.to_owned(),
            across: "iteration".to_owned(),
            up: "workers".to_owned(),
            lines: vec![
                line("in use", &|iteration| workers[iteration]),
                line("the model's optimum", &|iteration| {
                    self.load.optimum(iteration).round()
                }),
            ],
            levels: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_when_both_neighbours_of_the_best_were_tried() {
        let time = |workers: usize| 5.5 * workers as f64 + 396.0 / workers as f64;
        let mut tried = vec![1, 2, 4, 8, 16, 25];
        let best = |tried: &[usize]| {
            *tried
                .iter()
                .min_by(|a, b| time(**a).total_cmp(&time(**b)))
                .unwrap()
        };
        loop {
            let next = beside(best(&tried), &tried);
            if next.is_empty() {
                break;
            }
            tried.extend(next);
            tried.sort_unstable();
        }
        assert!(
            best(&tried) == 8 && tried.contains(&7) && tried.contains(&9),
            "{tried:?}"
        );
    }

    #[test]
    fn work_and_latency_swing_in_turns_and_move_the_optimum_apart() {
        let optima = |load: Load| [0, 100, 250, 399].map(|iteration| load.optimum(iteration).round());
        assert_eq!(optima(Load::varying(false, true)), [8.0, 24.0, 8.0, 3.0]);
        assert_eq!(optima(Load::varying(false, false)), [24.0, 3.0, 24.0, 3.0]);
        assert_eq!(Load::constant(false).optimum(399), 12.0);
    }
}
