//! The actuator: a process of its own that writes, journals and reverts, and outlives the agent by as long
//! as that takes.
//!
//! It talks over one stream, a JSON object per line, a reply for each request, in order. When the stream
//! ends, for whatever reason, it reverts every change of the session, except those that were confirmed
//! when the session said `keep`.
//!
//! A change that waits for its sync point is armed, and its receipt is collected later: the stream never
//! waits for the program. Taking such a change back waits for the point too, within a bound.
//!
//! This file holds the messages; `serve` the actuator's end of the stream, `client` the agent's, `waiting`
//! the changes that wait, `armed` one of them, `calling` the calls that do, `together` those of several
//! processes at once and `assembly` how these come to the same iteration; `reverting` reverts changes,
//! `reverting_together` those of several processes, `offspring` those in processes forked since; `warm_up` runs
//! a set without its write.

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
mod together;
mod waiting;
mod warm_up;

use std::path::PathBuf;

use plan::{Action, Bytes, Key, Literal, SyncPoint, Value, ValueType};
use serde::{Deserialize, Serialize};

pub use client::{ActuatorClient, ClientError, SentSet};
pub use serve::{RendezvousSource, ServeError, ServeOptions, serve};
pub use warm_up::SetWarmUp;

use crate::action::ActionReceipt;
use crate::address::Address;
use crate::author::Author;
use crate::journal::{Change, Reason};
use crate::process::Pid;
use crate::revert::RevertReceipt;
use crate::writer::Receipt;

/// The longest request. A longer one ends the session.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// The longest reply; lists are cut to fit, and say how much was left out.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;

/// One line to the actuator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActuatorRequest {
    /// Comes back in the reply.
    pub id: u64,
    pub command: ActuatorCommand,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorCommand {
    /// Begins the session; must be first, and once.
    Hello(Hello),
    Set(Box<SetCommand>),
    /// A variable may be to be written at once: what that takes is looked at in advance, and once more when
    /// it comes. The only one that has no answer.
    Expect(Expectation),
    /// Writes a variable when the program reaches a sync point.
    Arm(Box<ArmCommand>),
    /// Has a function called by the thread that reaches a sync point, there.
    ArmAct(Box<ArmActCommand>),
    /// Writes a variable of each of several processes when all are at the same iteration, or of none.
    Together(Box<TogetherCommand>),
    Collect,
    Disarm {
        ticket: u64,
    },
    /// Calls a function, loads a library, changes code, binds threads.
    Act(Box<ActCommand>),
    /// Reads a variable. Needs no right to write.
    Get(GetCommand),
    /// The guard found that a change did good.
    Confirm(ChangeNumber),
    /// Reverts changes: at each place by one write those that have followed each other there, at sync
    /// points all processes at a time.
    Revert {
        changes: Vec<ChangeNumber>,
    },
    /// Reverts all changes of these processes, those of earlier sessions too.
    RevertAll {
        pids: Vec<Pid>,
    },
    Changes {
        pid: Pid,
    },
    /// Ends the session, as the end of the stream does, and returns the result.
    Shutdown,
}

/// How a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// At the end confirmed changes stay.
    pub keep: bool,
    /// Functions are called whatever the seccomp filters of a program may do
    /// ([`Writer::despite_seccomp`](crate::writer::Writer)).
    #[serde(default)]
    pub despite_seccomp: bool,
    /// Where the journals are.
    pub state_dir: PathBuf,
    /// For whom changes are made.
    pub who: Author,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetCommand {
    pub pid: Pid,
    pub variable: String,
    /// The module whose code sees it by that name, where this is needed.
    pub module: Option<String>,
    /// It becomes a value of the variable's type.
    pub value: Literal,
    /// The type, where the debug information does not say it.
    pub value_type: Option<ValueType>,
    /// Write only if it holds this now.
    pub expect_old: Option<Literal>,
    /// Why, a line each.
    pub why: Vec<String>,
    pub rule: Option<String>,
}

/// A set may follow at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// So many microseconds it is looked out for without sleeping.
    pub look_out_us: u32,
    /// The set that is expected, for the warm-up.
    pub like: Option<SetWarmUp>,
}

/// Write a variable at a sync point, or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmCommand {
    pub set: SetCommand,
    pub at: SyncPoint,
    /// Given up after this time.
    pub within_ms: u64,
    /// How long a thread is held until it is answered; `ANSWER_NS_MAX` when none is given.
    pub answer_ns_max: Option<u64>,
    /// Stop the thread even where holding it would do.
    #[serde(default)]
    pub by_stop: bool,
}

/// Call a function at a sync point, or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmActCommand {
    /// What: a call; nothing else has a place.
    pub act: ActCommand,
    pub at: SyncPoint,
    /// Given up after this time.
    pub within_ms: u64,
    /// As in [`ArmCommand`].
    pub answer_ns_max: Option<u64>,
}

/// Write a variable of each of several processes at the same iteration, or of none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TogetherCommand {
    /// What, in each process.
    pub sets: Vec<SetCommand>,
    /// Where each of them begins an iteration.
    pub at: SyncPoint,
    /// Where it says which.
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
    /// What came of it.
    pub result: Result<ActuatorAnswer, Refusal>,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorAnswer {
    /// To hello: the actuator's own pid.
    Welcome {
        actuator: u32,
    },
    Set(Box<Receipt>),
    /// To arm: the ticket for collecting.
    Armed {
        ticket: u64,
    },
    /// To together: one for each process, in their order.
    ArmedTogether {
        tickets: Vec<u64>,
    },
    Collected(Collected),
    /// To disarm. Its receipt, that it was not written or that it just had been, is collected as any other.
    Disarmed,
    Acted(Box<ActionReceipt>),
    Value(VariableReading),
    Confirmed,
    Reverted {
        /// What came of each, in their order.
        each: Vec<Result<RevertReceipt, Refusal>>,
        /// What was tried in the processes that have inherited them.
        inherited: RevertSummary,
    },
    RevertedAll(RevertSummary),
    /// To changes: oldest first.
    Changes {
        /// The newest that fit into a reply.
        changes: Vec<Change>,
        /// How many older ones were left out.
        omitted: usize,
    },
    Goodbye(RevertSummary),
}

/// What became of the changes that waited for a sync point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// By ticket, those that were to write. Returned once.
    pub finished: Vec<(u64, Result<Receipt, Refusal>)>,
    /// By ticket, those that were to call. Returned once.
    #[serde(default)]
    pub acted: Vec<(u64, Result<ActionReceipt, Refusal>)>,
    /// How many wait still, or did not fit into this reply.
    pub left: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableReading {
    pub value_type: Option<ValueType>,
    /// The bytes, at most the first 8.
    pub bytes: Bytes,
    /// How many it takes.
    pub size: u64,
    /// The file that holds it.
    pub module: String,
    pub address: Address,
}

impl VariableReading {
    /// None where the type is not known, and for bytes that are no value of it.
    pub fn value(&self) -> Option<Value> {
        Value::from_bytes(self.value_type?, self.bytes).ok()
    }
}

/// What was reverted, what could not be, and what stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertSummary {
    /// Tried: each says whether the old value is back.
    pub reverted: Vec<(Pid, RevertReceipt)>,
    /// Could not be tried.
    pub failed: Vec<(ChangeNumber, Refusal)>,
    /// Processes of which nothing could be tried.
    #[serde(default)]
    pub refused: Vec<(Pid, Refusal)>,
    pub kept: Vec<ChangeNumber>,
    /// Left out of the lists above, for they were too long.
    pub omitted: usize,
}

/// Why a request was refused, in one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For the exit code.
    pub kind: ActuatorRefusalKind,
    pub message: String,
}

/// The kinds of refusal that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorRefusalKind {
    /// No such process, module, variable or change.
    NotFound,
    /// The process has ended, or runs another program now.
    Ended,
    NotPermitted,
    /// Somebody else writes into the process, or something is in the way now: no thread suits, or the program
    /// did not come to the place.
    Busy,
    /// It is there and permitted, but must not be done: type, range, read-only, changed since.
    Refused,
    /// The journal or the machine failed.
    Failed,
    /// The request was not understood.
    Protocol,
}
