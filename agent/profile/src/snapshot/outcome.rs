//! The words for what became of a change, and for what the guard says of it.

/// The outcome of a value that is in force.
pub const WRITTEN: &str = "written";
/// The outcome of anything else that is in force.
pub const IN_FORCE: &str = "in force";
/// The outcome of a value that needed no change.
pub const THERE: &str = "it was there already";
/// The outcome in a process that ended before it could be changed.
pub const GONE: &str = "it ended before";
/// Why a decision is not carried out.
pub const NO_PROCESS_LEFT: &str = "no process is left to be changed";
/// The outcome of a change that was reverted.
pub const REVERTED: &str = "reverted";
/// The outcome of a change that was to be reverted and is the program's by now.
pub const LEFT_ALONE: &str = "left alone: the program changed it since";
/// The guard's word for a change that stays.
pub const KEPT: &str = "kept";
/// The guard's word for one that is being judged.
pub const ON_TRIAL: &str = "on trial";
/// The guard's word for one that was not judged when the session ended.
pub const NOT_JUDGED: &str = "not judged";
/// The guard's word for one that does not.
pub const UNDONE: &str = "undone";
/// The guard's word for one that is being reverted.
pub const UNDOING: &str = "being undone";
/// The guard's word for one that could not be reverted.
pub const NOT_UNDONE: &str = "not undone";
/// The guard's word for one that is reverted for some windows, to be compared with the time without it.
pub const COMPARED: &str = "reverted to compare";
/// The word for one whose `while` no longer holds: nothing was judged.
pub const ENDED: &str = "ended";

/// All words of the guard.
pub const VERDICTS: [&str; 8] = [
    KEPT, UNDONE, ENDED, ON_TRIAL, NOT_JUDGED, UNDOING, NOT_UNDONE, COMPARED,
];
