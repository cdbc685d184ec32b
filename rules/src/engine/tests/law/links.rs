//! The ways of reports from nodes to the coordinator and of schedules back, with faults.

use std::collections::BTreeSet;

use crate::engine::{Node, Report, Schedule};
use crate::value::Machine;

/// The node, incarnation and sequence of a report.
type ReportName = (Machine, u64, u64);

/// The ways of all nodes.
pub(super) struct Links {
    /// By node, the reports of which it does not know that they have arrived.
    kept: Vec<Vec<Report>>,
    /// Messages that arrive after those that are sent next.
    late: Vec<Vec<u8>>,
    arrived: BTreeSet<ReportName>,
}

fn name(report: &Report) -> ReportName {
    (report.node, report.incarnation, report.sequence)
}

impl Links {
    pub(super) fn new(nodes: usize) -> Links {
        Links {
            kept: vec![Vec::new(); nodes],
            late: Vec::new(),
            arrived: BTreeSet::new(),
        }
    }

    /// The reports that reach the coordinator when each node reports and sends what it has. Some nodes are silent,
    /// and messages are lost, sent twice or late.
    pub(super) fn round(&mut self, nodes: &mut [Node], faults: &mut impl Iterator<Item = u8>) -> Vec<Report> {
        let mut fault = || faults.next().unwrap_or(0);
        for (kept, node) in self.kept.iter_mut().zip(nodes) {
            if fault() != 1 {
                kept.push(node.report());
            }
        }
        let before = std::mem::take(&mut self.late);
        let mut arrived = Vec::new();
        for report in self.kept.iter().flatten() {
            let message = report.encode().unwrap();
            match fault() {
                1 => {}
                2 => arrived.extend([message.clone(), message]),
                3 => self.late.push(message),
                _ => arrived.push(message),
            }
        }
        arrived.extend(before);
        let read = |message: Vec<u8>| {
            let report = Report::decode(&message).unwrap();
            assert_eq!(report.encode(), Ok(message));
            report
        };
        let arrived: Vec<Report> = arrived.into_iter().map(read).collect();
        self.arrived.extend(arrived.iter().map(name));
        arrived
    }

    /// Each node gets the schedule and learns which of its reports have arrived, or does not.
    pub(super) fn learn(
        &mut self,
        schedule: &Schedule,
        nodes: &mut [Node],
        faults: &mut impl Iterator<Item = u8>,
    ) {
        let message = schedule.encode().unwrap();
        let schedule_read = Schedule::decode(&message).unwrap();
        assert_eq!(schedule_read, *schedule);
        for (kept, node) in self.kept.iter_mut().zip(nodes) {
            if faults.next() != Some(3) {
                kept.retain(|report| !self.arrived.contains(&name(report)));
                node.learn(&schedule_read);
            }
        }
    }

    /// A node loses what it has.
    pub(super) fn forget(&mut self, node: usize) {
        self.kept[node].clear();
    }

    /// Whether the nodes know that all their reports have arrived.
    pub(super) fn are_empty(&self) -> bool {
        self.kept.iter().all(Vec::is_empty)
    }
}
