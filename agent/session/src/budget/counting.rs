//! Functions that rules only count, such as parallel regions for a rate: they are probed for a few seconds,
//! then detached until the budget has made up for the cost. While they are detached, rules have no value of
//! them, so that compared values were all counted in the same way.

use std::collections::BTreeSet;

use super::{
    BudgetEffect, BudgetEffects,
    sampling::Sampling,
    spent::{CallNeed, Functions, Spent},
};
use profile::format::percent;

/// Least time for which they are probed: it covers what a guard compares, and the windows that a rule needs
/// before it acts.
const SIT_NS: u64 = 5_000_000_000;

/// Whether they are probed or detached.
#[derive(Debug, Default)]
pub struct Counting {
    /// Costs when they were attached.
    since: Option<Spent>,
    /// Until when they are detached.
    until_ns: Option<u64>,
    /// Names of functions that were detached at least once.
    rested: BTreeSet<String>,
}

impl Counting {
    pub fn is_detached(&self) -> bool {
        self.until_ns.is_some()
    }

    /// Whether they must be attached again. While a change is judged nothing is detached.
    pub fn is_over(&self, read_ns: u64, is_judged: bool) -> bool {
        self.until_ns
            .is_some_and(|until_ns| is_judged || read_ns >= until_ns)
    }

    /// Nothing is left to detach.
    pub fn forget(&mut self) {
        self.since = None;
    }

    /// Records that they are attached again, with the costs so far.
    pub fn attached(&mut self, spent: Spent) {
        (self.since, self.until_ns) = (Some(spent), None);
    }

    /// The missing calls, as text; `None` if all were counted.
    pub fn missing(&self) -> Option<String> {
        let names: Vec<&str> = self.rested.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| {
            format!(
                "calls of {} were counted for rules in sampling windows (--budget): calls between them are missing",
                names.join(", ")
            )
        })
    }

    /// Checks the costs while they are probed, and detaches them if necessary.
    pub fn look(
        &mut self,
        now: Spent,
        is_judged: bool,
        functions: &Functions<'_>,
        sampling: &Sampling,
    ) -> BudgetEffects {
        let Some(since) = &self.since else {
            self.since = Some(now);
            return BudgetEffects::new();
        };
        let sat_ns = now.at_ns.saturating_sub(since.at_ns);
        if is_judged || sat_ns < SIT_NS {
            return BudgetEffects::new();
        }
        let load = sampling.load(since, None, &now, functions);
        let Some(rest_ns) = sampling.rest_ns(&load, sat_ns) else {
            self.since = Some(now);
            return BudgetEffects::new();
        };
        let part = sat_ns as f64 / (sat_ns + rest_ns) as f64;
        let cost = load.counted / load.job.max(f64::MIN_POSITIVE);
        let called = functions
            .iter()
            .filter(|(probe, watched)| watched.need == CallNeed::Count && now.of_function(**probe) > 0.0);
        let called: Vec<String> = called.map(|(_, watched)| watched.name.to_owned()).collect();
        let is_new = called.iter().any(|name| !self.rested.contains(name));
        let notice = is_new.then(|| {
            BudgetEffect::Say(format!(
                "note: calls of {} are counted for rules {} of the time (--budget {}; counting cost {} of the job's CPU time): rules have no \
                 value of them in between, and they are counted all the time while a change is judged",
                called.join(", "),
                percent(part),
                sampling.budget(),
                percent(cost),
            ))
        });
        self.rested.extend(called);
        self.until_ns = Some(now.at_ns + rest_ns);
        notice.into_iter().chain([BudgetEffect::DetachCounted]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_were_counted_in_windows_are_missing_in_one_line() {
        let counting = Counting {
            rested: ["dgemm_", "dgemv_"].map(str::to_owned).into(),
            ..Counting::default()
        };
        let line = counting.missing().expect("calls are missing");
        assert!(
            line.starts_with("calls of dgemm_, dgemv_ were counted for rules"),
            "{line}"
        );
    }
}
