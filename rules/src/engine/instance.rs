//! One time through a window: where it begins and ends in each process, what it holds, and what it still
//! lacks.
//!
//! Which hits belong to it and when it closes is decided elsewhere, see [`super::track`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content;
use super::stream::Arrived;
use crate::eval::partial::Content;
use crate::eval::{Around, Context, WindowData, boolean};
use crate::rule::CheckedRule;
use crate::value::{Key, ProcessId, Time};
use crate::window::Boundaries;

/// Why an instance is not complete that may have had a hit which was lost.
pub(super) const HITS_LOST: &str = "hits were lost in it";

/// What an instance needs of its surroundings.
pub(super) struct Surroundings<'a> {
    pub(super) rule: &'a CheckedRule,
    pub(super) roles: &'a [BTreeSet<ProcessId>],
    pub(super) ranks: &'a BTreeMap<ProcessId, u32>,
    /// When each process that is still there joined.
    pub(super) joined: &'a BTreeMap<ProcessId, Time>,
}

impl Surroundings<'_> {
    /// The processes that begin instances of a window.
    pub(super) fn owners(&self, boundaries: &Boundaries) -> Option<&BTreeSet<ProcessId>> {
        let role = self.rule.role_of_begin(boundaries);
        role.and_then(|role| self.roles.get(role))
    }

    /// Whether a process had joined by this time and has not left since.
    pub(super) fn was_there(&self, process: ProcessId, time: Time) -> bool {
        self.joined.get(&process).is_some_and(|joined| *joined <= time)
    }
}

/// An instance by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) window: usize,
    /// Counts the instances of its window since the beginning.
    pub(super) number: u64,
    /// Counts them within the enclosing instance; the same where there is none.
    pub(super) index: u64,
}

/// An instance that is over, and what it lacks.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) instance: Instance,
    pub(super) missing: Option<String>,
}

/// One time through a window.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) frame: Frame,
    /// The instances around it, the nearest first.
    pub(super) outer: Vec<Frame>,
    /// What those held when it ended, as far as its formulas look at it.
    pub(super) around: Vec<Around>,
    pub(super) key: Option<Key>,
    /// Where it began and ended in each process that hit its boundaries.
    pub(super) boundaries: BTreeMap<ProcessId, (Time, Option<Time>)>,
    pub(super) content: Arc<Content>,
    /// Why it cannot be complete.
    pub(super) incomplete: Option<String>,
    /// When the last of the hits came that were placed in order.
    pub(super) last: Time,
    /// What it lacked when it was last looked at, and how many hits it had then.
    pub(super) lacked: Option<(usize, Option<String>)>,
}

impl Instance {
    pub(super) fn start(&self) -> Time {
        let starts = self.boundaries.values().map(|(start, _)| *start);
        starts.min().unwrap_or_default()
    }

    /// When it ended in the last of its processes; none while it goes on in one.
    pub(super) fn end(&self) -> Option<Time> {
        let mut ends = self.boundaries.values().map(|(_, end)| *end);
        ends.try_fold(Time::default(), |last, end| Some(last.max(end?)))
    }

    /// Ends it wherever it goes on.
    pub(super) fn end_everywhere(&mut self, time: Time) {
        self.lacked = None;
        self.boundaries.values_mut().for_each(|(_, end)| {
            end.get_or_insert(time);
        });
    }

    /// Where it began and ended for a process: in that process, or, where it is `shared`, in the one that hit
    /// its boundaries.
    pub(super) fn boundaries_for(
        &self,
        process: ProcessId,
        shared: impl FnOnce() -> bool,
    ) -> Option<(Time, Option<Time>)> {
        let own = self.boundaries.get(&process);
        own.or_else(|| self.boundaries.values().next().filter(|_| shared()))
            .copied()
    }

    /// Of several reasons the smallest is kept, whichever came first.
    pub(super) fn mark_incomplete(&mut self, reason: &str) {
        if self.incomplete.as_deref().is_none_or(|known| reason < known) {
            self.incomplete = Some(reason.to_string());
        }
    }

    /// Takes a hit, or what was made of others elsewhere.
    pub(super) fn fill(&mut self, with: impl FnOnce(&mut Content)) {
        let content = Arc::make_mut(&mut self.content);
        with(content);
        if !content.has_room() {
            self.mark_incomplete("it has more hits than are kept");
        }
    }

    pub(super) fn take(&mut self, arrived: &Arrived) {
        self.last = self.last.max(arrived.hit.time);
        self.fill(|content| content.take(arrived.probe, &arrived.hit));
    }

    /// Where it began and ended in each process, if several hit its boundaries.
    fn own(&self) -> BTreeMap<ProcessId, (Time, Time)> {
        let several = self.boundaries.iter().filter(|_| self.boundaries.len() > 1);
        let own = |(process, (start, end)): (&ProcessId, &(Time, Option<Time>))| {
            Some((*process, (*start, (*end)?)))
        };
        several.filter_map(own).collect()
    }

    /// The instance that directly encloses it.
    pub(super) fn enclosing(&self) -> Option<u64> {
        self.outer.first().map(|frame| frame.number)
    }

    /// What formulas see of it. Measures are not in it.
    pub(super) fn data(&self, around: &Surroundings<'_>) -> WindowData {
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
            ..content::data(&self.content, self.frame.index, around)
        }
    }

    /// The processes that must begin and end it.
    pub(super) fn awaited<'a>(
        &'a self,
        boundaries: &Boundaries,
        around: &'a Surroundings<'_>,
    ) -> impl Iterator<Item = ProcessId> + 'a {
        let start = self.start();
        let owners = around.owners(boundaries).into_iter().flatten();
        let there = owners.filter(move |process| around.was_there(**process, start));
        there.chain(self.boundaries.keys()).copied()
    }

    /// What has not come yet; nothing if it is complete.
    pub(super) fn missing(&self, boundaries: &Boundaries, around: &Surroundings<'_>) -> Option<String> {
        let name = |process: &ProcessId| match around.ranks.get(process) {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", process.0),
        };
        let ended = |process: &ProcessId| matches!(self.boundaries.get(process), Some((_, Some(_))));
        if let Some(process) = self.awaited(boundaries, around).find(|process| !ended(process)) {
            return Some(format!("{} has not ended it", name(&process)));
        }
        if boundaries.complete.is_empty() {
            return None;
        }
        let start = self.start();
        let mut data = self.data(around);
        data.duration = Err("it is not over".to_string());
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
