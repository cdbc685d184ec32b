//! Functions that rules only count, as parallel regions for a pace: their probes sit for a few seconds, and
//! rest until the budget has made up for what they cost. While they rest rules have no value of them, so that
//! whatever is compared was counted in one way.

use std::collections::BTreeSet;

use super::{
    BudgetEffect, BudgetEffects,
    sampling::Sampling,
    spent::{CallNeed, Functions, Spent},
};
use profile::format::percent;

/// They sit for so long at least: what a guard compares, and the windows that a rule needs before it acts,
/// lie in one go.
const SIT_NS: u64 = 5_000_000_000;

/// Whether they sit or rest.
#[derive(Debug, Default)]
pub struct Counting {
    /// What was spent when they began to sit.
    since: Option<Spent>,
    /// Until when they rest.
    until_ns: Option<u64>,
    /// What has rested once, in words.
    rested: BTreeSet<String>,
}

impl Counting {
    pub fn rests(&self) -> bool {
        self.until_ns.is_some()
    }

    /// Whether they are to sit again. While a change is judged nothing rests.
    pub fn is_over(&self, read_ns: u64, is_judged: bool) -> bool {
        self.until_ns
            .is_some_and(|until_ns| is_judged || read_ns >= until_ns)
    }

    /// There is nothing that could rest.
    pub fn forget(&mut self) {
        self.since = None;
    }

    /// They sit again since so much was spent.
    pub fn sits(&mut self, spent: Spent) {
        (self.since, self.until_ns) = (Some(spent), None);
    }

    /// What is missing of their calls, in words.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let text = |name: &String| {
            format!(
                "calls of {name} were counted for rules in sampling windows (--budget): calls between them are missing"
            )
        };
        self.rested.iter().map(text)
    }

    /// So much was spent by now, while they sit: whether they are to rest.
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
                "note: {} is counted for rules {} of the time (--budget {}; counting cost {} of the job's CPU time): rules have no value of it \
                 in between, and it is counted all the time while a change is judged",
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
