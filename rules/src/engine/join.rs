//! Pairs of hits: each hit of the first probe waits for the hit of the second with the same keys, first in,
//! first out.
//!
//! Hits arrive in the order of their times. A second hit without a waiting first hit is dropped: its first
//! hit was lost, or came before the engine began, and pairing it with a later one would be wrong.

use std::collections::{BTreeMap, VecDeque};

use super::output::Dropped;
use super::stream::Arrived;
use crate::eval::partial::Room;
use crate::hit::Hit;
use crate::rule::Join;
use crate::term::Field;
use crate::value::Key;

/// Hits that may wait for their second hit, in a job of few processes.
const WAITING: usize = 65_536;

/// The waiting hits of one join.
#[derive(Clone, Debug, Default)]
pub(super) struct Joiner {
    waiting: BTreeMap<Vec<Key>, VecDeque<Hit>>,
    count: usize,
}

impl Joiner {
    /// Drops the waiting hits after a loss, because they could be paired incorrectly.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.count = 0;
    }

    /// Takes a hit; returns the pair that it completes.
    pub(super) fn take(
        &mut self,
        arrived: &Arrived,
        join: &Join,
        room: Room,
        dropped: &mut Dropped,
    ) -> Option<Hit> {
        let is_first = arrived.probe == join.of.0;
        if !is_first && arrived.probe != join.of.1 {
            return None;
        }
        let sides = join
            .by
            .iter()
            .map(|(first, second)| if is_first { *first } else { *second });
        let Some(key) = key(&arrived.hit, sides) else {
            dropped.unplaced += 1;
            return None;
        };
        if is_first {
            if self.count < room.bound(WAITING) {
                self.count += 1;
                self.waiting
                    .entry(key)
                    .or_default()
                    .push_back(arrived.hit.clone());
            } else {
                dropped.overflow += 1;
            }
            return None;
        }
        let queue = self.waiting.get_mut(&key);
        let first = queue.and_then(VecDeque::pop_front);
        if self.waiting.get(&key).is_some_and(VecDeque::is_empty) {
            self.waiting.remove(&key);
        }
        let Some(first) = first else {
            dropped.outside += 1;
            return None;
        };
        self.count -= 1;
        Some(pair(join, &first, &arrived.hit))
    }
}

fn key(hit: &Hit, fields: impl Iterator<Item = Field>) -> Option<Vec<Key>> {
    fields
        .map(|field| hit.field(field).ok().map(|value| Key::of(&value)))
        .collect()
}

/// A pair has the time and process of its second hit.
fn pair(join: &Join, first: &Hit, second: &Hit) -> Hit {
    let part = |(side, field): &(usize, Field)| {
        let hit = if *side == 0 { first } else { second };
        hit.field(*field).map_err(String::from)
    };
    Hit {
        duration_ns: 0,
        captures: join.parts.iter().map(part).collect(),
        ..second.clone()
    }
}
