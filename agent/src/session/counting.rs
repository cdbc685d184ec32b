//! Functions that rules only count, as parallel regions for a pace: their probes sit for a few seconds, and rest until the budget has made up for
//! what they cost. While they rest rules have no value of them, so that whatever is compared was counted in one way.

use std::collections::BTreeSet;

use super::{Session, sampling::Spent};
use crate::{format::percent, kernel::KernelError};

/// They sit for so long at least: what a guard compares, and the windows that a rule needs before it acts, lie in one go.
const SIT_NS: u64 = 5_000_000_000;

/// Whether they sit or rest.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// What was spent when they began to sit.
    since: Option<Spent>,
    /// Until when they rest.
    until_ns: Option<u64>,
    /// What has rested once, in words.
    rested: BTreeSet<String>,
}

impl Counting {
    /// What is missing of their calls, in words.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        let text = |name: &String| {
            format!(
                "calls of {name} were counted for rules now and then (--budget): those between are not in its calls"
            )
        };
        self.rested.iter().map(text)
    }
}

impl Session {
    /// Keeps what counting for rules costs to the budget. While a change is judged nothing rests.
    pub(super) fn mind_counts(&mut self) -> Result<(), KernelError> {
        let is_judged = !self.rules.on_trial().is_empty();
        if let Some(until_ns) = self.sampling.counting.until_ns {
            let is_over = is_judged || self.read_ns >= until_ns;
            return match is_over && !self.probes.is_closing() {
                true => self.count_again(),
                false => Ok(()),
            };
        }
        let counted = self.probes.counted();
        if counted.is_empty() || !self.probes.can_take_turns() {
            self.sampling.counting.since = None;
            return Ok(());
        }
        let now = self.spent();
        let Some(since) = &self.sampling.counting.since else {
            self.sampling.counting.since = Some(now);
            return Ok(());
        };
        let sat_ns = now.at_ns.saturating_sub(since.at_ns);
        if is_judged || sat_ns < SIT_NS {
            return Ok(());
        }
        let load = self.load(since, None, &now);
        match self.sampling.rest_ns(&load, sat_ns) {
            Some(rest_ns) => {
                let share = sat_ns as f64 / (sat_ns + rest_ns) as f64;
                self.tell_of_counts(share, load.counted / load.job.max(f64::MIN_POSITIVE));
                self.sampling.counting.until_ns = Some(now.at_ns + rest_ns);
                self.rest_counts(counted)
            }
            None => {
                self.sampling.counting.since = Some(now);
                Ok(())
            }
        }
    }

    /// What was just read is the last that rules are told.
    fn rest_counts(&mut self, counted: BTreeSet<usize>) -> Result<(), KernelError> {
        self.rules.rest(counted.clone());
        self.probes.rest(counted, &[])?;
        self.read()
    }

    fn count_again(&mut self) -> Result<(), KernelError> {
        let living = self.processes.iter().filter(|process| process.is_watched());
        let members =
            living.filter_map(|process| Some((process.slot, self.job.members.get(process.slot as usize)?)));
        let members: Vec<_> = members.collect();
        self.probes.rest(BTreeSet::new(), &members)?;
        self.rules.rest(BTreeSet::new());
        self.sampling.counting.until_ns = None;
        self.read()?;
        self.sampling.counting.since = Some(self.spent());
        Ok(())
    }

    fn tell_of_counts(&mut self, part: f64, cost: f64) {
        let spent = self.spent();
        let probes = self.probes.list().iter().zip(0..);
        let called = probes.filter(|(_, number)| self.probes.is_counted(*number) && spent.of(*number) > 0.0);
        let called: Vec<String> = called.map(|(probe, _)| probe.name.clone()).collect();
        let is_new = called
            .iter()
            .any(|name| !self.sampling.counting.rested.contains(name));
        if is_new {
            self.screen.say(&format!(
                "note: {} is counted for rules {} of the time (--budget {}; counting cost {} of the job's CPU time): rules have no value of it \
                 in between, and it is counted all the time while a change is judged",
                called.join(", "),
                percent(part),
                self.sampling.budget(),
                percent(cost),
            ));
        }
        self.sampling.counting.rested.extend(called);
    }
}
