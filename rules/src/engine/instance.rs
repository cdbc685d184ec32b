//! An instance of a window: where it begins and ends in each process, its contents, and what it still lacks.
//!
//! Which hits belong to it and when it closes is decided elsewhere, see [`super::track`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::extent::{Extent, Span};
use super::stream::Arrived;
use crate::eval::partial::{Content, MORE_THAN_KEPT, Room};
use crate::eval::{Context, EnclosingInstance, WindowData};
use crate::rule::CheckedRule;
use crate::value::{Key, ProcessId, Time, boolean};
use crate::window::Boundaries;

/// Why an instance is incomplete: hits were lost that may belong to it.
pub(super) const HITS_LOST: &str = "hits were lost in it";
/// Why an instance is incomplete: a hit without its key arrived while the instance was open.
pub(super) const WITHOUT_KEY: &str = "a hit without its key";

/// The environment of an instance.
pub(super) struct InstanceEnvironment<'a> {
    pub(super) rule: &'a CheckedRule,
    pub(super) roles: &'a [BTreeSet<ProcessId>],
    pub(super) ranks: &'a BTreeMap<ProcessId, u32>,
    /// When each process that has not ended joined.
    pub(super) joined: &'a BTreeMap<ProcessId, Time>,
}

impl InstanceEnvironment<'_> {
    /// The processes that begin instances of a window.
    pub(super) fn owners(&self, boundaries: &Boundaries) -> Option<&BTreeSet<ProcessId>> {
        let role = self.rule.role_of_begin(boundaries);
        role.and_then(|role| self.roles.get(role))
    }

    /// Whether the instances of a window that a process begins belong to no other process: processes that are
    /// no ranks of a job iterate independently.
    pub(super) fn iterates_alone(&self, process: ProcessId, boundaries: &Boundaries) -> bool {
        !self.ranks.contains_key(&process) && self.rule.is_bounded_by_loop(boundaries)
    }

    /// The room for the data of open windows.
    pub(super) fn room(&self) -> Room {
        Room::of(self.joined.len())
    }

    /// Whether a process had joined by this time and has not left since.
    pub(super) fn was_there(&self, process: ProcessId, time: Time) -> bool {
        self.joined.get(&process).is_some_and(|joined| *joined <= time)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) window: usize,
    /// Number of the instance in its window since the beginning.
    pub(super) number: u64,
    /// Index within the enclosing instance; equal to `number` without one.
    pub(super) index: u64,
}

/// An ended instance, with what it lacks.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) instance: Instance,
    pub(super) missing: Option<String>,
}

/// An instance of a window.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) frame: Frame,
    /// The enclosing instances, the innermost first.
    pub(super) outer: Vec<Frame>,
    /// The data of the enclosing instances at its end, as far as its formulas use them.
    pub(super) around: Vec<EnclosingInstance>,
    pub(super) key: Option<Key>,
    pub(super) extent: Extent,
    pub(super) content: Arc<Content>,
    /// What nodes have folded of it. It is merged at once when the instance is evaluated: rows of many processes
    /// are then inserted in their order.
    pub(super) partials: Vec<Content>,
    /// Why it cannot be complete.
    pub(super) incomplete: Option<String>,
    /// Time of the last hit that was placed in order, or with which a process began a later instance.
    pub(super) last: Time,
    /// What it lacked at the last check, with its number of hits at that time.
    pub(super) lacked: Option<(usize, Option<String>)>,
}

impl Instance {
    pub(super) fn start(&self) -> Time {
        self.extent.start()
    }

    /// When it ended in the last of its processes; `None` while it continues in one.
    pub(super) fn end(&self) -> Option<Time> {
        self.extent.end()
    }

    /// Ends it wherever it continues.
    pub(super) fn end_everywhere(&mut self, time: Time) {
        self.lacked = None;
        self.extent.end_everywhere(time);
    }

    /// Its begin and end for a process: in that process or, if `shared`, in the process that hit its
    /// boundaries.
    pub(super) fn boundaries_for(&self, process: ProcessId, shared: impl FnOnce() -> bool) -> Option<Span> {
        let first = || self.extent.first().filter(|_| shared());
        self.extent.of(process).or_else(|| Some(first()?.1))
    }

    /// Of several reasons the lexicographically smallest is kept, independent of their order.
    pub(super) fn mark_incomplete(&mut self, reason: &str) {
        if self.incomplete.as_deref().is_none_or(|known| reason < known) {
            self.incomplete = Some(reason.to_string());
        }
    }

    pub(super) fn merge_partials(&mut self) {
        let mut partials = std::mem::take(&mut self.partials);
        partials.sort_by_key(Content::first);
        if !partials.is_empty() {
            self.fill(|content| partials.into_iter().for_each(|partial| content.append(partial)));
        }
    }

    /// Adds a hit or partial results.
    pub(super) fn fill(&mut self, with: impl FnOnce(&mut Content)) {
        let content = Arc::make_mut(&mut self.content);
        with(content);
        if !content.has_room() {
            self.mark_incomplete(MORE_THAN_KEPT);
        }
    }

    pub(super) fn take(&mut self, arrived: &Arrived) {
        self.last = self.last.max(arrived.hit.time);
        self.fill(|content| content.take(arrived.probe, &arrived.hit));
    }

    /// Its begin and end in each process, if several hit its boundaries.
    fn own(&self) -> BTreeMap<ProcessId, (Time, Time)> {
        let spans = self.extent.spans();
        let several = spans.iter().filter(|_| spans.len() > 1);
        let own = |(process, (start, end)): (&ProcessId, &(Time, Option<Time>))| {
            Some((*process, (*start, (*end)?)))
        };
        several.filter_map(own).collect()
    }

    /// The instance that directly encloses it.
    pub(super) fn enclosing(&self) -> Option<u64> {
        self.outer.first().map(|frame| frame.number)
    }

    /// The data for formulas, without measures.
    pub(super) fn data(&self, around: &InstanceEnvironment<'_>) -> WindowData {
        WindowData {
            window: self.frame.window,
            number: self.frame.number,
            outer: self
                .outer
                .iter()
                .map(|frame| (frame.window, frame.number, frame.index))
                .collect(),
            around: self.around.clone(),
            own: self.own(),
            index: self.frame.index,
            duration: Some(Ok(0.0)),
            roles: around.roles.to_vec(),
            probe_roles: around.rule.probe_roles(),
            ranks: around.ranks.clone(),
            ..WindowData::default()
        }
        .with(Arc::clone(&self.content))
    }

    /// The processes that must begin and end it.
    pub(super) fn awaited<'a>(
        &'a self,
        boundaries: &Boundaries,
        around: &'a InstanceEnvironment<'_>,
    ) -> impl Iterator<Item = ProcessId> + 'a {
        let start = self.start();
        let is_alone = self
            .extent
            .spans()
            .keys()
            .any(|process| around.iterates_alone(*process, boundaries));
        let owners = around.owners(boundaries).filter(|_| !is_alone);
        let owners = owners.into_iter().flatten();
        let there = owners.filter(move |process| around.was_there(**process, start));
        there.chain(self.extent.spans().keys()).copied()
    }

    /// What has not arrived yet; `None` if it is complete.
    pub(super) fn missing(
        &self,
        boundaries: &Boundaries,
        around: &InstanceEnvironment<'_>,
    ) -> Option<String> {
        let name = |process: &ProcessId| match around.ranks.get(process) {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", process.0),
        };
        let ended = |process: &ProcessId| matches!(self.extent.of(*process), Some((_, Some(_))));
        if let Some(process) = self.awaited(boundaries, around).find(|process| !ended(process)) {
            return Some(format!("{} has not ended it", name(&process)));
        }
        if boundaries.complete.is_empty() {
            return None;
        }
        let start = self.start();
        let mut data = self.data(around);
        data.duration = None;
        for (role, condition) in &boundaries.complete {
            let members = around.roles.get(*role).into_iter().flatten();
            let members = members.filter(|process| around.was_there(**process, start));
            for process in members {
                let seen = Context {
                    window: Some(&data),
                    sees: Some((*role, *process)),
                    ..Context::default()
                };
                let metrics = around.rule.evaluate_in(self.frame.window, seen);
                let context = Context {
                    metrics: &metrics,
                    ..seen
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
