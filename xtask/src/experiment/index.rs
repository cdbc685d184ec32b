//! The number of workers by the performance index Pi: MATE for MPI (2010), sections 4.3 and 5.4.2, on
//! `wildfire`.
//!
//! The thesis specified this but did not run it, because MPI could not create and end workers. Here all ranks
//! exist from the start, and unused ones are parked. The first load has equal sections, as the model assumes,
//! and growing work. The second load is unbalanced and also uses adjusting factoring: balance first, as in
//! the thesis, and in the reverse order.

mod load;

use std::ops::Range;

use serde_json::{Value, json};

use self::load::Load;
use super::fire::seen;
use super::rounds::Rounds;
use super::scenario::Run;
use super::sweep::Sweep;
use crate::Result;
use crate::measure::stats::{Spread, change, quantile};
use crate::measure::table::{Table, cells};
use crate::measure::{Claim, Outcome, Section, Settings};

const RUNS_MAX: usize = 7;
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
const BOTH: [&str; 3] = [TUNED, BALANCE_FIRST, WORKERS_FIRST];

/// Index of an iteration in seconds: its time divided by its efficiency (Eq. 4.6).
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
fn mean_index(run: &Run, part: Range<usize>) -> f64 {
    let all = indices(run);
    let part = all.get(part).unwrap_or_default();
    part.iter().sum::<f64>() / part.len() as f64
}

/// Measurements under one load.
struct Measured {
    load: Load,
    /// One run for each fixed number of workers from 2 on, with the load's own distribution of work. One
    /// worker would take too long.
    sweep: Sweep,
    best: f64,
    names: Vec<&'static str>,
    rounds: Rounds<Run>,
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    let alone: &[_] = settings.either(&[ALONE, WATCHED, TUNED], &[ALONE, WATCHED, TUNED, BEST, ORACLE]);
    let full: &[_] = &[
        ALONE,
        WATCHED,
        TUNED,
        BALANCED,
        BALANCE_FIRST,
        WORKERS_FIRST,
        BEST,
        ORACLE,
    ];
    let both: &[_] = settings.either(&[ALONE, BALANCE_FIRST, WORKERS_FIRST], full);
    let growing = Load::growing().measure(settings, alone, settings.repeats)?;
    let uneven = Load::uneven().measure(settings, both, settings.repeats.div_ceil(2))?;
    let mut claims = growing.alone_claims();
    claims.extend(uneven.order_claims());
    claims.extend([growing.parked(&[TUNED]), uneven.parked(&BOTH)]);
    Ok(Outcome {
        claims,
        figures: Some(json!({"growing": growing.figures(), "uneven": uneven.figures()})),
        sections: vec![
            growing.section("Sections; from the middle on all points take three times as long"),
            uneven.section("30 % of the points take three times as long"),
        ],
    })
}

impl Measured {
    fn figures(&self) -> Value {
        json!({"fixed": self.sweep.figures(), "rounds": self.rounds.figures()})
    }

    /// Fails if a rule without `--apply` has written.
    fn check_watched(&self) -> Result<()> {
        let mut watched = self.rounds.of(WATCHED).iter().flat_map(|run| run.each("workers"));
        match watched.all(|of| of == RUNS_MAX as f64) {
            true => Ok(()),
            false => Err("a rule that may not write did".to_owned()),
        }
    }

    /// NaN for a scenario that the quick form omits.
    fn spread(&self, name: &str, figure: impl Fn(&Run) -> f64) -> Spread {
        self.rounds.spread_or_nan(name, figure)
    }

    /// Mean index over entire runs.
    fn overall(&self, name: &str) -> Spread {
        self.spread(name, |run| mean_index(run, 0..self.load.iterations))
    }

    /// Mean index over the last iterations.
    fn settled(&self, name: &str) -> Spread {
        self.spread(name, |run| mean_index(run, self.late()))
    }

    fn late(&self) -> Range<usize> {
        self.load.iterations - 5..self.load.iterations
    }

    /// The number of workers in the last iterations of all runs.
    fn workers_late(&self, name: &str) -> Spread {
        let late = |run: &Run| run.each("workers").into_iter().skip(self.late().start);
        let all: Vec<f64> = self.rounds.of(name).iter().flat_map(late).collect();
        Spread::or_nan(&all)
    }

    /// Claims that the rule acted in each run. It does not if the agent gets no CPU before the run ends.
    fn parked(&self, names: &[&str]) -> Claim {
        let runs = || names.iter().flat_map(|name| self.rounds.of(name));
        let has_parked = |run: &&Run| run.each("workers").iter().any(|of| *of < RUNS_MAX as f64);
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
        let alone = self.overall(ALONE).median;
        for name in &self.names {
            let shown = match *name {
                BEST => format!("{BEST}, {}", self.best),
                name => name.to_owned(),
            };
            table.row(cells![
                shown,
                self.spread(name, Run::seconds),
                self.overall(name),
                change(self.overall(name).median, alone),
                self.settled(name),
                self.workers_late(name),
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
        let mut names = self.names.iter().rev();
        let last = names.find_map(|name| self.rounds.of(name).last().and_then(seen));
        notes.extend(last.map(|seen| format!("In the last run of the last scenario with the agent {seen}.")));
        Section::new(title, table, notes)
    }

    /// Medians over some iterations of the index, the compute time and the time, in seconds.
    fn at(run: &Run, part: &Range<usize>) -> [f64; 3] {
        let figures = [indices(run), run.each("computed"), run.each("seconds")];
        figures.map(|of| quantile(of.get(part.clone()).unwrap_or_default(), 0.5).unwrap_or(f64::NAN))
    }

    /// The iterations before and after points become heavy.
    fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        let (middle, end) = (self.load.heavy_from, self.load.iterations);
        [0..middle, middle..end]
            .into_iter()
            .filter(|part| !part.is_empty())
    }

    fn alone_claims(&self) -> Vec<Claim> {
        let mut worst: f64 = 0.0;
        for (workers, run) in &self.sweep.tried {
            for part in self.parts() {
                let [_, computed, seconds] = Measured::at(run, &part);
                worst = worst.max((seconds / self.load.time(*workers, computed) - 1.0).abs());
            }
        }
        let mut claims = vec![Claim::of_times(
            format!(
                "the model's time of sections is within {:.1} % of what they take; 5 % are allowed",
                100.0 * worst
            ),
            worst <= 0.05,
        )];
        for part in self.parts() {
            // Only the last iterations of each part: a change takes effect after the guard's windows.
            let late = part.end - 3..part.end;
            let tuned = self.spread(TUNED, |run| mean_index(run, late.clone())).median;
            let fixed = self.sweep.runs().map(|run| mean_index(run, late.clone()));
            let above = 100.0 * (tuned / fixed.fold(f64::MAX, f64::min) - 1.0);
            let text = format!(
                "in iterations {} to {} the tuned index is {above:+.1} % of the least of all fixed numbers; 5 % are allowed",
                late.start,
                late.end - 1
            );
            claims.push(Claim::of_times(text, above <= 5.0));
        }
        claims
    }

    fn order_claims(&self) -> Vec<Claim> {
        let (first, second) = (self.workers_late(BALANCE_FIRST), self.workers_late(WORKERS_FIRST));
        let (balance, workers) = (
            self.overall(BALANCE_FIRST).median,
            self.overall(WORKERS_FIRST).median,
        );
        let [both, other, tuned, balanced] =
            [BALANCE_FIRST, WORKERS_FIRST, TUNED, BALANCED].map(|name| self.settled(name));
        let apart = 100.0 * (other.median / both.median - 1.0).abs();
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
                    "with both the index ends below that of either alone: {both} against {tuned} and {balanced}"
                ),
                both.median < tuned.median.min(balanced.median),
            ),
        ]
    }
}
