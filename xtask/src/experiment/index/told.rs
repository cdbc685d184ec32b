//! What was measured, as tables, claims and pictures. Measures nothing.

use super::load::Load;
use super::{
    ALONE, BALANCE_FIRST, BALANCED, BEST, MOST, Measured, POINT_BYTES, POINTS, TUNED, WORKERS_FIRST, index,
    indices, mean_index,
};
use crate::experiment::chart::{Line, Panel};
use crate::experiment::fire::seen;
use crate::experiment::scenario::Run;
use crate::experiment::stats::{Spread, less, quantile};
use crate::experiment::table::Table;
use crate::experiment::{Claim, Section};

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

    /// An agent that gets no CPU before a run is over does nothing.
    pub(super) fn parked(&self, names: &[&str]) -> Claim {
        let runs = || names.iter().flat_map(|name| self.rounds.of(name));
        let has_parked = |run: &&Run| run.each("workers").iter().any(|of| *of < MOST as f64);
        let (all, parked) = (runs().count(), runs().filter(has_parked).count());
        let text = format!("the rule parked workers in {parked} of {all} tuned runs");
        Claim::of_times(text, parked == all)
    }

    pub(super) fn section(&self, title: &str) -> Section {
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

    pub(super) fn alone_claims(&self) -> Vec<Claim> {
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

    pub(super) fn order_claims(&self) -> Vec<Claim> {
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
    pub(super) fn by_workers(&self, title: &str) -> Panel {
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
    pub(super) fn course(&self, title: &str, figure: &str, names: &[&str]) -> Panel {
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
