//! The functions and variables that a program offers to a rule, from its symbols: functions with the most
//! call sites first, and writable variables. A person chooses from them; everything named exists.

use std::{collections::HashMap, os::unix::fs::FileExt};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use tuner::{Image, ImageError, Symbol, SymbolKind, dwarf};

/// Maximum number of functions, and of variables, that are offered.
const OFFERED_MAX: usize = 16;
/// Maximum amount of code that is searched for calls, in bytes.
const CODE_MAX: u64 = 64 << 20;

/// A function of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Number of call sites in the program.
    pub(super) callers: usize,
}

/// A writable variable of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    /// The type; `None` without debug information.
    pub(super) of: Option<&'static str>,
    /// The current value, if the program is running.
    pub(super) now: Option<String>,
}

/// The names that a program offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    /// File name of the program.
    pub(super) exe: String,
    pub(super) is_mpi: bool,
    pub(super) functions: Vec<Function>,
    pub(super) variables: Vec<Variable>,
    /// Number of functions that were not offered.
    pub(super) more_functions: usize,
    /// Number of functions with mangled C++ names.
    pub(super) cxx_functions: usize,
}

impl Candidates {
    /// From the file of a program.
    pub(super) fn of(exe: &str, image: &Image) -> Result<Candidates, ImageError> {
        let symbols = image.defined_symbols()?;
        let requires_mpi = image.dynamic_symbols()?.iter().any(|symbol| is_mpi(&symbol.name));
        let is_code = |symbol: &&Symbol| symbol.kind == SymbolKind::Function && is_plain(&symbol.name);
        let callers = calls(
            image,
            symbols
                .iter()
                .filter(|symbol| symbol.kind == SymbolKind::Function),
        );
        let mut functions: Vec<Function> = symbols
            .iter()
            .filter(is_code)
            .map(|symbol| Function {
                name: symbol.name.clone(),
                callers: callers.get(&symbol.address.0).copied().unwrap_or_default(),
            })
            .collect();
        functions.sort_by(|a, b| b.callers.cmp(&a.callers).then_with(|| a.name.cmp(&b.name)));
        functions.dedup_by(|a, b| a.name == b.name);
        let more_functions = functions.len().saturating_sub(OFFERED_MAX);
        functions.truncate(OFFERED_MAX);
        Ok(Candidates {
            exe: exe.to_owned(),
            is_mpi: requires_mpi || symbols.iter().any(|symbol| is_mpi(&symbol.name)),
            functions,
            variables: variables(image, &symbols)?,
            more_functions,
            cxx_functions: symbols
                .iter()
                .filter(|symbol| symbol.name.starts_with("_Z"))
                .count(),
        })
    }
}

fn is_mpi(name: &str) -> bool {
    ["MPI_Init", "MPI_Init_thread", "mpi_init_", "mpi_init_thread_"].contains(&name)
}

/// Whether a name can be written as it is, and does not belong to the compiler.
fn is_plain(name: &str) -> bool {
    const OF_THE_COMPILER: &[&str] = &[
        "main",
        "deregister_tm_clones",
        "register_tm_clones",
        "frame_dummy",
        "atexit",
    ];
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !OF_THE_COMPILER.contains(&name)
}

/// The number of direct calls to each address.
fn calls<'a>(image: &Image, functions: impl Iterator<Item = &'a Symbol>) -> HashMap<u64, usize> {
    let mut found = HashMap::new();
    let mut left = CODE_MAX;
    for function in functions {
        if function.size == 0 || function.size > left {
            continue;
        }
        left -= function.size;
        let mut code = vec![0; function.size as usize];
        let Some(offset) = image.file_offset(function.address) else {
            continue;
        };
        if image.file().read_exact_at(&mut code, offset.0).is_err() {
            continue;
        }
        let decoder = Decoder::with_ip(64, &code, function.address.0, DecoderOptions::NONE);
        for instruction in decoder.into_iter().filter(|one| one.mnemonic() == Mnemonic::Call) {
            *found.entry(instruction.near_branch_target()).or_default() += 1;
        }
    }
    found
}

fn variables(image: &Image, symbols: &[Symbol]) -> Result<Vec<Variable>, ImageError> {
    let is_writable = |symbol: &Symbol| {
        let section = image.section_at(symbol.address, symbol.size);
        section.is_some_and(|section| section.writable)
            && !image.is_read_only_after_relocation(symbol.address, symbol.size)
    };
    let mut settable: Vec<&Symbol> = symbols
        .iter()
        .filter(|symbol| symbol.kind == SymbolKind::Variable && is_plain(&symbol.name))
        .filter(|symbol| matches!(symbol.size, 1 | 2 | 4 | 8) && is_writable(symbol))
        .collect();
    settable.sort_by(|a, b| a.name.cmp(&b.name));
    settable.dedup_by(|a, b| a.name == b.name);
    let mut found = Vec::new();
    // Each type is a separate lookup, so consider only twice as many as can be offered.
    for symbol in settable.into_iter().take(2 * OFFERED_MAX) {
        // A variable of the C library, such as stderr, that was copied into the program.
        if image
            .relocations_of(&symbol.name)?
            .iter()
            .any(|relocation| relocation.copy)
        {
            continue;
        }
        let of = dwarf::variable_type(image, symbol.address)?;
        // A type that is not numeric, such as a pointer, cannot be set.
        if of.is_some_and(|of| of.value_type().is_none()) {
            continue;
        }
        found.push(Variable {
            name: symbol.name.clone(),
            of: of.and_then(|of| of.value_type()).map(|of| of.name()),
            now: None,
        });
    }
    found.truncate(OFFERED_MAX);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_functions_of_the_program() {
        // The program of this test: it has symbols, and no MPI.
        let path = std::env::current_exe().unwrap();
        let image = Image::read(std::fs::File::open(path).unwrap()).unwrap();
        let candidates = Candidates::of("me", &image).unwrap();
        assert!(!candidates.is_mpi);
        assert!(candidates.functions.len() <= OFFERED_MAX && candidates.variables.len() <= OFFERED_MAX);
        let symbols = image.defined_symbols().unwrap();
        let is_there = |name: &str| symbols.iter().any(|symbol| symbol.name == name);
        assert!(
            candidates
                .functions
                .iter()
                .all(|function| is_there(&function.name))
        );
        assert!(
            candidates
                .variables
                .iter()
                .all(|variable| is_there(&variable.name))
        );
    }
}
