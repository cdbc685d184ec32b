//! The modes of rules, the guard's verdicts, and the marks of a session in its recording.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

crate::words! {
    serde:
    /// The permission of a rule to act.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Mode {
        /// It is not evaluated.
        Off = "off",
        /// It reports findings, and makes no decisions.
        #[default]
        Advising = "advising",
        /// It makes decisions; only in a session that was started with --apply.
        Applying = "applying",
    }
}

/// A text is no mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown mode `{0}`; use off, advising or applying")]
pub struct ModeError(String);

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Mode, ModeError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| ModeError(text.to_owned()))
    }
}

crate::words! {
    /// The guard's result for a change. The rule determines whether the change then stays.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum GuardEffect {
        /// The objective is better, with 98 % confidence and by a relevant amount.
        Confirmed = "confirmed",
        /// With the same confidence, it is neither better nor worse by more than the margin.
        NoEffect = "no effect",
        /// It is worse by more than the margin.
        Worse = "worse",
        /// It varies too much by itself for a comparison.
        Inconclusive = "inconclusive",
    }
}

crate::words! {
    /// The kinds of marks of a session in its trace and its recording.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MarkKind {
        Finding = "finding",
        /// A change was made.
        Change = "change",
        /// The guard has judged; a recording contains the verdict itself, as `Kept` or `Reverted`.
        Verdict = "verdict",
        /// A change was kept.
        Kept = "kept",
        /// A change was reverted.
        Reverted = "reverted",
    }
}

impl MarkKind {
    /// The mark for a word of a recording; an unknown word is read as a change. Recordings of earlier versions
    /// have `undone` for `reverted`.
    pub fn named(word: &str) -> MarkKind {
        match MarkKind::ALL.into_iter().find(|kind| kind.name() == word) {
            Some(kind) => kind,
            None if word == "undone" => MarkKind::Reverted,
            None => MarkKind::Change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MarkKind;

    #[test]
    fn marks_of_recordings_are_read_and_so_are_those_of_earlier_versions() {
        for kind in MarkKind::ALL {
            assert_eq!(MarkKind::named(kind.name()), kind);
        }
        assert_eq!(MarkKind::named("undone"), MarkKind::Reverted);
        assert_eq!(MarkKind::named("removed"), MarkKind::Change);
    }
}
