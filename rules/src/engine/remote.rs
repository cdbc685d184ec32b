//! The coordinator's part of an evaluation over several nodes: takes the reports of [`super::node`], and
//! makes the schedules.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Engine;
use super::instance::{HITS_LOST, Instance};
use super::join::Joiner;
use super::node::{Partial, Report, Schedule, Scheduled};
use super::output::Observation;
use super::running::{Open, Running};
use super::timed::AwaitedWindow;
use crate::ids::RuleId;
use crate::value::{Machine, ProcessId, Subject, Time};

/// Reports that wait for a preceding one; if there are more, the missing one counts as lost.
const EARLY_MAX: usize = 64;

/// Why an instance is incomplete in whose time an agent was replaced by another one on its node.
const RESTARTED: &str = "an agent was restarted in it";

/// The state of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Remote {
    /// The newest agent of the node that reported.
    incarnation: Option<u64>,
    /// The number of its next report.
    next: u64,
    /// Reports that arrived out of order.
    early: BTreeMap<u64, Report>,
    /// For each rule, the time up to which the hits that the node folds have been placed.
    settled: Vec<Option<Time>>,
    /// The time up to which all its processes were observed; `None` without processes.
    observed: Option<Time>,
    /// Hits after this time are lost, up to the first watermark of the present agent.
    lost_from: Option<Time>,
}

impl Remote {
    /// The time up to which all hits of its processes are here: those that are passed on, and those that the
    /// node folds, which it places later than it says that they were observed.
    fn complete(&self) -> Time {
        let placed = self.settled.iter().copied().min().flatten();
        self.observed.min(placed).unwrap_or_default()
    }
}

impl Engine {
    /// Registers a node that folds hits itself. From now on, windows from probe to probe wait for it.
    pub fn node_joined(&mut self, node: Machine) {
        self.nodes.entry(node).or_default();
        let processes = &self.processes;
        let is_elsewhere = |process: &ProcessId| {
            let known = processes.get(process);
            known.is_none_or(|known| known.facts.machine != node)
        };
        Arc::make_mut(&mut self.alone).retain(|process, _| is_elsewhere(process));
    }

    /// A node is given up: nothing waits for it any more, and its processes have left.
    pub fn node_left(&mut self, node: Machine, now: Time) {
        self.nodes.remove(&node);
        let of_node = self.processes.iter();
        let of_node = of_node.filter(|(_, known)| known.facts.machine == node && known.left.is_none());
        let of_node: Vec<ProcessId> = of_node.map(|(process, _)| *process).collect();
        of_node
            .into_iter()
            .for_each(|process| self.process_left(process, now));
    }

    /// The processes on no node whose hits a rule waits for, with the times at which they joined, and the time up
    /// to which all nodes have observed theirs. Iterations of the detected loop are observed for each process.
    pub(super) fn observers(&self, running: &Running) -> (BTreeMap<ProcessId, Time>, Option<Time>) {
        if running.intake.follows_loop {
            return (running.concerned(&self.joined), None);
        }
        let of_nodes = self.nodes.values().filter_map(|remote| match remote.incarnation {
            Some(_) => remote.observed,
            None => Some(Time(0)),
        });
        (running.concerned(&self.alone), of_nodes.min())
    }

    /// Takes a report; false if the node never joined. A duplicate changes nothing; a report out of order
    /// waits for those before it. The first report of a newer incarnation makes the open windows partial, and
    /// those of older ones are counted as [`super::Dropped::outdated`].
    pub fn take_report(&mut self, report: Report) -> bool {
        let Some(remote) = self.nodes.get_mut(&report.node) else {
            return false;
        };
        let node = report.node;
        match remote.incarnation {
            Some(newest) if report.incarnation < newest => {
                self.drop_outdated(&report);
                return true;
            }
            Some(newest) if report.incarnation > newest => self.restart(node, report.incarnation),
            _ => remote.incarnation = Some(report.incarnation),
        }
        if let Some(remote) = self.nodes.get_mut(&node)
            && report.sequence >= remote.next
        {
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
            // Not even a node that counts wrongly gets more than its last number.
            remote.next = first.saturating_add(1);
            if lost {
                let from = remote.complete();
                let upto = report.observed.map_or(Time(u64::MAX), |(_, last)| last);
                self.lose(from, upto, HITS_LOST);
            }
            self.take_next(node, report);
        }
        true
    }

    /// Another agent of a node reports: what the one before it did not report is lost, up to the first watermark of
    /// the new one, which is later than all hits that the other took.
    fn restart(&mut self, node: Machine, incarnation: u64) {
        let Some(remote) = self.nodes.get_mut(&node) else {
            return;
        };
        let before = std::mem::take(remote);
        remote.incarnation = Some(incarnation);
        remote.lost_from = Some(before.lost_from.unwrap_or_else(|| before.complete()));
        for report in before.early.values() {
            self.drop_outdated(report);
        }
        for running in &mut self.rules {
            running.mark_incomplete(Time(u64::MAX), RESTARTED);
        }
    }

    /// Counts the hits of a report that is ignored because its agent was replaced.
    fn drop_outdated(&mut self, report: &Report) {
        let observed = report.observations.iter().filter_map(Observation::hits_of_rule);
        let folded = report
            .partials
            .iter()
            .map(|partial| (partial.rule, partial.content.len() as u64));
        for (rule, hits) in observed.chain(folded) {
            if let Some(running) = self.rules.get_mut(rule.0) {
                let outdated = &mut running.intake.stream.dropped.outdated;
                *outdated = outdated.saturating_add(hits);
            }
        }
    }

    fn take_next(&mut self, node: Machine, mut report: Report) {
        self.refuse_foreign(node, &mut report);
        if let Some(remote) = self.nodes.get_mut(&node) {
            remote.settled = report.settled;
            remote.observed = report.observed.map(|(first, _)| first);
            let reached = report.observed.map(|(_, last)| last);
            let from = remote.lost_from.filter(|from| reached > Some(*from));
            if let (Some(from), Some(upto)) = (from, reached) {
                remote.lost_from = None;
                self.lose(from, upto, RESTARTED);
            }
        }
        report
            .observations
            .into_iter()
            .for_each(|observation| self.observe_of(observation, true));
        for partial in report.partials {
            if let Some(running) = self.rules.get_mut(partial.rule.0) {
                running.merge(partial);
            }
        }
        report
            .parts
            .into_iter()
            .for_each(|part| self.take_part(node, part));
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
        for (running, dropped) in self.rules.iter_mut().zip(report.dropped) {
            running.intake.stream.dropped.add(dropped);
        }
    }

    /// Removes from a report, and counts, what it says of other nodes and their processes.
    fn refuse_foreign(&mut self, node: Machine, report: &mut Report) {
        let processes = &self.processes;
        let is_foreign = |process: ProcessId| {
            processes
                .get(&process)
                .is_some_and(|known| known.facts.machine != node)
        };
        let mut foreign: Vec<(Option<RuleId>, u64)> = Vec::new();
        report.observations.retain(|observation| {
            let refused = match observation.subject() {
                Subject::Machine(machine) => machine != node,
                Subject::Process(process) => is_foreign(process),
            };
            if refused {
                let of_rule = observation.hits_of_rule();
                foreign.push(of_rule.map_or((None, 1), |(rule, hits)| (Some(rule), hits)));
            }
            !refused
        });
        report.partials.retain(|partial| {
            let refused = partial.content.processes().any(is_foreign);
            if refused {
                foreign.push((Some(partial.rule), partial.content.len() as u64));
            }
            !refused
        });
        for (rule, count) in foreign {
            let is_it = |(at, _): &(usize, &mut Running)| rule.is_none_or(|rule| rule.0 == *at);
            let concerned = self.rules.iter_mut().enumerate().filter(is_it);
            concerned.for_each(|(_, running)| {
                let foreign = &mut running.intake.stream.dropped.foreign;
                *foreign = foreign.saturating_add(count);
            });
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
                reach: running.intake.stream.frontier,
                windows: running.windows.iter().map(window).collect(),
                timed: running.parts.windows.iter().map(AwaitedWindow::entry).collect(),
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

    /// Hits of a node between two times are lost.
    fn lose(&mut self, from: Time, upto: Time, reason: &str) {
        for running in &mut self.rules {
            running.intake.stream.lose(from, upto);
            running.intake.joiners.iter_mut().for_each(Joiner::clear);
            running.mark_incomplete(upto, reason);
        }
    }
}

impl Running {
    /// An instance that was not evaluated yet.
    fn instance(&mut self, window: usize, number: u64) -> Option<&mut Instance> {
        let mut of_window = self.parts.instances.iter_mut().filter(|due| due.index == window);
        let closed = of_window.find_map(|awaiting| awaiting.due.closed(number));
        if closed.is_some() {
            return closed;
        }
        self.windows.get_mut(window)?.track()?.open(number)
    }

    fn merge(&mut self, partial: Partial) {
        let folds = self.rule.folds.get(partial.window);
        let fits = folds.is_some_and(|folds| partial.content.fits(folds));
        match self.instance(partial.window, partial.index) {
            Some(instance) if fits => instance.partials.push(partial.content),
            Some(instance) => {
                instance.mark_incomplete("what a node reported is of another rule");
                let unplaced = &mut self.intake.stream.dropped.unplaced;
                *unplaced = unplaced.saturating_add(partial.content.len() as u64);
            }
            // The wait for it has ended.
            None => {
                let late = &mut self.intake.stream.dropped.late;
                *late = late.saturating_add(partial.content.len() as u64);
            }
        }
    }
}
