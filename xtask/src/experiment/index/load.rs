//! Loads of the simulator, the scenarios under a load, and the model's prediction for it.

use super::{
    ALONE, BALANCE_FIRST, BALANCED, BEST, LATENCY_S, Measured, POINT_BYTES, POINTS, RUNS_MAX, TUNED, WATCHED,
    WORKERS_FIRST, indices, mean_index,
};
use crate::Result;
use crate::experiment::fire::Fire;
use crate::experiment::rounds::{interleaved, same_results};
use crate::experiment::scenario::{Scenario, With, argument};
use crate::experiment::sweep::Sweep;
use crate::measure::Settings;

const INDEX: &str = "workers-by-index";
const FACTORING: &str = "adjusting-factoring";
/// Iteration from which the second rule may also act; by then the first has settled.
const SECOND: usize = 12;

/// A load of the simulator.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) iterations: usize,
    /// First iteration in which points become heavy.
    pub(super) heavy_from: usize,
    /// The part of the front below this share of its height is heavy.
    threshold: f64,
    pub(super) byte_ns: f64,
    sections: bool,
}

impl Load {
    /// From the middle on, all points take three times as long. The work is always balanced.
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
        vec![
            argument("iterations", self.iterations),
            argument("heavy_from", self.heavy_from),
            argument("threshold", self.threshold),
            argument("byte_ns", self.byte_ns),
            argument("points", POINTS),
            argument("point_bytes", POINT_BYTES),
            argument("latency_us", LATENCY_S * 1e6),
            argument("original", u8::from(self.sections)),
            argument("point_us", 100),
            argument("heavy", 2),
            argument("speed", 0.002),
        ]
    }

    /// Eq. 4.7; the received data is as large as the sent data.
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

/// Factors of the batches: 0.5 as in classical factoring. A first factor of 1 distributes everything at once,
/// so that factoring has no effect until it is tuned.
fn factors(first: f64) -> Vec<String> {
    let rest = ["f1", "f2"].map(|name| argument(name, 0.5));
    [&[argument("f0", first)][..], &rest].concat()
}

impl Load {
    /// First factor of the runs with a fixed number of workers.
    fn first_factor(&self) -> f64 {
        if self.sections { 1.0 } else { 0.5 }
    }

    fn fixed(&self, fire: &Fire<'_>, more: String) -> Scenario {
        fire.scenario(&[factors(self.first_factor()), vec![more]].concat(), With::NoRule)
    }

    fn scenario(&self, fire: &Fire<'_>, name: &str, best: f64, oracle: &str) -> Scenario {
        let at_once = factors(1.0);
        let of = |rules: &[&str], apply| fire.scenario(&at_once, With::Agent(self.flags(rules, apply)));
        let later = |first: &str, rule| {
            let with = With::Later {
                flags: self.flags(&[FACTORING, INDEX], Some(first)),
                rule,
                after: SECOND,
            };
            fire.scenario(&[&at_once[..], &[argument("gate", SECOND)]].concat(), with)
        };
        match name {
            ALONE => fire.scenario(&at_once, With::NoRule),
            WATCHED => of(&[FACTORING, INDEX], None),
            TUNED => of(&[INDEX], Some(INDEX)),
            BALANCED => of(&[FACTORING], Some(FACTORING)),
            BALANCE_FIRST => later(FACTORING, INDEX),
            WORKERS_FIRST => later(INDEX, FACTORING),
            BEST => self.fixed(fire, argument("workers", best)),
            _ => self.fixed(fire, oracle.to_owned()),
        }
    }

    pub(super) fn measure(
        self,
        settings: &Settings,
        names: &[&'static str],
        repeats: usize,
    ) -> Result<Measured> {
        let fire = Fire::new(settings, RUNS_MAX, &self.arguments())?;
        let numbers: &[f64] = settings.either(&[4.0], &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let sweep = Sweep::of(numbers, |workers| self.fixed(&fire, argument("workers", workers)))?;
        let best = sweep.best(|run| mean_index(run, 0..self.iterations))?;
        let first = self.first_factor();
        let least = sweep.best_each(indices);
        let lines: Vec<String> = least
            .iter()
            .map(|workers| format!("{first} 0.5 0.5 {workers}"))
            .collect();
        let oracle = fire.schedule("index.schedule", &lines)?;
        let scenario = |name: &&str| ((*name).to_owned(), self.scenario(&fire, name, best, &oracle));
        let scenarios: Vec<_> = names.iter().map(scenario).collect();
        let rounds = interleaved(&scenarios, repeats, Scenario::run)?;
        same_results(sweep.runs().chain(rounds.all()))?;
        let measured = Measured {
            load: self,
            sweep,
            best,
            names: names.to_vec(),
            rounds,
        };
        measured.check_watched()?;
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::super::index;
    use super::*;
    use crate::experiment::sweep::tests::made_of;

    #[test]
    fn the_oracle_takes_the_number_of_the_least_index_of_each_iteration() {
        let run = |workers: usize, seconds: [f64; 2]| {
            seconds.map(|of| serde_json::json!({"workers": workers, "seconds": of, "computed": 1.0}))
        };
        // 1·4² against 4·1.5² = 9, and 1·2² against 4·1.5².
        let sweep = made_of(&[(1.0, &run(1, [4.0, 2.0])), (4.0, &run(4, [1.5, 1.5]))]);
        assert_eq!(sweep.best_each(indices), [4.0, 1.0]);
    }

    #[test]
    fn the_model_is_that_of_the_thesis_and_has_its_least_index_where_the_closed_form_says() {
        let load = Load::growing();
        for (computed, least) in [(0.21, 4.0), (0.63, 7.0)] {
            let of = |workers: f64| index(workers, load.time(workers, computed), computed);
            let best = (1..=RUNS_MAX)
                .map(|of| of as f64)
                .min_by(|a, b| of(*a).total_cmp(&of(*b)));
            assert_eq!(best, Some(least));
            // x* = B / A with A = 2m0 + αλV and B = (1-α)λV + Tc.
            let sent = POINTS * POINT_BYTES * load.byte_ns / 1e9;
            let closed = (sent + computed) / (2.0 * LATENCY_S + sent);
            assert!((closed.min(RUNS_MAX as f64) - least).abs() <= 1.0, "{closed}");
        }
    }
}
