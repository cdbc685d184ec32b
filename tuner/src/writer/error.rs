//! Errors of changing a process and of reverting a change.

use plan::ValueType;
use thiserror::Error;

use crate::error::ActionError;
use crate::journal::{JournalError, Status};
use crate::lock::LockError;
use crate::memory::MemoryError;
use crate::process::{Pid, ProcessError};
use crate::space::SpaceError;
use crate::variable::FollowError;
use crate::writable_place::WritablePlaceError;
use crate::write::WriteError;

/// Why a process cannot be changed, or a change not reverted.
#[derive(Debug, Error)]
pub enum WriterError {
    /// The process does not exist, or must not be touched.
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal cannot be written, so nothing else is written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    WritablePlace(#[from] WritablePlaceError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Action(Box<ActionError>),
    #[error("the place belongs to process {place}, the right to write is for process {writer}")]
    OtherProcess { place: Pid, writer: Pid },
    /// The value is of another type than the place.
    #[error("`{symbol}` takes {wanted}, not {given}")]
    OtherType {
        symbol: String,
        wanted: ValueType,
        given: ValueType,
    },
    #[error("there is no change {change} of process {pid}")]
    NoSuchChange { pid: Pid, change: u64 },
    #[error("change {change} is not in force: {}", status_text(*.status))]
    NotInForce { change: u64, status: Status },
    /// It can be reverted at any instant.
    #[error("change {change} has no sync point")]
    NoSyncPoint { change: u64 },
    /// The changed bytes no longer belong to the variable.
    #[error(
        "change {change}: the pointers that led to `{symbol}` lead elsewhere now; what was written there is left alone"
    )]
    Moved { change: u64, symbol: String },
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// The file is no longer loaded at that address: the program was replaced, or the library unloaded.
    #[error(
        "change {change} was made in {module}, which is no longer loaded at that place with that build id"
    )]
    ModuleGone { change: u64, module: String },
}

impl From<ActionError> for WriterError {
    fn from(error: ActionError) -> WriterError {
        WriterError::Action(Box::new(error))
    }
}

fn status_text(status: Status) -> String {
    match status {
        Status::Pending | Status::RevertPending => "it is not known whether it was written".to_owned(),
        Status::Applied => "it is".to_owned(),
        Status::Failed => "it was never written".to_owned(),
        Status::Done => "it is done, and cannot be reverted".to_owned(),
        Status::Reverted => "it was reverted already".to_owned(),
        Status::ChangedSince => "the program changed the variable since".to_owned(),
        Status::Superseded { by } => format!("change {by} replaced it; revert that first"),
    }
}
