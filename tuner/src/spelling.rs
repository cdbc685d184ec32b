//! How a name of the source appears in a file's symbols: C++ and Rust mangle names, Fortran compilers combine
//! module and variable. Works on text only.
//!
//! Order of preference: exact linker names; then the Fortran forms of `module::name`, in any case; then C++,
//! where `Class::method` denotes every overload and `Class::method(int)` one, and Rust, where
//! `module::function` denotes every instance of a generic function.

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};
use memchr::memmem::Finder;

/// A mangled name that is nested deeper is not demangled, as protection against malicious files.
const RECURSION_MAX: u32 = 96;
/// A longer name is not demangled either.
const MANGLED_BYTES_MAX: usize = 16 << 10;

/// How well a symbol matches the user's spelling: only the best matches count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchQuality {
    /// The last of its scopes: `Class::method` for `space::Class::method`.
    Suffix,
    /// Its full name in C++ or Rust.
    Full,
    /// A Fortran compiler's form of it.
    Fortran,
    Exact,
}

/// A name as a user writes it.
#[derive(Debug)]
pub struct Spelling {
    text: String,
    fortran: Vec<String>,
    /// A part that every C++ or Rust symbol of this name contains.
    part: Option<Finder<'static>>,
    has_parameters: bool,
    has_template: bool,
}

impl Spelling {
    /// Parses the text once for all symbols that it is compared with.
    pub fn new(text: &str) -> Spelling {
        let bare = before_parameters(text);
        let last = last_part(&without_templates(bare))
            .trim_start_matches('~')
            .to_owned();
        let is_plain = !last.is_empty() && last.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let part = (is_plain && !last.starts_with("operator"))
            .then(|| Finder::new(&format!("{}{last}", last.len())).into_owned());
        Spelling {
            fortran: fortran(text),
            part,
            has_parameters: bare.len() < text.len(),
            has_template: bare.contains('<'),
            text: dense(text),
        }
    }

    /// How well a symbol matches; `None` if it does not.
    pub fn fit(&self, symbol: &[u8]) -> Option<MatchQuality> {
        if symbol == self.text.as_bytes() {
            return Some(MatchQuality::Exact);
        }
        if self.fortran.iter().any(|name| name.as_bytes() == symbol) {
            return Some(MatchQuality::Fortran);
        }
        let is_mangled = symbol.starts_with(b"_Z") || symbol.starts_with(b"_R");
        if !is_mangled || self.part.as_ref().is_some_and(|part| part.find(symbol).is_none()) {
            return None;
        }
        self.fit_demangled(std::str::from_utf8(symbol).ok()?)
    }

    fn fit_demangled(&self, symbol: &str) -> Option<MatchQuality> {
        let name = match rust(symbol) {
            Some(name) => name.replace("::<", "<"),
            None => self.demangle(symbol)?,
        };
        let mut name = dense(&name);
        if self.has_parameters && !self.text.ends_with("const") {
            name.truncate(name.trim_end_matches("const").len());
        }
        if !self.has_template && !self.has_parameters {
            name = without_templates(&name);
        }
        let rest = name.strip_suffix(self.text.as_str())?;
        match rest {
            "" => Some(MatchQuality::Full),
            // A variable of a function is not one of a file.
            rest if rest.ends_with("::") && self.text.contains("::") => Some(MatchQuality::Suffix),
            _ => None,
        }
    }

    fn demangle(&self, symbol: &str) -> Option<String> {
        match self.has_parameters {
            true => demangle_as(symbol, DemangleOptions::new().no_return_type()),
            false => demangle_as(symbol, DemangleOptions::new().no_return_type().no_params()),
        }
    }
}

/// The name without its scopes, parameters and template arguments, as debug information has it.
pub(crate) fn plain(text: &str) -> String {
    last_part(&without_templates(before_parameters(text))).to_owned()
}

/// The name in the source, with parameters; a name that is not mangled is returned unchanged.
pub fn demangle(symbol: &str) -> String {
    // gfortran's names of module entities; those of other compilers have the form of C names.
    if let Some((module, name)) = symbol
        .strip_prefix("__")
        .and_then(|rest| rest.split_once("_MOD_"))
    {
        return format!("{module}::{name}");
    }
    cython(symbol)
        .or_else(|| rust(symbol))
        .or_else(|| demangle_as(symbol, DemangleOptions::new().no_return_type()))
        .unwrap_or_else(|| symbol.to_owned())
}

/// Cython's name of a function of Python (`pw` for the wrapper that Python calls, `pf` for its body) or of C
/// (`f`): each scope follows its length, a function of Python its number.
fn cython(symbol: &str) -> Option<String> {
    let rest = symbol.strip_prefix("__pyx_")?;
    let mut rest = ["pw_", "pf_", "f_"]
        .iter()
        .find_map(|kind| rest.strip_prefix(kind))?;
    let mut parts = Vec::new();
    while let Some((scope, behind)) = cython_scope(rest) {
        parts.push(scope);
        rest = behind;
    }
    parts.push(rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    (parts.len() > 1).then(|| parts.join("."))
}

/// The path of a Rust name without its hash; a method belongs to its type: `Type::method`.
fn rust(symbol: &str) -> Option<String> {
    // Older compilers mangle as C++ does, and append a hash.
    let has_hash = || {
        let hash = symbol.strip_suffix('E')?.rsplit_once("17h")?.1;
        Some(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    let is_rust = symbol.starts_with("_R") || symbol.starts_with("_ZN") && has_hash() == Some(true);
    if !is_rust || symbol.len() > MANGLED_BYTES_MAX {
        return None;
    }
    let name = format!("{:#}", rustc_demangle::try_demangle(symbol).ok()?);
    let of_type = name.strip_prefix('<').and_then(|rest| rest.split_once(">::"));
    Some(match of_type {
        Some((of, method)) if !of.contains(" as ") && !of.contains('<') => format!("{of}::{method}"),
        _ => name,
    })
}

/// The first scope, and the rest.
fn cython_scope(rest: &str) -> Option<(&str, &str)> {
    let name = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let length = rest[..rest.len() - name.len()].parse().ok()?;
    let (scope, behind) = name.split_at_checked(length)?;
    Some((scope, behind.strip_prefix('_')?))
}

fn demangle_as(symbol: &str, options: DemangleOptions) -> Option<String> {
    if !symbol.starts_with("_Z") || symbol.len() > MANGLED_BYTES_MAX {
        return None;
    }
    let limit = ParseOptions::default().recursion_limit(RECURSION_MAX);
    let (parsed, _) = BorrowedSymbol::with_tail_and_options(symbol.as_bytes(), &limit).ok()?;
    parsed
        .demangle_with_options(&options.recursion_limit(RECURSION_MAX))
        .ok()
}

/// Compilers' symbols for `module::name` and `name`: gfortran, Intel's and NVIDIA's, LLVM's.
fn fortran(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    if !lower
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
    {
        return Vec::new();
    }
    match lower.split_once("::") {
        Some((module, name)) if !name.contains(':') && !module.is_empty() && !name.is_empty() => vec![
            format!("__{module}_MOD_{name}"),
            format!("{module}_mp_{name}_"),
            format!("_{module}_{name}_"),
            format!("_QM{module}E{name}"),
            format!("_QM{module}P{name}"),
        ],
        None if !lower.is_empty() => vec![format!("{lower}_"), format!("{lower}__")],
        _ => Vec::new(),
    }
}

fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The name up to the parameters: the first bracket that closes at the end. `(anonymous namespace)` has none.
fn before_parameters(text: &str) -> &str {
    let trimmed = text.trim_end().trim_end_matches("const").trim_end();
    if !trimmed.ends_with(')') {
        return text;
    }
    let mut depth = 0;
    for (at, c) in trimmed.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

fn without_templates(name: &str) -> String {
    let mut depth = 0u32;
    let mut kept = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name).trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_symbol_fits_what_users_write() {
        use MatchQuality::{Exact, Fortran, Full, Suffix};
        let cases = [
            ("knob", "knob", Some(Exact)),
            ("send", "_Z4sendi", Some(Full)),
            ("send(int)", "_Z4sendi", Some(Full)),
            ("send(double)", "_Z4sendi", None),
            ("app::Solver::step", "_ZN3app6Solver4stepEd", Some(Full)),
            ("Solver::step", "_ZN3app6Solver4stepEd", Some(Suffix)),
            ("Solver::step( double )", "_ZN3app6Solver4stepEd", Some(Suffix)),
            ("step", "_ZN3app6Solver4stepEd", None),
            ("Solver::limit", "_ZN6Solver5limitE", Some(Full)),
            ("Solver::size", "_ZNK6Solver4sizeEv", Some(Full)),
            ("Solver::size()", "_ZNK6Solver4sizeEv", Some(Full)),
            ("Solver::~Solver", "_ZN6SolverD1Ev", Some(Full)),
            ("twice", "_Z5twiceIiET_S0_", Some(Full)),
            ("twice<int>", "_Z5twiceIiET_S0_", Some(Full)),
            ("(anonymous namespace)::n", "_ZN12_GLOBAL__N_11nE", Some(Full)),
            ("knobs::say", "_RINvCs8lVZjYIdAbn_5knobs3sayReEB2_", Some(Full)),
            (
                "limits::LIMITS",
                "_RNvNtCs8lVZjYIdAbn_5knobs6limits6LIMITS",
                Some(Suffix),
            ),
            (
                "knobs::limits::LIMITS",
                "_ZN5knobs6limits6LIMITS17h12f2002333b96045E",
                Some(Full),
            ),
            (
                "Solver::step",
                "_RNvMCs8lVZjYIdAbn_5knobsNtB2_6Solver4step",
                Some(Suffix),
            ),
            ("config::Chunk", "__config_MOD_chunk", Some(Fortran)),
            ("CONFIG::chunk", "config_mp_chunk_", Some(Fortran)),
            ("Work", "work_", Some(Fortran)),
            ("params", "params_", Some(Fortran)),
            ("chunk", "__config_MOD_chunk", None),
        ];
        for (text, symbol, expected) in cases {
            assert_eq!(
                Spelling::new(text).fit(symbol.as_bytes()),
                expected,
                "{text} for {symbol}"
            );
        }
    }

    #[test]
    fn names_are_shown_as_the_source_has_them() {
        assert_eq!(demangle("_ZN3app6Solver4stepEd"), "app::Solver::step(double)");
        assert_eq!(demangle("__config_MOD_chunk"), "config::chunk");
        assert_eq!(
            demangle("__pyx_pw_6mpi4py_3MPI_4Comm_143Allreduce"),
            "mpi4py.MPI.Comm.Allreduce"
        );
        assert_eq!(
            demangle("__pyx_f_6mpi4py_3MPI_message_basic"),
            "mpi4py.MPI.message_basic"
        );
        assert_eq!(
            demangle("_RNvMCs8lVZjYIdAbn_5knobsNtB2_6Solver4step"),
            "knobs::Solver::step"
        );
        assert_eq!(
            demangle("_ZN5knobs6Solver4step17h53046355b162e152E"),
            "knobs::Solver::step"
        );
        assert_eq!(demangle("_Rgarbage"), "_Rgarbage");
        assert_eq!(demangle("__pyx_garbage"), "__pyx_garbage");
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Zgarbage"), "_Zgarbage");
    }

    proptest! {
        #[test]
        fn no_symbol_and_no_text_makes_the_comparison_panic(text in ".{0,20}", symbol in "_[ZR][A-Za-z0-9_]{0,40}") {
            let _ = Spelling::new(&text).fit(symbol.as_bytes());
            let _ = Spelling::new(&symbol).fit(symbol.as_bytes());
            let _ = demangle(&symbol);
        }
    }
}
