//! Errors as refusals: the same text, and the kind that callers tell apart.

use plan::ValueError;

use super::{Refusal, RefusalKind};
use crate::error::ActionError;
use crate::lock::LockError;
use crate::memory::MemoryError;
use crate::place::PlaceError;
use crate::process::ProcessError;
use crate::ptrace::PtraceError;
use crate::slot::SlotError;
use crate::space::SpaceError;
use crate::sync::PointError;
use crate::variable::{FollowError, VariableError};
use crate::write::WriteError;
use crate::writer::WriterError;

macro_rules! refuse {
    ($($error:ty),*) => {
        $(impl From<$error> for Refusal {
            fn from(error: $error) -> Refusal {
                Refusal { kind: error.kind(), message: error.to_string() }
            }
        })*
    };
}

refuse!(
    ProcessError,
    MemoryError,
    SpaceError,
    VariableError,
    FollowError,
    SlotError,
    ValueError,
    WriterError,
    PointError
);

trait Kind {
    fn kind(&self) -> RefusalKind;
}

impl Kind for ProcessError {
    fn kind(&self) -> RefusalKind {
        match self {
            ProcessError::NotFound { .. } => RefusalKind::NotFound,
            ProcessError::Ended { .. } | ProcessError::Zombie { .. } => RefusalKind::Ended,
            ProcessError::NotPermitted { .. } => RefusalKind::NotPermitted,
            ProcessError::Io { .. } => RefusalKind::Failed,
            ProcessError::Init
            | ProcessError::KernelThread { .. }
            | ProcessError::Ourselves { .. }
            | ProcessError::Privileged { .. }
            | ProcessError::NotAProcess { .. } => RefusalKind::Refused,
        }
    }
}

impl Kind for MemoryError {
    fn kind(&self) -> RefusalKind {
        match self {
            MemoryError::Process(error) => error.kind(),
            MemoryError::Gone { .. } => RefusalKind::Ended,
            MemoryError::Unmapped { .. } | MemoryError::Io { .. } => RefusalKind::Failed,
        }
    }
}

impl Kind for SpaceError {
    fn kind(&self) -> RefusalKind {
        match self {
            SpaceError::Process(error) => error.kind(),
            SpaceError::Memory(error) => error.kind(),
            SpaceError::Maps { .. } | SpaceError::NoProgram { .. } => RefusalKind::Failed,
        }
    }
}

impl Kind for VariableError {
    fn kind(&self) -> RefusalKind {
        match self {
            VariableError::NotFound { .. } | VariableError::NoSuchModule { .. } => RefusalKind::NotFound,
            VariableError::Memory(error) => error.kind(),
            VariableError::Image { .. } => RefusalKind::Failed,
            VariableError::Follow(error) => error.kind(),
            VariableError::NotAVariable { .. }
            | VariableError::Path(_)
            | VariableError::Walk { .. }
            | VariableError::NoDebugInformation { .. }
            | VariableError::ThreadLocal { .. }
            | VariableError::Ambiguous { .. } => RefusalKind::Refused,
        }
    }
}

impl Kind for FollowError {
    fn kind(&self) -> RefusalKind {
        match self {
            FollowError::Memory { source, .. } => source.kind(),
            FollowError::Null { .. } | FollowError::Wild { .. } => RefusalKind::Refused,
        }
    }
}

impl Kind for SlotError {
    fn kind(&self) -> RefusalKind {
        match self {
            SlotError::Process(error) => error.kind(),
            SlotError::Space(error) => error.kind(),
            SlotError::Memory(error) => error.kind(),
            SlotError::Follow(error) => error.kind(),
            SlotError::ModuleGone { .. } => RefusalKind::Ended,
            SlotError::TypeUnknown { .. }
            | SlotError::WrongType { .. }
            | SlotError::WrongSize { .. }
            | SlotError::Misaligned { .. }
            | SlotError::Traced { .. }
            | SlotError::ReadOnly { .. } => RefusalKind::Refused,
        }
    }
}

impl Kind for ValueError {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Refused
    }
}

impl Kind for PointError {
    fn kind(&self) -> RefusalKind {
        match self {
            PointError::NotFound { .. } => RefusalKind::NotFound,
            PointError::Module(_) => RefusalKind::Failed,
            PointError::Space(error) => error.kind(),
            PointError::Overwritten { .. }
            | PointError::Ambiguous { .. }
            | PointError::Indirect { .. }
            | PointError::JumpsOut { .. }
            | PointError::NoReturn { .. }
            | PointError::Code(_) => RefusalKind::Refused,
        }
    }
}

impl Kind for WriterError {
    fn kind(&self) -> RefusalKind {
        match self {
            WriterError::Process(error) | WriterError::Lock(LockError::Process(error)) => error.kind(),
            WriterError::Lock(LockError::Held { .. }) => RefusalKind::Busy,
            WriterError::Lock(LockError::Io { .. }) | WriterError::Journal(_) => RefusalKind::Failed,
            WriterError::Space(error) => error.kind(),
            WriterError::Memory(error) | WriterError::Write(WriteError::Memory(error)) => error.kind(),
            WriterError::Slot(error) => error.kind(),
            WriterError::Follow(error) | WriterError::Write(WriteError::Follow(error)) => error.kind(),
            WriterError::Write(WriteError::Io { .. }) => RefusalKind::Failed,
            WriterError::NoSuchChange { .. } => RefusalKind::NotFound,
            WriterError::ModuleGone { .. } => RefusalKind::Ended,
            WriterError::Action(error) => error.kind(),
            WriterError::Write(_)
            | WriterError::OtherProcess { .. }
            | WriterError::OtherType { .. }
            | WriterError::Moved { .. }
            | WriterError::NotInForce { .. }
            | WriterError::NoSyncPoint { .. } => RefusalKind::Refused,
        }
    }
}

impl Kind for ActionError {
    fn kind(&self) -> RefusalKind {
        match self {
            ActionError::Process(error)
            | ActionError::Ptrace(PtraceError::Process(error))
            | ActionError::Place(PlaceError::Process(error)) => error.kind(),
            ActionError::Space(error) => error.kind(),
            ActionError::Memory(error) => error.kind(),
            ActionError::Ptrace(PtraceError::NotPermitted { .. }) => RefusalKind::NotPermitted,
            ActionError::Ptrace(PtraceError::ThreadEnded { .. }) => RefusalKind::Ended,
            ActionError::NoFunction { .. } => RefusalKind::NotFound,
            ActionError::Module(_)
            | ActionError::SystemCall { .. }
            | ActionError::Ptrace(PtraceError::Io { .. }) => RefusalKind::Failed,
            ActionError::NoThread { .. }
            | ActionError::InTheWay { .. }
            | ActionError::Ptrace(PtraceError::NotStopped { .. }) => RefusalKind::Busy,
            _ => RefusalKind::Refused,
        }
    }
}
