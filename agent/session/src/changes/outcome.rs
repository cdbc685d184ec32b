//! The outcome of a change, and its standing.

use std::fmt;

use serde::{Deserialize, Serialize};

use profile::format::plural;
use profile::outcome as words;

/// Why a decision was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDone {
    pub reason: String,
    /// A retry may succeed.
    pub may_pass: bool,
    /// It was already in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_there: bool,
}

impl NotDone {
    pub fn for_good(reason: impl Into<String>) -> NotDone {
        let reason = reason.into();
        NotDone {
            reason,
            may_pass: false,
            is_there: false,
        }
    }

    pub fn for_now(reason: impl Into<String>) -> NotDone {
        NotDone {
            may_pass: true,
            ..NotDone::for_good(reason)
        }
    }

    /// All of these processes already had it.
    pub(super) fn there(processes: usize) -> NotDone {
        let processes = plural(processes, "process");
        NotDone {
            is_there: true,
            ..NotDone::for_good(format!("{} in {processes}", words::THERE))
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// A value is in force.
    Written,
    /// An action is in force.
    InForce,
    /// The value needed no change, or a call passed what was in force.
    AlreadyThere,
    /// A call with this result, without an inverse.
    Stays(String),
    /// A call with this result that leaves nothing to be reverted.
    Over(String),
    Running,
    /// The process ended before.
    Gone,
    Refused(String),
    /// The program did not reach the place where it would have been done.
    NotReached(String),
    Reverted,
    /// It was not reverted, because the program has changed it since.
    LeftAlone,
    /// It could not be reverted, for this reason.
    NotBack(String),
}

impl ChangeOutcome {
    /// The process has what was decided.
    pub fn is_done(&self) -> bool {
        use ChangeOutcome::{Gone, NotReached, Refused};
        !matches!(self, Gone | Refused(_) | NotReached(_))
    }

    pub(super) fn standing(&self) -> Standing {
        match self {
            ChangeOutcome::Written | ChangeOutcome::InForce => Standing::InForce,
            ChangeOutcome::AlreadyThere
            | ChangeOutcome::Gone
            | ChangeOutcome::Refused(_)
            | ChangeOutcome::NotReached(_) => Standing::NotMade,
            ChangeOutcome::Stays(_) => Standing::Stays,
            ChangeOutcome::Over(_) => Standing::Over,
            ChangeOutcome::Running => Standing::Running,
            ChangeOutcome::Reverted => Standing::Back,
            ChangeOutcome::LeftAlone => Standing::LeftAlone,
            ChangeOutcome::NotBack(_) => Standing::NotBack,
        }
    }
}

impl fmt::Display for ChangeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeOutcome::Written => f.write_str(words::WRITTEN),
            ChangeOutcome::InForce => f.write_str(words::IN_FORCE),
            ChangeOutcome::AlreadyThere => f.write_str(words::THERE),
            ChangeOutcome::Stays(result) => write!(f, "returned {result}; it has no inverse and stays"),
            ChangeOutcome::Over(result) => write!(f, "returned {result}; nothing is left to revert"),
            ChangeOutcome::Running => {
                f.write_str("has not returned yet and continues; see the journal later")
            }
            ChangeOutcome::Gone => f.write_str(words::GONE),
            ChangeOutcome::Refused(reason) | ChangeOutcome::NotReached(reason) => f.write_str(reason),
            ChangeOutcome::Reverted => f.write_str(words::REVERTED),
            ChangeOutcome::LeftAlone => f.write_str(words::LEFT_ALONE),
            ChangeOutcome::NotBack(reason) => write!(f, "not reverted: {reason}"),
        }
    }
}

/// The standing of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It was not made, or nothing had to be changed.
    NotMade,
    /// In force, and can be reverted.
    InForce,
    /// In force, and intentionally left so when the session ended.
    Kept,
    /// A call without an inverse.
    Stays,
    /// A call that leaves nothing to be reverted.
    Over,
    Running,
    Back,
    /// Not reverted: the program has changed it since.
    LeftAlone,
    /// Could not be reverted.
    NotBack,
}
