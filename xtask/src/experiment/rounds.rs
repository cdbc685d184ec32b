//! Runs scenarios in turns: each round runs each scenario once, in an order that rotates with every round. So
//! disturbances of the machine and after-effects of a run are spread over all scenarios.

use std::io::IsTerminal;

use serde_json::Value;

use super::scenario::Run;
use crate::Result;
use crate::measure::stats::Spread;

/// Results by scenario, one per round.
pub(crate) struct Rounds<R> {
    results: Vec<(String, Vec<R>)>,
}

/// Runs each named scenario `repeats` times.
pub(crate) fn interleaved<S, R>(
    scenarios: &[(String, S)],
    repeats: usize,
    mut run: impl FnMut(&S) -> Result<R>,
) -> Result<Rounds<R>> {
    let empty = scenarios.iter().map(|(name, _)| (name.clone(), Vec::new()));
    let mut results: Vec<(String, Vec<R>)> = empty.collect();
    for round in 0..repeats {
        let mut turn: Vec<usize> = (0..results.len()).collect();
        if round % 2 == 1 {
            turn.reverse();
        }
        for place in turn {
            let (name, of) = &mut results[place];
            progress(&format!("round {} of {repeats}: {name}", round + 1));
            of.push(run(&scenarios[place].1).map_err(|error| format!("{name}: {error}"))?);
        }
    }
    progress("");
    Ok(Rounds { results })
}

/// Shows a progress line on a terminal, overwritten by the next one; prints nothing elsewhere.
pub(crate) fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{:70}\r    {text}\r", "");
    }
}

impl<R> Rounds<R> {
    /// All results of a scenario.
    pub(crate) fn of(&self, name: &str) -> &[R] {
        let found = self.results.iter().find(|(known, _)| known == name);
        found.map_or(&[], |(_, results)| results)
    }

    /// Median and spread of a figure of a scenario; NaN if the scenario was not run.
    pub(crate) fn spread_or_nan(&self, name: &str, figure: impl Fn(&R) -> f64) -> Spread {
        let values: Vec<f64> = self.of(name).iter().map(figure).collect();
        Spread::or_nan(&values)
    }

    /// Median and spread of a figure of a scenario.
    pub(crate) fn spread(&self, name: &str, figure: impl Fn(&R) -> f64) -> Result<Spread> {
        let values: Vec<f64> = self.of(name).iter().map(figure).collect();
        Spread::of(&values).ok_or_else(|| format!("{name} was never run"))
    }
}

impl Rounds<Run> {
    /// Median and spread of the seconds of a scenario.
    pub(crate) fn seconds(&self, name: &str) -> Result<Spread> {
        self.spread(name, Run::seconds)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Run> {
        self.results.iter().flat_map(|(_, runs)| runs)
    }

    /// What the programs reported of the iterations of each run, by scenario.
    pub(crate) fn figures(&self) -> Value {
        let of = |(name, runs): &(String, Vec<Run>)| (name.clone(), runs.iter().map(Run::figures).collect());
        Value::Object(self.results.iter().map(of).collect())
    }
}

/// Fails unless all runs computed the same result.
pub(crate) fn same_results<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Result<()> {
    let mut sums: Vec<&str> = runs.into_iter().map(|run| run.checksum.as_str()).collect();
    sums.sort_unstable();
    sums.dedup();
    match sums.as_slice() {
        [sum] if !sum.is_empty() => Ok(()),
        _ => Err(format!("the program computed different results: {sums:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_runs_backwards_and_each_scenario_runs_once_a_round() {
        let scenarios = ["a", "b", "c"].map(|name| (name.to_owned(), name));
        let mut order = String::new();
        let rounds = interleaved(&scenarios, 3, |name| {
            order += name;
            Ok(order.len() as f64)
        });
        let rounds = rounds.unwrap();
        assert_eq!(order, "abccbaabc");
        assert_eq!(rounds.of("a"), [1.0, 6.0, 7.0]);
        assert_eq!(rounds.spread("c", |of| *of).unwrap().median, 4.0);
        assert!(rounds.spread("d", |of| *of).is_err());
    }

    #[test]
    fn a_failed_run_is_named() {
        let failed = interleaved(&[("a".to_owned(), ())], 2, |()| {
            Err::<f64, _>("no MPI".to_owned())
        });
        assert_eq!(failed.err().unwrap(), "a: no MPI");
    }
}
