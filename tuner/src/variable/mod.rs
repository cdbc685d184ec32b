//! Which bytes of a process a variable's name means.
//!
//! The types and the errors; how a name is bound, and how that is found out, is told in `binding`.

mod binding;

use std::fmt;

use thiserror::Error;

use crate::address::{Address, LinkAddress};
use crate::dwarf::VariableType;
use crate::image::ImageError;
use crate::memory::{Memory, MemoryError};
use crate::module::Module;
use crate::process::Pid;
use crate::value::{Bytes, ValueType};

/// The name of a variable, and of the module whose code sees it by that name where this is needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableName {
    /// As the linker knows it.
    pub name: String,
    /// The path, file name, soname, or file name up to `.so`.
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
    /// The file.
    pub path: String,
    /// Where it is.
    pub address: Address,
    /// Only its own file, or only a source file of it, sees it.
    pub is_private: bool,
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {}{}",
            self.path,
            self.address,
            if self.is_private { " (static)" } else { "" }
        )
    }
}

/// Why a name means no bytes.
#[derive(Debug, Error)]
pub enum VariableError {
    /// Nobody defines it.
    #[error("process {pid} has no variable `{name}`{}", missing(*.unreadable))]
    NotFound {
        /// The process.
        pid: Pid,
        /// The name.
        name: String,
        /// How many of its modules could not be read.
        unreadable: usize,
    },
    /// No module is called so.
    #[error("process {pid} has not loaded `{module}`")]
    NoSuchModule {
        /// The process.
        pid: Pid,
        /// The name given.
        module: String,
    },
    /// The name means code.
    #[error("`{name}` in {path} is not a variable but {what}")]
    NotAVariable {
        /// The name.
        name: String,
        /// The file.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// Every thread has its own.
    #[error(
        "`{name}` in {path} is thread-local: every thread has its own, and none of them can be named from outside"
    )]
    ThreadLocal {
        /// The name.
        name: String,
        /// The file.
        path: String,
    },
    /// Several are alive.
    #[error("`{name}` means {} different variables of process {pid}: {}; name the module", .places.len(), list(.places))]
    Ambiguous {
        /// The process.
        pid: Pid,
        /// The name.
        name: String,
        /// All of them.
        places: Vec<Definition>,
    },
    /// A file is not understood.
    #[error("{path}: {source}")]
    Image {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: ImageError,
    },
    /// The memory cannot be read.
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

fn list(places: &[Definition]) -> String {
    places
        .iter()
        .map(Definition::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Where a variable is said to be. A claim, made from files and a snapshot: it can be read, and must become a
/// [`crate::slot::Slot`] before it can be written.
#[derive(Debug, Clone)]
pub struct Location {
    /// The name that was asked for.
    pub symbol: String,
    /// The module that holds the bytes.
    pub module: Module,
    /// Where the linker placed them.
    pub link_address: LinkAddress,
    /// Where they are.
    pub address: Address,
    /// How many they are, by the symbol table or else the debug information; 0 when neither says.
    pub size: u64,
    /// What they are, by the debug information if there is any.
    pub variable_type: Option<VariableType>,
    /// The library whose variable was copied here by a copy relocation.
    pub copied_from: Option<String>,
    /// The dynamic linker's own answer, found in memory, agrees.
    pub is_confirmed: bool,
}

impl Location {
    /// The process.
    pub fn pid(&self) -> Pid {
        self.module.pid
    }

    /// The type for a value here when the user states none.
    pub fn value_type(&self) -> Option<ValueType> {
        self.variable_type.and_then(VariableType::value_type)
    }

    /// Reads the bytes, at most 8 of them.
    pub fn read(&self, memory: &Memory) -> Result<Bytes, MemoryError> {
        let mut bytes = [0; Bytes::MAX];
        let bytes = &mut bytes[..(self.size as usize).min(Bytes::MAX)];
        memory.read(self.address, bytes)?;
        Ok(Bytes::new(bytes).unwrap_or_else(|| unreachable!("bounded by Bytes::MAX above")))
    }
}
