//! What a user or a rule names as a sync point: `entry:step`, `return:libapp.so:step`. A claim; nothing is looked up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The moment of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before its first instruction.
    Entry,
    /// Before its return instruction.
    Return,
}

/// The entry or return of a function, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPlace {
    pub moment: Moment,
    pub function: String,
    /// The module that holds it, where several have one of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// A text that is no place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no sync point: entry:FUNCTION or return:FUNCTION, or entry:MODULE:FUNCTION")]
pub struct SyncPlaceError(String);

impl FromStr for SyncPlace {
    type Err = SyncPlaceError;

    fn from_str(text: &str) -> Result<SyncPlace, SyncPlaceError> {
        let wrong = || SyncPlaceError(text.to_owned());
        let (moment, name) = text.split_once(':').ok_or_else(wrong)?;
        let moment = match moment {
            "entry" => Moment::Entry,
            "return" => Moment::Return,
            _ => return Err(wrong()),
        };
        // A C++ name may hold `::`; a module's name ends at a single colon.
        let (module, function) = match name.split_once(':') {
            Some((module, function)) if !function.starts_with(':') => (Some(module.to_owned()), function),
            _ => (None, name),
        };
        let is_empty = |text: &str| text.is_empty();
        if is_empty(function) || module.as_deref().is_some_and(is_empty) {
            return Err(wrong());
        }
        Ok(SyncPlace {
            moment,
            function: function.to_owned(),
            module,
        })
    }
}

impl fmt::Display for SyncPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::Entry => "entry",
            Moment::Return => "return",
        };
        match &self.module {
            Some(module) => write!(f, "{moment}:{module}:{}", self.function),
            None => write!(f, "{moment}:{}", self.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_shown() {
        for text in [
            "entry:step",
            "return:step",
            "entry:libapp.so:step",
            "return:solver::step",
        ] {
            assert_eq!(text.parse::<SyncPlace>().unwrap().to_string(), text);
        }
        let place: SyncPlace = "entry:libapp.so:step".parse().unwrap();
        assert_eq!(
            (place.module.as_deref(), place.function.as_str()),
            (Some("libapp.so"), "step")
        );
    }

    #[test]
    fn what_is_no_place_is_said_with_what_would_be_one() {
        for text in ["step", "entry:", "entry", "at:step", "entry:m:", ""] {
            let error = text.parse::<SyncPlace>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is no sync point: entry:FUNCTION")),
                "{error}"
            );
        }
    }
}
