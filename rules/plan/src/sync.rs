//! Sync points: the places in the program at which changes take effect, in the notation of users and rules
//! (`entry:step`, `return:libapp.so:step`). Nothing is resolved here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

crate::words! {
    serde:
    /// A moment in the execution of a function.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Moment {
        /// Before its first instruction.
        Entry = "entry",
        /// Before its return instruction.
        Return = "return",
    }
}

/// The entry or return of a function, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPoint {
    pub moment: Moment,
    pub function: String,
    /// The module of the function, if several modules have one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// The text is not a sync point.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a sync point: expected entry:FUNCTION, return:FUNCTION, or entry:MODULE:FUNCTION")]
pub struct SyncPointError(String);

impl FromStr for SyncPoint {
    type Err = SyncPointError;

    fn from_str(text: &str) -> Result<SyncPoint, SyncPointError> {
        let wrong = || SyncPointError(text.to_owned());
        let (moment, name) = text.split_once(':').ok_or_else(wrong)?;
        let moment = [Moment::Entry, Moment::Return]
            .into_iter()
            .find(|known| known.name() == moment);
        SyncPoint::new(moment.ok_or_else(wrong)?, name)
    }
}

impl SyncPoint {
    /// The sync point of a function, given with or without its module: `step`, `libapp.so:step`.
    pub fn new(moment: Moment, name: &str) -> Result<SyncPoint, SyncPointError> {
        // A C++ name may contain `::`; a module's name ends at a single colon.
        let (module, function) = match name.split_once(':') {
            Some((module, function)) if !function.starts_with(':') => (Some(module.to_owned()), function),
            _ => (None, name),
        };
        let is_empty = |text: &str| text.is_empty();
        if is_empty(function) || module.as_deref().is_some_and(is_empty) {
            return Err(SyncPointError(format!("{}:{name}", moment.name())));
        }
        Ok(SyncPoint {
            moment,
            function: function.to_owned(),
            module,
        })
    }

    /// The function, with its module if there is one.
    pub fn name(&self) -> String {
        match &self.module {
            Some(module) => format!("{module}:{}", self.function),
            None => self.function.clone(),
        }
    }
}

impl fmt::Display for SyncPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.moment.name(), self.name())
    }
}

/// Where a process holds the number of the iteration that it begins. Without a size, the debug information
/// supplies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// An argument of the function, by index.
    Argument {
        /// The first one is 0.
        number: u8,
        bytes: Option<u8>,
    },
    /// An argument, by its name in the source.
    NamedArgument { name: String },
    Variable {
        name: String,
        /// Its size, if the symbol has none either.
        bytes: Option<u8>,
    },
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Argument { number, .. } => write!(f, "arg({number})"),
            Key::NamedArgument { name } => write!(f, "arg({name})"),
            Key::Variable { name, .. } => f.write_str(name),
        }
    }
}

/// A place at which several processes take a change in the same iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonIteration {
    /// The place at which each of them begins an iteration.
    pub at: SyncPoint,
    /// Where the process holds the number of the iteration.
    pub key: Key,
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
            assert_eq!(text.parse::<SyncPoint>().unwrap().to_string(), text);
        }
        let place: SyncPoint = "entry:libapp.so:step".parse().unwrap();
        assert_eq!(
            (place.module.as_deref(), place.function.as_str()),
            (Some("libapp.so"), "step")
        );
    }

    #[test]
    fn an_invalid_sync_point_is_refused_with_valid_ones() {
        for text in ["step", "entry:", "entry", "at:step", "entry:m:", ""] {
            let error = text.parse::<SyncPoint>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is not a sync point: expected entry:FUNCTION")),
                "{error}"
            );
        }
    }
}
