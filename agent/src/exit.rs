//! The exit codes of commands, and the messages of failed ones.

use std::{error::Error, io, path::Path, process::ExitCode};

use profile::error::ErrorText;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Done,
    /// A check or an action failed: 1.
    Failed,
    /// Invalid arguments, or a target, a file or a rule that does not exist: 2.
    Invalid,
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
            Code::Failed => 1,
            Code::Invalid => 2,
            Code::NotPermitted => 3,
            Code::Command(code) => code,
        })
    }
}

/// A file of the command line that cannot be read. If there is none, that is all; else the operating system's error
/// follows.
pub fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let name = path.display();
    Failure::invalid(match error.kind() {
        io::ErrorKind::NotFound => format!("there is no file {name}"),
        _ => format!("{name} cannot be read: {error}"),
    })
}

/// Why a command failed: the error for the user, and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub error: ErrorText,
}

impl Failure {
    pub fn new(code: Code, error: impl Into<Box<dyn Error>>) -> Failure {
        Failure {
            code,
            error: ErrorText::new(error),
        }
    }

    /// A check or an action failed.
    pub fn failed(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::new(Code::Failed, error)
    }

    /// Invalid arguments, or a target, a file or a rule that does not exist.
    pub fn invalid(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::new(Code::Invalid, error)
    }

    pub fn not_permitted(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::new(Code::NotPermitted, error)
    }

    /// Adds the cause, which is shown with its own causes after the message.
    #[must_use]
    pub fn caused_by(self, cause: &(dyn Error + 'static)) -> Failure {
        Failure {
            error: self.error.caused_by(cause),
            ..self
        }
    }
}

/// The result of a command.
pub type CommandResult = Result<Code, Failure>;
