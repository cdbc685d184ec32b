//! Begin and end of the instances of a keyed window; assigns a hit to its instance. [`super::node`] gets the
//! table from a coordinator, so that it assigns the hits of its processes as a single evaluator would.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::value::{Key, Time};

/// Ended instances that are remembered, to distinguish late hits from early ones.
const CLOSED_MAX: usize = 1024;
/// Number of other instances that may begin between a hit and the begin of its own.
const PATIENCE: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) index: u64,
    pub(super) key: Option<Key>,
    pub(super) begun: Time,
    /// The last time at which a hit could belong to it, once it is over.
    pub(super) over: Option<Time>,
}

/// The instances of a window in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(super) struct InstanceTable {
    entries: VecDeque<Entry>,
    /// Index of the last match: hits of one key are often consecutive.
    hint: usize,
}

/// The instance of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyMatch {
    Instance(u64),
    Late,
    /// Its instance is not among those that began soon after it.
    Outside,
    Waits,
}

impl InstanceTable {
    pub(super) fn begun(&mut self, index: u64, key: Option<Key>, begun: Time) {
        self.entries.push_back(Entry {
            index,
            key,
            begun,
            over: None,
        });
    }

    pub(super) fn over(&mut self, index: u64, time: Time) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.index == index) {
            entry.over = Some(time);
        }
        while self.entries.len() > CLOSED_MAX
            && self.entries.front().is_some_and(|entry| entry.over.is_some())
        {
            self.entries.pop_front();
        }
    }

    /// Merges another table's entry for an instance.
    pub(super) fn learn(&mut self, entry: &Entry) {
        match self.entries.iter_mut().find(|known| known.index == entry.index) {
            Some(known) => known.over = known.over.max(entry.over),
            None => {
                let index = self.entries.partition_point(|known| known.index < entry.index);
                self.entries.insert(index, entry.clone());
            }
        }
        if let Some(over) = entry.over {
            self.over(entry.index, over);
        }
    }

    /// The entry of an instance.
    pub(super) fn get(&self, index: u64) -> Option<&Entry> {
        let at = self.entries.partition_point(|known| known.index < index);
        self.entries.get(at).filter(|known| known.index == index)
    }

    /// The instances that are open, or were not over before `since`.
    pub(super) fn since(&self, since: Option<Time>) -> Vec<Entry> {
        let recent = |entry: &&Entry| entry.over.is_none_or(|over| Some(over) >= since);
        self.entries.iter().filter(recent).cloned().collect()
    }

    /// The instance of a hit with this key and time.
    pub(super) fn find(&mut self, key: &Key, time: Time) -> KeyMatch {
        let is_it = |entry: &Entry| entry.key.as_ref() == Some(key);
        let index = match self.entries.get(self.hint) {
            Some(entry) if is_it(entry) => Some(self.hint),
            _ => self.entries.iter().rposition(is_it),
        };
        let first_behind = || self.entries.partition_point(|entry| entry.begun <= time);
        let Some(index) = index else {
            let behind = self.entries.len() - first_behind();
            return if behind > PATIENCE {
                KeyMatch::Outside
            } else {
                KeyMatch::Waits
            };
        };
        self.hint = index;
        let Some(entry) = self.entries.get(index) else {
            return KeyMatch::Waits;
        };
        if entry.over.is_some_and(|over| time > over) {
            KeyMatch::Late
        } else if time < entry.begun && index.saturating_sub(first_behind()) > PATIENCE {
            KeyMatch::Outside
        } else {
            KeyMatch::Instance(entry.index)
        }
    }

    /// The latest instance with this key.
    pub(super) fn of_key(&self, key: &Key) -> Option<u64> {
        let entries = self.entries.iter().rev();
        let found = entries.into_iter().find(|entry| entry.key.as_ref() == Some(key));
        found.map(|entry| entry.index)
    }

    /// The instances that were open at a time.
    pub(super) fn at(&self, time: Time) -> impl Iterator<Item = u64> {
        let went_on = move |entry: &&Entry| entry.begun <= time && entry.over.is_none_or(|over| time <= over);
        self.entries.iter().filter(went_on).map(|entry| entry.index)
    }
}
