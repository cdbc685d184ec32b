//! The coordinator's part of an evaluation over several nodes: takes the reports of [`super::node`], and
//! makes the schedules.
//!
//! Only tests use this module today: node agents and a coordinator are not built (docs/decisions/0010).

use std::collections::BTreeMap;

use super::advance::DueInstance;
use super::instance::Instance;
use super::join::Joiner;
use super::node::{Partial, Report, Schedule, Scheduled};
use super::output::Observation;
use super::{Engine, Open, Running};
use crate::ids::RuleId;
use crate::value::{Machine, ProcessId, Time};

/// Reports that wait for a preceding one; if there are more, the missing one counts as lost.
const EARLY_MAX: usize = 64;

/// The state of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Remote {
    /// The number of its next report.
    next: u64,
    /// Reports that arrived out of order.
    early: BTreeMap<u64, Report>,
    /// For each rule, the time up to which the hits that the node folds have been placed.
    settled: Vec<Option<Time>>,
    /// Its processes, each with the time up to which it was observed.
    observed: BTreeMap<ProcessId, Time>,
}

impl Engine {
    /// Registers a node that folds hits itself. From now on, windows from probe to probe wait for it.
    pub fn node_joined(&mut self, node: Machine) {
        self.nodes.entry(node).or_default();
    }

    /// Takes a report; false if the node never joined. A duplicate changes nothing; a report out of order
    /// waits for those before it.
    pub fn take_report(&mut self, report: Report) -> bool {
        let Some(remote) = self.nodes.get_mut(&report.node) else {
            return false;
        };
        let node = report.node;
        if report.sequence >= remote.next {
            remote.early.insert(report.sequence, report);
        }
        while let Some(remote) = self.nodes.get_mut(&node) {
            let Some(first) = remote.early.first_key_value().map(|(number, _)| *number) else {
                break;
            };
            let lost = first > remote.next && remote.early.len() > EARLY_MAX;
            if first != remote.next && !lost {
                break;
            }
            let Some(report) = remote.early.remove(&first) else {
                break;
            };
            remote.next = first + 1;
            if lost {
                let observed = report
                    .observations
                    .iter()
                    .filter_map(watermark)
                    .map(|(_, time)| time);
                let (remote, upto) = (remote.clone(), observed.max());
                self.lose(&remote, upto.unwrap_or(Time(u64::MAX)));
            }
            self.take_next(node, report);
        }
        true
    }

    fn take_next(&mut self, node: Machine, report: Report) {
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote
                .observed
                .extend(report.observations.iter().filter_map(watermark));
            remote.settled = report.settled;
        }
        report
            .observations
            .into_iter()
            .for_each(|observation| self.observe_of(observation, true));
        for partial in report.partials {
            if let Some(running) = self.rules.get_mut(partial.rule.0) {
                running.merge(&partial);
            }
        }
        for (rule, window, index, reason) in report.incomplete {
            let running = self.rules.get_mut(rule.0);
            if let Some(instance) = running.and_then(|running| running.instance(window, index)) {
                instance.mark_incomplete(&reason);
            }
        }
        for (rule, time) in report.late {
            if let Some(running) = self.rules.get_mut(rule.0) {
                running.mark_incomplete(time, "a hit came late");
            }
        }
        for (running, dropped) in self.rules.iter_mut().zip(&report.dropped) {
            running.stream.dropped.add(dropped);
        }
    }

    /// The information that nodes need to place the hits that they fold.
    pub fn schedule(&self) -> Schedule {
        let rule = |(rule, running): (usize, &Running)| {
            let settled = self.settled(RuleId(rule)).flatten();
            let window = |open: &Open| match open {
                Open::Probed(track) => track.table.since(settled),
                Open::Timed { .. } | Open::Busy => Vec::new(),
            };
            Scheduled {
                reach: running.stream.frontier,
                windows: running.windows.iter().map(window).collect(),
            }
        };
        Schedule {
            rules: self.rules.iter().enumerate().map(rule).collect(),
        }
    }

    /// The time up to which every node has placed the hits of a rule; `None` without nodes.
    pub(super) fn settled(&self, rule: RuleId) -> Option<Option<Time>> {
        let settled = |remote: &Remote| remote.settled.get(rule.0).copied().flatten();
        self.nodes.values().map(settled).min()
    }

    /// Records the loss of a node's report.
    fn lose(&mut self, remote: &Remote, upto: Time) {
        let from = remote.observed.values().min().copied().unwrap_or_default();
        for running in &mut self.rules {
            running.stream.lose(from, upto);
            running.joiners.iter_mut().for_each(Joiner::clear);
            running.mark_incomplete(upto, "hits were lost in it");
        }
    }
}

fn watermark(observation: &Observation) -> Option<(ProcessId, Time)> {
    match observation {
        Observation::Watermark { process, time } => Some((*process, *time)),
        _ => None,
    }
}

impl Running {
    /// An instance that was not evaluated yet.
    fn instance(&mut self, window: usize, number: u64) -> Option<&mut Instance> {
        let closed = self
            .awaiting
            .iter_mut()
            .find_map(|awaiting| match &mut awaiting.due {
                DueInstance::Closed(closed)
                    if awaiting.place == window && closed.instance.frame.number == number =>
                {
                    Some(&mut closed.instance)
                }
                DueInstance::Closed(_) | DueInstance::Hit { .. } => None,
            });
        if closed.is_some() {
            return closed;
        }
        self.windows.get_mut(window)?.track()?.open(number)
    }

    fn merge(&mut self, partial: &Partial) {
        match self.instance(partial.window, partial.index) {
            Some(instance) => instance.fill(|content| content.merge(&partial.content)),
            // The wait for it has ended.
            None => self.stream.dropped.late += partial.content.len() as u64,
        }
    }
}
