//! How a command ends: its exit code, and what is said on standard error.

use std::{fmt, process::ExitCode};

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Done,
    /// A check or an action failed: 1.
    No,
    /// Not understood, or not there: 2.
    NotThere,
    NotPermitted,
    /// Of `run`: the command's own, or one of the three that say why there is none.
    Command(u8),
}

impl Code {
    /// A session hung and was ended by its watchdog.
    pub const HUNG: u8 = 4;
    /// The command was not started, for a reason of ours.
    pub const NOT_STARTED: Code = Code::Command(125);
    /// The command is there and cannot be executed.
    pub const NOT_EXECUTABLE: Code = Code::Command(126);
    /// There is no such command.
    pub const NO_COMMAND: Code = Code::Command(127);
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(match code {
            Code::Done => 0,
            Code::No => 1,
            Code::NotThere => 2,
            Code::NotPermitted => 3,
            Code::Command(code) => code,
        })
    }
}

/// Why a command failed, in words for the user, and the code that says so.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    /// What went wrong, where, and what to do; may have several lines.
    pub message: String,
}

impl Failure {
    /// Not understood, or not there.
    pub fn not_there(message: impl fmt::Display) -> Failure {
        Failure {
            code: Code::NotThere,
            message: message.to_string(),
        }
    }

    pub fn not_permitted(message: impl fmt::Display) -> Failure {
        Failure {
            code: Code::NotPermitted,
            message: message.to_string(),
        }
    }

    /// Of `run`: there is no command that could have ended.
    pub fn of_command(code: Code, message: impl fmt::Display) -> Failure {
        Failure {
            code,
            message: message.to_string(),
        }
    }

    pub fn no(message: impl fmt::Display) -> Failure {
        Failure {
            code: Code::No,
            message: message.to_string(),
        }
    }
}

/// What a command gives back.
pub type CommandResult = Result<Code, Failure>;
