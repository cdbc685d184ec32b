//! The number of workers: MATE thesis (2007), section 5.1.6, Table 5.3, on `nbody`.
//!
//! In phases of iterations, more work and more latency alternate. Fixed numbers of workers are compared with
//! a number that the rule `optimal-workers` tunes from 1. If only the computation varied, by a factor r,
//! tuning could gain at most 1 - 2·√s / (s + 1), s = √r, which is 12 % for r = 8, because one fixed number
//! lies between two optima. Varying latency moves the optima further apart.

mod load;

use std::path::PathBuf;

use serde_json::{Value, json};
use tuneagent_e2e::programs;

use self::load::{Kind, Load};
use super::rounds::{Rounds, interleaved, same_results};
use super::scenario::{Run, Scenario, With, argument};
use super::sweep::Sweep;
use crate::Result;
use crate::measure::stats::{Spread, change, less};
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

/// Workers, and seconds of Table 5.3, converted from its `min,sec`.
const THESIS: [(usize, f64); 6] = [
    (1, 817.0),
    (2, 462.0),
    (4, 246.0),
    (8, 138.0),
    (16, 178.0),
    (25, 214.0),
];
/// Seconds of the thesis's run that was tuned from 1.
const THESIS_TUNED: f64 = 102.0;

const WORKERS_MAX: usize = 25;

const TUNED: &str = "tuned from 1";
const WATCHED: &str = "watched";
const ORACLE: &str = "oracle";

/// One program under one load, and the scenarios in which it runs.
struct Bench<'a> {
    settings: &'a Settings,
    program: PathBuf,
    load: Load,
}

/// Numbers to try next: half way from the best one to its tried neighbours.
fn beside(best: usize, tried: &[usize]) -> Vec<usize> {
    let below = tried.iter().filter(|of| **of < best).max();
    let above = tried.iter().filter(|of| **of > best).min();
    // Rounded up: half way to the upper neighbour, rounded down, may be the best one itself.
    let half = [
        below.map(|of| (of + best) / 2),
        above.map(|of| (of + best).div_ceil(2)),
    ];
    let half = half.into_iter().flatten();
    half.filter(|of| !tried.contains(of)).collect()
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let program = programs::master_worker("nbody", settings.mpi)?;
    let theirs = THESIS.map(|(workers, _)| workers);
    let fixed: &[usize] = settings.either(&[1, 8, 25], &theirs);
    let of = |load, fixed: &[usize]| {
        let bench = Bench {
            settings,
            program: program.clone(),
            load,
        };
        bench.measure(fixed)
    };
    let varying = of(Load::varying(settings.quick, false), fixed)?;
    let constant = of(
        Load::constant(settings.quick),
        settings.either(&[12], &[8, 12, 16]),
    )?;
    let mut sections = vec![Section::new("Varying load", varying.table(true), varying.notes())];
    if !settings.quick {
        let with_plain = of(Load::varying(false, true), &[6, 8, 10])?;
        let title = "Varying load with plain phases between";
        sections.push(Section::new(title, with_plain.table(false), with_plain.notes()));
    }
    sections.push(Section::new(
        "Constant load",
        constant.table(false),
        constant.notes(),
    ));
    let mut claims = varying.varying_claims();
    claims.extend(constant.constant_claims());
    claims.extend([
        varying.logic("under varying load"),
        constant.logic("under constant load"),
    ]);
    Ok(Outcome {
        sections,
        figures: Some(json!({"varying": varying.figures(), "constant": constant.figures()})),
        claims,
    })
}

/// Measurements under one load.
struct Measured {
    load: Load,
    sweep: Sweep,
    /// The number with the smallest median, of those that were run in all rounds.
    best: usize,
    rounds: Rounds<Run>,
}

impl Bench<'_> {
    fn scenario(&self, more: &[String], with: With) -> Scenario {
        let arguments = [&self.load.arguments(), more].concat();
        Scenario::new(self.settings, &self.program, WORKERS_MAX + 1, arguments, with)
    }

    fn fixed(&self, workers: usize) -> Scenario {
        self.scenario(&[argument("workers", workers)], With::NoRule)
    }

    /// Runs each given number once, then bisects around the best one until its neighbours are tried. The
    /// quick form runs the given numbers only.
    fn search(&self, begin: &[usize]) -> Result<Sweep> {
        let mut sweep = Sweep::default();
        let mut next = begin.to_vec();
        while !next.is_empty() {
            for workers in std::mem::take(&mut next) {
                sweep.add(workers as f64, &self.fixed(workers))?;
            }
            if !self.settings.quick {
                let tried: Vec<usize> = sweep.tried.iter().map(|(workers, _)| *workers as usize).collect();
                next = beside(sweep.best(Run::seconds)? as usize, &tried);
            }
        }
        Ok(sweep)
    }

    fn measure(&self, fixed: &[usize]) -> Result<Measured> {
        let sweep = self.search(fixed)?;
        let watched = sweep.best(Run::seconds)? as usize;
        // Only numbers close to the best one can have the smallest median; the others are not run again.
        let least = sweep.runs().map(Run::seconds).fold(f64::MAX, f64::min);
        let near = sweep.tried.iter().filter(|(_, run)| run.seconds() < 1.05 * least);
        let near: Vec<usize> = near.map(|(workers, _)| *workers as usize).collect();
        // The rule's symbols are bound to those of the library `mw`.
        let names = programs::source("mw.yaml").to_string_lossy().into_owned();
        let rule = |flags: &[&str]| With::rule("optimal-workers", &[], &[&[&*names], flags].concat());
        let mut scenarios: Vec<(String, Scenario)> = near
            .iter()
            .map(|workers| (workers.to_string(), self.fixed(*workers)))
            .collect();
        let tuned = self.scenario(&[argument("workers", 1)], rule(&["--apply"]));
        let advised = self.scenario(&[argument("workers", watched)], rule(&[]));
        let oracle = self.scenario(&self.oracle(&sweep)?, With::NoRule);
        let others = [(TUNED, tuned), (WATCHED, advised), (ORACLE, oracle)];
        scenarios.extend(others.map(|(name, scenario)| (name.to_owned(), scenario)));
        let rounds = interleaved(&scenarios, self.settings.repeats, Scenario::run)?;
        same_results(sweep.runs().chain(rounds.all()))?;
        let median = |workers: &usize| Ok((rounds.seconds(&workers.to_string())?.median, *workers));
        let medians: Vec<(f64, usize)> = near.iter().map(median).collect::<Result<_>>()?;
        let best = medians.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Measured {
            load: self.load,
            best: best.ok_or("no fixed number of workers was tried")?.1,
            sweep,
            rounds,
        })
    }

    /// Arguments with the fastest number of workers for each kind of phase, which the program then sets
    /// itself.
    fn oracle(&self, sweep: &Sweep) -> Result<Vec<String>> {
        let best_in = |kind: Kind| {
            sweep.best(|run| {
                let each = run.each("seconds").into_iter().enumerate();
                let of_kind = each.filter(|(iteration, _)| self.load.kind(*iteration) == kind);
                of_kind.map(|(_, seconds)| seconds).sum()
            })
        };
        let mut chosen = vec![argument("workers", best_in(Kind::Plain)?)];
        if self.load.phase > 0 {
            chosen.push(argument("workers_work", best_in(Kind::MoreWork)?));
            chosen.push(argument("workers_latency", best_in(Kind::MoreLatency)?));
        }
        Ok(chosen)
    }
}

impl Measured {
    fn figures(&self) -> Value {
        json!({"fixed": self.sweep.figures(), "rounds": self.rounds.figures()})
    }

    fn spread(&self, name: &str) -> Spread {
        self.rounds.spread_or_nan(name, Run::seconds)
    }

    fn best(&self) -> f64 {
        self.spread(&self.best.to_string()).median
    }

    /// A number that was not in the rounds has the time of its one run.
    fn table(&self, beside_thesis: bool) -> Table {
        let mut table = Table::new([
            "workers",
            "s, median (least to greatest)",
            "to the best fixed",
            "thesis, s",
            "thesis, to its best",
        ]);
        let mut row = |name: String, spread: Spread, thesis: Option<f64>| {
            let thesis = thesis.filter(|_| beside_thesis);
            table.row(cells![
                name,
                spread,
                change(spread.median, self.best()),
                thesis,
                thesis.map(|of| change(of, 138.0))
            ]);
        };
        for (workers, run) in &self.sweep.tried {
            let once = Spread::exactly(run.seconds());
            let spread = self.rounds.seconds(&workers.to_string()).unwrap_or(once);
            let thesis = THESIS.iter().find(|(of, _)| *of as f64 == *workers);
            row(workers.to_string(), spread, thesis.map(|(_, seconds)| *seconds));
        }
        row(format!("{WATCHED}, advising only"), self.spread(WATCHED), None);
        row(TUNED.to_owned(), self.spread(TUNED), Some(THESIS_TUNED));
        row(ORACLE.to_owned(), self.spread(ORACLE), None);
        table
    }

    fn notes(&self) -> Vec<String> {
        let load = self.load;
        let plain = if load.has_plain {
            "with plain ones between "
        } else {
            ""
        };
        let varies = match load.phase {
            0 => "nothing varies".to_owned(),
            phase => format!(
                "in phases of {phase} iterations {plain}work and latency are in turns {} times as long",
                load.swing
            ),
        };
        let mut notes = vec![format!(
            "{} iterations of {} ms of work and {} ms for each send; {varies}. {} runs of each. The best fixed number is {}.",
            load.iterations,
            load.work_us as f64 / 1e3,
            load.latency_us as f64 / 1e3,
            self.rounds.of(TUNED).len(),
            self.best
        )];
        if load.phase > 0 {
            let s = (load.swing as f64).sqrt();
            notes.push(format!(
                "With the work alone varying by {}, no more than {:.0} % could be gained over one fixed number.",
                load.swing,
                100.0 * (1.0 - 2.0 * s.sqrt() / (s + 1.0))
            ));
        }
        notes
    }

    fn varying_claims(&self) -> Vec<Claim> {
        let gain = less(self.spread(TUNED).median, self.best());
        let text = format!(
            "tuned is {gain:.1} % faster than the best fixed number, {}; at least 25 % are wanted, the thesis has 26 %",
            self.best
        );
        vec![Claim::of_times(text, gain >= 25.0)]
    }

    fn constant_claims(&self) -> Vec<Claim> {
        let loss = -less(self.spread(TUNED).median, self.best());
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

    /// Maximum distance from the optimal number of workers in the second half of the tuned runs.
    fn settled(&self) -> f64 {
        let optimum = self.load.optimum(0);
        let runs = self.rounds.of(TUNED).iter().map(|run| run.each("workers"));
        let late = runs.flat_map(|workers| workers.split_at(workers.len() / 2).1.to_vec());
        late.map(|workers| (workers - optimum).abs()).fold(0.0, f64::max)
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
}
