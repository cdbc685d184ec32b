//! The functions of a process that a name denotes, in the user's spelling: C++ with or without parameters,
//! Fortran in any case. Returns one function, or why there is none: several, inlined, no code. Independent of
//! what is done with it.

use std::fmt;

use plan::FunctionName;
use thiserror::Error;

use crate::address::Address;
use crate::dwarf::{self, Inlined};
use crate::image::ImageError;
use crate::module::Module;
use crate::process::Pid;
use crate::space::AddressSpace;
use crate::spelling::{self, MatchQuality};
use crate::symbol::Function;

/// Places that a message lists.
const LISTED_MAX: usize = 6;

/// One of several functions of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionPlace {
    /// Its name in the source.
    pub name: String,
    pub path: String,
    pub address: Address,
    /// The size, in bytes.
    pub size: u64,
}

impl fmt::Display for FunctionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path) = (&self.name, &self.path);
        write!(f, "{name} in {path} at {}, {} bytes", self.address, self.size)
    }
}

/// Why a name does not denote exactly one function.
#[derive(Debug, Error)]
pub enum FunctionError {
    #[error("no module of process {pid} has a function `{name}`{}", besides(*.unreadable))]
    NotFound {
        pid: Pid,
        name: String,
        /// Number of modules that could not be read.
        unreadable: usize,
    },
    #[error("`{name}` was inlined and has no code of its own: {}", inlined_list(.places, *.count))]
    Inlined {
        name: String,
        places: Vec<Inlined>,
        /// Number of places, listed or not.
        count: usize,
    },
    #[error(
        "`{name}` means {} functions of process {pid}: {}; give the parameters, as in `{}`, or the module, as in `{}:{name}`",
        .places.len(), list(.places), .places.first().map_or("f(int)", |place| &place.name), module(.places)
    )]
    Ambiguous {
        pid: Pid,
        name: String,
        places: Vec<FunctionPlace>,
    },
    #[error("{path}: {error}")]
    Image { path: String, error: ImageError },
}

fn besides(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(" ({count} of its files could not be read)"),
    }
}

fn inlined_list(places: &[Inlined], count: usize) -> String {
    let shown = places.iter().take(LISTED_MAX);
    let mut shown: Vec<String> = shown
        .map(|place| format!("into {} at {}:{}", place.into, place.file, place.line))
        .collect();
    if count > shown.len() {
        shown.push(format!("and at {} more places", count - shown.len()));
    }
    let probed = places
        .first()
        .map_or("the function around it", |place| &place.into);
    format!("{}; probe {probed} instead", shown.join(", "))
}

fn list(places: &[FunctionPlace]) -> String {
    let mut shown: Vec<String> = places
        .iter()
        .take(LISTED_MAX)
        .map(FunctionPlace::to_string)
        .collect();
    if places.len() > LISTED_MAX {
        shown.push(format!("and {} more", places.len() - LISTED_MAX));
    }
    shown.join(", ")
}

fn module(places: &[FunctionPlace]) -> &str {
    let path = places.first().map_or("module", |place| &place.path);
    path.rsplit('/').next().unwrap_or(path)
}

impl AddressSpace {
    /// The one function that `name` denotes: `step`, `Solver::step(int)`, `libopenblas.so:dgemm_`.
    pub fn function(&self, name: &FunctionName) -> Result<(&Module, Function), FunctionError> {
        let mut found = self.every_function(name)?;
        if found.len() > 1 {
            let place = |(module, function): &(&Module, Function)| FunctionPlace {
                name: shown(function),
                path: module.path.clone(),
                address: module.address(function.address),
                size: function.size,
            };
            return Err(FunctionError::Ambiguous {
                pid: self.process.pid,
                name: name.to_string(),
                places: found.iter().map(place).collect(),
            });
        }
        found.pop().ok_or_else(|| self.no_function(name))
    }

    /// Every function that `name` denotes: all overloads, in all modules. At least one.
    pub fn every_function(&self, name: &FunctionName) -> Result<Vec<(&Module, Function)>, FunctionError> {
        let mut best: Option<MatchQuality> = None;
        let mut found = Vec::new();
        for of in self.within(name) {
            let functions = of.image.functions_spelled(&name.name);
            let functions = functions.map_err(|error| image_error(of, error))?;
            let Some((fit, functions)) = functions else {
                continue;
            };
            if best < Some(fit) {
                best = Some(fit);
                found.clear();
            }
            if best == Some(fit) {
                found.extend(functions.into_iter().map(|function| (of, function)));
            }
        }
        match found.is_empty() {
            false => Ok(found),
            true => self.inlined(name),
        }
    }

    /// The modules that may contain it.
    fn within(&self, name: &FunctionName) -> impl Iterator<Item = &Module> {
        let module = name.module.as_deref();
        let modules = self.modules.iter();
        modules.filter(move |of| module.is_none_or(|name| of.is_called(name)))
    }

    /// Searches inlined functions; done last, since it reads debug information.
    fn inlined<T>(&self, name: &FunctionName) -> Result<T, FunctionError> {
        for of in self.within(name) {
            let found = dwarf::inlined(&of.image, &name.name).map_err(|error| image_error(of, error))?;
            if found.1 > 0 {
                return Err(FunctionError::Inlined {
                    name: name.to_string(),
                    places: found.0,
                    count: found.1,
                });
            }
        }
        Err(self.no_function(name))
    }

    fn no_function(&self, name: &FunctionName) -> FunctionError {
        FunctionError::NotFound {
            pid: self.process.pid,
            name: name.to_string(),
            unreadable: self.unreadable.len(),
        }
    }
}

fn shown(function: &Function) -> String {
    let name = function.names.first().map(String::as_str).unwrap_or_default();
    spelling::demangle(name)
}

fn image_error(module: &Module, error: ImageError) -> FunctionError {
    FunctionError::Image {
        path: module.path.clone(),
        error,
    }
}
