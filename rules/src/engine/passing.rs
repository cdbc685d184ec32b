//! A hit on its way into a window: its key, the borders it meets, and the instance around it.
//!
//! Where it goes is decided elsewhere, see [`super::track`].

use super::instance::{Instance, Surroundings};
use super::nest::Nest;
use super::stream::Arrived;
use crate::value::Key;
use crate::window::Borders;

/// A key tells instances apart within the enclosing one.
pub(super) type Name = (Option<u64>, Key);

/// A hit on its way into a window.
pub(super) struct Passing<'a> {
    pub(super) arrived: &'a Arrived,
    pub(super) key: Option<Key>,
    pub(super) borders: &'a Borders,
    pub(super) enclosing: Option<&'a Instance>,
    pub(super) nest: &'a Nest<'a>,
}

impl Passing<'_> {
    pub(super) fn name(&self, key: &Key) -> Name {
        (self.enclosing.map(|instance| instance.frame.number), key.clone())
    }

    pub(super) fn is_shared(&self) -> bool {
        is_shared(self.borders, self.nest.around)
    }
}

/// Whether one process hits the borders of a window for all.
pub(super) fn is_shared(borders: &Borders, around: &Surroundings<'_>) -> bool {
    around.owners(borders).is_none_or(|owners| owners.len() <= 1)
}

/// Whether the condition that ends an instance is about hits of a probe: it may be about those of the window around.
pub(super) fn may_end(borders: &Borders, probe: usize) -> bool {
    borders.until.iter().any(|condition| condition.folds(probe))
}

/// The key of a hit, the inner nothing where the window has none for its probe.
pub(super) fn key_of(arrived: &Arrived, borders: &Borders) -> Option<Option<Key>> {
    match borders.keys.get(arrived.probe).copied().flatten() {
        None => Some(None),
        Some(capture) => match arrived.hit.captures.get(capture) {
            Some(Ok(value)) => Some(Some(Key::of(value))),
            _ => None,
        },
    }
}
