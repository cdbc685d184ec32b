//! The source location of a call.

/// A source location, as far as the debug information shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePlace {
    /// The executable or library that contains it.
    pub module: Option<String>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u64>,
}
