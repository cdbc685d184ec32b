//! Errors as events have them: plain data that is recorded and replayed.

use std::{error::Error, fmt, iter};

use serde::{Deserialize, Serialize};

/// An error with its causes, as text. It is displayed as one message with all causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// What went wrong, where, and what to do; may have several lines.
    pub message: String,
    /// The outermost first. An error either has the text of its cause in its own text or has the cause as its source.
    pub causes: Vec<String>,
}

impl ErrorText {
    /// Of an error, or of a text without causes.
    pub fn new(error: impl Into<Box<dyn Error>>) -> ErrorText {
        ErrorText::of(&*error.into())
    }

    /// Of an error that is not owned.
    pub fn of(error: &(dyn Error + 'static)) -> ErrorText {
        let text = ErrorText {
            message: error.to_string(),
            causes: Vec::new(),
        };
        match error.source() {
            Some(cause) => text.caused_by(cause),
            None => text,
        }
    }

    /// Adds a cause, and the causes of that.
    #[must_use]
    pub fn caused_by(mut self, cause: &(dyn Error + 'static)) -> ErrorText {
        let causes = iter::successors(Some(cause), |&cause| cause.source());
        self.causes.extend(causes.map(ToString::to_string));
        self
    }
}

/// A result as events have it.
pub fn with_causes<T>(result: Result<T, impl Error + 'static>) -> Result<T, ErrorText> {
    result.map_err(ErrorText::new)
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        // The last line of several is help, which a cause does not continue.
        let before = match self.message.contains('\n') {
            true => "\ncaused by: ",
            false => ": ",
        };
        self.causes
            .iter()
            .try_for_each(|cause| write!(f, "{before}{cause}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::ErrorText;

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("the map `{0}` was not created")]
        WithoutCause(&'static str, #[source] io::Error),
        #[error("probes need rights\nas root: sudo tuneagent doctor")]
        WithHelp(#[source] Box<Failed>),
    }

    fn map() -> Box<Failed> {
        Box::new(Failed::WithoutCause("calls", io::Error::other("no memory")))
    }

    #[test]
    fn all_causes_are_shown() {
        let map_text = "the map `calls` was not created";
        let help = "probes need rights\nas root: sudo tuneagent doctor";
        let rows = [
            (ErrorText::new("no room"), "no room".to_owned()),
            (ErrorText::new(map()), format!("{map_text}: no memory")),
            (
                ErrorText::new(Failed::WithHelp(map())),
                format!("{help}\ncaused by: {map_text}\ncaused by: no memory"),
            ),
            (
                ErrorText::new("a.json was not written").caused_by(&*map()),
                format!("a.json was not written: {map_text}: no memory"),
            ),
        ];
        for (error, shown) in rows {
            assert_eq!(error.to_string(), shown);
        }
    }
}
