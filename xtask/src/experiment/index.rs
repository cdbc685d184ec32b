//! The number of workers by the performance index Pi: MATE for MPI (2010), sections 4.3 and 5.4.2, on `wildfire`.
//!
//! The thesis specified this and never ran it, for want of a way to create and end workers; here the ranks are all there and those
//! not in use are parked. First with sections, as the model assumes them, and work that grows; then with unbalanced work, beside
//! adjusting factoring: balance first, as the thesis wants it, and the other order.

use super::chart::{Line, Panel, Picture};
use super::fire::{Fire, same_front, seen};
use super::rounds::{self, Rounds};
use super::scenario::{self, Run, With};
use super::stats::{Spread, less, quantile};
use super::table::Table;
use super::{Claim, Outcome, Section, Settings};
use crate::Result;

const MOST: usize = 7;
const POINTS: f64 = 2100.0;
const POINT_BYTES: f64 = 1000.0;
const LATENCY_S: f64 = 50e-6;

const ALONE: &str = "7 workers";
const WATCHED: &str = "7 workers, watched";
const BEST: &str = "best fixed number";
const ORACLE: &str = "oracle";
const TUNED: &str = "tuned";
const BALANCED: &str = "factoring tuned, 7 workers";
const BALANCE_FIRST: &str = "both, balance first";
const WORKERS_FIRST: &str = "both, workers first";

/// The index of an iteration: its time by its efficiency, in seconds (Eq. 4.6).
fn index(workers: f64, seconds: f64, computed: f64) -> f64 {
    workers * seconds * seconds / computed
}

fn indices(run: &Run) -> Vec<f64> {
    let (workers, seconds) = (run.each("workers"), run.each("seconds"));
    let times = workers.iter().zip(&seconds).zip(run.each("computed"));
    times
        .map(|((workers, seconds), computed)| index(*workers, *seconds, computed))
        .collect()
}

/// The mean index of some iterations.
fn mean_index(run: &Run, part: std::ops::Range<usize>) -> f64 {
    let all = indices(run);
    let part = all.get(part).unwrap_or_default();
    part.iter().sum::<f64>() / part.len() as f64
}

/// A load of the simulator.
#[derive(Clone, Copy)]
struct Load {
    iterations: usize,
    /// In which points become heavy.
    heavy_from: usize,
    /// Below this share of its height the front is heavy.
    threshold: f64,
    byte_ns: f64,
    sections: bool,
}

impl Load {
    /// All points take three times as long from the middle on: balanced always.
    fn growing() -> Load {
        Load {
            iterations: 40,
            heavy_from: 20,
            threshold: 2.0,
            byte_ns: 40.0,
            sections: true,
        }
    }

    /// 30 % of the points take three times as long.
    fn uneven() -> Load {
        Load {
            iterations: 36,
            heavy_from: 0,
            threshold: 0.206,
            byte_ns: 80.0,
            sections: false,
        }
    }

    fn arguments(&self) -> Vec<String> {
        let mut words = vec![
            format!("iterations={}", self.iterations),
            format!("heavy_from={}", self.heavy_from),
            format!("threshold={}", self.threshold),
            format!("byte_ns={}", self.byte_ns),
            format!("points={POINTS}"),
            format!("point_bytes={POINT_BYTES}"),
            format!("latency_us={}", LATENCY_S * 1e6),
            format!("original={}", u8::from(self.sections)),
        ];
        words.extend(["point_us=100", "heavy=2", "speed=0.002"].map(str::to_owned));
        words
    }

    /// Eq. 4.7 with all that is sent and as much that is received.
    fn time(&self, workers: f64, computed: f64) -> f64 {
        let sent = POINTS * POINT_BYTES * self.byte_ns / 1e9;
        2.0 * LATENCY_S + ((workers - 1.0) * sent + 2.0 * sent + computed) / workers
    }

    fn flags(&self, rules: &[&str], apply: Option<&str>) -> Vec<String> {
        let mut flags: Vec<String> = ["--rules", "none"]
            .iter()
            .chain(rules)
            .map(|word| (*word).to_owned())
            .collect();
        if rules.contains(&INDEX) {
            flags.extend(["--param".to_owned(), format!("per_byte={}ns/1B", self.byte_ns)]);
        }
        flags.extend(apply.map(|rule| format!("--apply={rule}")));
        flags
    }
}

const INDEX: &str = "workers-by-index";
const FACTORING: &str = "adjusting-factoring";
/// After so many iterations the second rule may act as well: the first has settled.
const SECOND: usize = 12;

/// What was measured under one load.
struct Measured {
    load: Load,
    /// A run of each number of workers, in the way in which the load shares its work; none of one worker, which takes long.
    sweep: Vec<(usize, Run)>,
    best: usize,
    names: Vec<&'static str>,
    rounds: Rounds<Run>,
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Batches as the classical factoring cuts them.
const HALVES: [&str; 3] = ["f0=0.5", "f1=0.5", "f2=0.5"];
/// All at once, so that factoring changes nothing until it is tuned.
const AT_ONCE: [&str; 3] = ["f0=1", "f1=0.5", "f2=0.5"];

impl Load {
    fn run_one(&self, fire: &Fire<'_>, name: &str, best: usize, oracle: &str) -> Result<Run> {
        let at_once = words(AT_ONCE);
        let fixed = if self.sections {
            at_once.clone()
        } else {
            words(HALVES)
        };
        let of = |rules: &[&str], apply| With::Agent(self.flags(rules, apply));
        let later = |first: &str, rule| With::Later {
            flags: self.flags(&[FACTORING, INDEX], Some(first)),
            rule,
            after: SECOND,
        };
        let gated = [at_once.as_slice(), &[format!("gate={SECOND}")]].concat();
        match name {
            ALONE => fire.run(&at_once, With::Nobody),
            WATCHED => fire.run(&at_once, of(&[FACTORING, INDEX], None)),
            TUNED => fire.run(&at_once, of(&[INDEX], Some(INDEX))),
            BALANCED => fire.run(&at_once, of(&[FACTORING], Some(FACTORING))),
            BALANCE_FIRST => fire.run(&gated, later(FACTORING, INDEX)),
            WORKERS_FIRST => fire.run(&gated, later(INDEX, FACTORING)),
            BEST => fire.run(&[fixed, vec![format!("workers={best}")]].concat(), With::Nobody),
            ORACLE => fire.run(&[fixed, vec![oracle.to_owned()]].concat(), With::Nobody),
            _ => Err(format!("no scenario {name}")),
        }
    }

    /// The number of workers with the least mean index, from a run of each.
    fn sweep(&self, fire: &Fire<'_>, numbers: &[usize]) -> Result<(Vec<(usize, Run)>, usize)> {
        let share = if self.sections {
            words(AT_ONCE)
        } else {
            words(HALVES)
        };
        let mut sweep = Vec::new();
        for workers in numbers {
            rounds::progress(&format!("{workers} workers, a first look"));
            let run = fire.run(
                &[share.clone(), vec![format!("workers={workers}")]].concat(),
                With::Nobody,
            )?;
            sweep.push((*workers, run));
        }
        let whole = |(_, run): &&(usize, Run)| mean_index(run, 0..self.iterations);
        let best = sweep.iter().min_by(|a, b| whole(a).total_cmp(&whole(b)));
        let best = best.ok_or("no number of workers was tried")?.0;
        Ok((sweep, best))
    }

    fn measure(self, settings: &Settings, names: &[&'static str], repeats: usize) -> Result<Measured> {
        let fire = Fire::new(settings, MOST, &self.arguments())?;
        let numbers: &[usize] = if settings.quick { &[4] } else { &[2, 3, 4, 5, 6, 7] };
        let (sweep, best) = self.sweep(&fire, numbers)?;
        let oracle = fire.schedule("index.schedule", &oracle(&sweep, self.sections))?;
        let listed: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let rounds = rounds::interleaved(&listed, repeats, |name| self.run_one(&fire, name, best, &oracle))?;
        same_front(
            sweep
                .iter()
                .map(|(_, run)| run)
                .chain(names.iter().flat_map(|name| rounds.of(name))),
        )?;
        Ok(Measured {
            load: self,
            sweep,
            best,
            names: names.to_vec(),
            rounds,
        })
    }
}

/// For each iteration the number of workers that had the least index in it.
fn oracle(sweep: &[(usize, Run)], sections: bool) -> Vec<String> {
    let each: Vec<(usize, Vec<f64>)> = sweep
        .iter()
        .map(|(workers, run)| (*workers, indices(run)))
        .collect();
    let count = each
        .iter()
        .map(|(_, values)| values.len())
        .min()
        .unwrap_or_default();
    let factor = if sections { 1.0 } else { 0.5 };
    (0..count)
        .map(|iteration| {
            let best = each
                .iter()
                .min_by(|a, b| a.1[iteration].total_cmp(&b.1[iteration]));
            format!("{factor} 0.5 0.5 {}", best.map_or(MOST, |(workers, _)| *workers))
        })
        .collect()
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    scenario::build_agent(&crate::root())?;
    let (alone, both): (&[_], &[_]) = if settings.quick {
        (&[ALONE, WATCHED, TUNED], &[ALONE, BALANCE_FIRST, WORKERS_FIRST])
    } else {
        (
            &[ALONE, WATCHED, TUNED, BEST, ORACLE],
            &[
                ALONE,
                WATCHED,
                TUNED,
                BALANCED,
                BALANCE_FIRST,
                WORKERS_FIRST,
                BEST,
                ORACLE,
            ],
        )
    };
    let growing = Load::growing().measure(settings, alone, settings.repeats)?;
    let uneven = Load::uneven().measure(settings, both, settings.repeats.div_ceil(2))?;
    growing.check_watched()?;
    uneven.check_watched()?;
    let mut claims = growing.alone_claims();
    claims.extend(uneven.order_claims());
    claims.extend([
        growing.parked(&[TUNED]),
        uneven.parked(&[TUNED, BALANCE_FIRST, WORKERS_FIRST]),
    ]);
    Ok(Outcome {
        picture: Picture {
            title: "The number of workers by the performance index".to_owned(),
            panels: vec![
                growing.by_workers("sections, all points alike"),
                growing.course("sections, work grows: workers", "workers", &[TUNED, ORACLE]),
                uneven.by_workers("30 % of the points three times as long, factor 0.5"),
                uneven.course(
                    "the same: workers",
                    "workers",
                    &[TUNED, BALANCE_FIRST, WORKERS_FIRST],
                ),
                uneven.course(
                    "the same: seconds",
                    "seconds",
                    &[TUNED, BALANCE_FIRST, WORKERS_FIRST],
                ),
            ],
        },
        claims,
        sections: vec![
            growing.section("Sections; from the middle on all points take three times as long"),
            uneven.section("30 % of the points take three times as long"),
        ],
    })
}

impl Measured {
    fn spread(&self, name: &str, figure: impl Fn(&Run) -> f64) -> Spread {
        // Every scenario was run at least once.
        self.rounds
            .spread(name, figure)
            .unwrap_or(Spread::exactly(f64::NAN))
    }

    /// The mean index of whole runs.
    fn whole(&self, name: &str) -> Spread {
        self.spread(name, |run| mean_index(run, 0..self.load.iterations))
    }

    /// That of the last iterations.
    fn settled(&self, name: &str) -> Spread {
        self.spread(name, |run| mean_index(run, self.late()))
    }

    fn late(&self) -> std::ops::Range<usize> {
        self.load.iterations - 5..self.load.iterations
    }

    /// The number of workers in the last iterations of all runs.
    fn workers_late(&self, name: &str) -> Spread {
        let late = |run: &Run| {
            run.each("workers")
                .into_iter()
                .skip(self.late().start)
                .collect::<Vec<_>>()
        };
        let all: Vec<f64> = self.rounds.of(name).iter().flat_map(late).collect();
        Spread::of(&all).unwrap_or(Spread::exactly(f64::NAN))
    }

    /// A rule that may not write did not.
    fn check_watched(&self) -> Result<()> {
        let watched = self.rounds.of(WATCHED).iter().flat_map(|run| run.each("workers"));
        if watched.into_iter().any(|of| of != MOST as f64) {
            return Err("a rule that may not write did".to_owned());
        }
        Ok(())
    }

    /// An agent that gets no CPU before a run is over does nothing.
    fn parked(&self, names: &[&str]) -> Claim {
        let runs = || names.iter().flat_map(|name| self.rounds.of(name));
        let has_parked = |run: &&Run| run.each("workers").iter().any(|of| *of < MOST as f64);
        let (all, parked) = (runs().count(), runs().filter(has_parked).count());
        let text = format!("the rule parked workers in {parked} of {all} tuned runs");
        Claim::of_times(text, parked == all)
    }

    fn section(&self, title: &str) -> Section {
        let mut table = Table::new([
            "",
            "s, median (least to greatest)",
            "mean index, s",
            "to 7 workers",
            "index of the last 5 iterations",
            "workers in them",
        ]);
        let alone = self.whole(ALONE).median;
        for name in &self.names {
            let told = match *name {
                BEST => format!("{BEST}, {}", self.best),
                name => name.to_owned(),
            };
            table.row([
                told,
                self.spread(name, Run::seconds).to_string(),
                self.whole(name).to_string(),
                format!("{:+.1} %", 0.0 - less(self.whole(name).median, alone)),
                self.settled(name).to_string(),
                self.workers_late(name).to_string(),
            ]);
        }
        let Load {
            iterations, byte_ns, ..
        } = self.load;
        let mut notes = vec![format!(
            "{iterations} iterations of {POINTS} points of 100 µs, of {POINT_BYTES} bytes at {byte_ns} ns each; {} runs of each. The thesis \
             has no figures: it specified the index and never ran it.",
            self.rounds.of(ALONE).len()
        )];
        let last = self
            .names
            .iter()
            .rev()
            .find_map(|name| self.rounds.of(name).last().and_then(seen));
        notes.extend(last.map(|told| format!("In the last run of the last scenario with the agent {told}.")));
        Section {
            title: title.to_owned(),
            table,
            notes,
        }
    }

    /// The median index of iterations with a number of workers, before and after points become heavy, and their compute time.
    fn at(&self, run: &Run, part: std::ops::Range<usize>) -> (f64, f64, f64) {
        let median = |values: Vec<f64>| {
            quantile(values.get(part.clone()).unwrap_or_default(), 0.5).unwrap_or(f64::NAN)
        };
        (
            median(indices(run)),
            median(run.each("computed")),
            median(run.each("seconds")),
        )
    }

    fn parts(&self) -> Vec<std::ops::Range<usize>> {
        let (middle, end) = (self.load.heavy_from, self.load.iterations);
        [0..middle, middle..end]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect()
    }

    fn alone_claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut worst: f64 = 0.0;
        for (workers, run) in &self.sweep {
            for part in self.parts() {
                let (_, computed, seconds) = self.at(run, part);
                worst = worst.max((seconds / self.load.time(*workers as f64, computed) - 1.0).abs());
            }
        }
        claims.push(Claim::of_times(
            format!(
                "the model's time of sections is within {:.1} % of what they take; 5 % are allowed",
                100.0 * worst
            ),
            worst <= 0.05,
        ));
        for part in self.parts() {
            // The last iterations of each part, for a change takes the guard's windows.
            let late = part.end - 3..part.end;
            let tuned = self.spread(TUNED, |run| mean_index(run, late.clone())).median;
            let least = self
                .sweep
                .iter()
                .map(|(_, run)| mean_index(run, late.clone()))
                .fold(f64::MAX, f64::min);
            let above = 100.0 * (tuned / least - 1.0);
            claims.push(Claim::of_times(format!(
                    "in iterations {} to {} the tuned index is {above:+.1} % of the least of all fixed numbers; 5 % are allowed",
                    late.start,
                    late.end - 1
                ), above <= 5.0));
        }
        claims
    }

    fn order_claims(&self) -> Vec<Claim> {
        let (first, second) = (self.workers_late(BALANCE_FIRST), self.workers_late(WORKERS_FIRST));
        let (balance, workers) = (self.whole(BALANCE_FIRST).median, self.whole(WORKERS_FIRST).median);
        let apart =
            100.0 * (self.settled(WORKERS_FIRST).median / self.settled(BALANCE_FIRST).median - 1.0).abs();
        vec![
            Claim::of_times(
                format!(
                    "both orders end with as many workers, {first} and {second}, and an index {apart:.1} % apart; 5 % are allowed"
                ),
                first.median == second.median && apart <= 5.0,
            ),
            Claim::of_times(
                format!(
                    "balance first has the lower index over the whole run: {balance:.3} s against {workers:.3} s"
                ),
                balance < workers,
            ),
            Claim::of_times(
                format!(
                    "with both the index ends below that of either alone: {} against {} and {}",
                    self.settled(BALANCE_FIRST),
                    self.settled(TUNED),
                    self.settled(BALANCED)
                ),
                self.settled(BALANCE_FIRST).median
                    < self.settled(TUNED).median.min(self.settled(BALANCED).median),
            ),
        ]
    }

    /// What was measured with fixed numbers, and what the model says of the same work.
    fn by_workers(&self, title: &str) -> Panel {
        let mut lines = Vec::new();
        for part in self.parts() {
            let name = format!("iterations {} to {}", part.start, part.end - 1);
            let (mut measured, mut model) = (Vec::new(), Vec::new());
            for (workers, run) in &self.sweep {
                let of = *workers as f64;
                let (value, computed, _) = self.at(run, part.clone());
                measured.push((of, Spread::exactly(value)));
                let time = self.load.time(of, computed);
                model.push((of, Spread::exactly(index(of, time, computed))));
            }
            lines.push(Line {
                name: name.clone(),
                points: measured,
            });
            lines.push(Line {
                name: format!("{name}, the model"),
                points: model,
            });
        }
        Panel {
            title: title.to_owned(),
            across: "workers".to_owned(),
            up: "index, s".to_owned(),
            lines,
            levels: Vec::new(),
        }
    }

    /// A figure of each iteration of the last runs.
    fn course(&self, title: &str, figure: &str, names: &[&str]) -> Panel {
        let line = |name: &&str| {
            let values = self
                .rounds
                .of(name)
                .last()
                .map(|run| run.each(figure))
                .unwrap_or_default();
            let points = values.into_iter().enumerate();
            Line {
                name: (*name).to_owned(),
                points: points
                    .map(|(number, value)| (number as f64, Spread::exactly(value)))
                    .collect(),
            }
        };
        Panel {
            title: title.to_owned(),
            across: "iteration".to_owned(),
            up: figure.to_owned(),
            lines: names.iter().map(line).collect(),
            levels: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_thesis_and_has_its_least_index_where_the_closed_form_says() {
        let load = Load::growing();
        for (computed, least) in [(0.21, 4.0), (0.63, 7.0)] {
            let of = |workers: f64| index(workers, load.time(workers, computed), computed);
            let best = (1..=MOST)
                .map(|of| of as f64)
                .min_by(|a, b| of(*a).total_cmp(&of(*b)));
            assert_eq!(best, Some(least));
            // x* = B / A with A = 2m0 + αλV and B = (1-α)λV + Tc.
            let sent = POINTS * POINT_BYTES * load.byte_ns / 1e9;
            let closed = (sent + computed) / (2.0 * LATENCY_S + sent);
            assert!((closed.min(MOST as f64) - least).abs() <= 1.0, "{closed}");
        }
    }

    #[test]
    fn the_oracle_takes_the_number_of_the_least_index_of_each_iteration() {
        let run = |workers: usize, seconds: [f64; 2]| {
            let line = |of: f64| serde_json::json!({"workers": workers, "seconds": of, "computed": 1.0});
            let run = Run {
                iterations: seconds.map(line).to_vec(),
                checksum: String::new(),
                report: None,
            };
            (workers, run)
        };
        // 1·4² against 4·1.5² = 9, and 1·2² against 4·1.5².
        let sweep = [run(1, [4.0, 2.0]), run(4, [1.5, 1.5])];
        assert_eq!(oracle(&sweep, true), ["1 0.5 0.5 4", "1 0.5 0.5 1"]);
    }
}
