//! Why a decision was not carried out, and the standing of a change.

use serde::{Deserialize, Serialize};

use profile::format::plural;
use profile::outcome::{self as words, ChangeOutcome};

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

impl Standing {
    pub(super) fn of(outcome: &ChangeOutcome) -> Standing {
        match outcome {
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
