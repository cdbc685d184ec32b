//! The data of one instance of a window: the state of each fold for each process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::room::Room;
use super::source::{cell, holds, key, number_in};
use super::state::{AggregateState, HitPosition};
use crate::folds::{Intake, Source, WindowFolds};
use crate::hit::Hit;
use crate::partial_sum::PartialSum;
use crate::term::{Field, Term};
use crate::value::{Key, ProcessId, WhyMissing};

/// Hits that are kept of an instance in a job of few processes; further ones make it partial.
const HITS: usize = 65_536;

/// The folded and the kept hits of an instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(super) folds: Arc<WindowFolds>,
    pub(super) room: Room,
    /// Ordered by process and probe; each has the folds of the probe in the order of its table.
    pub(super) rows: Vec<((ProcessId, usize), Vec<ProcessFold>)>,
    /// For each probe, its hits, if a fold waits for the close.
    pub(super) kept: Vec<Vec<Hit>>,
    pub(super) hits: usize,
    pub(super) states: usize,
    pub(super) hits_kept: usize,
    /// Something was left out for lack of room.
    pub(super) is_truncated: bool,
    /// Index of the last row found: hits of one process and probe are often consecutive.
    pub(super) hint: usize,
}

/// The state of one fold for one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProcessFold {
    pub(super) groups: Groups,
    /// Why a hit could not be filtered or assigned to a row: the lexicographically smallest reasons.
    pub(super) unchosen: Option<Box<WhyMissing>>,
    pub(super) unkeyed: Option<Box<WhyMissing>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Groups {
    One(AggregateState),
    Keyed(BTreeMap<Key, AggregateState>),
}

/// Contents are equal if they contain the same hits, in any order.
impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        let sorted = |content: &Content| {
            let kept = content.kept.iter().cloned().enumerate();
            let mut kept: Vec<(usize, Vec<Hit>)> = kept.filter(|(_, hits)| !hits.is_empty()).collect();
            kept.iter_mut().for_each(|(_, hits)| hits.sort_by(Hit::order));
            kept
        };
        self.rows == other.rows && self.hits == other.hits && sorted(self) == sorted(other)
    }
}

impl Content {
    pub(crate) fn new(folds: Arc<WindowFolds>, room: Room) -> Content {
        Content {
            room,
            kept: vec![Vec::new(); folds.names.len()],
            folds,
            ..Content::default()
        }
    }

    pub(crate) fn folds(&self) -> Arc<WindowFolds> {
        Arc::clone(&self.folds)
    }

    /// The number of its folds.
    pub(crate) fn fold_count(&self) -> usize {
        self.folds.folds.len()
    }

    /// The number of its states.
    pub(crate) fn states(&self) -> usize {
        self.states
    }

    /// The number of its hits.
    pub(crate) fn len(&self) -> usize {
        self.hits
    }

    pub(crate) fn take(&mut self, probe: usize, hit: &Hit) {
        self.hits += 1;
        if self.folds.keeps.get(probe) == Some(&true) {
            self.hits_kept += 1;
            let has_room = self.hits_kept <= self.room.bound(HITS);
            self.is_truncated |= !has_room;
            if let Some(kept) = self.kept.get_mut(probe).filter(|_| has_room) {
                kept.push(hit.clone());
            }
        }
        if self.is_truncated {
            return;
        }
        let of_probe = self.folds.of_probe.get(probe).map_or(&[][..], Vec::as_slice);
        if !of_probe.is_empty() {
            let (row, more) = row(&mut self.rows, &self.folds, (hit.process, probe), &mut self.hint);
            self.states += more;
            for (row, index) in row.iter_mut().zip(of_probe) {
                if let Some(fold) = self.folds.folds.get(*index) {
                    self.states += row.take(fold, hit);
                }
            }
            self.is_truncated |= self.states > self.states_max();
        }
    }

    /// Adds an aggregate of hits of a process; `parts` are the fields of a hit, each with the index of its
    /// sums.
    pub(crate) fn take_partial_sum(
        &mut self,
        process: ProcessId,
        probe: usize,
        partial_sum: &PartialSum,
        parts: &[(Field, usize)],
    ) {
        let hits = usize::try_from(partial_sum.count).unwrap_or(usize::MAX);
        self.hits = self.hits.saturating_add(hits);
        let of_probe = self.folds.of_probe.get(probe).map_or(&[][..], Vec::as_slice);
        if of_probe.is_empty() {
            return;
        }
        let (row, more) = row(&mut self.rows, &self.folds, (process, probe), &mut self.hint);
        self.states += more;
        for (row, index) in row.iter_mut().zip(of_probe) {
            let (Some(fold), Groups::One(state)) = (self.folds.folds.get(*index), &mut row.groups) else {
                continue;
            };
            let part = match &fold.of {
                Source::Hits => None,
                Source::Duration => Some(Field::Duration),
                Source::Value(of) => match of.term {
                    Term::Field(field) => Some(field),
                    _ => None,
                },
            };
            let sums = parts.iter().find(|(known, _)| Some(*known) == part);
            let sums = sums.and_then(|(_, index)| partial_sum.sums.get(*index));
            state.add_partial_sum(partial_sum.count, sums, part == Some(Field::Duration));
        }
    }

    /// The most states that it has room for.
    pub(super) fn states_max(&self) -> usize {
        self.room.states(self.folds.folds.len())
    }

    /// False if something was left out.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_truncated
    }

    /// The process and the probe of its first row.
    pub(crate) fn first(&self) -> Option<(ProcessId, usize)> {
        self.rows.first().map(|(of, _)| *of)
    }

    /// Merges the content of other hits. Takes no longer with more rows here if those of the other are behind them.
    pub(crate) fn append(&mut self, mut other: Content) {
        let is_behind = self.rows.last().map(|(of, _)| *of) < other.first();
        if is_behind && other.kept.iter().all(Vec::is_empty) && !other.is_truncated {
            self.hits = self.hits.saturating_add(other.hits);
            self.states += other.states;
            self.rows.append(&mut other.rows);
            self.is_truncated |= self.states > self.states_max();
        } else {
            self.merge(&other);
        }
    }

    /// Merges the content of other hits.
    pub(crate) fn merge(&mut self, other: &Content) {
        self.hits = self.hits.saturating_add(other.hits);
        self.hits_kept += other.hits_kept;
        self.is_truncated |= other.is_truncated || self.hits_kept > self.room.bound(HITS);
        for (kept, more) in self.kept.iter_mut().zip(&other.kept) {
            let room = self.room.bound(HITS).saturating_sub(kept.len());
            kept.extend(more.iter().take(room).cloned());
        }
        let mut rest = other.rows.as_slice();
        while let Some((of, rows)) = rest.first()
            && !self.is_truncated
        {
            match self.rows.binary_search_by_key(of, |(known, _)| *known) {
                Ok(index) => {
                    for (row, other) in self.rows[index].1.iter_mut().zip(rows) {
                        self.states += row.merge(other);
                    }
                    rest = &rest[1..];
                }
                // The processes of a node are often consecutive: their rows are inserted at once.
                Err(index) => {
                    let next = self.rows.get(index).map(|(known, _)| *known);
                    let until = rest.partition_point(|(of, _)| next.is_none_or(|next| *of < next));
                    let (new, others) = rest.split_at(until);
                    let states = new.iter().flat_map(|(_, rows)| rows).map(ProcessFold::states);
                    self.states += states.sum::<usize>();
                    self.rows.splice(index..index, new.iter().cloned());
                    rest = others;
                }
            }
            self.is_truncated |= self.states > self.states_max();
        }
    }

    /// Merges the rows of the processes for which `counts` holds, where no fold needs a row for each: bytes of a
    /// message that do not depend on the number of processes.
    pub(crate) fn collapse(&mut self, counts: impl Fn(ProcessId) -> bool) {
        let mut first: BTreeMap<usize, (ProcessId, Vec<ProcessFold>)> = BTreeMap::new();
        let folds = Arc::clone(&self.folds);
        self.rows.retain_mut(|((process, probe), rows)| {
            if folds.has_row_of_each(*probe) || !counts(*process) {
                return true;
            }
            match first.entry(*probe) {
                Entry::Vacant(index) => {
                    index.insert((*process, std::mem::take(rows)));
                }
                Entry::Occupied(known) => {
                    let (_, known) = known.into_mut();
                    for (known, row) in known.iter_mut().zip(rows) {
                        known.merge(row);
                    }
                }
            }
            false
        });
        let merged = first.into_iter();
        self.rows
            .extend(merged.map(|(probe, (process, rows))| ((process, probe), rows)));
        self.rows.sort_by_key(|(of, _)| *of);
        let states = self
            .rows
            .iter()
            .flat_map(|(_, rows)| rows)
            .map(ProcessFold::states);
        self.states = states.sum();
    }

    /// Removes the hits of some processes.
    pub(crate) fn leave_out(&mut self, processes: &[ProcessId]) {
        self.rows.retain(|((process, _), _)| !processes.contains(process));
        for kept in &mut self.kept {
            kept.retain(|hit| !processes.contains(&hit.process));
        }
        self.hits_kept = self.kept.iter().map(Vec::len).sum();
    }

    /// The processes that have hits in it.
    pub(crate) fn processes(&self) -> impl Iterator<Item = ProcessId> {
        let kept = self.kept.iter().flatten().map(|hit| hit.process);
        self.rows.iter().map(|((process, _), _)| *process).chain(kept)
    }
}

/// The rows of a probe's folds for a process, with the number of states that were created.
fn row<'r>(
    rows: &'r mut Vec<((ProcessId, usize), Vec<ProcessFold>)>,
    folds: &WindowFolds,
    of: (ProcessId, usize),
    hint: &mut usize,
) -> (&'r mut Vec<ProcessFold>, usize) {
    let is_it = |index: &usize| rows.get(*index).is_some_and(|(known, _)| *known == of);
    // Processes are often consecutive, and the probes of one process alternate.
    let near = [*hint, *hint + 1, hint.saturating_sub(1)];
    let found = near
        .into_iter()
        .find(is_it)
        .map_or_else(|| rows.binary_search_by_key(&of, |(known, _)| *known), Ok);
    let (index, more) = match found {
        Ok(index) => (index, 0),
        Err(index) => {
            let of_probe = folds.of_probe.get(of.1).map_or(&[][..], Vec::as_slice);
            let intakes = of_probe.iter().filter_map(|index| folds.folds.get(*index));
            rows.insert(index, (of, intakes.map(ProcessFold::new).collect()));
            (index, of_probe.len())
        }
    };
    *hint = index;
    (&mut rows[index].1, more)
}

impl ProcessFold {
    fn new(fold: &Intake) -> ProcessFold {
        ProcessFold {
            groups: match fold.by {
                Some(_) => Groups::Keyed(BTreeMap::new()),
                None => Groups::One(fold.empty()),
            },
            unchosen: None,
            unkeyed: None,
        }
    }

    /// The number of its states, and one for a table of rows.
    pub(super) fn states(&self) -> usize {
        match &self.groups {
            Groups::One(_) => 1,
            Groups::Keyed(groups) => 1 + groups.len(),
        }
    }

    /// Returns the number of states that were created.
    fn take(&mut self, fold: &Intake, hit: &Hit) -> usize {
        if let Some(filter) = &fold.filter {
            match holds(filter, hit) {
                Ok(true) => {}
                Ok(false) => return 0,
                Err(reason) => {
                    WhyMissing::keep_first(&mut self.unchosen, &reason);
                    return 0;
                }
            }
        }
        match (&mut self.groups, &fold.by) {
            (Groups::Keyed(groups), Some(by)) => match key(by, hit) {
                Ok(key) => {
                    let before = groups.len();
                    add(groups.entry(key).or_insert_with(|| fold.empty()), fold, hit);
                    groups.len() - before
                }
                Err(reason) => {
                    WhyMissing::keep_first(&mut self.unkeyed, &reason);
                    0
                }
            },
            (Groups::One(state), _) => {
                add(state, fold, hit);
                0
            }
            (Groups::Keyed(_), None) => 0,
        }
    }

    /// Returns the number of states that were created.
    fn merge(&mut self, other: &ProcessFold) -> usize {
        for (mine, other) in [
            (&mut self.unchosen, &other.unchosen),
            (&mut self.unkeyed, &other.unkeyed),
        ] {
            other
                .iter()
                .for_each(|reason| WhyMissing::keep_first(mine, reason));
        }
        match (&mut self.groups, &other.groups) {
            (Groups::One(state), Groups::One(other)) => state.merge(other),
            (Groups::Keyed(groups), Groups::Keyed(others)) => {
                let before = groups.len();
                for (key, other) in others {
                    match groups.entry(key.clone()) {
                        Entry::Occupied(state) => state.into_mut().merge(other),
                        Entry::Vacant(index) => {
                            index.insert(other.clone());
                        }
                    }
                }
                return groups.len() - before;
            }
            // Rows of one fold have the same kind.
            _ => {}
        }
        0
    }
}

/// Adds a hit to the state of a fold.
fn add(state: &mut AggregateState, fold: &Intake, hit: &Hit) {
    let index = HitPosition::of(hit);
    match &fold.of {
        Source::Hits => state.count(),
        Source::Duration if fold.second.is_none() => state.add_duration(hit.duration_ns, index),
        Source::Duration => {
            let value = crate::value::finite(hit.duration_ns as f64 / 1e9);
            state.add(value, fold.second.as_ref().map(|x| cell(x, hit)), index);
        }
        Source::Value(of) => match (number_in(of, hit), &fold.second) {
            (Some(value), None) => state.add_number(value, index),
            (_, second) => state.add(cell(of, hit), second.as_ref().map(|x| cell(x, hit)), index),
        },
    }
}
