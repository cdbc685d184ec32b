//! Finds the instance of an aggregate of hits: by the common key of the hits, or by the times of the first
//! and the last of them. Either all of them belong to one instance, or none; if that is unknown, the instance
//! is partial. [`super::planned_sums`] decides which probes are aggregated.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::advance::Fill;
use super::instance_table::{InstanceTable, KeyMatch};
use super::keyed_intake::{ByKey, Instances};
use super::output::Dropped;
use super::planned_sums::folds_in;
use super::running::Running;
use crate::eval::partial::Room;
use crate::partial_sum::{Group, PartialSum, SummedValue};
use crate::rule::CheckedRule;
use crate::term::Field;
use crate::value::{Key, ProcessId, Scalar, Time};

/// Groups of hits that may wait for their instance, in a job of few processes.
const WAITING: usize = 65_536;

/// Why an instance is partial if it contains only a part of the aggregated hits.
const ACROSS: &str = "hits were aggregated across one of its boundaries";

/// Aggregates that have not found their instance.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingSums {
    of_probe: Vec<Option<SumPlacement>>,
    /// By process, window, probe and group.
    waiting: BTreeMap<(ProcessId, usize, usize, Group), PartialSum>,
}

/// A probe whose hits are aggregated.
#[derive(Clone, Debug)]
struct SumPlacement {
    /// The windows that fold its hits.
    windows: Vec<usize>,
    /// The fields of a hit, each with the index of its sums.
    parts: Vec<(Field, usize)>,
    values: usize,
}

/// The destination of aggregated hits.
enum SumsPlace {
    To(u64),
    /// Only some of the hits belong to these instances.
    Across(Vec<u64>),
    Late,
    Outside,
    Waits,
}

impl PendingSums {
    pub(super) fn of(rule: &CheckedRule) -> PendingSums {
        let summed = |probe: usize| {
            let partial_sum = rule.plan.probes.get(probe)?.partial_sum.as_ref()?;
            let index = |value: SummedValue| partial_sum.values.iter().position(|known| *known == value);
            let captures = rule.probes.get(probe).map_or(0, |probe| probe.captures.len());
            let captures = (0..captures).filter_map(|capture| {
                let read = rule.integer_read(probe, capture)?;
                Some((Field::Capture(capture), index(SummedValue::Read(read))?))
            });
            let duration = index(SummedValue::Duration).map(|index| (Field::Duration, index));
            Some(SumPlacement {
                windows: folds_in(rule, probe).collect(),
                parts: captures.chain(duration).collect(),
                values: partial_sum.values.len(),
            })
        };
        PendingSums {
            of_probe: (0..rule.probes.len()).map(summed).collect(),
            waiting: BTreeMap::new(),
        }
    }

    fn summed(&self, probe: usize) -> Option<&SumPlacement> {
        self.of_probe.get(probe)?.as_ref()
    }

    /// Takes an aggregate; false if there is no room for it. An aggregate that the plan does not request is
    /// ignored.
    pub(super) fn push(
        &mut self,
        probe: usize,
        process: ProcessId,
        partial_sum: &PartialSum,
        room: Room,
    ) -> bool {
        let Some(summed) = self.of_probe.get(probe).and_then(Option::as_ref) else {
            return true;
        };
        if partial_sum.sums.len() != summed.values {
            return true;
        }
        for window in &summed.windows {
            let of = (process, *window, probe, partial_sum.group);
            let has_room = self.waiting.len() < room.bound(WAITING);
            match self.waiting.entry(of) {
                Entry::Occupied(known) => known.into_mut().add(partial_sum),
                Entry::Vacant(index) if has_room => {
                    index.insert(partial_sum.clone());
                }
                Entry::Vacant(_) => return false,
            }
        }
        true
    }

    /// Time of the last waiting hit.
    pub(super) fn last(&self) -> Option<Time> {
        self.waiting.values().map(|partial_sum| partial_sum.last).max()
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        let of = self.waiting.range((process, 0, 0, Group::Key(i64::MIN))..);
        let of = of.map(|(of, _)| *of).take_while(|(of, _, _, _)| *of == process);
        for of in of.collect::<Vec<_>>() {
            self.waiting.remove(&of);
        }
    }

    /// Places the aggregates that belong to an instance, or to none, given everything up to `reach`.
    pub(super) fn settle(
        &mut self,
        reach: Time,
        by_key: &ByKey,
        tables: &mut [InstanceTable],
        dropped: &mut Dropped,
        fill: &mut Fill<'_>,
    ) {
        for (of, partial_sum) in std::mem::take(&mut self.waiting) {
            let (process, window, probe, group) = of;
            let fate = match (group, tables.get_mut(window)) {
                (Group::Key(key), Some(table)) if by_key.has(probe) => keyed(table, key, &partial_sum, reach),
                (Group::Epoch(_), _) if !by_key.has(probe) => {
                    timed(&fill.spans(window, process), &partial_sum, reach)
                }
                _ => SumsPlace::Outside,
            };
            match fate {
                SumsPlace::Waits => {
                    self.waiting.insert(of, partial_sum);
                }
                SumsPlace::To(number) => {
                    let parts = self.summed(probe).map_or(&[][..], |summed| &summed.parts);
                    let there = fill.fill(window, number, |content| {
                        content.take_partial_sum(process, probe, &partial_sum, parts);
                    });
                    let lost = if there { 0 } else { partial_sum.count };
                    dropped.late = dropped.late.saturating_add(lost);
                }
                SumsPlace::Across(numbers) => {
                    dropped.late = dropped.late.saturating_add(partial_sum.count);
                    for number in numbers {
                        fill.mark_incomplete(window, number, ACROSS);
                    }
                }
                SumsPlace::Late => dropped.late = dropped.late.saturating_add(partial_sum.count),
                SumsPlace::Outside => {
                    dropped.outside = dropped.outside.saturating_add(partial_sum.count);
                }
            }
        }
    }
}

/// Placement by the common key of the hits.
fn keyed(table: &mut InstanceTable, key: i64, partial_sum: &PartialSum, reach: Time) -> SumsPlace {
    let key = Key::of(&Scalar::Number(key as f64));
    let ends = (
        table.find(&key, partial_sum.first),
        table.find(&key, partial_sum.last),
    );
    match ends {
        // The instance may end before the last hit, which is known once everything up to that hit is known.
        (KeyMatch::Instance(_), KeyMatch::Instance(_)) if partial_sum.last > reach => SumsPlace::Waits,
        (KeyMatch::Instance(number), KeyMatch::Instance(_)) => SumsPlace::To(number),
        (KeyMatch::Instance(number), KeyMatch::Late) | (KeyMatch::Outside, KeyMatch::Instance(number)) => {
            SumsPlace::Across(vec![number])
        }
        (KeyMatch::Outside, KeyMatch::Late) => SumsPlace::Across(table.of_key(&key).into_iter().collect()),
        (KeyMatch::Late, _) => SumsPlace::Late,
        (KeyMatch::Outside, KeyMatch::Outside) => SumsPlace::Outside,
        _ => SumsPlace::Waits,
    }
}

/// Placement by times, in the process of the hits: `spans` has the number, begin and end of each instance
/// there, the newest first.
fn timed(spans: &[(u64, Time, Option<Time>)], partial_sum: &PartialSum, reach: Time) -> SumsPlace {
    let apart = |start: Time, end: Option<Time>| {
        partial_sum.last < start || end.is_some_and(|end| end < partial_sum.first)
    };
    let meets = |(_, start, end): &&(u64, Time, Option<Time>)| !apart(*start, *end);
    let met: Vec<&(u64, Time, Option<Time>)> = spans.iter().filter(meets).collect();
    let is_within = |start: Time, end: Option<Time>| {
        start <= partial_sum.first && end.is_none_or(|end| partial_sum.last <= end)
    };
    match met.as_slice() {
        // A boundary may follow.
        [] if partial_sum.last > reach => SumsPlace::Waits,
        [(_, start, None)] if *start <= partial_sum.first && partial_sum.last > reach => SumsPlace::Waits,
        [] => SumsPlace::Outside,
        [(number, start, end), ..] if is_within(*start, *end) => SumsPlace::To(*number),
        across => SumsPlace::Across(across.iter().map(|(number, _, _)| *number).collect()),
    }
}

impl Running {
    /// Takes an aggregate of hits of a process.
    pub(super) fn take_partial_sum(
        &mut self,
        probe: usize,
        process: ProcessId,
        partial_sum: &PartialSum,
        room: Room,
    ) {
        if partial_sum.last < self.since || partial_sum.count == 0 {
            return;
        }
        if partial_sum.first < self.since {
            // It is unknown which of them came before the rule was added.
            return self.intake.stream.lose(self.since, partial_sum.last);
        }
        if !self.intake.partial_sums.push(probe, process, partial_sum, room) {
            self.intake.stream.overflow(partial_sum.last);
        }
    }
}
