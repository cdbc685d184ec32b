//! Words for the outcome of a change and for the guard's verdict.

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
/// The change was reverted; also the verdict that it has to be.
pub const REVERTED: &str = "reverted";
/// The revert was skipped because the program has changed the value since.
pub const LEFT_ALONE: &str = "left alone: the program changed it since";
/// Verdict: the change stays.
pub const KEPT: &str = "kept";
/// What became of a change that was kept, and is reverted.
pub const KEPT_UNTIL_THE_END: &str = "kept until the session ended";
/// Verdict: the change is being judged.
pub const ON_TRIAL: &str = "on trial";
/// Verdict: the session ended before a judgement.
pub const NOT_JUDGED: &str = "not judged";
/// Verdict: the change is being reverted.
pub const REVERTING: &str = "being reverted";
/// Verdict: the change could not be reverted.
pub const NOT_REVERTED: &str = "not reverted";
/// Verdict: the change is reverted for some windows, to compare them with the windows with it.
pub const COMPARED: &str = "reverted to compare";
/// Verdict: the rule's `while` no longer holds, so the change ended without a judgement.
pub const ENDED: &str = "ended";

pub const VERDICTS: [&str; 8] = [
    KEPT,
    REVERTED,
    ENDED,
    ON_TRIAL,
    NOT_JUDGED,
    REVERTING,
    NOT_REVERTED,
    COMPARED,
];
