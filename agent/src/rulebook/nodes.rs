//! The rules of a job on several machines: this machine's part.

use rules::{CheckedRule, Schedule};
use session::Act;
use session::nodes::{JobPart, PartReport};
use session::request::RuleSource;

use super::{RuleBook, checked};
use crate::exit::Failure;

impl RuleBook {
    /// Checks the rules that the coordinator of a job gave, in its order.
    pub(crate) fn of_coordinator(given: &[RuleSource]) -> Result<RuleBook, Failure> {
        let rules: Result<Vec<CheckedRule>, Failure> = given.iter().map(checked).collect();
        RuleBook::of(rules?, None)
    }

    /// The rules, in their order.
    pub(crate) fn all(&self) -> Vec<CheckedRule> {
        self.engine.rules().map(|(_, rule, _)| rule.clone()).collect()
    }

    /// From now on, what the rules observe is also reported to the coordinator of the job. To be called before the
    /// session begins; the machine has this number, the agent this incarnation, and `offset_ns` is what is added
    /// to the machine's clock for the coordinator's.
    pub(crate) fn share(&mut self, machine: u32, incarnation: u64, offset_ns: i64) {
        let part = JobPart::new(machine, incarnation, job::host(), offset_ns, self.all());
        self.part = Some(part);
    }

    /// This machine's part since the last report.
    pub(crate) fn report_part(&mut self) -> PartReport {
        self.part.as_mut().map(JobPart::report).unwrap_or_default()
    }

    /// Takes what the coordinator knows.
    pub(crate) fn learn(&mut self, schedule: &Schedule, offset_ns: i64) {
        if let Some(part) = &mut self.part {
            part.learn(schedule, offset_ns);
        }
    }

    /// Whether each machine of a job evaluates this rule by itself.
    pub(crate) fn is_of_machine(&self, name: &str) -> bool {
        let mut rules = self.engine.rules();
        rules.any(|(_, rule, _)| rule.name() == name && rule.is_of_machine())
    }

    /// Whether the coordinator finds this over the whole job, so that this machine says nothing.
    pub(super) fn is_of_job(&self, act: &Act) -> bool {
        let (Act::Found { rule, .. } | Act::Gone { rule }) = act else {
            return false;
        };
        let known = |(_, known, _): (_, &CheckedRule, _)| known.name() == rule && !known.is_of_machine();
        self.part.is_some() && self.engine.rules().any(known)
    }
}
