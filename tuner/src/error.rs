//! Why an action was not done.

use plan::ExpressionError;

use crate::address::Address;
use crate::function::FunctionError;
use crate::memory::MemoryError;
use crate::module::ModuleError;
use crate::place::PlaceError;
use crate::process::{Pid, ProcessError};
use crate::ptrace::PtraceError;
use crate::space::SpaceError;
use crate::write::WriteError;

#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Module(#[from] ModuleError),
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    /// The bytes are not the expected ones.
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// Other components do it: a value is set by a separate order, and the session sets CPU lists and
    /// switches probes.
    #[error("the actuator does not support `{0}`")]
    NotOfActuator(String),
    #[error("process {pid} has no function `{name}`{}", within(.module))]
    NoFunction {
        pid: Pid,
        name: String,
        /// The module that the request named.
        module: Option<String>,
    },
    /// It is inlined, or its name in the source means several.
    #[error(transparent)]
    Function(#[from] FunctionError),
    #[error("`{name}` means several functions of process {pid}: {}; name the module", .places.join(", "))]
    SeveralFunctions {
        pid: Pid,
        name: String,
        places: Vec<String>,
    },
    /// The function, or its code, does not permit it.
    #[error("`{function}` cannot be {done}: {why}")]
    Refused {
        function: String,
        done: &'static str,
        why: String,
    },
    #[error(
        "`{function}` at {address} carries a uprobe (perf, bpftrace, or a session of tuneagent): code under a probe is not changed"
    )]
    Probed { function: String, address: Address },
    /// A change of ours is in the same code.
    #[error("change {change} is in force in the same code: revert that first")]
    AlreadyChanged { change: u64 },
    /// A change failed, and what was written of it could not be restored.
    #[error("{error}; a part of change {change} is still in force")]
    Unreverted { change: u64, error: Box<ActionError> },
    #[error("no thread of process {pid} could be used within {waited_ms} ms: {why}")]
    NoThread {
        pid: Pid,
        waited_ms: u128,
        /// The obstacle for the last thread that was tried.
        why: String,
    },
    /// A thread other than the intended one has reached the place.
    #[error("thread {tid} of process {pid} reached the place, but another thread was chosen for the action")]
    OtherThread {
        pid: Pid,
        /// The thread that reached it.
        tid: i32,
    },
    /// The thread that made a call has ended, so that the call cannot be reverted.
    #[error(
        "thread {tid} of process {pid}, which made the call {call}, has ended: what the call set for the thread ended with it, what it set \
         for the process stays"
    )]
    CallerEnded { pid: Pid, tid: i32, call: String },
    /// A signal handler interrupted the thread that was sent to call, and did not return.
    #[error("process {pid} left the call {call} by a jump before the function was called: nothing was done")]
    Left { pid: Pid, call: String },
    #[error("the code could not be changed within {waited_ms} ms: {why}")]
    InTheWay { waited_ms: u128, why: String },
    /// The kernel refused a system call that a thread of the program made for us.
    #[error("process {pid} could not {what}: {source}")]
    SystemCall {
        pid: Pid,
        /// The operation that failed.
        what: &'static str,
        source: std::io::Error,
    },
    /// A prerequisite is missing.
    #[error("process {pid} cannot be made to execute anything: {why}")]
    NoWay { pid: Pid, why: &'static str },
    #[error("cannot make calls in thread {tid} of process {pid}: {why}")]
    Seccomp {
        pid: Pid,
        tid: i32,
        /// What the filters would do, or why that is unknown.
        why: String,
    },
    #[error("`{function}`: {why}")]
    Arguments { function: String, why: String },
    #[error("{path} was not loaded: {why}")]
    NotLoaded {
        path: String,
        /// The message of the dynamic linker, or why it was not called.
        why: String,
    },
    #[error("the threads of process {pid} cannot be bound to {cpus}: {why}")]
    Affinity { pid: Pid, cpus: String, why: String },
}

fn within(module: &Option<String>) -> String {
    module
        .as_ref()
        .map(|module| format!(" in `{module}`"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{actuator::Refusal, writer::WriterError};

    fn not_permitted() -> io::Error {
        io::Error::from_raw_os_error(libc::EPERM)
    }

    #[test]
    fn an_action_that_the_kernel_refused_shows_the_number_of_the_error_once() {
        let pid = Pid {
            number: 7,
            start_time: 1,
        };
        let errors = [
            ActionError::Refused {
                function: "solve".to_owned(),
                done: "replaced",
                why: format!("its file cannot be read: {}", not_permitted()),
            },
            ActionError::NotLoaded {
                path: "/lib/a.so".to_owned(),
                why: format!("as the process sees it: {}", not_permitted()),
            },
            ActionError::Affinity {
                pid,
                cpus: "CPU 1".to_owned(),
                why: not_permitted().to_string(),
            },
            ActionError::SystemCall {
                pid,
                what: "map memory",
                source: not_permitted(),
            },
        ];
        for error in errors {
            let refusal = Refusal::from(WriterError::from(error));
            let shown = &refusal.message;
            assert_eq!(shown.matches("(os error 1)").count(), 1, "{shown}");
        }
    }
}
