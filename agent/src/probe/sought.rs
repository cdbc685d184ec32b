//! Which functions of a process a name, a pattern or a set means. Attaches nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use tuner::{
    module::Module,
    spelling::{self, Fit},
    symbol::{Function, SymbolKind},
};

use crate::{
    discover::{Job, Member},
    format,
    glob::matches,
};

/// More functions than this are not probed for one pattern: it was not meant so.
pub const PATTERN_MAX: usize = 256;

/// What someone wants probed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sought {
    /// The function of this name.
    Function(String),
    /// Every function whose name fits (`*`, `?`).
    Pattern(String),
    /// The watched MPI functions whose names fit.
    Mpi(String),
    /// What starts a team of threads in an OpenMP library.
    OpenmpRegion,
    /// What compilers make of what stands in a parallel region.
    OpenmpBody,
    /// What works with several threads in a BLAS or LAPACK library.
    BlasCall,
    /// The mark of this provider and name.
    Mark(String),
}

impl Sought {
    /// Whether a function of this name is meant.
    pub fn means(&self, name: &str, is_mpi: bool) -> bool {
        match self {
            Sought::Function(wanted) => wanted == name,
            Sought::Pattern(pattern) => matches(pattern, name),
            Sought::Mpi(pattern) => is_mpi && matches(pattern, name),
            Sought::OpenmpRegion => starts_team(name),
            Sought::OpenmpBody => is_body(name),
            Sought::BlasCall => works_with_threads(name),
            Sought::Mark(mark) => mark_of(name) == mark,
        }
    }
}

/// As a rule writes it.
impl fmt::Display for Sought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sought::Function(name) | Sought::Pattern(name) => f.write_str(name),
            Sought::Mpi(pattern) => write!(f, "mpi.{pattern}"),
            Sought::OpenmpRegion => f.write_str("openmp.region"),
            Sought::OpenmpBody => f.write_str("bodies of parallel regions"),
            Sought::BlasCall => f.write_str("blas.call"),
            Sought::Mark(name) => f.write_str(name),
        }
    }
}

/// Where a mark hands over its values in several ways, each is a probe with a number behind its name.
pub(super) const ANOTHER: char = '#';

/// The mark that a probe is of, by the probe's name.
pub(super) fn mark_of(name: &str) -> &str {
    name.split(ANOTHER).next().unwrap_or(name)
}

/// The entry points of libgomp (which libomp has too) and of libomp that start a team, whatever the file is called.
pub(super) fn starts_team(name: &str) -> bool {
    (name.starts_with("GOMP_parallel") && !name.ends_with("_end"))
        || matches!(name, "__kmpc_fork_call" | "__kmpc_fork_call_if")
}

/// The functions that GCC and Clang make of what stands in a parallel region, by the linker's name: each thread of the team calls it.
pub(crate) fn is_body(symbol: &str) -> bool {
    (symbol.contains("._omp_fn.") || symbol.contains("omp_outlined")) && !symbol.contains("_debug__")
}

/// Whether a process of the job starts teams.
pub fn has_regions(job: &Job) -> bool {
    let mut seen = Seen::default();
    let modules = job.members.iter().flat_map(|member| &member.space.modules);
    modules
        .into_iter()
        .any(|module| !seen.functions(module, &Sought::OpenmpRegion).is_empty())
}

/// Products and solvers of matrices and vectors (BLAS 2 and 3), and the factorizations that a BLAS brings along. Those of BLAS 1
/// are left out: short calls by the million would pay for the probe.
const BLAS_STEMS: &[&str] = &[
    "gemm", "gemm3m", "gemmt", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm", "gemv",
    "symv", "hemv", "trmv", "trsv", "ger", "geru", "gerc", "gesv", "getrf", "getrs", "potrf", "potri",
    "lauum", "trtri",
];

/// A function of C (`cblas_dgemm`) or Fortran (`dgemm_`); the wheels of Python put a word before it and the width of integers
/// behind it (`scipy_cblas_dgemm64_`).
pub(super) fn works_with_threads(name: &str) -> bool {
    let name = name.strip_prefix("scipy_").unwrap_or(name);
    let (name, is_c) = match name.strip_prefix("cblas_") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let plain = name.trim_end_matches('_');
    let plain = plain.strip_suffix("64").unwrap_or(plain).trim_end_matches('_');
    // What Fortran calls ends in an underscore; without one it is the library's own.
    let is_called = is_c || name.ends_with('_');
    let stem = plain.strip_prefix(['s', 'd', 'c', 'z']);
    is_called && stem.is_some_and(|stem| BLAS_STEMS.contains(&stem))
}

/// The argument that says how many threads the team is to have; 0 there leaves it to the library.
pub fn team_size_argument(name: &str) -> Option<u8> {
    name.starts_with("GOMP_parallel").then_some(2)
}

/// What each file (device, inode) has of what was asked for: the ranks of a job share their files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(BTreeMap<(String, u64, Sought), Vec<Meant>>);

/// A function that is meant.
#[derive(Clone, Debug)]
pub(crate) struct Meant {
    /// The name by which it is shown.
    pub name: String,
    /// What the linker calls it.
    pub symbol: String,
    /// Where it is.
    pub offset: u64,
    /// How well it fits a name; the best ones are meant. None for a pattern or a set, which mean all that fit.
    pub fit: Option<Fit>,
}

impl Seen {
    /// The functions of a module that are meant, each once.
    pub(crate) fn functions(&mut self, module: &Module, sought: &Sought) -> &[Meant] {
        let key = (format!("{:?}", module.device), module.inode, sought.clone());
        self.0.entry(key).or_insert_with(|| functions(module, sought))
    }
}

fn functions(module: &Module, sought: &Sought) -> Vec<Meant> {
    // A mark is no function.
    if let Sought::Mark(_) = sought {
        return Vec::new();
    }
    if let Sought::Function(name) = sought {
        let Ok(Some((fit, functions))) = module.image.functions_spelled(name) else {
            return Vec::new();
        };
        return meant(functions, |_| name.clone(), Some(fit));
    }
    // The names of sets are the linker's own.
    let is_set = matches!(
        sought,
        Sought::OpenmpRegion | Sought::OpenmpBody | Sought::BlasCall
    );
    let is_meant = |symbol: &String| match is_set {
        true => sought.means(symbol, false),
        false => sought.means(&shown(symbol), false),
    };
    let symbols: BTreeSet<String> = symbols(module).filter(is_meant).collect();
    let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
    let found = module.image.functions(&symbols).unwrap_or_default();
    match is_set {
        true => meant(found, str::to_owned, None),
        false => meant(found, shown, None),
    }
}

fn meant(functions: Vec<Function>, name: impl Fn(&str) -> String, fit: Option<Fit>) -> Vec<Meant> {
    // One that only picks the function that callers get is not called by them.
    let functions = functions.into_iter().filter(|function| !function.indirect);
    let meant = functions.filter_map(|function| {
        // Of several symbols for the same bytes the first one that is meant is shown.
        let symbol = function.names.into_iter().next()?;
        Some(Meant {
            name: name(&symbol),
            symbol,
            offset: function.offset.0,
            fit,
        })
    });
    meant.collect()
}

/// The name of a function as patterns see it and people read it: as in the source, without parameters.
fn shown(symbol: &str) -> String {
    let name = spelling::demangle(symbol);
    let parameters = name.match_indices('(').find(|(at, _)| {
        let (before, from) = name.split_at(*at);
        !from.starts_with("(anonymous") && !before.ends_with("operator")
    });
    match parameters {
        Some((at, _)) if name != symbol => name[..at].to_owned(),
        _ => name,
    }
}

/// The names of all functions that a module defines.
fn symbols(module: &Module) -> impl Iterator<Item = String> + '_ {
    let tables = [module.image.dynamic_symbols(), module.image.static_symbols()];
    let is_code = |kind| matches!(kind, SymbolKind::Function | SymbolKind::IndirectFunction);
    tables.into_iter().flatten().flat_map(move |table| {
        let symbols = table
            .iter()
            .filter(move |symbol| symbol.defined && is_code(symbol.kind));
        symbols.map(|symbol| symbol.name).collect::<Vec<_>>()
    })
}

/// The function of the process whose name is nearest to one that it has not.
pub(super) fn nearest(member: &Member, name: &str) -> Option<String> {
    format::nearest(member.space.modules.iter().flat_map(symbols), name)
}

/// The same of its marks.
pub(super) fn nearest_mark(member: &Member, name: &str) -> Option<String> {
    let marks = member
        .space
        .modules
        .iter()
        .flat_map(|module| module.image.marks().unwrap_or_default());
    format::nearest(marks.map(|mark| mark.name.clone()), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_a_team_is_known_by_name() {
        for name in ["GOMP_parallel", "GOMP_parallel_loop_dynamic", "__kmpc_fork_call"] {
            assert!(Sought::OpenmpRegion.means(name, false), "{name}");
        }
        for name in [
            "GOMP_parallel_end",
            "GOMP_barrier",
            "__kmpc_fork_teams",
            "omp_get_num_threads",
        ] {
            assert!(!Sought::OpenmpRegion.means(name, false), "{name}");
        }
    }

    #[test]
    fn the_body_of_a_region_is_known_by_what_compilers_call_it() {
        for symbol in [
            "main._omp_fn.0",
            "_ZN6Solver4stepEi._omp_fn.12",
            ".omp_outlined.",
            ".omp_outlined..3",
            "main.omp_outlined",
            "_Z4stepv.omp_outlined.1",
        ] {
            assert!(Sought::OpenmpBody.means(symbol, false), "{symbol}");
        }
        for symbol in [
            ".omp_outlined_debug__",
            ".omp_task_entry.",
            "GOMP_parallel",
            "main",
        ] {
            assert!(!Sought::OpenmpBody.means(symbol, false), "{symbol}");
        }
    }

    #[test]
    fn blas_is_known_by_the_names_of_c_fortran_and_the_wheels_of_python() {
        for name in [
            "cblas_dgemm",
            "dgemm_",
            "zgemm3m_",
            "scipy_cblas_dgemm64_",
            "scipy_dgemm_64_",
            "scipy_dgesv_",
            "sgetrf_",
        ] {
            assert!(Sought::BlasCall.means(name, false), "{name}");
        }
        for name in [
            "dgemm_kernel_HASWELL",
            "dgemm_nn",
            "dgemm",
            "cblas_ddot",
            "merge_",
            "GOMP_parallel",
        ] {
            assert!(!Sought::BlasCall.means(name, false), "{name}");
        }
    }

    #[test]
    fn patterns_see_names_as_the_source_has_them() {
        for (symbol, name) in [
            ("solve_fast", "solve_fast"),
            ("_ZN6Solver4stepEi", "Solver::step"),
            ("_ZN12_GLOBAL__N_14pickEi", "(anonymous namespace)::pick"),
            ("_ZN6SolverclEi", "Solver::operator()"),
        ] {
            assert_eq!(shown(symbol), name);
        }
    }

    #[test]
    fn a_set_of_mpi_takes_no_function_of_the_program_itself() {
        let set = Sought::Mpi("MPI_?send".into());
        assert!(
            set.means("MPI_Isend", true) && !set.means("MPI_Isend", false) && !set.means("MPI_Send", true)
        );
    }
}
