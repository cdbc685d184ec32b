//! The error type of the harness: a text.

use std::fmt;

/// An error text. `Debug` prints it unquoted, because a failing test prints `Debug`.
pub struct Problem(String);

/// Result of tests and of most functions of the harness.
pub type Outcome<T = ()> = Result<T, Problem>;

impl Problem {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Problem {
        Problem(text.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem(text)
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Problem {
        Problem(text.to_owned())
    }
}

impl From<Problem> for String {
    fn from(problem: Problem) -> String {
        problem.0
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Problem {
        Problem(error.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Problem {
        Problem(format!("not the JSON that was expected: {error}"))
    }
}

/// Adds context to an error.
pub trait Context<T> {
    /// Prefixes the error text with `doing`.
    fn context(self, doing: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Problem(format!("{doing}: {error}")))
    }
}
