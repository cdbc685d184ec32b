//! The bytes of a process that a variable's name denotes, or a path from it to a field, an element, or the
//! target of a pointer.
//!
//! This file has the types and errors; `binding` determines how a name is bound; `naming` finds the linker
//! names for the user's spelling; `location` is the result.

mod binding;
mod location;
mod naming;

use std::fmt;

use thiserror::Error;

pub(crate) use location::Chain;
pub use location::{FollowError, Location};

use crate::address::Address;
use crate::dwarf::WalkError;
use crate::image::ImageError;
use crate::memory::MemoryError;
use crate::path::PathError;
use crate::process::Pid;

/// The name of a variable, and, if the name is ambiguous, the module whose code sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableName {
    /// The linker's or the source's name with steps: `cfg.solver.chunk`, `limits[2]`, `solver.c:limit`,
    /// `Solver::limit`, `config::chunk`; see `path`.
    pub name: String,
    /// The path, file name, soname, or file name up to `.so`; or the source file of a static variable.
    pub module: Option<String>,
}

impl From<&str> for VariableName {
    fn from(name: &str) -> VariableName {
        VariableName {
            name: name.to_owned(),
            module: None,
        }
    }
}

/// One of several definitions of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub path: String,
    /// Its name in the source.
    pub name: String,
    pub address: Address,
    pub size: u64,
    /// Visible only in its own file or source file.
    pub is_private: bool,
    /// The source file, if it is visible only there.
    pub unit: Option<String>,
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.path)?;
        match (&self.unit, self.is_private) {
            (Some(unit), _) => write!(f, " (static in {unit})")?,
            (None, true) => f.write_str(" (static)")?,
            (None, false) => {}
        }
        write!(f, " at {}, {} bytes", self.address, self.size)
    }
}

/// Why a name denotes no bytes.
#[derive(Debug, Error)]
pub enum VariableError {
    #[error("process {pid} has no variable `{name}`{}", missing(*.unreadable))]
    NotFound {
        pid: Pid,
        name: String,
        /// Number of modules that could not be read.
        unreadable: usize,
    },
    #[error(
        "process {pid} has not loaded `{module}`, and has no source file of that name with such a variable"
    )]
    NoSuchModule { pid: Pid, module: String },
    #[error("`{name}` in {path} is not a variable but {what}")]
    NotAVariable {
        name: String,
        path: String,
        what: &'static str,
    },
    #[error(
        "`{name}` in {path} is thread-local: every thread has its own copy, whose place only a stopped thread shows, and tuneagent stops no thread \
         to read. Probe a function that is passed the value or a pointer to it, or let the program keep it in a global variable"
    )]
    ThreadLocal { name: String, path: String },
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("`{name}`: {error}")]
    Walk { name: String, error: WalkError },
    /// Without types, fields and elements are unknown.
    #[error(
        "`{name}`: there is no debug information on `{root}` in {path}, so the place of its parts is not known"
    )]
    NoDebugInformation {
        name: String,
        root: String,
        path: String,
    },
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(
        "`{name}` means {} different variables of process {pid}: {}; name the module or the source file, as in `{}:{name}`",
        .places.len(), list(.places), example(.places)
    )]
    Ambiguous {
        pid: Pid,
        name: String,
        places: Vec<Definition>,
    },
    #[error("{path}: {error}")]
    Image { path: String, error: ImageError },
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

fn missing(unreadable: usize) -> String {
    if unreadable == 0 {
        String::new()
    } else {
        format!(" ({unreadable} of its files could not be read)")
    }
}

/// A qualifier that distinguishes the first from the others.
fn example(places: &[Definition]) -> &str {
    places.first().map_or("module", |place| match &place.unit {
        Some(unit) => unit,
        None => place.path.rsplit('/').next().unwrap_or(&place.path),
    })
}

/// Definitions that a message lists.
const LISTED_MAX: usize = 8;

fn list(places: &[Definition]) -> String {
    let mut listed: Vec<String> = places
        .iter()
        .take(LISTED_MAX)
        .map(Definition::to_string)
        .collect();
    if places.len() > LISTED_MAX {
        listed.push(format!("and {} more", places.len() - LISTED_MAX));
    }
    listed.join(", ")
}
