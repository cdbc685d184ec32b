//! Where in a program's source a call stands.

/// A place in a program's source, as far as its files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file of code that it is in.
    pub module: Option<String>,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// Its line.
    pub line: Option<u64>,
}
