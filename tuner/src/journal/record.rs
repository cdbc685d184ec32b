//! What a line of the journal holds.

use plan::Bytes;
use serde::{Deserialize, Serialize};

use super::action::ActionRecord;
use crate::arena::Arena;
use crate::author::Author;
use crate::clock::Instant;
use crate::process::{Pid, ThreadId};
use crate::sync::Passage;

/// The process that is changed, so that no other is ever taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedProcess {
    /// Number and start time.
    pub pid: Pid,
    /// The boot of the machine: start times count from there.
    pub boot: String,
    pub executable: String,
}

/// Why an action is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub why: Vec<String>,
    pub rule: Option<String>,
}

/// What is going to be done, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Its number: unique and increasing in the file.
    pub change: u64,
    pub at: Instant,
    pub who: Author,
    /// Why, a line each.
    pub why: Vec<String>,
    /// The rule behind it; none when it was done by hand.
    pub rule: Option<String>,
    pub target: ChangedProcess,
    #[serde(flatten)]
    pub action: ActionRecord,
}

/// How the bytes got there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// A plain write while the program runs; it was not held.
    Plain,
    /// A write while the thread at the sync point was held in the kernel.
    Rendezvous,
    /// The probe at the sync point wrote by itself; no thread was held.
    Store,
    /// The thread at the sync point was stopped, one instruction behind it.
    Stop,
    HoldThread,
    HoldAll,
}

/// How something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteHold {
    pub mechanism: Mechanism,
    /// How long the program was held for it.
    pub hold_ns: u64,
    /// How it met its sync point, if it was to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passage: Option<Passage>,
}

impl WriteHold {
    /// Of a write while the program runs.
    pub(crate) const PLAIN: WriteHold = WriteHold {
        mechanism: Mechanism::Plain,
        hold_ns: 0,
        passage: None,
    };

    /// Of an action at any instant.
    pub(crate) fn of(mechanism: Mechanism, hold_ns: u64) -> WriteHold {
        WriteHold {
            mechanism,
            hold_ns,
            passage: None,
        }
    }

    /// Of one that met, or missed, its sync point.
    pub(crate) fn at(mechanism: Mechanism, passage: Passage) -> WriteHold {
        WriteHold {
            mechanism,
            hold_ns: passage.hold_ns,
            passage: Some(passage),
        }
    }
}

/// What came of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Written, and read back.
    Applied,
    /// Not written, for this reason.
    NotWritten(String),
    /// Written, and then something else was found there: the program writes it too.
    Overwritten(Bytes),
}

/// What came of taking a change back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertOutcome {
    /// The old value is back.
    Reverted,
    /// The program has changed it since, to this; left alone.
    ChangedSince(Bytes),
    /// Not written, for this reason.
    Failed(String),
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum JournalRecord {
    Intent(Box<Intent>),
    Outcome {
        change: u64,
        at: Instant,
        outcome: Outcome,
        /// How it was written, and how long the program was held for it; none when that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<WriteHold>,
        /// True when a later process read it from the target's memory, because the one that wrote had
        /// crashed.
        recovered: bool,
    },
    Returned {
        change: u64,
        at: Instant,
        /// The bits of the result.
        word: u64,
        result: String,
        /// The bits of what was read just before it, if its inverse wants that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<u64>,
        /// The thread that made it; only for calls that have an inverse.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadId>,
        /// As in [`JournalRecord::Outcome`].
        recovered: bool,
        /// As in [`JournalRecord::Outcome`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<WriteHold>,
    },
    /// The guard found that the change did good.
    Confirmed {
        change: u64,
        at: Instant,
    },
    /// Before a change is reverted.
    RevertIntent {
        change: u64,
        at: Instant,
        who: Author,
        /// Memory that is mapped for it in the program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arena: Option<Arena>,
        /// The oldest change that is reverted with it, by the same write
        /// (`History::run_of`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        through: Option<u64>,
    },
    RevertOutcome {
        change: u64,
        at: Instant,
        outcome: RevertOutcome,
        /// As in [`JournalRecord::Outcome`].
        recovered: bool,
        /// As in [`JournalRecord::Outcome`]; only for changes that waited for a sync point.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<WriteHold>,
    },
}
