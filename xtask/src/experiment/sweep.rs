//! One run of each fixed setting. This gives the best fixed setting, and the oracle's schedule: the best
//! setting for each iteration.

use serde_json::Value;

use super::rounds::progress;
use super::scenario::{Run, Scenario};
use crate::Result;

/// Settings, each with its run.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub(super) tried: Vec<(f64, Run)>,
}

impl Sweep {
    pub(super) fn of(settings: &[f64], scenario: impl Fn(f64) -> Scenario) -> Result<Sweep> {
        let mut sweep = Sweep::default();
        for setting in settings {
            sweep.add(*setting, &scenario(*setting))?;
        }
        Ok(sweep)
    }

    pub(super) fn add(&mut self, setting: f64, scenario: &Scenario) -> Result<()> {
        progress(&format!("{setting}, a first look"));
        self.tried.push((setting, scenario.run()?));
        self.tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(())
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.tried.iter().map(|(_, run)| run)
    }

    /// What the program reported of its iterations, by setting.
    pub(super) fn figures(&self) -> Value {
        let of = |(setting, run): &(f64, Run)| (setting.to_string(), run.figures());
        Value::Object(self.tried.iter().map(of).collect())
    }

    /// The setting with the smallest figure.
    pub(super) fn best(&self, figure: impl Fn(&Run) -> f64) -> Result<f64> {
        let all = self.tried.iter();
        let best = all.min_by(|a, b| figure(&a.1).total_cmp(&figure(&b.1)));
        Ok(best.ok_or("no setting was tried")?.0)
    }

    /// For each iteration, the setting with the smallest figure in it.
    pub(super) fn best_each(&self, figures: impl Fn(&Run) -> Vec<f64>) -> Vec<f64> {
        let each: Vec<(f64, Vec<f64>)> = self.tried.iter().map(|(of, run)| (*of, figures(run))).collect();
        let count = each.iter().map(|(_, figures)| figures.len()).min();
        let best_in = |iteration: usize| {
            let best = each
                .iter()
                .min_by(|a, b| a.1[iteration].total_cmp(&b.1[iteration]));
            best.map(|(setting, _)| *setting)
        };
        (0..count.unwrap_or_default()).filter_map(best_in).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sweep of runs with these iterations.
    pub(in super::super) fn made_of(tried: &[(f64, &[Value])]) -> Sweep {
        let run = |(setting, iterations): &(f64, &[Value])| {
            let run = Run {
                iterations: iterations.to_vec(),
                checksum: String::new(),
                report: None,
            };
            (*setting, run)
        };
        Sweep {
            tried: tried.iter().map(run).collect(),
        }
    }

    #[test]
    fn the_best_is_of_complete_runs_and_of_each_iteration() {
        let seconds = |of: [f64; 2]| of.map(|of| serde_json::json!({"seconds": of}));
        let sweep = made_of(&[(0.5, &seconds([1.0, 3.0])), (0.8, &seconds([2.0, 1.5]))]);
        assert_eq!(sweep.best(Run::seconds), Ok(0.8));
        assert_eq!(sweep.best_each(|run| run.each("seconds")), [0.5, 0.8]);
    }
}
