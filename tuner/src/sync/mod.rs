//! Sync points: the places at which an action takes effect.
//!
//! A [`plan::SyncPoint`] is named by a user or a rule; a [`ResolvedPoint`] is that function found in a
//! process. [`crate::rendezvous`] holds threads there.

mod key;
mod point;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use key::resolve;
pub(crate) use point::PointError;
pub use point::ResolvedPoint;

use crate::address::{Address, FileOffset};

/// Where a hit finds the number of the iteration that it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// In an argument of the function, of 4 or 8 bytes; the first is 0. At entries only.
    Argument { index: u8, bytes: u8 },
    Memory {
        address: Address,
        /// Its size, 4 or 8.
        bytes: u8,
    },
}

/// How the program passed the sync point while an action waited for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldStatistics {
    /// Hits since the action was armed; it took effect at the last one.
    pub hits: u64,
    /// Hits that were held up to the bound without an answer.
    pub misses: u64,
    /// Hits that were not held, because another thread was.
    pub passed: u64,
    /// Nanoseconds for which the thread was held when the action took effect.
    pub hold_ns: u64,
    /// Nanoseconds for which threads were held before without effect.
    pub missed_ns: u64,
    /// The thread that was held last.
    pub thread: u32,
    /// The answering thread had real-time priority. Without it, answers are late on a busy machine, and hits
    /// are missed.
    pub real_time: bool,
}

/// A path at which the file of a sync point can be opened for probing, and the offsets in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncFile {
    pub path: PathBuf,
    /// Its first instruction, or every return instruction.
    pub offsets: Vec<FileOffset>,
}
