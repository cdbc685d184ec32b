//! The warm-up of a set: everything that a set takes, up to the write and without it, so that code, data and
//! page tables are in the caches when a set follows at once: fetching them takes longer than the set itself.
//!
//! A [`SetWarmUp`] can be made of a set, but no set of it: its content is visible here alone, and goes only
//! into functions that take the writer and the slot to be read. So nothing is written but a line to a file
//! without a name; nothing is announced, remembered or answered, and no lock is taken.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use super::SetCommand;
use super::session::{Session, requested, stated};

/// A set that is not to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SetWarmUp(SetCommand);

impl SetWarmUp {
    /// Of a set such as is expected.
    pub fn of(command: SetCommand) -> SetWarmUp {
        SetWarmUp(command)
    }
}

impl Session {
    /// Goes the path of a set to a place that was written before; of others the first set is slow anyway. An
    /// error is reported when the set is made.
    pub(super) fn warm_up(&self, SetWarmUp(command): SetWarmUp) {
        let (writer, slot) = (self.writers.get(&command.pid), self.slots.get(&stated(&command)));
        let (Some(writer), Some(slot)) = (writer, slot) else {
            return;
        };
        if slot.check_untraced().is_ok()
            && let Ok(request) = requested(command, slot)
        {
            let _ = black_box(writer.warm_up_set(slot, request));
        }
    }
}
