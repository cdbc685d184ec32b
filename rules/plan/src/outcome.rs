//! The modes of rules, the guard's verdicts, and the marks of a session in its recording.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The permission of a rule to act.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is not evaluated.
    Off,
    /// It reports findings, and makes no decisions.
    #[default]
    Advising,
    /// It makes decisions; only in a session that was started with --apply.
    Applying,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Off, Mode::Advising, Mode::Applying];

    /// The word of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Advising => "advising",
            Mode::Applying => "applying",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text is no mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no mode: off, advising or applying")]
pub struct ModeError(String);

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Mode, ModeError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| ModeError(text.to_owned()))
    }
}

/// The guard's result for a change. The rule determines whether the change then stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardEffect {
    /// The objective is better, with 98 % confidence and by a relevant amount.
    Confirmed,
    /// With the same confidence, it is neither better nor worse by more than the margin.
    NoEffect,
    /// It is worse by more than the margin.
    Worse,
    /// It varies too much by itself for a comparison.
    Inconclusive,
}

impl GuardEffect {
    /// The word in texts; reports use it with `_` for a space.
    pub fn name(self) -> &'static str {
        match self {
            GuardEffect::Confirmed => "confirmed",
            GuardEffect::NoEffect => "no effect",
            GuardEffect::Worse => "worse",
            GuardEffect::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for GuardEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kinds of marks of a session in its trace and its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    Finding,
    /// A change was made.
    Change,
    /// The guard has judged; a recording contains the verdict itself, as `Kept` or `Reverted`.
    Verdict,
    /// A change was kept.
    Kept,
    /// A change was reverted.
    Reverted,
}

impl MarkKind {
    const ALL: [MarkKind; 5] = [
        MarkKind::Finding,
        MarkKind::Change,
        MarkKind::Verdict,
        MarkKind::Kept,
        MarkKind::Reverted,
    ];

    /// The word in a trace and in a recording.
    pub fn name(self) -> &'static str {
        match self {
            MarkKind::Finding => "finding",
            MarkKind::Change => "change",
            MarkKind::Verdict => "verdict",
            MarkKind::Kept => "kept",
            MarkKind::Reverted => "undone",
        }
    }

    /// The mark for a word of a recording; an unknown word is read as a change.
    pub fn named(word: &str) -> MarkKind {
        let found = MarkKind::ALL.into_iter().find(|kind| kind.name() == word);
        found.unwrap_or(MarkKind::Change)
    }
}
