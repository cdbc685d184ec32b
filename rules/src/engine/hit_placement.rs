//! A hit to be placed into a window: its key, the boundaries of the window, and the enclosing instance.
//!
//! The instance is chosen elsewhere, see [`super::track`].

use super::instance::{Instance, InstanceEnvironment};
use super::nest::Nest;
use super::output::Dropped;
use super::stream::Arrived;
use crate::hit::Hit;
use crate::value::{Key, Time};
use crate::window::{Boundaries, Straddle};

/// Keys distinguish instances within the enclosing instance.
pub(super) type Name = (Option<u64>, Key);

/// A hit to be placed into a window.
pub(super) struct HitPlacement<'a> {
    pub(super) arrived: &'a Arrived,
    pub(super) key: Option<Key>,
    pub(super) boundaries: &'a Boundaries,
    pub(super) enclosing: Option<&'a Instance>,
    pub(super) nest: &'a Nest<'a>,
}

impl HitPlacement<'_> {
    pub(super) fn name(&self, key: &Key) -> Name {
        (self.enclosing.map(|instance| instance.frame.number), key.clone())
    }

    pub(super) fn is_shared(&self) -> bool {
        is_shared(self.boundaries, self.nest.around)
    }
}

/// Whether one process hits the boundaries of a window for all.
pub(super) fn is_shared(boundaries: &Boundaries, around: &InstanceEnvironment<'_>) -> bool {
    around.owners(boundaries).is_none_or(|owners| owners.len() <= 1)
}

/// Whether the end condition of an instance depends on hits of a probe, which may be hits of the enclosing
/// window.
pub(super) fn may_end(boundaries: &Boundaries, probe: usize) -> bool {
    boundaries.until.iter().any(|condition| condition.folds(probe))
}

/// The key of a hit; the inner `None` if the window has no key for its probe.
pub(super) fn key_of(arrived: &Arrived, boundaries: &Boundaries) -> Option<Option<Key>> {
    match boundaries.keys.get(arrived.probe).copied().flatten() {
        None => Some(None),
        Some(capture) => match arrived.hit.captures.get(capture) {
            Some(Ok(value)) => Some(Some(Key::of(value))),
            _ => None,
        },
    }
}

pub(super) fn began(hit: &Hit) -> Time {
    Time(hit.time.0.saturating_sub(hit.duration_ns))
}

/// Adds a hit to an instance; spans that began before the instance may be left out.
pub(super) fn put(
    instance: &mut Instance,
    arrived: &Arrived,
    boundaries: &Boundaries,
    dropped: &mut Dropped,
) {
    let straddles = arrived.hit.duration_ns > 0 && began(&arrived.hit) < instance.start();
    if boundaries.straddle == Straddle::Drop && straddles {
        dropped.straddling += 1;
    } else {
        instance.take(arrived);
    }
}
