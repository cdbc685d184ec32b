//! Intake of hits that carry the key of their instance. Their order between processes does not matter; once a
//! hit's instance is known, no order matters.
//!
//! Each hit waits until the ordered hits have advanced to its time. Then the instances that had begun or
//! ended by that time are known, and the hit goes directly into its own instance. [`super::node`] does the same
//! with the schedule of a coordinator.

use std::collections::BTreeMap;

use super::instance_table::{InstanceTable, KeyMatch};
use super::output::Dropped;
use super::stream::{Arrived, PENDING, in_order};
use crate::eval::partial::Room;
use crate::hit::Hit;
use crate::rule::{CheckedRule, Trigger};
use crate::term::{FoldRange, Term, Typed};
use crate::value::{Key, ProcessId, Time};
use crate::window::{Boundaries, Straddle};

/// Hits that may wait for their instance to begin, in a job of few processes.
const WAITING: usize = 65_536;

/// For each probe of a rule whose hits are placed by key alone: the windows to which they belong, each with
/// the index of the key capture.
#[derive(Clone, Debug, Default)]
pub(super) struct ByKey(Vec<Option<Vec<(usize, usize)>>>);

/// The destination of hits that have found their instance.
pub(super) trait Instances {
    fn take(&mut self, window: usize, index: u64, probe: usize, hit: &Hit);
    /// The instance cannot be complete.
    fn mark_incomplete(&mut self, window: usize, index: u64, reason: &str);
}

/// The hits of one rule.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyedIntake {
    inboxes: BTreeMap<ProcessId, Vec<Arrived>>,
    count: usize,
    room: Room,
    /// Hits whose instance has not begun, with its window and key.
    waiting: Vec<(usize, Key, Arrived)>,
}

impl ByKey {
    pub(super) fn of(rule: &CheckedRule) -> ByKey {
        ByKey((0..rule.probes.len()).map(|probe| windows(rule, probe)).collect())
    }

    pub(super) fn has(&self, probe: usize) -> bool {
        self.windows(probe).is_some()
    }

    /// The windows to which a probe's hits belong by a key, each with the index of the key capture.
    pub(super) fn windows(&self, probe: usize) -> Option<&[(usize, usize)]> {
        self.0.get(probe)?.as_deref()
    }
}

/// The windows of a probe whose hits need no order.
fn windows(rule: &CheckedRule, probe: usize) -> Option<Vec<(usize, usize)>> {
    if rule.is_paired(probe) {
        return None;
    }
    let mut out = Vec::new();
    for (index, (window, folds)) in rule.windows.iter().zip(&rule.folds).enumerate() {
        let Some(boundaries) = window.boundaries() else {
            continue;
        };
        if boundaries.are_at(probe) || is_looked_at(rule, index, boundaries, probe) {
            return None;
        }
        if !folds.uses(probe) {
            continue;
        }
        let alone = boundaries.straddle == Straddle::End
            && boundaries.within.is_none()
            && boundaries.begins_at().is_some();
        let capture = boundaries.keys.get(probe).copied().flatten();
        match capture.filter(|_| alone && !folds.keeps(probe)) {
            Some(capture) => out.push((index, capture)),
            None => return None,
        }
    }
    Some(out).filter(|out| !out.is_empty())
}

/// Whether hits of a probe are needed before a window closes: by its conditions, a tune, or the formulas of
/// an inner window.
pub(super) fn is_looked_at(rule: &CheckedRule, index: usize, boundaries: &Boundaries, probe: usize) -> bool {
    let conditions = boundaries.complete.iter().map(|(_, condition)| condition);
    let conditions: Vec<&Typed> = conditions.chain(&boundaries.until).collect();
    let behind = rule.metrics_behind(&conditions).into_iter();
    let behind = behind
        .filter_map(|metric| rule.metrics.get(metric))
        .map(|metric| &metric.value);
    let in_conditions = conditions.iter().copied().chain(behind).any(|of| of.folds(probe));
    let looked_at = rule
        .tunes
        .iter()
        .any(|tune| matches!(tune.trigger, Trigger::Hit { window, .. } if window == index));
    in_conditions || looked_at || reached_into(rule, index, probe)
}

/// Whether a formula of an inner window reads the instance before it closes.
fn reached_into(rule: &CheckedRule, window: usize, probe: usize) -> bool {
    let runs = rule
        .runs
        .iter()
        .flat_map(|run| std::iter::once(&run.of).chain(&run.by));
    let formulas = (0..rule.windows.len()).flat_map(|index| rule.formulas_of(index));
    let mut found = false;
    for formula in formulas.chain(runs) {
        formula.visit(&mut |term| {
            if let Term::Fold(fold) = term {
                found |= fold.probe == probe && fold.range == FoldRange::Enclosing(window);
            }
        });
    }
    found
}

impl KeyedIntake {
    /// Takes a hit that is not late; false if there is no room for it.
    pub(super) fn push(&mut self, arrived: Arrived, room: Room) -> bool {
        self.room = room;
        let has_room = self.count < room.bound(PENDING);
        if has_room {
            self.count += 1;
            self.inboxes.entry(arrived.hit.process).or_default().push(arrived);
        }
        has_room
    }

    /// The time of the last waiting hit.
    pub(super) fn last(&self) -> Option<Time> {
        let hits = self.inboxes.values().flatten();
        hits.map(|arrived| arrived.hit.time).max()
    }

    /// Places the hits up to `reach`, the time up to which `tables`, one for each window, are complete.
    pub(super) fn settle(
        &mut self,
        reach: Time,
        by_key: &ByKey,
        tables: &mut [InstanceTable],
        dropped: &mut Dropped,
        instances: &mut impl Instances,
    ) {
        for (window, key, arrived) in std::mem::take(&mut self.waiting) {
            self.put(window, key, &arrived, tables, dropped, instances);
        }
        let mut inboxes = std::mem::take(&mut self.inboxes);
        // An inbox without new hits is freed; the others keep their capacity.
        inboxes.retain(|_, inbox| !inbox.is_empty());
        for inbox in inboxes.values_mut() {
            let (upto, doubled) = in_order(inbox, reach);
            self.count = self.count.saturating_sub(upto + doubled as usize);
            dropped.duplicate += doubled;
            for arrived in inbox.drain(..upto) {
                let windows = by_key.0.get(arrived.probe).and_then(Option::as_ref);
                for (window, capture) in windows.into_iter().flatten() {
                    match arrived.hit.captures.get(*capture) {
                        Some(Ok(value)) => {
                            self.put(*window, Key::of(value), &arrived, tables, dropped, instances);
                        }
                        _ => unkeyed(*window, &arrived, tables, dropped, instances),
                    }
                }
            }
        }
        self.inboxes = inboxes;
    }

    fn put(
        &mut self,
        window: usize,
        key: Key,
        arrived: &Arrived,
        tables: &mut [InstanceTable],
        dropped: &mut Dropped,
        instances: &mut impl Instances,
    ) {
        let Some(table) = tables.get_mut(window) else {
            return;
        };
        match table.find(&key, arrived.hit.time) {
            KeyMatch::Instance(index) => instances.take(window, index, arrived.probe, &arrived.hit),
            KeyMatch::Late => dropped.late += 1,
            KeyMatch::Outside => dropped.outside += 1,
            KeyMatch::Waits if self.waiting.len() < self.room.bound(WAITING) => {
                self.waiting.push((window, key, arrived.clone()));
            }
            KeyMatch::Waits => dropped.overflow += 1,
        }
    }
}

/// The hit could belong to any instance that was open at its time: none of them is known to be complete.
fn unkeyed(
    window: usize,
    arrived: &Arrived,
    tables: &[InstanceTable],
    dropped: &mut Dropped,
    instances: &mut impl Instances,
) {
    dropped.unplaced += 1;
    if let Some(table) = tables.get(window) {
        for index in table.at(arrived.hit.time) {
            instances.mark_incomplete(window, index, super::instance::WITHOUT_KEY);
        }
    }
}
