//! Why an action was not taken.

use plan::ExpressionError;
use thiserror::Error;

use crate::address::Address;
use crate::arch::Unsupported;
use crate::memory::MemoryError;
use crate::module::ModuleError;
use crate::place::PlaceError;
use crate::process::{Pid, ProcessError};
use crate::ptrace::PtraceError;
use crate::space::SpaceError;
use crate::write::WriteError;

/// Why an action was not taken.
#[derive(Debug, Error)]
pub enum ActionError {
    /// Not on this machine.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The process cannot be looked into.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Its mappings cannot be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Its memory cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A file cannot be read.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// Its threads cannot be stopped.
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    /// The bytes are not what they should be.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The write was refused.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The expression cannot be used.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// It is done by others: a value is set by an order of its own, and the session makes lists of CPUs and switches probes.
    #[error("`{0}` is not done by the actuator")]
    NotOfActuator(String),
    /// No such function.
    #[error("process {pid} has no function `{name}`{}", within(.module))]
    NoFunction {
        /// The process.
        pid: Pid,
        /// The name.
        name: String,
        /// The module that was named.
        module: Option<String>,
    },
    /// Several functions have the name.
    #[error("`{name}` means several functions of process {pid}: {}; name the module", .places.join(", "))]
    SeveralFunctions {
        /// The process.
        pid: Pid,
        /// The name.
        name: String,
        /// Where they are.
        places: Vec<String>,
    },
    /// The function, or its code, does not allow it.
    #[error("`{function}` cannot be {done}: {why}")]
    Refused {
        /// The function.
        function: String,
        /// What was to be done to it.
        done: &'static str,
        /// Why not.
        why: String,
    },
    /// Somebody else has changed the code.
    #[error(
        "`{function}` at {address} carries a uprobe (perf, bpftrace, or a session of tuneagent): code under a probe is not changed"
    )]
    Probed {
        /// The function.
        function: String,
        /// Where.
        address: Address,
    },
    /// A change of ours is there already.
    #[error("change {change} is in force in the same code: revert that first")]
    AlreadyChanged {
        /// Its number.
        change: u64,
    },
    /// No thread could be used.
    #[error("no thread of process {pid} could be used within {waited_ms} ms: {why}")]
    NoThread {
        /// The process.
        pid: Pid,
        /// How long it was tried.
        waited_ms: u128,
        /// What kept the last one tried from it.
        why: String,
    },
    /// Another thread than the one that is to do it has come to the place.
    #[error("thread {tid} of process {pid} is not the one that is to do it")]
    OtherThread {
        /// The process.
        pid: Pid,
        /// The thread that came.
        tid: i32,
    },
    /// The thread that made a call is gone, and with it what could take the call back.
    #[error(
        "thread {tid} of process {pid}, which made the call {call}, has ended: what the call set for the thread ended with it, what it set \
         for the process stays"
    )]
    CallerEnded {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: i32,
        /// The call.
        call: String,
    },
    /// A signal handler interrupted the thread that was sent to call, and did not come back.
    #[error("process {pid} left the call {call} by a jump before the function was called: nothing was done")]
    Left {
        /// The process.
        pid: Pid,
        /// The call.
        call: String,
    },
    /// Some thread stood in the way.
    #[error("the code could not be changed within {waited_ms} ms: {why}")]
    InTheWay {
        /// How long it was tried.
        waited_ms: u128,
        /// What kept it.
        why: String,
    },
    /// The program's kernel refused a system call that we made in it.
    #[error("process {pid} could not {what}: {source}")]
    SystemCall {
        /// The process.
        pid: Pid,
        /// What it was to do.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// What is needed for it is not there.
    #[error("process {pid} cannot be made to execute anything: {why}")]
    NoWay {
        /// The process.
        pid: Pid,
        /// What is missing.
        why: &'static str,
    },
    /// Its seccomp filters stand in the way.
    #[error("thread {tid} of process {pid} executes nothing for us: {why}")]
    Seccomp {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: i32,
        /// What they would do, or why that is not known.
        why: String,
    },
    /// The arguments do not fit.
    #[error("`{function}`: {why}")]
    Arguments {
        /// The function.
        function: String,
        /// What is wrong.
        why: String,
    },
    /// The library was not loaded.
    #[error("{path} was not loaded: {why}")]
    NotLoaded {
        /// The file.
        path: String,
        /// What the dynamic linker said.
        why: String,
    },
    /// Threads cannot be bound as asked.
    #[error("the threads of process {pid} cannot be bound to CPUs {cpus}: {why}")]
    Affinity {
        /// The process.
        pid: Pid,
        /// What was asked.
        cpus: String,
        /// Why not.
        why: String,
    },
}

fn within(module: &Option<String>) -> String {
    module
        .as_ref()
        .map(|module| format!(" in `{module}`"))
        .unwrap_or_default()
}
