//! Where in a program's source a call stands.

/// A place in a program's source, as far as its files show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePlace {
    /// The file of code that it is in.
    pub module: Option<String>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u64>,
}
