//! Words for the outcome of a change, and the guard's verdict.

use serde::{Deserialize, Serialize};

/// A value is in force.
pub const WRITTEN: &str = "written";
/// Any other action is in force.
pub const IN_FORCE: &str = "in force";
/// The value needed no change.
pub const THERE: &str = "it was there already";
/// The process ended before it could be changed.
pub const GONE: &str = "it ended before";
/// The reason why a decision is not carried out.
pub const NO_PROCESS_LEFT: &str = "no process is left to be changed";
/// The change was reverted.
pub const REVERTED: &str = "reverted";
/// The revert was skipped because the program has changed the value since.
pub const LEFT_ALONE: &str = "left alone: the program changed it since";
/// What became of a change that was kept, and is reverted.
pub const KEPT_UNTIL_THE_END: &str = "kept until the session ended";

plan::words! {
    /// What becomes of a change by the guard's judgement.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum GuardVerdict {
        /// The change is being judged.
        #[default]
        #[serde(rename = "on trial")]
        OnTrial = "on trial",
        /// The change is reverted for some windows, to compare them with the windows with it.
        #[serde(rename = "reverted to compare")]
        Compared = "reverted to compare",
        /// The change is being reverted.
        #[serde(rename = "being reverted")]
        Reverting = "being reverted",
        /// The change stays until the session ends.
        Kept = "kept",
        /// The change has to be reverted, or is.
        Reverted = "reverted",
        /// The change could not be reverted.
        #[serde(rename = "not reverted")]
        NotReverted = "not reverted",
        /// The session ended before a judgement.
        #[serde(rename = "not judged")]
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
