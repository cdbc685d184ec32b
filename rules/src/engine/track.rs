//! The open instances of a window from probe to probe: assigns hits to instances and determines when one is
//! over.
//!
//! Hits arrive in the order of their times, see [`super::stream`]. The closed instances are evaluated
//! elsewhere.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::extent::Extent;
use super::hit_placement::{HitPlacement, Name, began, is_shared, key_of, may_end, put};
use super::instance::{Closed, Frame, HITS_LOST, Instance, InstanceEnvironment, WITHOUT_KEY};
use super::instance_table::InstanceTable;
use super::nest::Nest;
use super::output::Dropped;
use super::stream::{Arrived, Stream};
use crate::eval::Context;
use crate::eval::called::Memory;
use crate::eval::partial::Content;
use crate::folds::WindowFolds;
use crate::hit::Hit;
use crate::value::{Key, ProcessId, Time, boolean};
use crate::window::{Begin, Boundaries, Straddle};

/// Open instances at a time; beyond this number the oldest closes incomplete.
const OPEN_MAX: usize = 64;
/// Hits that may wait for their instance to begin, in a job of few processes.
const WAITING: usize = 65_536;
/// Remembered keys of closed instances, to distinguish late hits from early ones.
const CLOSED_MAX: usize = 1024;
/// Number of instances that may begin while a hit waits for its own; with more it is dropped.
const PATIENCE: u64 = 2;

/// The first open instance, which has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedInstance {
    pub(super) number: u64,
    /// The last time at which a hit could belong to it.
    pub(super) time: Time,
    missing: Option<String>,
}

/// The instances of a window.
#[derive(Clone, Debug)]
pub(super) struct Track {
    folds: Arc<WindowFolds>,
    next: u64,
    /// For the instances that began last: the number of the enclosing instance, and the next index in it.
    indices: Option<(u64, u64)>,
    open: VecDeque<Instance>,
    /// Hits whose instance has not begun, each with the number of instances that had begun when it arrived.
    waiting: VecDeque<(u64, Name, Arrived)>,
    closed_keys: VecDeque<Name>,
    /// For each process, the number of the latest instance that it began.
    latest: BTreeMap<ProcessId, u64>,
    /// When the last instance was over: instances close in the order in which they began.
    over: Time,
    /// The instances of hits that need no order.
    pub(super) table: InstanceTable,
}

impl Track {
    /// The track of a window with these folds.
    pub(super) fn new(folds: Arc<WindowFolds>) -> Track {
        Track {
            folds,
            next: 0,
            indices: None,
            open: VecDeque::new(),
            waiting: VecDeque::new(),
            closed_keys: VecDeque::new(),
            latest: BTreeMap::new(),
            over: Time::default(),
            table: InstanceTable::default(),
        }
    }

    /// When the oldest open instance began.
    pub(super) fn floor(&self) -> Option<Time> {
        self.open.iter().map(Instance::start).min()
    }

    /// Checks all instances again, after processes came or left or hits were lost.
    pub(super) fn look_again(&mut self, stream: &Stream) {
        for instance in &mut self.open {
            instance.lacked = None;
            let end = || instance.end().unwrap_or(Time(u64::MAX));
            if stream.has_lost() && stream.lost_between(instance.start(), end()) {
                instance.mark_incomplete(HITS_LOST);
            }
        }
    }

    /// The open instances, in the order in which they began.
    pub(super) fn instances(&self) -> impl DoubleEndedIterator<Item = &Instance> {
        self.open.iter()
    }

    /// An open instance, by number.
    pub(super) fn open(&mut self, number: u64) -> Option<&mut Instance> {
        let index = number.checked_sub(self.open.front()?.frame.number)? as usize;
        // Numbers are consecutive, and most instances are usually still open.
        let there = |instance: &Instance| instance.frame.number == number;
        if self.open.get(index).is_some_and(there) {
            return self.open.get_mut(index);
        }
        self.open.iter_mut().find(|instance| there(instance))
    }

    /// A hit of this time arrived too late: the instances to which it could belong are incomplete.
    pub(super) fn mark_incomplete(&mut self, time: Time, reason: &str) {
        for instance in self.open.iter_mut().filter(|instance| instance.start() <= time) {
            instance.mark_incomplete(reason);
        }
    }

    pub(super) fn numbered(&self, number: u64) -> Option<&Instance> {
        self.open.iter().find(|instance| instance.frame.number == number)
    }

    /// The open instance to which a hit belongs: by its key, if it has one, otherwise by its time.
    pub(super) fn holding(
        &self,
        arrived: &Arrived,
        boundaries: &Boundaries,
        around: &InstanceEnvironment<'_>,
    ) -> Option<&Instance> {
        if let Some(key) = key_of(arrived, boundaries)? {
            return self
                .open
                .iter()
                .find(|instance| instance.key.as_ref() == Some(&key));
        }
        let Hit { time, process, .. } = arrived.hit;
        let shared = || is_shared(boundaries, around);
        let within = |instance: &&Instance| {
            let boundary = instance.boundaries_for(process, shared);
            // The hit that ends an instance belongs to it.
            boundary.is_some_and(|(start, end)| start <= time && end.is_none_or(|end| time <= end))
        };
        self.open.iter().rev().find(within)
    }

    /// Handles the next hit in order; returns the instances that had to close because of the limit.
    pub(super) fn take(&mut self, arrived: &Arrived, nest: &Nest<'_>, dropped: &mut Dropped) -> Vec<Closed> {
        let Some(boundaries) = nest.boundaries() else {
            return Vec::new();
        };
        let time = arrived.hit.time;
        let (begins, ends) = (
            boundaries.begins_at() == Some(arrived.probe),
            boundaries.to == Some(arrived.probe),
        );
        let is_boundary = begins || ends;
        if !is_boundary && !self.folds.uses(arrived.probe) && !may_end(boundaries, arrived.probe) {
            return Vec::new();
        }
        let Some(key) = key_of(arrived, boundaries) else {
            // It could belong to any instance, so none is known to be complete.
            dropped.unplaced += 1;
            self.mark_incomplete(time, WITHOUT_KEY);
            return Vec::new();
        };
        let enclosing = nest.enclosing(arrived);
        if nest.is_nested() && enclosing.is_none() {
            dropped.outside += 1;
            return Vec::new();
        }
        let placement = HitPlacement {
            arrived,
            key,
            boundaries,
            enclosing,
            nest,
        };
        self.begin_with_enclosing(&placement, dropped);
        if ends {
            self.end(&placement, dropped);
        } else if begins {
            self.begin(&placement, dropped);
        } else {
            self.belong(&placement, dropped);
        }
        self.make_room(time)
    }

    fn make_room(&mut self, time: Time) -> Vec<Closed> {
        let mut out = Vec::new();
        while self.open.len() > OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            let missing = format!("{OPEN_MAX} later ones had begun before it was complete");
            out.push(self.closed(oldest, Some(missing), time));
        }
        out
    }

    fn by_name(&mut self, (enclosing, key): &Name) -> Option<&mut Instance> {
        self.open
            .iter_mut()
            .find(|instance| instance.enclosing() == *enclosing && instance.key.as_ref() == Some(key))
    }

    /// The unfinished instance of a process.
    fn going_on(&mut self, process: ProcessId) -> Option<&mut Instance> {
        let goes_on = |instance: &&mut Instance| matches!(instance.extent.of(process), Some((_, None)));
        self.open.iter_mut().rev().find(goes_on)
    }

    /// Begins an instance that begins with the enclosing one, at the first hit in that.
    fn begin_with_enclosing(&mut self, placement: &HitPlacement<'_>, dropped: &mut Dropped) {
        let begins = |begin: &Begin| matches!(begin, Begin::Enclosing(_));
        let Some(enclosing) = placement
            .enclosing
            .filter(|_| placement.boundaries.from.iter().any(begins))
        else {
            return;
        };
        let number = enclosing.frame.number;
        if self.indices.is_some_and(|(known, _)| known >= number) {
            return;
        }
        if let Some((process, (start, _))) = enclosing.extent.first() {
            self.open_instance(placement, (process, start), None, None, dropped);
        }
    }

    /// Opens an instance, with the hits that waited for it.
    fn open_instance(
        &mut self,
        placement: &HitPlacement<'_>,
        (process, start): (ProcessId, Time),
        key: Option<Key>,
        begin: Option<&Arrived>,
        dropped: &mut Dropped,
    ) {
        let outer = placement
            .enclosing
            .map_or_else(Vec::new, |enclosing| placement.nest.frames(enclosing));
        let index = match (outer.first(), self.indices) {
            (None, _) => self.next,
            (Some(frame), Some((number, next))) if number == frame.number => next,
            (Some(_), _) => 0,
        };
        self.indices = outer
            .first()
            .map(|frame| (frame.number, index + 1))
            .or(self.indices);
        let mut instance = Instance {
            frame: Frame {
                window: placement.nest.window,
                number: self.next,
                index,
            },
            outer,
            around: Vec::new(),
            extent: Extent::new(process, start),
            content: Arc::new(Content::new(
                Arc::clone(&self.folds),
                placement.nest.around.room(),
            )),
            partials: Vec::new(),
            incomplete: None,
            last: start,
            lacked: None,
            key,
        };
        self.table
            .begun(instance.frame.number, instance.key.clone(), start);
        if let Some(begin) = begin {
            instance.take(begin);
        }
        if instance.key.is_none() && !placement.is_shared() {
            instance
                .mark_incomplete("several processes hit its boundaries, and it has no key to join them by");
        }
        self.next += 1;
        self.admit(&mut instance, placement.boundaries, dropped);
        self.open.push_back(instance);
    }

    fn begin(&mut self, placement: &HitPlacement<'_>, dropped: &mut Dropped) {
        let Hit { time, process, .. } = placement.arrived.hit;
        // With a condition for its end, the preceding instance continues until it holds.
        if placement.boundaries.until.is_none() {
            let has_end = placement.boundaries.to.is_some();
            if let Some(before) = self.going_on(process) {
                if has_end {
                    before.mark_incomplete("the next began before its end");
                }
                before.lacked = None;
                before.last = before.last.max(time);
                before.extent.end_in(process, time);
            }
            self.look_out(placement);
        }
        if let Some(key) = &placement.key {
            let name = placement.name(key);
            if self.closed_keys.contains(&name) {
                dropped.late += 1;
                return;
            }
            if let Some(known) = self.by_name(&name) {
                if known.extent.of(process).is_some() {
                    dropped.unplaced += 1;
                    known.mark_incomplete("it began twice in one process");
                    return;
                }
                known.extent.begin(process, time);
                known.take(placement.arrived);
                let number = known.frame.number;
                return self.has_begun(number, placement);
            }
        }
        let number = self.next;
        let begin = Some(placement.arrived);
        self.open_instance(placement, (process, time), placement.key.clone(), begin, dropped);
        self.has_begun(number, placement);
    }

    /// A process has begun an instance. Earlier ones that it has not begun cannot be complete: its probes were
    /// attached later, or calls of its loop were missed. Other keys may come in any order.
    fn has_begun(&mut self, number: u64, placement: &HitPlacement<'_>) {
        let Hit { process, time, .. } = placement.arrived.hit;
        let (around, boundaries) = (placement.nest.around, placement.boundaries);
        let before = self.latest.get(&process).copied();
        self.latest.insert(process, before.unwrap_or(number).max(number));
        let is_in_order = before.is_none() || around.rule.is_bounded_by_loop(boundaries);
        let must_have_begun = is_in_order && !around.iterates_alone(process, boundaries);
        for earlier in self.open.iter_mut().filter(|open| open.frame.number < number) {
            // It waits for this process until now.
            if before.is_none_or(|before| before <= earlier.frame.number) {
                earlier.last = earlier.last.max(time);
            }
            let is_begun = earlier.extent.of(process).is_some();
            if must_have_begun && !is_begun && around.was_there(process, earlier.start()) {
                earlier.mark_incomplete("a process was not watched from its begin");
            }
        }
    }

    /// Gives a new instance the hits that waited for it, and drops those that have waited too long.
    fn admit(&mut self, instance: &mut Instance, boundaries: &Boundaries, dropped: &mut Dropped) {
        let next = self.next;
        let name = instance.key.clone().map(|key| (instance.enclosing(), key));
        for (since, waits_for, arrived) in std::mem::take(&mut self.waiting) {
            if name.as_ref() == Some(&waits_for) {
                put(instance, &arrived, boundaries, dropped);
            } else if since + PATIENCE < next {
                dropped.outside += 1;
            } else {
                self.waiting.push_back((since, waits_for, arrived));
            }
        }
    }

    fn end(&mut self, placement: &HitPlacement<'_>, dropped: &mut Dropped) {
        let (process, time) = (placement.arrived.hit.process, placement.arrived.hit.time);
        let instance = match &placement.key {
            Some(key) => self.by_name(&placement.name(key)),
            None => self.going_on(process),
        };
        let Some(instance) = instance else {
            dropped.outside += 1;
            return;
        };
        instance.lacked = None;
        if instance.extent.end_in(process, time) {
            put(instance, placement.arrived, placement.boundaries, dropped);
        } else {
            dropped.outside += 1;
        }
        let number = instance.frame.number;
        self.look_out(placement);
        self.follow(placement, number, dropped);
    }

    fn belong(&mut self, placement: &HitPlacement<'_>, dropped: &mut Dropped) {
        let arrived = placement.arrived;
        if let Some(key) = &placement.key {
            let name = placement.name(key);
            if let Some(instance) = self.by_name(&name) {
                put(instance, arrived, placement.boundaries, dropped);
                let number = instance.frame.number;
                return self.end_by_condition(placement, number, dropped);
            }
            if self.closed_keys.contains(&name) {
                dropped.late += 1;
            } else if self.waiting.len() < placement.nest.around.room().bound(WAITING) {
                self.waiting.push_back((self.next, name, arrived.clone()));
            } else {
                dropped.overflow += 1;
            }
            return;
        }
        match placement.boundaries.straddle {
            Straddle::Split if arrived.hit.duration_ns > 0 => self.split(placement, dropped),
            Straddle::Begin => self.by_time(placement, began(&arrived.hit), dropped),
            Straddle::End | Straddle::Drop | Straddle::Split => {
                self.by_time(placement, arrived.hit.time, dropped);
            }
        }
    }

    fn by_time(&mut self, placement: &HitPlacement<'_>, time: Time, dropped: &mut Dropped) {
        let (process, shared) = (placement.arrived.hit.process, || placement.is_shared());
        let enclosing = placement.enclosing.map(|instance| instance.frame.number);
        let within = |instance: &&mut Instance| {
            let boundary = instance.boundaries_for(process, shared);
            // A hit at the instant of its end still belongs to it, unless another instance begins there: the
            // newest is checked first.
            let in_time =
                boundary.is_some_and(|(start, end)| start <= time && end.is_none_or(|end| time <= end));
            in_time && instance.enclosing() == enclosing
        };
        let Some(instance) = self.open.iter_mut().rev().find(within) else {
            dropped.outside += 1;
            return;
        };
        put(instance, placement.arrived, placement.boundaries, dropped);
        let number = instance.frame.number;
        self.end_by_condition(placement, number, dropped);
    }

    /// Distributes a span over the instances in which it lies.
    fn split(&mut self, placement: &HitPlacement<'_>, dropped: &mut Dropped) {
        let Hit { time, process, .. } = placement.arrived.hit;
        let (from, shared) = (began(&placement.arrived.hit), || placement.is_shared());
        let mut covered = 0;
        for instance in &mut self.open {
            let Some((start, end)) = instance.boundaries_for(process, shared) else {
                continue;
            };
            let (first, last) = (start.max(from), end.unwrap_or(time).min(time));
            if first >= last {
                continue;
            }
            let mut part = placement.arrived.clone();
            part.hit.time = last;
            part.hit.duration_ns = last.since(first);
            covered += part.hit.duration_ns;
            instance.take(&part);
        }
        if covered < placement.arrived.hit.duration_ns {
            dropped.outside += 1;
        }
    }

    /// Ends an instance if its condition holds with the hits so far.
    fn end_by_condition(&mut self, placement: &HitPlacement<'_>, number: u64, dropped: &mut Dropped) {
        let Some(condition) = &placement.boundaries.until else {
            return;
        };
        let found = self.open(number);
        let Some(instance) = found.filter(|instance| instance.end().is_none()) else {
            return;
        };
        let nest = placement.nest;
        let mut data = instance.data(nest.around);
        data.duration = None;
        data.around = nest.so_far(&instance.outer);
        let metrics = nest.around.rule.evaluate(nest.window, &data, Memory::default());
        let context = Context {
            window: Some(&data),
            metrics: &metrics,
            ..Context::default()
        };
        let holds = context.eval(condition).single().and_then(|value| boolean(&value));
        if holds != Ok(true) {
            return;
        }
        instance.end_everywhere(placement.arrived.hit.time);
        self.look_out(placement);
        self.follow(placement, number, dropped);
    }

    /// Records the values of the enclosing instances for those that have just ended.
    fn look_out(&mut self, placement: &HitPlacement<'_>) {
        let ended = |instance: &&mut Instance| instance.end().is_some() && instance.around.is_empty();
        for instance in self.open.iter_mut().filter(ended) {
            instance.around = placement.nest.so_far(&instance.outer);
        }
    }

    /// Begins a window again at the end of the preceding instance, as long as the enclosing one continues.
    fn follow(&mut self, placement: &HitPlacement<'_>, number: u64, dropped: &mut Dropped) {
        let goes_on = |instance: &&Instance| instance.end().is_none();
        let ended = self
            .numbered(number)
            .and_then(|instance| Some((instance.extent.first()?.0, instance.end()?)));
        let Some(boundary) = ended.filter(|_| placement.boundaries.from.contains(&Begin::Itself)) else {
            return;
        };
        if placement.enclosing.filter(goes_on).is_some() {
            self.open_instance(placement, boundary, None, None, dropped);
        }
    }

    /// The first instance, with what it lacks, if it is over once hits before `time` (up to it, if
    /// `inclusive`) are known. Instances close in the order in which they began.
    pub(super) fn over(
        &mut self,
        time: Time,
        inclusive: bool,
        boundaries: &Boundaries,
        around: &InstanceEnvironment<'_>,
    ) -> Option<EndedInstance> {
        let first = self.open.front()?;
        let known_end = first.end();
        // An unfinished instance need not be checked for completeness.
        if known_end.is_none() && boundaries.timeout.is_none() {
            return None;
        }
        let passed = |end: Time| end < time || (inclusive && end == time);
        let end = known_end.unwrap_or_else(|| first.start());
        // A span that begins in it may end in the next one.
        let waits = matches!(boundaries.straddle, Straddle::Begin | Straddle::Split);
        let successor = || self.open.get(1).and_then(Instance::end);
        let over = known_end.is_some_and(passed) && (!waits || successor().is_some_and(passed));
        let given_up = boundaries
            .timeout
            .is_some_and(|timeout| time.0 >= end.0.saturating_add(timeout));
        if !over && !given_up {
            return None;
        }
        let first = self.open.front_mut()?;
        let number = first.frame.number;
        // Within a tick only its boundaries and hits change what it lacks; most hits belong to later instances.
        let known = first
            .lacked
            .take()
            .filter(|(hits, _)| *hits == first.content.len());
        let missing = known.map_or_else(|| first.missing(boundaries, around), |(_, missing)| missing);
        let awaits = |process: ProcessId| self.latest.get(&process).is_none_or(|&latest| latest <= number);
        // A hit without its key marks instances by its time, not the one that it belongs to: those may become complete.
        let lacks = first.incomplete.as_deref().is_some_and(|why| why != WITHOUT_KEY);
        let is_hopeless = lacks && !first.awaited(boundaries, around).any(awaits);
        if missing.is_some() && !given_up && !is_hopeless {
            first.lacked = Some((first.content.len(), missing));
            return None;
        }
        // Complete at the last hit for which it waited; given up at its deadline.
        let is_late = missing.is_some() && given_up;
        let patience = boundaries.timeout.filter(|_| is_late).unwrap_or(0);
        Some(EndedInstance {
            number,
            time: Time(end.0.saturating_add(patience)).max(first.last),
            missing,
        })
    }

    /// Closes the first instance.
    pub(super) fn close(&mut self, over: EndedInstance) -> Option<Closed> {
        let first = self.open.pop_front()?;
        Some(self.closed(first, over.missing, over.time))
    }

    /// Closes what lies within a closing instance, at its `end`. An unfinished instance without hits is
    /// discarded.
    pub(super) fn cut(&mut self, around: (usize, u64), end: Option<Time>, nest: &Nest<'_>) -> Vec<Closed> {
        let mut out = Vec::new();
        let is_around = |frame: &Frame| (frame.window, frame.number) == around;
        let inside = |instance: &Instance| instance.outer.iter().any(is_around);
        let (cut, kept) = std::mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<_>, _>(|instance| inside(instance));
        self.open = kept.into();
        for mut instance in cut {
            if instance.around.is_empty() {
                instance.around = nest.so_far(&instance.outer);
            }
            let missing = match instance.end() {
                Some(_) => nest.boundaries().and_then(|of| instance.missing(of, nest.around)),
                None if instance.content.len() == 0 => continue,
                None => Some("the window around it ended before".to_string()),
            };
            end.into_iter().for_each(|end| instance.end_everywhere(end));
            let over = instance.end().unwrap_or(instance.last);
            out.push(self.closed(instance, missing, over));
        }
        out
    }

    fn closed(&mut self, instance: Instance, missing: Option<String>, over: Time) -> Closed {
        // It was open until the preceding one closed. A hit of that time is not late, whenever it is placed.
        self.over = self.over.max(over);
        self.table.over(instance.frame.number, self.over);
        if let Some(key) = &instance.key {
            self.closed_keys.push_back((instance.enclosing(), key.clone()));
            if self.closed_keys.len() > CLOSED_MAX {
                self.closed_keys.pop_front();
            }
        }
        Closed { instance, missing }
    }
}
