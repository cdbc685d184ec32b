//! Words for the outcome of a change, and the guard's verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value is in force.
pub const WRITTEN: &str = "written";
/// The value needed no change.
pub const THERE: &str = "it was there already";
/// The process ended before it could be changed.
pub const GONE: &str = "it ended before";
/// The reason why a decision is not carried out.
pub const NO_PROCESS_LEFT: &str = "no process is left to be changed";
/// What became of a change that was kept, and is reverted.
pub const KEPT_UNTIL_THE_END: &str = "kept until the session ended";

/// The outcome of a change in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A call that has not returned yet.
    #[default]
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

    /// The process has it now, and it can be reverted.
    pub fn is_in_force(&self) -> bool {
        matches!(self, ChangeOutcome::Written | ChangeOutcome::InForce)
    }
}

impl fmt::Display for ChangeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeOutcome::Written => f.write_str(WRITTEN),
            ChangeOutcome::InForce => f.write_str("in force"),
            ChangeOutcome::AlreadyThere => f.write_str(THERE),
            ChangeOutcome::Stays(result) => write!(f, "returned {result}; it has no inverse and stays"),
            ChangeOutcome::Over(result) => write!(f, "returned {result}; nothing is left to revert"),
            ChangeOutcome::Running => {
                f.write_str("has not returned yet and continues; see the journal later")
            }
            ChangeOutcome::Gone => f.write_str(GONE),
            ChangeOutcome::Refused(reason) | ChangeOutcome::NotReached(reason) => f.write_str(reason),
            ChangeOutcome::Reverted => f.write_str("reverted"),
            ChangeOutcome::LeftAlone => f.write_str("left alone: the program changed it since"),
            ChangeOutcome::NotBack(reason) => write!(f, "not reverted: {reason}"),
        }
    }
}

plan::words! {
    serde:
    /// What becomes of a change by the guard's judgement.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum GuardVerdict {
        /// The change is being judged.
        #[default]
        OnTrial = "on trial",
        /// The change is reverted for some windows, to compare them with the windows with it.
        Compared = "reverted to compare",
        /// The change is being reverted.
        Reverting = "being reverted",
        /// The change has passed its trial and stays.
        Kept = "kept",
        /// The change has to be reverted, or is.
        Reverted = "reverted",
        /// The change could not be reverted.
        NotReverted = "not reverted",
        /// The session ended before a judgement.
        NotJudged = "not judged",
        /// The rule's `while` no longer holds, so the change ended without a judgement.
        Ended = "ended",
    }
}

impl GuardVerdict {
    pub fn is_final(self) -> bool {
        use GuardVerdict::{Compared, OnTrial, Reverting};
        !matches!(self, OnTrial | Compared | Reverting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_written_and_read_as_its_word() {
        for verdict in GuardVerdict::ALL {
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(text, format!("\"{verdict}\""));
            assert_eq!(serde_json::from_str::<GuardVerdict>(&text).unwrap(), verdict);
        }
        assert!(serde_json::from_str::<GuardVerdict>("\"perhaps\"").is_err());
    }
}
