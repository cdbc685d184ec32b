//! Converts errors to refusals: the same text, and the kind that callers distinguish.

use plan::ValueError;

use super::{ActuatorRefusalKind, Refusal};
use crate::error::ActionError;
use crate::function::FunctionError;
use crate::lock::LockError;
use crate::memory::MemoryError;
use crate::place::PlaceError;
use crate::process::ProcessError;
use crate::ptrace::PtraceError;
use crate::space::SpaceError;
use crate::sync::PointError;
use crate::variable::{FollowError, VariableError};
use crate::writable_place::WritablePlaceError;
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
    WritablePlaceError,
    ValueError,
    WriterError,
    PointError
);

trait Kind {
    fn kind(&self) -> ActuatorRefusalKind;
}

impl Kind for ProcessError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            ProcessError::NotFound { .. } => ActuatorRefusalKind::NotFound,
            ProcessError::Ended { .. } | ProcessError::Zombie { .. } => ActuatorRefusalKind::Ended,
            ProcessError::NotPermitted { .. } => ActuatorRefusalKind::NotPermitted,
            ProcessError::Io { .. } => ActuatorRefusalKind::Failed,
            ProcessError::Init
            | ProcessError::KernelThread { .. }
            | ProcessError::Ourselves { .. }
            | ProcessError::Privileged { .. }
            | ProcessError::NotAProcess { .. } => ActuatorRefusalKind::Refused,
        }
    }
}

impl Kind for MemoryError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            MemoryError::Process(error) => error.kind(),
            MemoryError::Gone { .. } => ActuatorRefusalKind::Ended,
            MemoryError::Unmapped { .. } | MemoryError::Io { .. } => ActuatorRefusalKind::Failed,
        }
    }
}

impl Kind for SpaceError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            SpaceError::Process(error) => error.kind(),
            SpaceError::Memory(error) => error.kind(),
            SpaceError::Maps { .. } | SpaceError::NoProgram { .. } => ActuatorRefusalKind::Failed,
        }
    }
}

impl Kind for VariableError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            VariableError::NotFound { .. } | VariableError::NoSuchModule { .. } => {
                ActuatorRefusalKind::NotFound
            }
            VariableError::Memory(error) => error.kind(),
            VariableError::Image { .. } => ActuatorRefusalKind::Failed,
            VariableError::Follow(error) => error.kind(),
            VariableError::NotAVariable { .. }
            | VariableError::Path(_)
            | VariableError::Walk { .. }
            | VariableError::NoDebugInformation { .. }
            | VariableError::ThreadLocal { .. }
            | VariableError::Ambiguous { .. } => ActuatorRefusalKind::Refused,
        }
    }
}

impl Kind for FollowError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            FollowError::Memory { error, .. } => error.kind(),
            FollowError::Null { .. } | FollowError::Wild { .. } => ActuatorRefusalKind::Refused,
        }
    }
}

impl Kind for WritablePlaceError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            WritablePlaceError::Process(error) => error.kind(),
            WritablePlaceError::Space(error) => error.kind(),
            WritablePlaceError::Memory(error) => error.kind(),
            WritablePlaceError::Follow(error) => error.kind(),
            WritablePlaceError::ModuleGone { .. } => ActuatorRefusalKind::Ended,
            WritablePlaceError::TypeUnknown { .. }
            | WritablePlaceError::WrongType { .. }
            | WritablePlaceError::WrongSize { .. }
            | WritablePlaceError::Misaligned { .. }
            | WritablePlaceError::Traced { .. }
            | WritablePlaceError::IsCompound { .. }
            | WritablePlaceError::IsPointer { .. }
            | WritablePlaceError::ReadOnly { .. } => ActuatorRefusalKind::Refused,
        }
    }
}

impl Kind for ValueError {
    fn kind(&self) -> ActuatorRefusalKind {
        ActuatorRefusalKind::Refused
    }
}

impl Kind for PointError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            PointError::NotFound { .. } => ActuatorRefusalKind::NotFound,
            PointError::Module(_) => ActuatorRefusalKind::Failed,
            PointError::Space(error) => error.kind(),
            PointError::Overwritten { .. }
            | PointError::Ambiguous { .. }
            | PointError::Indirect { .. }
            | PointError::JumpsOut { .. }
            | PointError::NoReturn { .. }
            | PointError::Code(_) => ActuatorRefusalKind::Refused,
        }
    }
}

impl Kind for WriterError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            WriterError::Process(error) | WriterError::Lock(LockError::Process(error)) => error.kind(),
            WriterError::Lock(LockError::Held { .. }) => ActuatorRefusalKind::Busy,
            WriterError::Lock(LockError::Io { .. }) | WriterError::Journal(_) => ActuatorRefusalKind::Failed,
            WriterError::Space(error) => error.kind(),
            WriterError::Memory(error) | WriterError::Write(WriteError::Memory(error)) => error.kind(),
            WriterError::WritablePlace(error) => error.kind(),
            WriterError::Follow(error) | WriterError::Write(WriteError::Follow(error)) => error.kind(),
            WriterError::Write(WriteError::Io { .. }) => ActuatorRefusalKind::Failed,
            WriterError::NoSuchChange { .. } => ActuatorRefusalKind::NotFound,
            WriterError::ModuleGone { .. } => ActuatorRefusalKind::Ended,
            WriterError::Action(error) => error.kind(),
            WriterError::Write(_)
            | WriterError::OtherProcess { .. }
            | WriterError::OtherType { .. }
            | WriterError::Moved { .. }
            | WriterError::NotInForce { .. }
            | WriterError::NoSyncPoint { .. } => ActuatorRefusalKind::Refused,
        }
    }
}

impl Kind for ActionError {
    fn kind(&self) -> ActuatorRefusalKind {
        match self {
            ActionError::Process(error)
            | ActionError::Ptrace(PtraceError::Process(error))
            | ActionError::Place(PlaceError::Process(error)) => error.kind(),
            ActionError::Space(error) => error.kind(),
            ActionError::Memory(error) => error.kind(),
            ActionError::Ptrace(PtraceError::NotPermitted { .. }) => ActuatorRefusalKind::NotPermitted,
            ActionError::Ptrace(PtraceError::ThreadEnded { .. }) => ActuatorRefusalKind::Ended,
            ActionError::NoFunction { .. } | ActionError::Function(FunctionError::Inlined { .. }) => {
                ActuatorRefusalKind::NotFound
            }
            ActionError::Module(_)
            | ActionError::Function(FunctionError::Image { .. })
            | ActionError::SystemCall { .. }
            | ActionError::Ptrace(PtraceError::Io { .. }) => ActuatorRefusalKind::Failed,
            ActionError::NoThread { .. }
            | ActionError::InTheWay { .. }
            | ActionError::Ptrace(PtraceError::NotStopped { .. }) => ActuatorRefusalKind::Busy,
            _ => ActuatorRefusalKind::Refused,
        }
    }
}
