//! Service times that a contract states, and that the program no longer has: then its promises do not hold.

use std::collections::{BTreeMap, BTreeSet};

use rules::contract::Contract;

use crate::format::duration;
use crate::stream_views::WINDOWS_BELOW;

/// A service time that differs by less than this factor is no drift: windows differ as much by themselves.
const FACTOR: f64 = 1.25;

/// The service time of a module that is busy for less of its time is noise.
const BUSY_MIN: f64 = 0.05;

/// Compares the service times of modules with those that the contract states.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    /// By module, how long its workers are busy with an activation, in seconds.
    stated_s: BTreeMap<String, f64>,
    /// By module, for how many windows in a row it took longer (positive), or less.
    windows: BTreeMap<String, i64>,
    said: BTreeSet<String>,
}

impl Drift {
    pub(super) fn of(contract: &Contract) -> Drift {
        let modules = contract.module_outlines().into_iter();
        let stated = modules.filter_map(|module| Some((module.name.clone(), contract.busy_s(&module.name)?)));
        Drift {
            stated_s: stated.collect(),
            ..Drift::default()
        }
    }

    /// A module in a window: the share of its time in which it was busy, and its activations per second. Returns a
    /// line once it has drifted in as many windows as a violated rate needs.
    pub(super) fn take(&mut self, module: &str, busy: f64, rate: f64) -> Option<String> {
        let stated_s = *self.stated_s.get(module)?;
        if rate <= 0.0 || busy < BUSY_MIN {
            return None;
        }
        let seen_s = busy / rate;
        let windows = self.windows.entry(module.to_owned()).or_default();
        *windows = match seen_s / stated_s {
            ratio if ratio > FACTOR => windows.max(&mut 0).saturating_add(1),
            ratio if ratio < 1.0 / FACTOR => windows.min(&mut 0).saturating_sub(1),
            _ => 0,
        };
        let has_drifted = windows.unsigned_abs() >= u64::from(WINDOWS_BELOW);
        if !has_drifted || !self.said.insert(module.to_owned()) {
            return None;
        }
        let shown = |seconds: f64| duration(seconds * 1e9);
        Some(format!(
            "{module} takes {} for an activation, and the contract states {}: `contract learn` makes one of the program as it is",
            shown(seen_s),
            shown(stated_s)
        ))
    }

    /// The number of workers of modules has changed: what the contract states is of other numbers.
    pub(super) fn end(&mut self) {
        self.stated_s.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = "contract: film\nstreams: {s: {from: a, to: b}}\nmodules:\n  a: {gives: {s: 1}}\n  \
         b: {kind: task-parallel, takes: [s], work: encode, workers: 2}\nwork: {encode: {time: 40ms}}\nrequire: [s >= 10/s]\n";

    fn drift() -> Drift {
        Drift::of(&Contract::parse(CONTRACT).unwrap())
    }

    #[test]
    fn a_service_time_that_is_not_the_stated_one_for_three_windows_is_said_once() {
        // Two workers take 40 ms each: an activation every 20 ms.
        let mut it = drift();
        assert_eq!(it.take("b", 1.0, 20.0), None);
        assert_eq!(it.take("b", 1.0, 20.0), None);
        let line = it.take("b", 1.0, 20.0).unwrap();
        assert!(
            line.starts_with("b takes 50 ms for an activation, and the contract states 20 ms: "),
            "{line}"
        );
        assert_eq!(it.take("b", 1.0, 20.0), None);
    }

    #[test]
    fn less_work_is_drift_too_and_windows_must_agree() {
        let mut it = drift();
        for rate in [100.0, 20.0, 100.0, 100.0] {
            assert_eq!(it.take("b", 1.0, rate), None, "{rate}");
        }
        assert!(it.take("b", 1.0, 100.0).unwrap().starts_with("b takes 10 ms"));
    }

    #[test]
    fn noise_modules_without_a_time_and_other_numbers_of_workers_are_no_drift() {
        let mut it = drift();
        for (module, busy, rate) in [
            ("b", 1.0, 45.0),
            ("b", 0.01, 20.0),
            ("b", 1.0, 0.0),
            ("a", 1.0, 1.0),
        ] {
            for _ in 0..4 {
                assert_eq!(it.take(module, busy, rate), None, "{module} {busy} {rate}");
            }
        }
        it.end();
        for _ in 0..4 {
            assert_eq!(it.take("b", 1.0, 20.0), None);
        }
    }
}
