//! Adjusting factoring: MATE for MPI (2010), section 5.5, Tables 5.5 and 5.6, on `wildfire`.
//!
//! The thesis compared the original program with the tuned one. Two of its scenarios are added here: the adapted program with a fixed
//! factor and with the best fixed factor, so that what comes of factoring and what of adapting its factors can be told apart.

mod told;

use super::chart::Picture;
use super::fire::{Fire, same_front};
use super::rounds::{self, Rounds};
use super::scenario::{self, Run, With};
use super::stats::less;
use super::table::Table;
use super::{Outcome, Section, Settings};
use crate::Result;

/// Seconds of the thesis by workers: the original, monitored without tuning, tuned (Table 5.5); with imbalance the original and
/// tuned (Table 5.6).
const THESIS: [(usize, [f64; 5]); 6] = [
    (2, [529.6, 559.99, 545.14, 648.28, 629.63]),
    (3, [381.61, 414.5, 391.83, 460.34, 453.16]),
    (4, [305.06, 336.5, 305.96, 393.37, 360.03]),
    (5, [264.95, 299.46, 257.9, 322.82, 290.23]),
    (6, [229.27, 261.46, 226.27, 276.17, 246.97]),
    (7, [209.94, 242.27, 203.59, 252.74, 220.8]),
];
const MOST: usize = 7;
const FACTORS: [f64; 8] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

const ORIGINAL: &str = "original";
const HALF: &str = "factor 0.5";
const BEST: &str = "best fixed factor";
const WATCHED: &str = "factor 0.5, watched";
const TUNED: &str = "tuned";
const ORACLE: &str = "oracle";

/// 7000 points of 100 µs; the master's own part is a tenth of theirs, near the 8 % that Table 5.5 implies.
fn load(heavy: bool, iterations: usize) -> Vec<String> {
    let heavy = if heavy { "heavy=1" } else { "heavy=0" };
    let words = [
        "points=7000",
        "point_us=100",
        "serial_us=70000",
        "minimum=25",
        // 30 % of the front at the start, that much more at the end as its front moves.
        "threshold=0.206",
        "speed=0.01",
        heavy,
    ];
    words
        .iter()
        .map(|word| (*word).to_owned())
        .chain([format!("iterations={iterations}")])
        .collect()
}

fn factors(factor: f64) -> Vec<String> {
    ["f0", "f1", "f2"].map(|name| format!("{name}={factor}")).to_vec()
}

/// What was measured under one load.
struct Measured {
    heavy: bool,
    best: f64,
    /// A run of each fixed factor, with as many workers as there are.
    sweep: Vec<(f64, Run)>,
    /// The scenarios by the number of workers.
    rounds: Vec<(usize, Rounds<Run>)>,
}

/// A scenario, by its name.
fn run_one(fire: &Fire<'_>, name: &str, best: f64, oracle: &str) -> Result<Run> {
    let rule = |flags: &[&str]| With::rule("adjusting-factoring", &[], flags);
    match name {
        ORIGINAL => fire.run(&["original=1".to_owned()], With::Nobody),
        HALF => fire.run(&factors(0.5), With::Nobody),
        BEST => fire.run(&factors(best), With::Nobody),
        WATCHED => fire.run(&factors(0.5), rule(&[])),
        TUNED => fire.run(&factors(0.5), rule(&["--apply"])),
        ORACLE => fire.run(&[oracle.to_owned()], With::Nobody),
        _ => Err(format!("no scenario {name}")),
    }
}

fn measure(settings: &Settings, heavy: bool) -> Result<Measured> {
    let iterations = if settings.quick { 8 } else { 12 };
    let fire = Fire::new(settings, MOST, &load(heavy, iterations))?;
    let mut sweep = Vec::new();
    let tried: &[f64] = if settings.quick {
        &[0.4, 0.6, 1.0]
    } else {
        &FACTORS
    };
    for factor in tried {
        rounds::progress(&format!("fixed factor {factor}, a first look"));
        sweep.push((*factor, fire.run(&factors(*factor), With::Nobody)?));
    }
    let seconds = |(_, run): &&(f64, Run)| run.seconds();
    let best = sweep.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let best = best.ok_or("no factor was tried")?.0;
    let oracle = fire.schedule("wildfire.schedule", &oracle(&sweep))?;
    let mut measured = Vec::new();
    if !settings.quick {
        let names: &[&str] = if heavy {
            &[ORIGINAL, HALF, BEST, WATCHED, TUNED]
        } else {
            &[ORIGINAL, HALF, TUNED]
        };
        for workers in 2..MOST {
            let fire = Fire::new(settings, workers, &load(heavy, 6))?;
            let rounds = in_turns(names, settings.repeats.div_ceil(3), |name| {
                run_one(&fire, name, best, "")
            })?;
            measured.push((workers, rounds));
        }
    }
    let all = [ORIGINAL, HALF, BEST, WATCHED, TUNED, ORACLE];
    let rounds = in_turns(&all, settings.repeats, |name| run_one(&fire, name, best, &oracle))?;
    same_front(
        sweep
            .iter()
            .map(|(_, run)| run)
            .chain(all.iter().flat_map(|name| rounds.of(name))),
    )?;
    for (_, rounds) in &measured {
        same_front(all.iter().flat_map(|name| rounds.of(name)))?;
    }
    measured.push((MOST, rounds));
    let measured = Measured {
        heavy,
        best,
        sweep,
        rounds: measured,
    };
    measured.check_factors()?;
    Ok(measured)
}

fn in_turns(names: &[&str], repeats: usize, run: impl FnMut(&str) -> Result<Run>) -> Result<Rounds<Run>> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    rounds::interleaved(&names, repeats, run)
}

/// For each iteration the factor that was the quickest in it, for all of its batches; as many workers as there are.
fn oracle(sweep: &[(f64, Run)]) -> Vec<String> {
    let each: Vec<(f64, Vec<f64>)> = sweep
        .iter()
        .map(|(factor, run)| (*factor, run.each("seconds")))
        .collect();
    let count = each
        .iter()
        .map(|(_, seconds)| seconds.len())
        .min()
        .unwrap_or_default();
    let best_in = |iteration: usize| {
        let quickest = each
            .iter()
            .min_by(|a, b| a.1[iteration].total_cmp(&b.1[iteration]));
        quickest.map_or(0.5, |(factor, _)| *factor)
    };
    (0..count)
        .map(|iteration| {
            let factor = best_in(iteration);
            format!("{factor} {factor} {factor} {MOST}")
        })
        .collect()
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    scenario::build_agent(&crate::root())?;
    let uneven = measure(settings, true)?;
    let even = measure(settings, false)?;
    let mut claims = uneven.gains();
    claims.extend(told::watching(&[&uneven, &even]));
    claims.extend([told::following(&uneven, &even), uneven.wrote(), even.wrote()]);
    Ok(Outcome {
        picture: Picture {
            title: "Adjusting factoring on a fire front".to_owned(),
            panels: vec![
                uneven.panel("30 % of the points twice as long"),
                told::thesis(
                    "thesis, Table 5.6: with imbalance",
                    &[("original", 3), ("tuned", 4)],
                ),
                even.panel("all points alike"),
                told::thesis(
                    "thesis, Table 5.5",
                    &[("original", 0), ("watched", 1), ("tuned", 2)],
                ),
                uneven.by_factor(),
                uneven.course(),
            ],
        },
        claims,
        sections: vec![
            uneven.scenarios("30 % of the points take twice as long, seven workers"),
            uneven.by_workers("The same by workers"),
            even.scenarios("All points alike, seven workers"),
            even.by_workers("The same by workers"),
            overlap(settings)?,
        ],
    })
}

impl Measured {
    fn runs(&self, name: &str) -> impl Iterator<Item = &Run> {
        self.rounds.iter().flat_map(move |(_, rounds)| rounds.of(name))
    }

    /// The factors are those of the thesis: in the first iteration 0.5, then within their range; without the right to write always 0.5.
    fn check_factors(&self) -> Result<()> {
        for run in self.runs(TUNED) {
            let first = run.each("f0");
            let within = first.iter().all(|factor| 0.0 < *factor && *factor <= 1.0);
            if first.first() != Some(&0.5) || !within {
                return Err(format!("the factors of a tuned run are {first:?}"));
            }
        }
        if self
            .runs(WATCHED)
            .flat_map(|run| run.each("f0"))
            .any(|factor| factor != 0.5)
        {
            return Err("a rule that may not write did".to_owned());
        }
        Ok(())
    }
}

/// Balanced work over a network that takes its time: what factoring gains there is that sending and computing overlap.
fn overlap(settings: &Settings) -> Result<Section> {
    let load = [
        "points=2100",
        "point_us=100",
        "heavy=0",
        "point_bytes=1000",
        "byte_ns=40",
        "latency_us=50",
        "iterations=12",
    ];
    let fire = Fire::new(settings, MOST, &load.map(str::to_owned))?;
    let names = [ORIGINAL, HALF, TUNED];
    let rounds = in_turns(&names, settings.repeats.div_ceil(2), |name| {
        run_one(&fire, name, 0.5, "")
    })?;
    same_front(names.iter().flat_map(|name| rounds.of(name)))?;
    let original = rounds.spread(ORIGINAL, Run::seconds)?.median;
    let mut table = Table::new([
        "",
        "s, median (least to greatest)",
        "to the original",
        "last iteration, s",
        "batches in it",
    ]);
    for name in names {
        let spread = rounds.spread(name, Run::seconds)?;
        let against = format!("{:+.1} %", 0.0 - less(spread.median, original));
        let last = |figure: &'static str| {
            rounds.spread(name, |run| run.each(figure).last().copied().unwrap_or_default())
        };
        table.row([
            name.to_owned(),
            spread.to_string(),
            against,
            last("seconds")?.to_string(),
            last("batches")?.median.to_string(),
        ]);
    }
    let note = "2100 points of 1000 bytes, at 40 ns for each byte: 84 ms to send, 30 ms to compute for each worker. The model knows no \
                network: balanced work it deals at once, and what sending and computing overlap is lost.";
    Ok(Section {
        title: "All points alike, a slow network, seven workers".to_owned(),
        table,
        notes: vec![note.to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_takes_the_quickest_factor_of_each_iteration() {
        let run = |seconds: [f64; 2]| Run {
            iterations: seconds.map(|of| serde_json::json!({"seconds": of})).to_vec(),
            checksum: String::new(),
            report: None,
        };
        let sweep = [(0.5, run([1.0, 3.0])), (0.8, run([2.0, 2.0]))];
        assert_eq!(oracle(&sweep), ["0.5 0.5 0.5 7", "0.8 0.8 0.8 7"]);
    }

    #[test]
    fn the_gains_of_the_thesis_are_those_that_it_prints() {
        let gains = THESIS.map(|(_, seconds)| (1000.0 * (1.0 - seconds[4] / seconds[3])).floor() / 10.0);
        assert_eq!(gains, [2.8, 1.5, 8.4, 10.0, 10.5, 12.6]);
    }
}
