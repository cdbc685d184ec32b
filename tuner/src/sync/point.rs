//! From a [`SyncPoint`] to a [`ResolvedPoint`]: exactly one function of the process, and the instructions at
//! which it is entered or left.

use plan::{Moment, SyncPoint};
use thiserror::Error;

use super::SyncFile;
use crate::address::FileOffset;
use crate::exits::{self, CodeError};
use crate::intact::{CodeText, Overwritten, needed_at, needed_at_entry};
use crate::module::{Module, ModuleError};
use crate::process::Pid;
use crate::space::{AddressSpace, SpaceError};
use crate::symbol::Function;

/// Why the place cannot be a sync point.
#[derive(Debug, Error)]
pub enum PointError {
    #[error("no module of process {pid} defines a function {function} (inlined, or misspelt)")]
    NotFound { pid: Pid, function: String },
    #[error(
        "process {pid} has {} functions {function} ({}): an action takes effect at one of them; say which, as entry:MODULE:{function}",
        modules.len(), modules.join(", ")
    )]
    Ambiguous {
        pid: Pid,
        function: String,
        modules: Vec<String>,
    },
    #[error(
        "{function} in {module} only picks the function that callers get: it is not entered at each call"
    )]
    Indirect { function: String, module: String },
    /// It is not always left by a return of its own.
    #[error(
        "{function} can be left by {jumps} jumps to other code, which no probe at its returns would see: use its entry, or the return \
         of its caller"
    )]
    JumpsOut { function: String, jumps: usize },
    #[error("{function} has no return instruction")]
    NoReturn { function: String },
    /// A probe there would make the kernel execute instructions that are no longer in memory.
    #[error(
        "nothing can wait at {function} of process {}: its code was overwritten in memory ({overwritten}), and under a probe the kernel \
         runs that of the file", overwritten.pid
    )]
    Overwritten {
        function: String,
        overwritten: Box<Overwritten>,
    },
    /// Its memory cannot be compared with its file.
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error(transparent)]
    Module(#[from] ModuleError),
}

/// A place in the code of a process at which a thread can be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPoint {
    pid: Pid,
    place: SyncPoint,
    sites: SyncFile,
}

impl ResolvedPoint {
    pub fn resolve(space: &AddressSpace, place: &SyncPoint) -> Result<ResolvedPoint, PointError> {
        let (pid, function) = (space.process.pid, || place.function.clone());
        let mut found = space.functions(&[place.function.as_str()])?;
        match &place.module {
            Some(module) => found.retain(|(candidate, _)| candidate.is_called(module)),
            // A name as common as `step` is also a static function of libc: the program's own is preferred.
            None if found.iter().any(|(module, _)| module.is_executable) => {
                found.retain(|(module, _)| module.is_executable);
            }
            None => {}
        }
        let (module, symbol) = match found.as_slice() {
            [] => {
                return Err(PointError::NotFound {
                    pid,
                    function: function(),
                });
            }
            [(module, symbol)] => (*module, symbol),
            several => {
                let modules = several.iter().map(|(module, _)| module.path.clone()).collect();
                return Err(PointError::Ambiguous {
                    pid,
                    function: function(),
                    modules,
                });
            }
        };
        if symbol.indirect {
            return Err(PointError::Indirect {
                function: function(),
                module: module.path.clone(),
            });
        }
        let offsets = match place.moment {
            Moment::Entry => vec![symbol.offset],
            Moment::Return => returns(place, module, symbol)?,
        };
        untouched(place, space, module, symbol, &offsets)?;
        let path = module.probe_path()?;
        Ok(ResolvedPoint {
            pid,
            place: place.clone(),
            sites: SyncFile { path, offsets },
        })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The place as named.
    pub fn place(&self) -> &SyncPoint {
        &self.place
    }

    /// The instructions to probe.
    pub fn sites(&self) -> &SyncFile {
        &self.sites
    }
}

/// The return instructions, if they are the only exits.
fn returns(place: &SyncPoint, module: &Module, function: &Function) -> Result<Vec<FileOffset>, PointError> {
    let returns = exits::returns(&module.image, function)?;
    let function = || place.function.clone();
    match (returns.jumps_out.len(), returns.instructions.is_empty()) {
        (0, false) => Ok(returns.instructions),
        (0, true) => Err(PointError::NoReturn { function: function() }),
        (jumps, _) => Err(PointError::JumpsOut {
            function: function(),
            jumps,
        }),
    }
}

/// Checks that the process has the code of the file at the probed instructions.
fn untouched(
    place: &SyncPoint,
    space: &AddressSpace,
    module: &Module,
    function: &Function,
    offsets: &[FileOffset],
) -> Result<(), PointError> {
    let mut text = CodeText::of(space);
    for offset in offsets {
        let needed = match place.moment {
            Moment::Entry => needed_at_entry(function.offset, function.size, *offset),
            Moment::Return => needed_at(*offset),
        };
        if let Some(overwritten) = text.overwritten(module, &needed)? {
            return Err(PointError::Overwritten {
                function: place.function.clone(),
                overwritten: Box::new(overwritten),
            });
        }
    }
    Ok(())
}
