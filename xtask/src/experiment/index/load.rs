//! The loads of the simulator, how it is run under one, and what the model says of it.

use super::{
    ALONE, BALANCE_FIRST, BALANCED, BEST, LATENCY_S, MOST, Measured, ORACLE, POINT_BYTES, POINTS, TUNED,
    WATCHED, WORKERS_FIRST, mean_index, oracle,
};
use crate::Result;
use crate::experiment::Settings;
use crate::experiment::fire::{Fire, same_front};
use crate::experiment::rounds;
use crate::experiment::scenario::{Run, With};

const INDEX: &str = "workers-by-index";
const FACTORING: &str = "adjusting-factoring";
/// After so many iterations the second rule may act as well: the first has settled.
const SECOND: usize = 12;

/// A load of the simulator.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) iterations: usize,
    /// In which points become heavy.
    pub(super) heavy_from: usize,
    /// Below this share of its height the front is heavy.
    threshold: f64,
    pub(super) byte_ns: f64,
    sections: bool,
}

impl Load {
    /// All points take three times as long from the middle on: balanced always.
    pub(super) fn growing() -> Load {
        Load {
            iterations: 40,
            heavy_from: 20,
            threshold: 2.0,
            byte_ns: 40.0,
            sections: true,
        }
    }

    /// 30 % of the points take three times as long.
    pub(super) fn uneven() -> Load {
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
    pub(super) fn time(&self, workers: f64, computed: f64) -> f64 {
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

    pub(super) fn measure(
        self,
        settings: &Settings,
        names: &[&'static str],
        repeats: usize,
    ) -> Result<Measured> {
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

#[cfg(test)]
mod tests {
    use super::super::index;
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
}
