//! The exit codes of commands, and the messages of failed ones.

use std::{fmt, process::ExitCode};

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Done,
    /// A check or an action failed: 1.
    No,
    /// Invalid arguments, or a target that does not exist: 2.
    NotThere,
    NotPermitted,
    /// For `run`: the exit code of the command, or one of the three codes for why it did not run.
    Command(u8),
}

impl Code {
    /// A session hung and was ended by its watchdog.
    pub const HUNG: u8 = 4;
    /// The command was not started because of a failure in this program.
    pub const NOT_STARTED: Code = Code::Command(125);
    /// The command exists but cannot be executed.
    pub const NOT_EXECUTABLE: Code = Code::Command(126);
    /// The command does not exist.
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

/// Why a command failed: the message for the user, and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    /// The error, its location, and a fix; may have several lines.
    pub message: String,
}

impl Failure {
    /// Invalid arguments, or a target that does not exist.
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

    /// For `run`: the command did not run.
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

/// The result of a command.
pub type CommandResult = Result<Code, Failure>;
