//! What can happen to changes, and what is to be done then: plain data.

use rules::{DecisionId, TrialProgress};
use std::{collections::BTreeSet, fmt};

use plan::MarkKind;
use serde::{Deserialize, Serialize};

use super::outcome::ChangeOutcome;
use super::outcome::NotDone;
use super::switch::ProbeSwitch;
pub use crate::process::{ActuatorPid, MachineId, MemberProcess};
use profile::{ChangeView, GuardView, Reaction};

/// A change of a process, by its number in the journal of that process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangeId {
    pub machine: MachineId,
    pub pid: ActuatorPid,
    /// Its number; 0 is none.
    pub number: u64,
}

/// A decision of the rules, resolved to what each process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decided {
    pub id: DecisionId,
    pub rule: String,
    /// What the rule promises of it.
    pub promise: Option<String>,
    /// What was done once it is done, in one line for all processes; none of values, which are counted.
    pub summary: Option<String>,
    /// It was reverted to be compared, and is made once more: that needs no line of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// How it is carried out.
    pub how: How,
    /// One order each, by their numbers.
    pub parts: Vec<OrderPart>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Each process by itself.
    Each,
    /// All processes at the same iteration, or none.
    Together,
    /// It was to be done together and cannot be, for this reason.
    Barred(String),
    /// Probes of the session are switched.
    Switch(Vec<ProbeSwitch>),
}

/// What one process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderPart {
    pub process: MemberProcess,
    /// The same, as the actuator names it.
    pub pid: ActuatorPid,
    /// What it acts on: `set_arg send(2)`.
    pub label: String,
    /// As it is shown while nothing is known of it.
    pub view: ChangeView,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderAnswer {
    pub outcome: ChangeOutcome,
    /// Of what was not done: later it may be.
    pub may_pass: bool,
    /// What is shown of it; none where nothing was tried.
    pub shown: Option<Box<ShownChange>>,
}

impl OrderAnswer {
    /// It was not tried.
    pub fn not_done(why: NotDone) -> OrderAnswer {
        OrderAnswer {
            outcome: ChangeOutcome::Refused(why.reason),
            may_pass: why.may_pass,
            shown: None,
        }
    }
}

/// What is shown of a change that was tried.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ShownChange {
    /// Its number in the journal; 0 is none.
    pub number: u64,
    /// The action in words; none of a value.
    pub variable: Option<String>,
    /// The old value; none of what has none.
    pub old: Option<String>,
    /// The new value, or what a call returned.
    pub new: Option<String>,
    pub mechanism: String,
    /// For how long threads were held, in nanoseconds.
    pub hold_ns: u64,
    /// How quickly it followed what it was decided on.
    pub reaction: Option<Reaction>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertResult {
    /// The old value is back.
    Reverted,
    /// The program has changed it since; it was left alone.
    ChangedSince,
    /// It was not reverted.
    Failed {
        reason: String,
        /// Later it may be.
        may_pass: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All processes of the program.
    Program,
    Session,
}

/// What the actuator of a machine did at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReverts {
    #[serde(rename = "undone")]
    pub reverted: Vec<(ChangeId, RevertResult)>,
    /// What could not be tried, why, and whether the process has ended.
    pub failed: Vec<(ChangeId, String, bool)>,
    /// What is still in force.
    pub kept: Vec<ChangeId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeEvent {
    Decided(Decided),
    /// The rules decided something that cannot be ordered.
    NotOrdered {
        decision: DecisionId,
        rule: String,
        reason: String,
    },
    Receipt {
        decision: DecisionId,
        part: usize,
        answer: OrderAnswer,
    },
    /// An order found no room in the queue to the actuator.
    NoRoom(MachineId, Order),
    /// What came of [`ChangeEffect::Switch`].
    Switched(DecisionId, Result<(), String>),
    /// The rules wait for a decision no longer: it grew stale, or its rule was switched or removed.
    GaveUp(DecisionId),
    Judged {
        decision: DecisionId,
        rule: String,
        /// The verdict, as it is shown.
        guard: GuardView,
        /// The changes stay, else they are reverted.
        keeps: bool,
        /// The slots of the processes that are judged; none is all.
        slots: Option<BTreeSet<u32>>,
    },
    /// An order to revert a change was answered.
    #[serde(rename = "undone")]
    Reverted(ChangeId, RevertResult),
    /// A rule is removed, with or without what it changed.
    Removed {
        rule: String,
        keeps: bool,
    },
    /// A process has ended, or runs another program.
    Ended(MemberProcess),
    Tick,
    Stop {
        ending: Ending,
        /// What is judged and never will be to the end.
        on_trial: Vec<TrialProgress>,
    },
    /// The actuator of a machine has reverted what is not confirmed, and ended.
    #[serde(rename = "farewell")]
    ActuatorEnded(MachineId, MachineReverts),
    /// The last line of the session is to be said: [`ChangeEffect::Summary`].
    #[serde(rename = "last_words")]
    Summary {
        /// Changes that are in the journal alone.
        unknown: usize,
        /// The command that reverts what was left.
        undo: String,
        program: String,
    },
}

/// What the actuator of a machine is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A part of a decision.
    Do {
        decision: DecisionId,
        part: usize,
        /// What is reverted before.
        replaces: Vec<ChangeId>,
    },
    /// All parts of a decision that are on this machine, at the same iteration.
    Together {
        decision: DecisionId,
    },
    /// What of a decision still waits for its place is to wait no longer.
    GiveUp(DecisionId),
    Confirm(ChangeId),
    /// These changes are reverted.
    #[serde(rename = "undo")]
    Revert(Vec<ChangeId>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeEffect {
    /// Send an order. One for which there is no room comes back as [`ChangeEvent::NoRoom`].
    Order(MachineId, Order),
    Say(ChangeNotice),
    /// Report the result of a decision to the rules.
    Result(DecisionId, Result<(), NotDone>),
    /// Switch probes for a decision; [`ChangeEvent::Switched`] says what came of it.
    Switch(DecisionId, Vec<ProbeSwitch>),
    SwitchBack(Vec<ProbeSwitch>),
    /// Log that an order was dropped.
    NoRoom(MachineId, Order),
    /// End the actuators, which revert what is not confirmed; [`ChangeEvent::ActuatorEnded`] says what came of
    /// it.
    Finish,
    /// What became of all changes, for the last line of the session.
    #[serde(rename = "last_words")]
    Summary(String),
}

pub type ChangeEffects = Vec<ChangeEffect>;

/// A line that stays on the screen; its time is added where it is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeNotice {
    /// A decision was carried out.
    Done {
        rule: String,
        text: String,
    },
    Switched {
        rule: String,
        text: String,
    },
    NotDone {
        rule: String,
        reason: String,
    },
    /// The rules waited no longer.
    TooLate {
        rule: String,
    },
    /// What a guard says.
    Guard(String),
    /// No guard has judged.
    NotJudged {
        rule: String,
        reason: String,
    },
    /// A change could not be reverted, and is tried again.
    Retried {
        change: ChangeId,
        outcome: ChangeOutcome,
    },
    /// A change that could not be reverted is settled.
    Settled {
        change: ChangeId,
        outcome: ChangeOutcome,
    },
    NoAnswer {
        rule: String,
    },
}

impl ChangeNotice {
    /// Kind, name and text of the mark that it leaves in a trace.
    pub fn mark(&self) -> Option<(MarkKind, &str, &str)> {
        match self {
            ChangeNotice::Done { rule, text } => Some((MarkKind::Change, rule, text)),
            ChangeNotice::Guard(text) => Some((MarkKind::Verdict, "guard", text)),
            _ => None,
        }
    }
}

impl fmt::Display for ChangeNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeNotice::Done { rule, text } | ChangeNotice::Switched { rule, text } => {
                write!(f, "{rule}   {text}")
            }
            ChangeNotice::NotDone { rule, reason } => write!(f, "{rule}   not done: {reason}"),
            ChangeNotice::TooLate { rule } => write!(f, "{rule}   too late for its window: undone"),
            ChangeNotice::Guard(text) => write!(f, "guard    {text}"),
            ChangeNotice::NotJudged { rule, reason } => write!(f, "guard    {rule} not judged: {reason}"),
            ChangeNotice::Retried { change, outcome } => write!(
                f,
                "undo     change {} of process {} is {outcome}; it is tried again",
                change.number, change.pid
            ),
            ChangeNotice::Settled { change, outcome } => write!(
                f,
                "undo     change {} of process {}: {outcome} now",
                change.number, change.pid
            ),
            ChangeNotice::NoAnswer { rule } => {
                write!(f, "{rule}   not known: the actuator ended without an answer")
            }
        }
    }
}
