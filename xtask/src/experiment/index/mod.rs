//! The number of workers by the performance index Pi: MATE for MPI (2010), sections 4.3 and 5.4.2, on `wildfire`.
//!
//! The thesis specified this and never ran it, for want of a way to create and end workers; here the ranks are all there and those
//! not in use are parked. First with sections, as the model assumes them, and work that grows; then with unbalanced work, beside
//! adjusting factoring: balance first, as the thesis wants it, and the other order.

mod load;
mod told;

use self::load::Load;
use super::chart::Picture;
use super::rounds::Rounds;
use super::scenario::{self, Run};
use super::{Outcome, Settings};
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

/// What was measured under one load.
struct Measured {
    load: Load,
    /// A run of each number of workers, in the way in which the load shares its work; none of one worker, which takes long.
    sweep: Vec<(usize, Run)>,
    best: usize,
    names: Vec<&'static str>,
    rounds: Rounds<Run>,
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
    /// A rule that may not write did not.
    fn check_watched(&self) -> Result<()> {
        let watched = self.rounds.of(WATCHED).iter().flat_map(|run| run.each("workers"));
        if watched.into_iter().any(|of| of != MOST as f64) {
            return Err("a rule that may not write did".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
