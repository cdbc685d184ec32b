//! Events and effects of changes, as plain data.

use rules::{DecisionId, TrialProgress};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use plan::MarkKind;
use serde::{Deserialize, Serialize};

use profile::outcome::ChangeOutcome;

use super::outcome::NotDone;
use super::switch::ProbeSwitch;
pub use crate::process::{ActuatorPid, MachineId, MemberProcess};
use profile::error::ErrorText;
use profile::{ChangeView, GuardView, Reaction};

/// A change of a process, by its number in the journal of that process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangeId {
    pub machine: MachineId,
    pub pid: ActuatorPid,
    /// 0 if there is none.
    pub number: u64,
}

/// A decision of the rules, resolved to an action for each process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Decided {
    pub id: DecisionId,
    pub rule: String,
    /// What the rule predicts of it.
    pub expect: Option<String>,
    /// What was done, in one line for all processes; `None` for values, which are counted.
    pub summary: Option<String>,
    /// It was reverted to be compared and is made again, without another line on the screen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// How it is carried out.
    pub how: Execution,
    /// One order for each part, by its index.
    pub parts: Vec<OrderPart>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Each process by itself.
    #[default]
    Each,
    /// All processes at the same iteration, or none.
    Together,
    /// It should be done together and cannot be, for this reason.
    Barred(String),
    /// Probes of the session are switched.
    Switch(Vec<ProbeSwitch>),
}

/// The part of a decision for one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderPart {
    pub process: MemberProcess,
    /// The process as the actuator names it.
    pub pid: ActuatorPid,
    /// The target, such as `set_arg send(2)`.
    pub label: String,
    /// A call in one of several copies of a library, which are made one after another in a process. Copies that the
    /// program does not use are not reached; one at least is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_copy: bool,
    /// How it is shown before its result is known.
    pub view: ChangeView,
}

/// The verdict of a guard on the changes of a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedDecision {
    pub decision: DecisionId,
    pub rule: String,
    /// The verdict, as it is shown.
    pub guard: GuardView,
    /// The changes stay; otherwise they are reverted.
    pub keeps: bool,
    /// The slots of the judged processes; `None` for all of the decision.
    pub slots: Option<BTreeSet<u32>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderAnswer {
    pub outcome: ChangeOutcome,
    /// If it was not done: whether a retry may succeed.
    pub may_pass: bool,
    /// What is shown of it; `None` if nothing was tried.
    pub shown: Option<Box<ShownChange>>,
}

impl OrderAnswer {
    /// The answer for an order that was not tried.
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
    /// The number in the journal; 0 if there is none.
    pub number: u64,
    /// The action as text; `None` for a value.
    pub variable: Option<String>,
    /// The old value; `None` if there is none.
    pub old: Option<String>,
    /// The new value, or the result of a call.
    pub new: Option<String>,
    pub mechanism: String,
    /// For how long threads were held, in nanoseconds.
    pub hold_ns: u64,
    /// How quickly it followed the cause of the decision.
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
        /// Whether a retry may succeed.
        may_pass: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All processes of the program have ended.
    Program,
    Session,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ending::Program => "the program",
            Ending::Session => "the session",
        })
    }
}

/// A change whose revert could not be tried at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTried {
    pub change: ChangeId,
    pub why: ErrorText,
    /// The process has ended, and the change with it.
    pub has_ended: bool,
}

/// What the actuator of a machine did at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReverts {
    pub reverted: Vec<(ChangeId, RevertResult)>,
    pub failed: Vec<NotTried>,
    /// Changes that are still in force.
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
    /// The result of [`ChangeEffect::Switch`].
    Switched(DecisionId, Result<(), ErrorText>),
    /// The rules no longer wait for a decision: it became stale, or its rule was switched or removed.
    GaveUp(DecisionId),
    Judged(JudgedDecision),
    /// The answer to an order to revert a change.
    Reverted(ChangeId, RevertResult),
    /// A rule is removed, with or without its changes.
    Removed {
        rule: String,
        keeps: bool,
    },
    /// A process has ended, or runs another program.
    Ended(MemberProcess),
    Tick,
    Stop {
        ending: Ending,
        /// Trials without a verdict, which are not judged any more.
        on_trial: Vec<TrialProgress>,
        /// By rule: the least and the greatest time that a verdict takes, in seconds.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        time_to_verdict: BTreeMap<String, (f64, f64)>,
    },
    /// The actuator of a machine has reverted all unconfirmed changes and ended.
    ActuatorEnded(MachineId, MachineReverts),
    /// The last line of the session is needed: [`ChangeEffect::Summary`].
    Summary {
        /// Number of changes that are only in the journal.
        unknown: usize,
        /// The command that reverts the remaining changes.
        undo: String,
        program: String,
    },
}

/// An order for the actuator of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Carry out a part of a decision.
    Do {
        decision: DecisionId,
        part: usize,
        /// Changes to revert before.
        replaces: Vec<ChangeId>,
    },
    /// Carry out all parts of a decision on this machine at the same iteration.
    Together {
        decision: DecisionId,
    },
    /// Cancel the parts of a decision that still wait for their place.
    GiveUp(DecisionId),
    Confirm(ChangeId),
    Revert(Vec<ChangeId>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeEffect {
    /// Send an order. If there is no room, [`ChangeEvent::NoRoom`] follows.
    Order(MachineId, Order),
    Say(ChangeNotice),
    /// Report the result of a decision to the rules.
    Result(DecisionId, Result<(), NotDone>),
    /// Switch probes for a decision; [`ChangeEvent::Switched`] has the result.
    Switch(DecisionId, Vec<ProbeSwitch>),
    SwitchBack(Vec<ProbeSwitch>),
    /// Log that an order was dropped.
    NoRoom(MachineId, Order),
    /// End the actuators, which revert unconfirmed changes; [`ChangeEvent::ActuatorEnded`] has the result.
    Finish,
    /// The state of all changes, for the last line of the session.
    Summary(String),
}

pub type ChangeEffects = Vec<ChangeEffect>;

/// A line that stays on the screen; the time is added when it is shown.
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
    /// The rules had stopped waiting.
    TooLate {
        rule: String,
    },
    /// The text of a guard.
    Guard(String),
    /// No guard has judged.
    NotJudged {
        rule: String,
        reason: String,
    },
    /// A change could not be reverted; it is retried.
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
    /// Kind, name and text of its mark in a trace.
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
            ChangeNotice::TooLate { rule } => write!(f, "{rule}   too late for its window: reverted"),
            ChangeNotice::Guard(text) => write!(f, "guard    {text}"),
            ChangeNotice::NotJudged { rule, reason } => write!(f, "guard    {rule} not judged: {reason}"),
            ChangeNotice::Retried { change, outcome } => write!(
                f,
                "revert   change {} of process {} is {outcome}; it is tried again",
                change.number, change.pid
            ),
            ChangeNotice::Settled { change, outcome } => write!(
                f,
                "revert   change {} of process {}: {outcome} now",
                change.number, change.pid
            ),
            ChangeNotice::NoAnswer { rule } => {
                write!(f, "{rule}   not known: the actuator ended without an answer")
            }
        }
    }
}
