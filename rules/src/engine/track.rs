//! The open instances of a window from probe to probe: which hits belong to which, and when one is over.
//!
//! Sees hits in the order of their times, see [`super::stream`]. Says what closed; what is in it is evaluated elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::content;
use super::ledger::Ledger;
use super::output::Dropped;
use super::stream::Arrived;
use crate::eval::{Context, WindowData, boolean};
use crate::hit::Hit;
use crate::partial::{Content, WindowFolds};
use crate::rule::{Borders, CheckedRule, Straddle};
use crate::value::{Key, ProcessId, Time};

/// Instances that may be open at a time; beyond it the oldest closes with what it has.
const MOST_OPEN: usize = 64;
/// Hits that may wait for their instance to begin.
const MOST_WAITING: usize = 65_536;
/// Keys of closed instances that are remembered, to tell late hits from early ones.
const MOST_CLOSED: usize = 1024;
/// How many instances begin while a hit waits for its own.
const PATIENCE: u64 = 2;

/// What a track may ask of its surroundings.
pub(super) struct Surroundings<'a> {
    pub(super) rule: &'a CheckedRule,
    pub(super) roles: &'a [BTreeSet<ProcessId>],
    pub(super) ranks: &'a BTreeMap<ProcessId, u32>,
    /// When each process that is still there joined.
    pub(super) joined: &'a BTreeMap<ProcessId, Time>,
}

/// One time through a window.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) index: u64,
    key: Option<Key>,
    /// Where it began and ended in each process that hit its borders.
    borders: BTreeMap<ProcessId, (Time, Option<Time>)>,
    pub(super) content: Arc<Content>,
    /// Why it cannot be complete.
    pub(super) spoiled: Option<String>,
    /// When the last of the hits came that were placed in order.
    last: Time,
    /// What it lacked when it was last looked at, and how many hits it had then.
    lacked: Option<(usize, Option<String>)>,
}

/// An instance that is over, and what it lacks.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) instance: Instance,
    pub(super) missing: Option<String>,
}

/// The instances of a window.
#[derive(Clone, Debug)]
pub(super) struct Track {
    folds: Arc<WindowFolds>,
    next: u64,
    open: VecDeque<Instance>,
    /// Hits whose instance has not begun, each with how many instances had begun when it came.
    waiting: VecDeque<(u64, Key, Arrived)>,
    closed_keys: VecDeque<Key>,
    /// The same for hits that need no order.
    pub(super) ledger: Ledger,
}

impl Instance {
    pub(super) fn start(&self) -> Time {
        let starts = self.borders.values().map(|(start, _)| *start);
        starts.min().unwrap_or_default()
    }

    /// When it ended in the last of its processes; none while it goes on in one.
    pub(super) fn end(&self) -> Option<Time> {
        let mut ends = self.borders.values().map(|(_, end)| *end);
        ends.try_fold(Time::default(), |last, end| Some(last.max(end?)))
    }

    /// Of several reasons the least is told, whichever came first.
    pub(super) fn spoil(&mut self, reason: &str) {
        if self.spoiled.as_deref().is_none_or(|known| reason < known) {
            self.spoiled = Some(reason.to_string());
        }
    }

    /// Takes a hit, or what was made of others elsewhere.
    pub(super) fn fill(&mut self, with: impl FnOnce(&mut Content)) {
        let content = Arc::make_mut(&mut self.content);
        with(content);
        if !content.has_room() {
            self.spoil("it has more hits than are kept");
        }
    }

    fn take(&mut self, arrived: &Arrived) {
        self.last = self.last.max(arrived.hit.time);
        self.fill(|content| content.take(arrived.probe, &arrived.hit));
    }
}

impl Track {
    /// Of a window with these folds.
    pub(super) fn new(folds: Arc<WindowFolds>) -> Track {
        Track {
            folds,
            next: 0,
            open: VecDeque::new(),
            waiting: VecDeque::new(),
            closed_keys: VecDeque::new(),
            ledger: Ledger::default(),
        }
    }

    /// When the oldest open instance began.
    pub(super) fn floor(&self) -> Option<Time> {
        self.open.iter().map(Instance::start).min()
    }

    /// Processes may have come or gone: what is lacking is to be looked at again.
    pub(super) fn look_again(&mut self) {
        self.open.iter_mut().for_each(|instance| instance.lacked = None);
    }

    /// An instance that is open.
    pub(super) fn open(&mut self, index: u64) -> Option<&mut Instance> {
        let place = index.checked_sub(self.open.front()?.index)? as usize;
        // They began in a row, and mostly all of them are still there.
        let there = |instance: &Instance| instance.index == index;
        if self.open.get(place).is_some_and(there) {
            return self.open.get_mut(place);
        }
        self.open.iter_mut().find(|instance| there(instance))
    }

    /// A hit of this time came too late: the instances it could belong to are not complete.
    pub(super) fn spoil(&mut self, time: Time, reason: &str) {
        for instance in self.open.iter_mut().filter(|instance| instance.start() <= time) {
            instance.spoil(reason);
        }
    }

    /// The next hit in order; returns what closed before it.
    pub(super) fn take(
        &mut self,
        arrived: &Arrived,
        borders: &Borders,
        around: &Surroundings<'_>,
        dropped: &mut Dropped,
    ) -> Vec<Closed> {
        let time = arrived.hit.time;
        let mut closed = self.close(time, false, borders, around);
        let key = match borders.keys.get(arrived.probe).copied().flatten() {
            None => None,
            Some(capture) => match arrived.hit.captures.get(capture) {
                Some(Ok(value)) => Some(Key::of(value)),
                _ => {
                    // It could belong to any: none of them is known to be complete.
                    dropped.unplaced += 1;
                    self.spoil(time, "a hit without its key");
                    return closed;
                }
            },
        };
        if borders.to == Some(arrived.probe) {
            self.end(arrived, key.as_ref(), borders, dropped);
        } else if borders.begins_at() == Some(arrived.probe) {
            self.begin(arrived, key, borders, around, dropped);
            if self.open.len() > MOST_OPEN
                && let Some(oldest) = self.open.pop_front()
            {
                let missing = format!("{MOST_OPEN} later ones had begun before it was complete");
                closed.push(self.closed(oldest, Some(missing), time));
            }
        } else {
            self.belong(arrived, key, borders, around, dropped);
        }
        closed
    }

    fn by_key(&mut self, key: &Key) -> Option<&mut Instance> {
        self.open
            .iter_mut()
            .find(|instance| instance.key.as_ref() == Some(key))
    }

    /// The instance that is going on in a process.
    fn going_on(&mut self, process: ProcessId) -> Option<&mut Instance> {
        let goes_on = |instance: &&mut Instance| matches!(instance.borders.get(&process), Some((_, None)));
        self.open.iter_mut().rev().find(goes_on)
    }

    fn begin(
        &mut self,
        arrived: &Arrived,
        key: Option<Key>,
        borders: &Borders,
        around: &Surroundings<'_>,
        dropped: &mut Dropped,
    ) {
        let (time, process) = (arrived.hit.time, arrived.hit.process);
        if let Some(before) = self.going_on(process) {
            if borders.to.is_some() {
                before.spoil("the next began before its end");
            }
            before.lacked = None;
            before.last = before.last.max(time);
            if let Some((_, end)) = before.borders.get_mut(&process) {
                *end = Some(time);
            }
        }
        if let Some(key) = &key {
            if self.closed_keys.contains(key) {
                dropped.late += 1;
                return;
            }
            if let Some(known) = self.by_key(key) {
                if known.borders.contains_key(&process) {
                    dropped.unplaced += 1;
                    known.spoil("it began twice in one process");
                    return;
                }
                known.borders.insert(process, (time, None));
                return known.take(arrived);
            }
        }
        let mut instance = Instance {
            index: self.next,
            borders: BTreeMap::from([(process, (time, None))]),
            content: Arc::new(Content::new(Arc::clone(&self.folds))),
            spoiled: None,
            last: time,
            lacked: None,
            key,
        };
        self.ledger.begun(instance.index, instance.key.clone(), time);
        instance.take(arrived);
        let owners = around
            .rule
            .role_of_begin(borders)
            .and_then(|role| around.roles.get(role));
        if instance.key.is_none() && owners.is_some_and(|owners| owners.len() > 1) {
            instance.spoil("several processes hit its borders, and it has no key to join them by");
        }
        self.next += 1;
        self.admit(&mut instance, borders, dropped);
        self.open.push_back(instance);
    }

    /// Gives a new instance the hits that waited for it, and drops those that have waited for long enough.
    fn admit(&mut self, instance: &mut Instance, borders: &Borders, dropped: &mut Dropped) {
        let next = self.next;
        for (since, key, arrived) in std::mem::take(&mut self.waiting) {
            if instance.key.as_ref() == Some(&key) {
                put(instance, &arrived, borders, dropped);
            } else if since + PATIENCE < next {
                dropped.outside += 1;
            } else {
                self.waiting.push_back((since, key, arrived));
            }
        }
    }

    fn end(&mut self, arrived: &Arrived, key: Option<&Key>, borders: &Borders, dropped: &mut Dropped) {
        let process = arrived.hit.process;
        let instance = match key {
            Some(key) => self.by_key(key),
            None => self.going_on(process),
        };
        let Some(instance) = instance else {
            dropped.outside += 1;
            return;
        };
        instance.lacked = None;
        match instance.borders.get_mut(&process) {
            Some((_, end @ None)) => {
                *end = Some(arrived.hit.time);
                put(instance, arrived, borders, dropped);
            }
            _ => dropped.outside += 1,
        }
    }

    fn belong(
        &mut self,
        arrived: &Arrived,
        key: Option<Key>,
        borders: &Borders,
        around: &Surroundings<'_>,
        dropped: &mut Dropped,
    ) {
        if let Some(key) = key {
            if let Some(instance) = self.by_key(&key) {
                put(instance, arrived, borders, dropped);
            } else if self.closed_keys.contains(&key) {
                dropped.late += 1;
            } else if self.waiting.len() < MOST_WAITING {
                self.waiting.push_back((self.next, key, arrived.clone()));
            } else {
                dropped.overflow += 1;
            }
            return;
        }
        let Hit { time, process, .. } = arrived.hit;
        let owners = around
            .rule
            .role_of_begin(borders)
            .and_then(|role| around.roles.get(role));
        let shared = owners.is_none_or(|owners| owners.len() <= 1);
        let within = |instance: &&mut Instance| {
            let own = instance.borders.get(&process);
            let border = own.or_else(|| instance.borders.values().next().filter(|_| shared));
            border.is_some_and(|(start, end)| *start <= time && end.is_none_or(|end| time < end))
        };
        match self.open.iter_mut().rev().find(within) {
            Some(instance) => put(instance, arrived, borders, dropped),
            None => dropped.outside += 1,
        }
    }

    /// Closes, in the order of their index, the instances that are over when hits before `time` (up to it, if
    /// `inclusive`) are known.
    pub(super) fn close(
        &mut self,
        time: Time,
        inclusive: bool,
        borders: &Borders,
        around: &Surroundings<'_>,
    ) -> Vec<Closed> {
        let mut out = Vec::new();
        while let Some(first) = self.open.front_mut() {
            let known_end = first.end();
            let end = known_end.unwrap_or_else(|| first.start());
            let over = end < time || (inclusive && end == time);
            let given_up = borders
                .timeout
                .is_some_and(|timeout| time.0 >= end.0.saturating_add(timeout));
            // While it goes on there is no need to look at what it lacks.
            if (!over || known_end.is_none()) && !given_up {
                return out;
            }
            // Within a tick only its borders and hits can change what it lacks, and most hits are of later instances.
            let known = first
                .lacked
                .take()
                .filter(|(hits, _)| *hits == first.content.len());
            let missing = known.map_or_else(|| first.missing(borders, around), |(_, missing)| missing);
            if missing.is_some() && !given_up {
                first.lacked = Some((first.content.len(), missing));
                return out;
            }
            // Complete at the last hit it waited for; given up at its deadline.
            let patience = borders.timeout.filter(|_| missing.is_some()).unwrap_or(0);
            let over = Time(end.0.saturating_add(patience)).max(first.last);
            if let Some(first) = self.open.pop_front() {
                out.push(self.closed(first, missing, over));
            }
        }
        out
    }

    fn closed(&mut self, instance: Instance, missing: Option<String>, over: Time) -> Closed {
        self.ledger.over(instance.index, over);
        if let Some(key) = &instance.key {
            self.closed_keys.push_back(key.clone());
            if self.closed_keys.len() > MOST_CLOSED {
                self.closed_keys.pop_front();
            }
        }
        Closed { instance, missing }
    }
}

/// Spans that began before the instance may be left out.
fn put(instance: &mut Instance, arrived: &Arrived, borders: &Borders, dropped: &mut Dropped) {
    let began = arrived.hit.time.0.saturating_sub(arrived.hit.duration_ns);
    if borders.straddle == Straddle::Drop && arrived.hit.duration_ns > 0 && Time(began) < instance.start() {
        dropped.straddling += 1;
    } else {
        instance.take(arrived);
    }
}

impl Instance {
    /// What formulas see of it. Measures are not in it.
    pub(super) fn data(&self, around: &Surroundings<'_>) -> WindowData {
        content::data(&self.content, self.index, around)
    }

    /// What has not come yet; nothing if it is complete.
    fn missing(&self, borders: &Borders, around: &Surroundings<'_>) -> Option<String> {
        let name = |process: &ProcessId| match around.ranks.get(process) {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", process.0),
        };
        let start = self.start();
        let owners = around
            .rule
            .role_of_begin(borders)
            .and_then(|role| around.roles.get(role));
        let there = |process: &&ProcessId| around.joined.get(process).is_some_and(|joined| *joined <= start);
        let ended = |process: &ProcessId| matches!(self.borders.get(process), Some((_, Some(_))));
        let awaited = owners.into_iter().flatten().filter(there);
        let mut all = awaited.chain(self.borders.keys());
        if let Some(process) = all.find(|process| !ended(process)) {
            return Some(format!("{} has not ended it", name(process)));
        }
        if borders.complete.is_empty() {
            return None;
        }
        let mut data = self.data(around);
        data.duration = Err("it is not over".to_string());
        for (role, condition) in &borders.complete {
            let members = around.roles.get(*role).into_iter().flatten().filter(there);
            for process in members {
                let context = Context {
                    window: Some(&data),
                    sees: Some((*role, *process)),
                    ..Context::default()
                };
                let holds = context.eval(condition).single().and_then(|value| boolean(&value));
                if holds != Ok(true) {
                    return Some(format!("the condition on {} does not hold", name(process)));
                }
            }
        }
        None
    }
}
