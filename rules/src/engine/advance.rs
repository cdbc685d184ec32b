//! Releases hits in the order of their times to the windows of a rule, and collects what becomes due, in that
//! order.
//!
//! Closed windows are evaluated elsewhere, see [`super::close`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Engine;
use super::instance::{Closed, Instance, InstanceEnvironment};
use super::instance_table::InstanceTable;
use super::keyed_intake::Instances;
use super::nest::{Nest, Nesting};
use super::output::Dropped;
use super::running::{Open, Running};
use super::stream::Arrived;
use super::track::Track;
use crate::eval::partial::Content;
use crate::hit::Hit;
use crate::ids::RuleId;
use crate::rule::Trigger;
use crate::value::{ProcessId, Time};
use crate::window::Window;

/// The windows of a rule while hits are released.
struct Release<'a> {
    around: InstanceEnvironment<'a>,
    tracks: &'a mut [Open],
    nesting: &'a Nesting,
    dropped: &'a mut Dropped,
    out: Vec<(usize, DueInstance)>,
    /// No open instance has ended, so none is over until a hit moves a boundary.
    all_go_on: bool,
}

impl Engine {
    /// Releases the known hits of a rule; returns what became due.
    pub(super) fn advance(&mut self, id: RuleId, now: Time) -> Vec<(usize, DueInstance)> {
        let (joined, ranks) = (Arc::clone(&self.joined), Arc::clone(&self.ranks));
        let Some((concerned, of_nodes)) = self.rules.get(id.0).map(|running| self.observers(running)) else {
            return Vec::new();
        };
        let Some(running) = self.rules.get_mut(id.0) else {
            return Vec::new();
        };
        let latest = running
            .patience()
            .map(|patience| Time(now.0.saturating_sub(patience)));
        let reach = running.intake.stream.reach(
            &concerned,
            of_nodes,
            latest,
            running
                .intake
                .keyed
                .last()
                .max(running.intake.partial_sums.last()),
        );
        if let (true, Some(reach)) = (running.intake.has_probed, reach) {
            let closed = running.release(reach, &joined, &ranks);
            let awaiting = |(index, due)| Awaiting { index, due, reach };
            running.parts.instances.extend(closed.into_iter().map(awaiting));
        }
        let settled = self.settled(id);
        let running = self.rules.get_mut(id.0);
        running.map_or_else(Vec::new, |running| running.ready(settled, latest))
    }
}

/// What must be evaluated for a window from probe to probe.
#[derive(Clone, Debug)]
pub(super) enum DueInstance {
    Closed(Closed),
    /// An instance at a hit that triggers a tune.
    Hit {
        tune: usize,
        instance: Instance,
        time: Time,
    },
}

impl DueInstance {
    /// When its instance began.
    pub(super) fn start(&self) -> Time {
        match self {
            DueInstance::Closed(closed) => closed.instance.start(),
            DueInstance::Hit { instance, .. } => instance.start(),
        }
    }

    /// Its instance, if that has closed and has this number. An instance at a hit contains only the hits that arrived
    /// in order.
    pub(super) fn closed(&mut self, number: u64) -> Option<&mut Instance> {
        match self {
            DueInstance::Closed(closed) => {
                Some(&mut closed.instance).filter(|instance| instance.frame.number == number)
            }
            DueInstance::Hit { .. } => None,
        }
    }

    pub(super) fn instance(&mut self) -> &mut Instance {
        match self {
            DueInstance::Closed(closed) => &mut closed.instance,
            DueInstance::Hit { instance, .. } => instance,
        }
    }
}

/// A due evaluation that waits for the partial results of nodes.
#[derive(Clone, Debug)]
pub(super) struct Awaiting {
    pub(super) index: usize,
    pub(super) due: DueInstance,
    /// The time up to which nodes must have placed their hits before it is evaluated.
    reach: Time,
}

impl Running {
    /// Passes the hits up to `reach` to the windows; returns what became due.
    fn release(
        &mut self,
        reach: Time,
        joined: &BTreeMap<ProcessId, Time>,
        ranks: &BTreeMap<ProcessId, u32>,
    ) -> Vec<(usize, DueInstance)> {
        let tracks = self.windows.iter_mut().filter_map(Open::track);
        tracks.for_each(|track| track.look_again(&self.intake.stream));
        let hits = self.intake.stream.release(reach);
        let mut release = Release {
            around: InstanceEnvironment {
                rule: &self.rule,
                roles: &self.roles,
                ranks,
                joined,
            },
            tracks: &mut self.windows,
            nesting: &self.nesting,
            dropped: &mut self.intake.stream.dropped,
            out: Vec::new(),
            all_go_on: false,
        };
        for arrived in hits {
            let mut pairs = Vec::new();
            for (index, (joiner, join)) in self.intake.joiners.iter_mut().zip(&self.rule.joins).enumerate() {
                let probe = self.rule.probes.len() + index;
                let pair = joiner.take(&arrived, join, release.around.room(), release.dropped);
                pairs.extend(pair.map(|hit| Arrived { probe, hit }));
            }
            release.take(&arrived);
            for pair in &pairs {
                release.take(pair);
                release.take_pair(pair);
            }
        }
        release.close(reach, true);
        let mut out = release.out;
        self.settle(reach, &mut out);
        out
    }

    /// The due evaluations on which all nodes have reported, or for which the wait has ended.
    fn ready(&mut self, settled: Option<Option<Time>>, latest: Option<Time>) -> Vec<(usize, DueInstance)> {
        let mut out = Vec::new();
        while let Some(Awaiting { due, reach, .. }) = self.parts.instances.front_mut() {
            if settled.is_some_and(|settled| settled < Some(*reach)) {
                if latest <= Some(*reach) {
                    break;
                }
                due.instance()
                    .mark_incomplete("a node has not handed in its part");
            }
            out.extend(
                self.parts
                    .instances
                    .pop_front()
                    .map(|ready| (ready.index, ready.due)),
            );
        }
        out
    }

    /// Places the hits that need no order into their instances, including those that have just closed.
    fn settle(&mut self, reach: Time, closed: &mut [(usize, DueInstance)]) {
        let table = |open: &mut Open| open.track().map(|track| std::mem::take(&mut track.table));
        let tables = self
            .windows
            .iter_mut()
            .map(|open| table(open).unwrap_or_default());
        let mut tables: Vec<InstanceTable> = tables.collect();
        let mut fill = Fill {
            windows: &mut self.windows,
            due: closed,
        };
        let dropped = &mut self.intake.stream.dropped;
        self.intake
            .keyed
            .settle(reach, &self.intake.by_key, &mut tables, dropped, &mut fill);
        self.intake
            .partial_sums
            .settle(reach, &self.intake.by_key, &mut tables, dropped, &mut fill);
        for (open, table) in self.windows.iter_mut().zip(tables) {
            if let Some(track) = open.track() {
                track.table = table;
            }
        }
    }
}

/// The open and the due instances of a rule.
pub(super) struct Fill<'a> {
    windows: &'a mut [Open],
    due: &'a mut [(usize, DueInstance)],
}

impl Fill<'_> {
    fn instance(&mut self, window: usize, number: u64) -> Option<&mut Instance> {
        let mut of_window = self.due.iter_mut().filter(|(index, _)| *index == window);
        let closed = of_window.find_map(|(_, due)| due.closed(number));
        if closed.is_some() {
            return closed;
        }
        self.windows.get_mut(window)?.track()?.open(number)
    }

    /// Number, begin and end of the instances of a window whose boundaries a process hits itself, the newest
    /// first.
    pub(super) fn spans(&self, window: usize, process: ProcessId) -> Vec<(u64, Time, Option<Time>)> {
        let span = |instance: &Instance| {
            let (start, end) = instance.extent.of(process)?;
            Some((instance.frame.number, start, end))
        };
        let open = match self.windows.get(window) {
            Some(Open::Probed(track)) => track.instances().rev().filter_map(span).collect(),
            _ => Vec::new(),
        };
        let closed = self.due.iter().rev().filter_map(|(index, due)| match due {
            DueInstance::Closed(closed) if *index == window => span(&closed.instance),
            DueInstance::Closed(_) | DueInstance::Hit { .. } => None,
        });
        open.into_iter().chain(closed).collect()
    }

    /// False if there is no such instance.
    pub(super) fn fill(&mut self, window: usize, number: u64, with: impl FnOnce(&mut Content)) -> bool {
        let instance = self.instance(window, number);
        instance.map(|instance| instance.fill(with)).is_some()
    }
}

impl Instances for Fill<'_> {
    fn take(&mut self, window: usize, number: u64, probe: usize, hit: &Hit) {
        self.fill(window, number, |content| content.take(probe, hit));
    }

    fn mark_incomplete(&mut self, window: usize, number: u64, reason: &str) {
        if let Some(instance) = self.instance(window, number) {
            instance.mark_incomplete(reason);
        }
    }
}

impl Release<'_> {
    fn take(&mut self, arrived: &Arrived) {
        if !self.all_go_on {
            self.close(arrived.hit.time, false);
        }
        let nesting = self.nesting;
        self.all_go_on &= !nesting.moves(arrived.probe);
        for &index in &nesting.order {
            self.with_track(index, |track, nest, dropped| track.take(arrived, nest, dropped));
        }
        self.trigger(arrived);
    }

    /// Evaluates the tunes that a hit triggers, with their instance up to the hit.
    fn trigger(&mut self, arrived: &Arrived) {
        for (tune, checked) in self.around.rule.tunes.iter().enumerate() {
            let Trigger::Hit { probe, window } = checked.trigger else {
                continue;
            };
            if probe != arrived.probe {
                continue;
            }
            let (time, around) = (arrived.hit.time, &self.around);
            let nest = Nest {
                tracks: self.tracks,
                around,
                window,
                looks_out: self.nesting.looks_out(window),
            };
            let (Some(Open::Probed(track)), Some(boundaries)) = (self.tracks.get(window), nest.boundaries())
            else {
                continue;
            };
            let Some(instance) = track.holding(arrived, boundaries, around) else {
                self.dropped.outside += 1;
                continue;
            };
            let mut instance = instance.clone();
            instance.around = nest.so_far(&instance.outer);
            self.out.push((window, DueInstance::Hit { tune, instance, time }));
        }
    }

    /// Timed windows take other hits from the samples, but pairs from here.
    fn take_pair(&mut self, pair: &Arrived) {
        for open in self.tracks.iter_mut() {
            if let Open::Timed { pairs, .. } = open {
                Arc::make_mut(pairs).take(pair.probe, &pair.hit);
            }
        }
    }

    /// Gives `f` the track of a window together with the tracks of the others.
    fn with_track(
        &mut self,
        index: usize,
        f: impl FnOnce(&mut Track, &Nest<'_>, &mut Dropped) -> Vec<Closed>,
    ) {
        let Some(open @ Open::Probed(_)) = self.tracks.get_mut(index) else {
            return;
        };
        let Open::Probed(mut track) = std::mem::replace(open, Open::Busy) else {
            return;
        };
        let nest = Nest {
            tracks: self.tracks,
            around: &self.around,
            window: index,
            looks_out: self.nesting.looks_out(index),
        };
        let closed = f(&mut track, &nest, self.dropped);
        if !closed.is_empty() {
            let closed = closed
                .into_iter()
                .map(|closed| (index, DueInstance::Closed(closed)));
            self.out.extend(closed);
        }
        if let Some(open) = self.tracks.get_mut(index) {
            *open = Open::Probed(track);
        }
    }

    /// Closes, inner windows first, the instances that are over once hits before `time` (up to it, if
    /// `inclusive`) are known. A closing instance may cut off an inner one for which other instances of that
    /// window had waited: those are then over too.
    fn close(&mut self, time: Time, inclusive: bool) {
        while self.close_those_over(time, inclusive) {}
    }

    fn close_those_over(&mut self, time: Time, inclusive: bool) -> bool {
        let nesting = self.nesting;
        let mut has_closed = false;
        self.all_go_on = !nesting.times_out;
        for &index in nesting.order.iter().rev() {
            let Some(boundaries) = self.around.rule.windows.get(index).and_then(Window::boundaries) else {
                continue;
            };
            while let Some(Open::Probed(track)) = self.tracks.get_mut(index)
                && let Some(over) = track.over(time, inclusive, boundaries, &self.around)
            {
                has_closed = true;
                self.cut_inside(index, over.number);
                if let Some(Open::Probed(track)) = self.tracks.get_mut(index) {
                    let closed = track.close(over);
                    self.out
                        .extend(closed.map(|closed| (index, DueInstance::Closed(closed))));
                }
            }
            if let Some(Open::Probed(track)) = self.tracks.get(index) {
                self.all_go_on &= track.instances().all(|instance| instance.end().is_none());
            }
        }
        has_closed
    }

    /// Closes the instances within a closing one.
    fn cut_inside(&mut self, around: usize, number: u64) {
        let outer = match self.tracks.get(around) {
            Some(Open::Probed(track)) => track.numbered(number),
            _ => None,
        };
        let end = outer.and_then(Instance::end);
        let nesting = self.nesting;
        for &index in nesting.order.iter().rev() {
            if index != around {
                self.with_track(index, |track, nest, _| track.cut((around, number), end, nest));
            }
        }
    }
}
