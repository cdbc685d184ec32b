//! What a program offers to a rule, by its symbols: functions that look like parts of its loop, variables that look like
//! settings. Guesses from names, for a person to choose from; everything named exists.

use std::{collections::HashMap, os::unix::fs::FileExt};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use tuner::{
    dwarf,
    image::{Image, ImageError},
    symbol::{Symbol, SymbolKind},
};

/// How many functions and variables are offered.
const MOST_OFFERED: usize = 16;
/// How much code is searched for calls.
const MOST_CODE: u64 = 64 << 20;

/// What a function seems to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    Begin,
    End,
    Step,
    Send,
    Receive,
    Exchange,
    Compute,
}

const LOOP: &[&str] = &[
    "iteration",
    "iterate",
    "step",
    "timestep",
    "loop",
    "cycle",
    "sweep",
    "epoch",
    "round",
];

const PARTS: &[(Part, &[&str])] = &[
    (Part::Send, &["send", "scatter", "dispatch", "isend"]),
    (Part::Receive, &["receive", "recv", "gather", "irecv"]),
    (
        Part::Exchange,
        &[
            "exchange",
            "halo",
            "communicate",
            "comm",
            "reduce",
            "barrier",
            "synchronize",
            "sync",
        ],
    ),
    (
        Part::Compute,
        &[
            "compute",
            "kernel",
            "work",
            "force",
            "forces",
            "solve",
            "calculate",
            "update",
            "apply",
        ],
    ),
    (Part::Step, LOOP),
];

/// Words that settings have in their names.
const SETTINGS: &[&str] = &[
    "num",
    "n",
    "threads",
    "workers",
    "chunk",
    "block",
    "tile",
    "size",
    "limit",
    "max",
    "min",
    "interval",
    "every",
    "freq",
    "frequency",
    "count",
    "level",
    "depth",
    "factor",
    "ratio",
    "period",
    "batch",
    "width",
    "tolerance",
    "delay",
    "rate",
];

/// A function that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) part: Option<Part>,
    /// Places in the program that call it.
    pub(super) callers: usize,
}

/// A variable that exists and can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    /// None without debug information.
    pub(super) of: Option<&'static str>,
    /// Its value now, of a program that runs.
    pub(super) now: Option<String>,
}

/// What a program offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    /// File name of the program.
    pub(super) exe: String,
    pub(super) is_mpi: bool,
    /// The likeliest first.
    pub(super) functions: Vec<Function>,
    pub(super) variables: Vec<Variable>,
    /// How many functions were not offered.
    pub(super) more_functions: usize,
    /// How many functions have names that only C++ can read.
    pub(super) cxx_functions: usize,
}

impl Candidates {
    /// What the file of a program offers.
    pub(super) fn of(exe: &str, image: &Image) -> Result<Candidates, ImageError> {
        let symbols = image.defined_symbols()?;
        let asks_for_mpi = image.dynamic_symbols()?.iter().any(|symbol| is_mpi(&symbol.name));
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
                part: part(&symbol.name),
                callers: callers.get(&symbol.address.0).copied().unwrap_or_default(),
            })
            .collect();
        functions.sort_by(|a, b| {
            let order = |function: &Function| (function.part.is_none(), std::cmp::Reverse(function.callers));
            order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
        });
        functions.dedup_by(|a, b| a.name == b.name);
        let more_functions = functions.len().saturating_sub(MOST_OFFERED);
        functions.truncate(MOST_OFFERED);
        Ok(Candidates {
            exe: exe.to_owned(),
            is_mpi: asks_for_mpi || symbols.iter().any(|symbol| is_mpi(&symbol.name)),
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

/// A name that can be written as it is, and is not the compiler's own.
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

/// `beginIteration_2` is begin, iteration.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && before.is_ascii_lowercase()) {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), c.is_ascii_alphabetic()) {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn part(name: &str) -> Option<Part> {
    let words = words(name);
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    if has(LOOP) && has(&["begin", "start"]) {
        return Some(Part::Begin);
    }
    if has(LOOP) && has(&["end", "finish", "stop"]) {
        return Some(Part::End);
    }
    PARTS.iter().find(|(_, known)| has(known)).map(|(part, _)| *part)
}

/// How many direct calls lead to each address; of a machine that we cannot decode, none.
fn calls<'a>(image: &Image, functions: impl Iterator<Item = &'a Symbol>) -> HashMap<u64, usize> {
    let mut found = HashMap::new();
    let mut left = MOST_CODE;
    for function in functions {
        if function.size == 0 || function.size > left || !cfg!(target_arch = "x86_64") {
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
    let mut likely: Vec<&Symbol> = symbols
        .iter()
        .filter(|symbol| symbol.kind == SymbolKind::Variable && is_plain(&symbol.name))
        .filter(|symbol| matches!(symbol.size, 1 | 2 | 4 | 8) && is_writable(symbol))
        .collect();
    let is_setting = |name: &str| words(name).iter().any(|word| SETTINGS.contains(&word.as_str()));
    likely.sort_by_key(|symbol| (!is_setting(&symbol.name), symbol.name.clone()));
    likely.dedup_by(|a, b| a.name == b.name);
    let mut found = Vec::new();
    // Types are looked up one by one: no more of them than can be offered twice over.
    for symbol in likely.into_iter().take(2 * MOST_OFFERED) {
        // The C library's, such as stderr, copied into the program.
        if image
            .relocations_of(&symbol.name)?
            .iter()
            .any(|relocation| relocation.copy)
        {
            continue;
        }
        let of = dwarf::variable_type(image, symbol.address)?;
        // What is known to be no number, such as a pointer, is nothing to set.
        if of.is_some_and(|of| of.value_type().is_none()) {
            continue;
        }
        found.push(Variable {
            name: symbol.name.clone(),
            of: of.and_then(|of| of.value_type()).map(|of| of.name()),
            now: None,
        });
    }
    found.truncate(MOST_OFFERED);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_function_does() {
        let cases = [
            ("begin_iteration", Some(Part::Begin)),
            ("end_step", Some(Part::End)),
            ("StepEnd", Some(Part::End)),
            ("step_outer", Some(Part::Step)),
            ("send_task", Some(Part::Send)),
            ("receive_result", Some(Part::Receive)),
            ("HaloExchange3", Some(Part::Exchange)),
            ("compute_forces", Some(Part::Compute)),
            ("sender", None),
            ("init", None),
        ];
        for (name, expected) in cases {
            assert_eq!(part(name), expected, "{name}");
        }
        assert_eq!(words("beginIteration_2x"), ["begin", "iteration", "x"]);
    }

    #[test]
    fn what_is_offered_is_in_the_program() {
        // This test's own program: it has symbols, and no MPI.
        let path = std::env::current_exe().unwrap();
        let image = Image::read(std::fs::File::open(path).unwrap()).unwrap();
        let candidates = Candidates::of("me", &image).unwrap();
        assert!(!candidates.is_mpi);
        assert!(candidates.functions.len() <= MOST_OFFERED && candidates.variables.len() <= MOST_OFFERED);
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
