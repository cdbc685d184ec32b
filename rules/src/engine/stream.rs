//! Puts the hits of a rule into one order, independent of the order of delivery.
//!
//! A hit waits until the watermark of every process concerned has passed it; then hits are released by time.
//! Everything downstream sees them in that order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::output::Dropped;
use crate::eval::partial::Room;
use crate::hit::Hit;
use crate::value::{ProcessId, Time};

/// Hits that may wait in a job of few processes; further ones are dropped, and the windows to which they would
/// belong are partial.
pub(super) const PENDING: usize = 262_144;

/// A hit of a probe, by the probe's index in the rule.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) probe: usize,
    pub(super) hit: Hit,
}

impl Arrived {
    fn order(&self, other: &Arrived) -> Ordering {
        let first = |arrived: &Arrived| (arrived.hit.time, arrived.hit.process, arrived.probe);
        first(self)
            .cmp(&first(other))
            .then_with(|| self.hit.order(&other.hit))
    }
}

/// Sorts hits and removes duplicates; returns how many of them are up to `reach`, and how many duplicates
/// there were.
pub(super) fn in_order(pending: &mut Vec<Arrived>, reach: Time) -> (usize, u64) {
    let before = pending.len();
    // Observations of one process are mostly in order, and a stable sort exploits sorted runs.
    if !pending.is_sorted_by(|one, two| one.order(two).is_lt()) {
        pending.sort_by(Arrived::order);
        pending.dedup_by(|one, two| one.order(two).is_eq());
    }
    let doubled = (before - pending.len()) as u64;
    let upto = pending.partition_point(|arrived| arrived.hit.time <= reach);
    (upto, doubled)
}

/// Hits that wait for their release.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pending: Vec<Arrived>,
    watermarks: BTreeMap<ProcessId, Time>,
    /// The greatest watermark, a fast check for most hits.
    furthest: Option<Time>,
    /// Everything up to this time was released.
    pub(super) frontier: Option<Time>,
    /// Hits between these times were lost.
    lost: Option<(Time, Time)>,
    pub(super) dropped: Dropped,
}

impl Stream {
    /// Whether a hit of a process is too late to be placed. A node checks the watermarks of its processes.
    pub(super) fn is_late(&self, process: ProcessId, time: Time) -> bool {
        let time = Some(time);
        self.frontier >= time || (self.furthest >= time && self.observed_of(process) >= time)
    }

    /// Takes a hit that is not late.
    pub(super) fn push(&mut self, arrived: Arrived, room: Room) {
        if self.pending.len() >= room.bound(PENDING) {
            self.overflow(arrived.hit.time);
        } else {
            self.pending.push(arrived);
        }
    }

    /// A hit of this time was dropped for lack of room.
    pub(super) fn overflow(&mut self, time: Time) {
        self.dropped.overflow += 1;
        self.lose(time, time);
    }

    /// Hits between two times are lost.
    pub(super) fn lose(&mut self, from: Time, to: Time) {
        self.lost = Some(match self.lost {
            Some((first, last)) => (first.min(from), last.max(to)),
            None => (from, to),
        });
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    pub(super) fn lost_between(&self, start: Time, end: Time) -> bool {
        self.lost
            .is_some_and(|(first, last)| first <= end && start <= last)
    }

    pub(super) fn watermark(&mut self, process: ProcessId, time: Time) {
        let known = self.watermarks.entry(process).or_insert(time);
        *known = (*known).max(time);
        self.furthest = self.furthest.max(Some(time));
    }

    pub(super) fn observed_of(&self, process: ProcessId) -> Option<Time> {
        self.watermarks.get(&process).copied()
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        self.watermarks.remove(&process);
    }

    /// The time up to which hits can be released, given the processes that may still send some and when they
    /// joined, and the time up to which nodes have observed theirs. Hits up to `latest` wait for no process; `last` is the last hit that waits elsewhere.
    pub(super) fn reach(
        &self,
        concerned: &BTreeMap<ProcessId, Time>,
        of_nodes: Option<Time>,
        latest: Option<Time>,
        last: Option<Time>,
    ) -> Option<Time> {
        let observed = |(process, joined): (&ProcessId, &Time)| self.observed_of(*process).unwrap_or(*joined);
        let slowest = concerned.iter().map(observed).chain(of_nodes).min();
        // No process is left that could send more, so all hits have arrived.
        let reach = slowest.or_else(|| last.max(self.pending.iter().map(|arrived| arrived.hit.time).max()));
        reach.max(latest).max(self.frontier)
    }

    /// The hits up to `reach`, in order.
    pub(super) fn release(&mut self, reach: Time) -> Vec<Arrived> {
        self.frontier = Some(reach);
        let (upto, doubled) = in_order(&mut self.pending, reach);
        self.dropped.duplicate += doubled;
        let mut rest = self.pending.split_off(upto);
        // About as many are expected before the next release.
        rest.reserve(upto);
        std::mem::replace(&mut self.pending, rest)
    }

    /// Forgets losses before `floor`.
    pub(super) fn forget_before(&mut self, floor: Time) {
        self.lost = self.lost.filter(|(_, last)| *last >= floor);
    }
}
