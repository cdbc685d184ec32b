//! The actuator: a separate process that writes, journals and reverts. It outlives the agent until it has
//! reverted.
//!
//! The protocol is one stream with one JSON object per line and one reply per request, in order
//! ([`ActuatorCommand::Expect`] has none). When the stream ends, for any reason, the actuator reverts every
//! change of the session, except confirmed changes of a session that said `keep`.
//!
//! A change that waits for its sync point is armed, and its receipt is collected later: the stream never
//! waits for the program. Reverting such a change waits for the point too, within a bound.
//!
//! This file defines the messages. The submodules:
//! - `serve`, `client`: the actuator's and the agent's end of the stream.
//! - `waiting`, `armed`: the changes that wait, and one of them; `calling`: calls that wait.
//! - `together`: changes of several processes at once; `assembly`: how these processes reach the same
//!   iteration.
//! - `reverting`, `reverting_together`: revert changes of one process and of several at once; `offspring`: of
//!   processes forked since.
//! - `stand_in`: the process that reverts if the actuator is killed.
//! - `warm_up`: runs a set without its write.

mod armed;
mod assembly;
mod calling;
mod client;
mod line;
mod offspring;
mod refusal;
mod reverting;
mod reverting_together;
mod serve;
mod session;
mod stand_in;
mod together;
mod waiting;
mod warm_up;

use std::path::PathBuf;

use plan::{Action, Bytes, Key, Literal, SyncPoint, Value, ValueType};
use serde::{Deserialize, Serialize};

pub use client::{ActuatorClient, ClientError, SentSet};
pub use serve::{RendezvousSource, ServeError, ServeOptions, serve};
pub use stand_in::Orphaned;
pub use warm_up::SetWarmUp;

use crate::action::ActionReceipt;
use crate::address::Address;
use crate::author::Author;
use crate::journal::{JournalChange, Reason};
use crate::process::Pid;
use crate::revert::RevertReceipt;
use crate::writer::Receipt;

/// Bytes of the longest request. A longer one ends the session.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Bytes of the longest reply. Lists are truncated to fit, and the number of omitted entries is reported.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;

/// One line to the actuator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActuatorRequest {
    /// Copied into the reply.
    pub id: u64,
    pub command: ActuatorCommand,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorCommand {
    /// Begins the session. Must be the first request, and sent once.
    Hello(Hello),
    Set(Box<SetCommand>),
    /// Checks whether a set is possible; writes nothing.
    Check(Box<SetCommand>),
    /// Announces that a set may follow at once: the actuator does the preparation in advance, and repeats the
    /// checks when the set arrives. The only request without a reply.
    Expect(Expectation),
    /// Writes a variable when the program reaches a sync point.
    Arm(Box<ArmCommand>),
    /// Calls a function at a sync point, in the thread that reaches it.
    ArmAct(Box<ArmActCommand>),
    /// Writes a variable of several processes when all of them are at the same iteration, or in none.
    Together(Box<TogetherCommand>),
    Collect,
    Disarm {
        ticket: u64,
    },
    /// Calls a function, loads a library, changes code, binds threads.
    Act(Box<ActCommand>),
    /// Reads a variable. Needs no right to write.
    Get(GetCommand),
    /// The guard found that a change is an improvement.
    Confirm(ChangeNumber),
    /// Reverts changes. Consecutive changes of one place take one write; at sync points all processes are
    /// reverted at the same time.
    Revert {
        changes: Vec<ChangeNumber>,
    },
    /// Reverts all changes of these processes, including those of earlier sessions.
    RevertAll {
        pids: Vec<Pid>,
    },
    Changes {
        pid: Pid,
    },
    /// Ends the session, as the end of the stream does, and returns the result.
    Shutdown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Confirmed changes stay when the session ends.
    pub keep: bool,
    /// Call functions even if the program's seccomp filters might kill it for that
    /// ([`Writer::despite_seccomp`](crate::writer::Writer)).
    #[serde(default)]
    pub despite_seccomp: bool,
    /// The directory of the journals.
    pub state_dir: PathBuf,
    /// The user for whom changes are made.
    pub who: Author,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetCommand {
    pub pid: Pid,
    pub variable: String,
    /// The module whose code sees the variable by that name, if the name is ambiguous.
    pub module: Option<String>,
    /// Converted to the variable's type.
    pub value: Literal,
    /// The type, if the debug information does not have it.
    pub value_type: Option<ValueType>,
    /// Write only if the variable holds this value now.
    pub expect_old: Option<Literal>,
    /// Reasons, one per line.
    pub why: Vec<String>,
    pub rule: Option<String>,
}

/// Announces that a set may follow at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Microseconds for which the actuator polls for it without sleeping.
    pub look_out_us: u32,
    /// The expected set, for the warm-up.
    pub like: Option<SetWarmUp>,
}

/// Writes a variable at a sync point, or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmCommand {
    pub set: SetCommand,
    pub at: SyncPoint,
    /// Given up after this time.
    pub within_ms: u64,
    /// Nanoseconds for which a thread is held until it is answered; default `ANSWER_NS_MAX`.
    pub answer_ns_max: Option<u64>,
    /// Stop the thread by ptrace even if holding it at the probe suffices.
    #[serde(default)]
    pub by_stop: bool,
}

/// Calls a function at a sync point, or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmActCommand {
    /// Must be a call; other actions have no sync point.
    pub act: ActCommand,
    pub at: SyncPoint,
    /// Given up after this time.
    pub within_ms: u64,
    /// As in [`ArmCommand`].
    pub answer_ns_max: Option<u64>,
}

/// Writes a variable of several processes at the same iteration, or in none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TogetherCommand {
    /// One for each process.
    pub sets: Vec<SetCommand>,
    /// Where each process begins an iteration.
    pub at: SyncPoint,
    /// Where each process keeps the number of the iteration.
    pub key: Key,
    /// Given up after this time.
    pub within_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActCommand {
    pub pid: Pid,
    pub action: Action,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetCommand {
    pub pid: Pid,
    pub variable: String,
    /// As in [`SetCommand`].
    pub module: Option<String>,
    /// As in [`SetCommand`].
    pub value_type: Option<ValueType>,
}

/// A change of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeNumber {
    pub pid: Pid,
    pub change: u64,
}

/// One line from the actuator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub id: u64,
    pub result: Result<ActuatorAnswer, Refusal>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorAnswer {
    /// To hello: the actuator's own pid.
    Welcome {
        actuator: u32,
    },
    Set(Box<Receipt>),
    /// To check: the set is possible.
    Possible,
    /// To arm: the ticket for collecting.
    Armed {
        ticket: u64,
    },
    /// To together: one for each process, in the order of the request.
    ArmedTogether {
        tickets: Vec<u64>,
    },
    Collected(Collected),
    /// To disarm. The receipt (not written, or written just before) is collected as usual.
    Disarmed,
    Acted(Box<ActionReceipt>),
    Value(VariableReading),
    Confirmed,
    Reverted {
        /// One result per change, in the order of the request.
        each: Vec<Result<RevertReceipt, Refusal>>,
        /// Attempts in the processes that have inherited the changes by fork.
        inherited: RevertSummary,
    },
    RevertedAll(RevertSummary),
    /// To changes: oldest first.
    Changes {
        /// The newest that fit into a reply.
        changes: Vec<JournalChange>,
        /// Number of older ones left out.
        omitted: usize,
    },
    Goodbye(RevertSummary),
}

/// Results of the changes that waited for a sync point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// Writes, by ticket. Each is returned once.
    pub finished: Vec<(u64, Result<Receipt, Refusal>)>,
    /// Calls, by ticket. Each is returned once.
    #[serde(default)]
    pub acted: Vec<(u64, Result<ActionReceipt, Refusal>)>,
    /// Number that still wait or did not fit into this reply.
    pub left: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableReading {
    pub value_type: Option<ValueType>,
    /// At most the first 8 bytes.
    pub bytes: Bytes,
    /// Size of the variable in bytes.
    pub size: u64,
    /// The file that holds it.
    pub module: String,
    pub address: Address,
}

impl VariableReading {
    /// `None` if the type is unknown or the bytes are no value of it.
    pub fn value(&self) -> Option<Value> {
        Value::from_bytes(self.value_type?, self.bytes).ok()
    }
}

/// What was reverted, what could not be, and what stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertSummary {
    /// Attempts; each receipt says whether the old value was restored.
    pub reverted: Vec<(Pid, RevertReceipt)>,
    /// Changes whose revert could not be tried.
    pub failed: Vec<(ChangeNumber, Refusal)>,
    /// Processes in which nothing could be tried.
    #[serde(default)]
    pub refused: Vec<(Pid, Refusal)>,
    pub kept: Vec<ChangeNumber>,
    /// Number of entries left out of the lists above to fit the reply.
    pub omitted: usize,
}

/// Why a request was refused, in one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Determines the exit code.
    pub kind: ActuatorRefusalKind,
    pub message: String,
}

/// The kinds of refusal that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorRefusalKind {
    /// No such process, module, variable or change.
    NotFound,
    /// The process has ended or runs another program now.
    Ended,
    NotPermitted,
    /// Another writer has the process, or a temporary obstacle, such as that no thread is suitable.
    Busy,
    /// The program did not reach the place in time.
    NotReached,
    /// Found and permitted, but must not be done: type, range, read-only, changed since.
    Refused,
    /// The journal or the machine failed.
    Failed,
    /// The request was not understood.
    Protocol,
}
