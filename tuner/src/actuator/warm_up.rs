//! A set for practice: everything that a set takes, up to the write and without it. Whoever expects one at once has it practised, so that
//! code, data and page tables are at hand then: fetching them takes longer than the set itself.
//!
//! A [`SetWarmUp`] can be made of a set, but no set of it: what is in it is seen here alone, and goes only into functions that
//! take the writer and the slot to be looked at. So nothing is written but a line to a file without a name; nothing is announced, remembered
//! or answered, and nobody's lock is taken.

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
    /// Goes the way of a set to a place that was written before; of others the first set is slow anyway. What is wrong with it is told
    /// when it is to be made.
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
