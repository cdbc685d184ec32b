//! The durable record of every change: one file per target process, one JSON object per line, append-only.
//!
//! A record of what is *going to be* written is in the file before the first byte changes, and one of the
//! result after it. So after a crash of ours at any instant the file and the target's memory together show
//! what is in place ([`settle`]). No fsync: no target survives a crash of the machine, and the page cache
//! survives a crash of ours.
//!
//! `record` defines a line, `action` what a change does, `history` the meaning of all lines of a file, `file`
//! where the files are and how to append.

mod action;
mod file;
mod history;
mod record;

pub use action::{
    ActionRecord, Assignment, CallRecord, ChangeGroup, HexBytes, InverseRecord, Patch, PatchedBytes,
    PrecedingCall, ThreadAffinities, ThreadCpus,
};
pub(crate) use file::boot_id;
pub use file::{Journal, JournalError, StateDir};
pub use history::{History, JournalChange, Settled, Status, Unreadable, settle};
pub use record::{
    ChangedProcess, Intent, JournalRecord, Mechanism, Outcome, Reason, RevertOutcome, WriteHold,
};
