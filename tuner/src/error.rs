//! Why an action was not taken.

use plan::ExpressionError;
use thiserror::Error;

use crate::address::Address;
use crate::memory::MemoryError;
use crate::module::ModuleError;
use crate::place::PlaceError;
use crate::process::{Pid, ProcessError};
use crate::ptrace::PtraceError;
use crate::space::SpaceError;
use crate::write::WriteError;

#[derive(Debug, Error)]
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
    /// The bytes are not what they should be.
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// It is done by others: a value is set by an order of its own, and the session makes lists of CPUs and
    /// switches probes.
    #[error("`{0}` is not done by the actuator")]
    NotOfActuator(String),
    #[error("process {pid} has no function `{name}`{}", within(.module))]
    NoFunction {
        pid: Pid,
        name: String,
        /// The module that was named.
        module: Option<String>,
    },
    #[error("`{name}` means several functions of process {pid}: {}; name the module", .places.join(", "))]
    SeveralFunctions {
        pid: Pid,
        name: String,
        places: Vec<String>,
    },
    /// The function, or its code, does not allow it.
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
    /// A change of ours is there already.
    #[error("change {change} is in force in the same code: revert that first")]
    AlreadyChanged { change: u64 },
    #[error("no thread of process {pid} could be used within {waited_ms} ms: {why}")]
    NoThread {
        pid: Pid,
        waited_ms: u128,
        /// What kept the last one tried from it.
        why: String,
    },
    /// Another thread than the one that is to do it has come to the place.
    #[error("thread {tid} of process {pid} is not the one that is to do it")]
    OtherThread {
        pid: Pid,
        /// The thread that came.
        tid: i32,
    },
    /// The thread that made a call is gone, and with it what could take the call back.
    #[error(
        "thread {tid} of process {pid}, which made the call {call}, has ended: what the call set for the thread ended with it, what it set \
         for the process stays"
    )]
    CallerEnded { pid: Pid, tid: i32, call: String },
    /// A signal handler interrupted the thread that was sent to call, and did not come back.
    #[error("process {pid} left the call {call} by a jump before the function was called: nothing was done")]
    Left { pid: Pid, call: String },
    #[error("the code could not be changed within {waited_ms} ms: {why}")]
    InTheWay { waited_ms: u128, why: String },
    /// The program's kernel refused a system call that we made in it.
    #[error("process {pid} could not {what}: {source}")]
    SystemCall {
        pid: Pid,
        /// What it was to do.
        what: &'static str,
        source: std::io::Error,
    },
    /// What is needed for it is not there.
    #[error("process {pid} cannot be made to execute anything: {why}")]
    NoWay { pid: Pid, why: &'static str },
    #[error("thread {tid} of process {pid} executes nothing for us: {why}")]
    Seccomp {
        pid: Pid,
        tid: i32,
        /// What they would do, or why that is not known.
        why: String,
    },
    #[error("`{function}`: {why}")]
    Arguments { function: String, why: String },
    #[error("{path} was not loaded: {why}")]
    NotLoaded {
        path: String,
        /// What the dynamic linker said.
        why: String,
    },
    #[error("the threads of process {pid} cannot be bound to CPUs {cpus}: {why}")]
    Affinity { pid: Pid, cpus: String, why: String },
}

fn within(module: &Option<String>) -> String {
    module
        .as_ref()
        .map(|module| format!(" in `{module}`"))
        .unwrap_or_default()
}
