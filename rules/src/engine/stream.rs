//! The hits of a rule put into one order, whatever order they are delivered in.
//!
//! A hit waits until every process concerned has said, by its watermark, that nothing earlier will come; then hits are
//! released by time. All that follows sees them in that order, so that the order of delivery decides nothing.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::output::Dropped;
use crate::hit::Hit;
use crate::value::{ProcessId, Time};

/// Hits that may wait; what is beyond is dropped, and the windows it would belong to are partial.
const MOST_PENDING: usize = 262_144;

/// A hit of a probe, by its place in the rule.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) probe: usize,
    pub(super) hit: Hit,
}

impl Ord for Arrived {
    fn cmp(&self, other: &Arrived) -> Ordering {
        let first = |arrived: &Arrived| (arrived.hit.time, arrived.hit.process, arrived.probe);
        first(self)
            .cmp(&first(other))
            .then_with(|| self.hit.order(&other.hit))
    }
}

impl PartialOrd for Arrived {
    fn partial_cmp(&self, other: &Arrived) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrived {
    fn eq(&self, other: &Arrived) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Arrived {}

/// Hits that wait for their release.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pending: BTreeSet<Arrived>,
    watermarks: BTreeMap<ProcessId, Time>,
    /// Everything up to here was released.
    frontier: Option<Time>,
    /// Hits between these times were lost.
    lost: Option<(Time, Time)>,
    pub(super) dropped: Dropped,
}

impl Stream {
    /// Takes a hit; false if it came too late to be put into its place.
    pub(super) fn push(&mut self, arrived: Arrived) -> bool {
        let time = arrived.hit.time;
        if self.frontier.is_some_and(|frontier| time <= frontier) {
            self.dropped.late += 1;
            return false;
        }
        if self.pending.len() >= MOST_PENDING {
            self.dropped.overflow += 1;
            self.lose(time, time);
            return true;
        }
        if !self.pending.insert(arrived) {
            self.dropped.duplicate += 1;
        }
        true
    }

    /// Hits between two times will never come.
    pub(super) fn lose(&mut self, from: Time, to: Time) {
        self.lost = Some(match self.lost {
            Some((first, last)) => (first.min(from), last.max(to)),
            None => (from, to),
        });
    }

    /// Whether hits between two times were lost.
    pub(super) fn lost_between(&self, start: Time, end: Time) -> bool {
        self.lost
            .is_some_and(|(first, last)| first <= end && start <= last)
    }

    pub(super) fn watermark(&mut self, process: ProcessId, time: Time) {
        let known = self.watermarks.entry(process).or_insert(time);
        *known = (*known).max(time);
    }

    pub(super) fn heard_of(&self, process: ProcessId) -> Option<Time> {
        self.watermarks.get(&process).copied()
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        self.watermarks.remove(&process);
    }

    /// How far hits can be released, given the processes that may still send some and when they joined; with `latest`
    /// nobody is waited for longer.
    pub(super) fn reach(&self, concerned: &BTreeMap<ProcessId, Time>, latest: Option<Time>) -> Option<Time> {
        let heard = |(process, joined): (&ProcessId, &Time)| self.heard_of(*process).unwrap_or(*joined);
        let slowest = concerned.iter().map(heard).min();
        // Nobody is left who could send more: what has come is all there is.
        let reach = slowest.or_else(|| self.pending.last().map(|last| last.hit.time));
        reach.max(latest).max(self.frontier)
    }

    /// The next hit up to `reach`, in order.
    pub(super) fn next(&mut self, reach: Time) -> Option<Arrived> {
        let next = self.pending.first().filter(|next| next.hit.time <= reach);
        if next.is_none() {
            self.frontier = Some(reach);
            return None;
        }
        self.pending.pop_first()
    }

    /// Forgets losses before `floor`.
    pub(super) fn forget_before(&mut self, floor: Time) {
        self.lost = self.lost.filter(|(_, last)| *last >= floor);
    }

    pub(super) fn frontier(&self) -> Option<Time> {
        self.frontier
    }
}
