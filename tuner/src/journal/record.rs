//! The content of a line of the journal.

use plan::Bytes;
use serde::{Deserialize, Serialize};

use super::action::ActionRecord;
use crate::arena::Arena;
use crate::author::Author;
use crate::clock::Instant;
use crate::process::{Pid, ThreadId};
use crate::sync::HoldStatistics;

/// The identity of the process that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedProcess {
    /// Number and start time.
    pub pid: Pid,
    /// The boot id of the machine: start times count from boot.
    pub boot: String,
    pub executable: String,
}

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
    /// Reasons, one per line.
    pub why: Vec<String>,
    /// The rule that orders it; `None` if it was requested by hand.
    pub rule: Option<String>,
    pub target: ChangedProcess,
    #[serde(flatten)]
    pub action: ActionRecord,
}

/// How the bytes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// A plain write while the program runs; no thread was held.
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

/// How an action was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteHold {
    pub mechanism: Mechanism,
    /// Nanoseconds for which the program was held for it.
    pub hold_ns: u64,
    /// How it met its sync point, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passage: Option<HoldStatistics>,
}

impl WriteHold {
    /// A write while the program runs.
    pub(crate) const PLAIN: WriteHold = WriteHold {
        mechanism: Mechanism::Plain,
        hold_ns: 0,
        passage: None,
    };

    /// An action at any instant.
    pub(crate) fn of(mechanism: Mechanism, hold_ns: u64) -> WriteHold {
        WriteHold {
            mechanism,
            hold_ns,
            passage: None,
        }
    }

    /// An action that met, or missed, its sync point.
    pub(crate) fn at(mechanism: Mechanism, passage: HoldStatistics) -> WriteHold {
        WriteHold {
            mechanism,
            hold_ns: passage.hold_ns,
            passage: Some(passage),
        }
    }
}

/// The outcome of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Written, and read back.
    Applied,
    /// Not written, for this reason.
    NotWritten(String),
    /// Written, but another value was read back: the program writes it too.
    Overwritten(Bytes),
}

/// The outcome of reverting a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertOutcome {
    /// The old value was restored.
    Reverted,
    /// The program has changed it since, to this; it was not changed.
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
        /// How it was written, and for how long the program was held; `None` if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<WriteHold>,
        /// True if a later process read the outcome from the target's memory, because the process that wrote
        /// had crashed.
        recovered: bool,
    },
    Returned {
        change: u64,
        at: Instant,
        /// The bits of the result.
        word: u64,
        result: String,
        /// The bits of the value read just before the call, if its inverse uses one.
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
    /// The guard found that the change is an improvement.
    Confirmed {
        change: u64,
        at: Instant,
    },
    /// Announces that a change is going to be reverted.
    RevertIntent {
        change: u64,
        at: Instant,
        who: Author,
        /// Memory that is mapped for it in the program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arena: Option<Arena>,
        /// The oldest change that the same write reverts (`History::run_of`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        through: Option<u64>,
        /// The session that made the change had ended or died.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        at_end: bool,
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
