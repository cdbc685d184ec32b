//! How a command ends: its exit code, and what is said on standard error.

use std::{fmt, process::ExitCode};

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Done = 0,
    /// Done, and the answer is no.
    No = 1,
    /// Not understood, or not there.
    NotThere = 2,
    /// Not permitted.
    NotPermitted = 3,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// Why a command failed, in words for the user, and the code that says so.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
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

    /// Not permitted.
    pub fn not_permitted(message: impl fmt::Display) -> Failure {
        Failure {
            code: Code::NotPermitted,
            message: message.to_string(),
        }
    }

    /// Done, and the answer is no.
    pub fn no(message: impl fmt::Display) -> Failure {
        Failure {
            code: Code::No,
            message: message.to_string(),
        }
    }
}

/// What a command gives back.
pub type Outcome = Result<Code, Failure>;
