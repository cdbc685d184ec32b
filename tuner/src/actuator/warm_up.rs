//! The warm-up of a set: does everything that a set does except the write, so that code, data and page tables
//! are in the caches when a set follows at once. Fetching them takes longer than the set itself.
//!
//! A [`SetWarmUp`] can be made of a set, but not a set of it: its content is visible here alone, and is
//! passed only to functions that take the writer and the place by shared reference. So nothing is written but
//! a line to an unnamed file; nothing is announced, cached or answered, and no lock is taken.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use super::SetCommand;
use super::session::{Session, requested, stated};

/// A set that is not to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SetWarmUp(SetCommand);

impl SetWarmUp {
    /// The warm-up of sets like this one.
    pub fn of(command: SetCommand) -> SetWarmUp {
        SetWarmUp(command)
    }
}

impl Session {
    /// Executes the path of a set whose place was validated before; the first set of any other is slow anyway.
    /// An error is reported when the set is made.
    pub(super) fn warm_up(&self, SetWarmUp(command): SetWarmUp) {
        let (writer, place) = (self.writers.get(&command.pid), self.slots.get(&stated(&command)));
        let (Some(writer), Some(place)) = (writer, place) else {
            return;
        };
        if place.check_untraced().is_ok()
            && let Ok(request) = requested(command, place)
        {
            let _ = black_box(writer.warm_up_set(place, request));
        }
    }
}
