//! Reports on their way from the nodes to the coordinator: each hop of a tree merges what it gets, and sends it
//! again until the coordinator has acknowledged it.
//!
//! Only tests merge reports of several nodes today: nodes report to the coordinator directly, there are no relays.

use std::collections::BTreeMap;

use super::node::{Report, Schedule};
use super::remote::Remote;
use crate::aggregate::Merge;
use crate::value::Machine;

/// The reports of several nodes that the coordinator has not acknowledged, as far as a hop knows.
///
/// Merging is associative, commutative and idempotent: a report is identified by its node, incarnation and
/// sequence. So it does not matter on which ways, in which order and how often a report arrives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reports {
    of: BTreeMap<(Machine, u64, u64), Report>,
}

/// What the coordinator has of a node: all reports before one, and all of older incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Acknowledged {
    pub(super) node: Machine,
    pub(super) incarnation: u64,
    /// The sequence of the report that it needs next.
    pub(super) next: u64,
}

impl Reports {
    pub fn add(&mut self, report: Report) {
        let of = (report.node, report.incarnation, report.sequence);
        self.of.insert(of, report);
    }

    /// Removes the reports that the coordinator has.
    pub fn acknowledge(&mut self, schedule: &Schedule) {
        for acknowledged in &schedule.acknowledged {
            let Acknowledged {
                node,
                incarnation,
                next,
            } = *acknowledged;
            let is_there = |of: &(Machine, u64, u64)| of.0 == node && (of.1, of.2) < (incarnation, next);
            self.of.retain(|of, _| !is_there(of));
        }
    }

    /// The reports by node, incarnation and sequence.
    pub fn iter(&self) -> impl Iterator<Item = &Report> {
        self.of.values()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

impl IntoIterator for Reports {
    type Item = Report;
    type IntoIter = std::collections::btree_map::IntoValues<(Machine, u64, u64), Report>;

    fn into_iter(self) -> Self::IntoIter {
        self.of.into_values()
    }
}

impl Merge for Reports {
    fn merge(&mut self, other: &Reports) {
        for report in other.of.values() {
            self.add(report.clone());
        }
    }
}

impl Acknowledged {
    /// `None` before the first report of the node.
    pub(super) fn of(node: Machine, remote: &Remote) -> Option<Acknowledged> {
        Some(Acknowledged {
            node,
            incarnation: remote.incarnation?,
            next: remote.next,
        })
    }
}
