//! Selects functions to probe: one function, all that match a pattern, or a set that is known by its names.
//! Reads no files.

use std::fmt;

use plan::GpuCall;

use rules::matches_glob;

/// Selects functions to probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeSelector {
    Function(String),
    /// Every function whose name matches (`*`, `?`).
    Pattern(String),
    /// The watched MPI functions whose names match.
    Mpi(String),
    /// Functions that start a team of threads in an OpenMP library.
    OpenmpRegion,
    /// Functions to which programs pass the size of a team.
    OpenmpSize,
    /// The functions into which compilers turn the bodies of parallel regions.
    OpenmpBody,
    /// Multithreaded functions of a BLAS or LAPACK library.
    BlasCall,
    /// GPU functions; all of them share one probe.
    Gpu(GpuCall),
    /// The mark with this provider and name.
    Mark(String),
}

impl ProbeSelector {
    /// Whether a function of this name matches.
    pub fn means(&self, name: &str, is_mpi: bool) -> bool {
        match self {
            ProbeSelector::Function(wanted) => wanted == name,
            ProbeSelector::Pattern(pattern) => matches_glob(pattern, name),
            ProbeSelector::Mpi(pattern) => is_mpi && matches_glob(pattern, name),
            ProbeSelector::OpenmpRegion => starts_team(name),
            ProbeSelector::OpenmpSize => plan::takes_team_size(name),
            ProbeSelector::OpenmpBody => is_body(name),
            ProbeSelector::BlasCall => blas_function(name).is_some(),
            ProbeSelector::Gpu(call) => GpuCall::of(name) == Some(*call),
            ProbeSelector::Mark(mark) => mark_of(name) == mark,
        }
    }
}

/// In the syntax of rules.
impl fmt::Display for ProbeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeSelector::Function(name) | ProbeSelector::Pattern(name) => f.write_str(name),
            ProbeSelector::Mpi(pattern) => write!(f, "mpi.{pattern}"),
            ProbeSelector::OpenmpRegion => f.write_str("openmp.region"),
            ProbeSelector::OpenmpSize => f.write_str("openmp.size"),
            ProbeSelector::OpenmpBody => f.write_str("bodies of parallel regions"),
            ProbeSelector::BlasCall => f.write_str("blas.call"),
            ProbeSelector::Gpu(call) => f.write_str(call.name()),
            ProbeSelector::Mark(name) => f.write_str(name),
        }
    }
}

/// If a mark passes its values in several ways, each way is a probe with a number after its name.
pub const ANOTHER: char = '#';

/// The mark of a probe, by the probe's name.
pub(crate) fn mark_of(name: &str) -> &str {
    name.split(ANOTHER).next().unwrap_or(name)
}

/// Whether it is an entry point of libgomp (which libomp has too) or libomp that runs a parallel region,
/// regardless of the file name. Those of GCC before 4.9 (`_start`) return before the region runs, and share
/// their exits with the function that every region calls: a probe there would cost each region a hit.
pub fn starts_team(name: &str) -> bool {
    (name.starts_with("GOMP_parallel") && !name.ends_with("_end") && !name.ends_with("_start"))
        || matches!(name, "__kmpc_fork_call" | "__kmpc_fork_call_if")
}

/// Whether it is a function into which GCC or Clang turned the body of a parallel region, by its linker
/// symbol. Each thread of the team calls it.
pub(super) fn is_body(symbol: &str) -> bool {
    (symbol.contains("._omp_fn.") || symbol.contains("omp_outlined")) && !symbol.contains("_debug__")
}

/// Products and solvers of matrices and vectors (BLAS 2 and 3), and factorizations that BLAS libraries
/// include. BLAS 1 is excluded: a probe would cost too much for millions of short calls.
const BLAS_STEMS: &[&str] = &[
    "gemm", "gemm3m", "gemmt", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm", "gemv",
    "symv", "hemv", "trmv", "trsv", "ger", "geru", "gerc", "gesv", "getrf", "getrs", "potrf", "potri",
    "lauum", "trtri",
];

/// The C function (`cblas_dgemm`) or Fortran function (`dgemm_`) of a symbol. Python wheels add a prefix and
/// the width of integers as a suffix (`scipy_cblas_dgemm64_`): NumPy and SciPy bring a library each, with the
/// same functions.
pub fn blas_function(name: &str) -> Option<String> {
    let name = name.strip_prefix("scipy_").unwrap_or(name);
    let (name, is_c) = match name.strip_prefix("cblas_") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let plain = name.trim_end_matches('_');
    let plain = plain.strip_suffix("64").unwrap_or(plain).trim_end_matches('_');
    // The functions that Fortran calls end in an underscore; those without one are internal to the library.
    let is_called = is_c || name.ends_with('_');
    let stem = plain.strip_prefix(['s', 'd', 'c', 'z']);
    let is_blas = is_called && stem.is_some_and(|stem| BLAS_STEMS.contains(&stem));
    is_blas.then(|| match is_c {
        true => format!("cblas_{plain}"),
        false => format!("{plain}_"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_start_a_team_are_known_by_name() {
        for name in ["GOMP_parallel", "GOMP_parallel_loop_dynamic", "__kmpc_fork_call"] {
            assert!(ProbeSelector::OpenmpRegion.means(name, false), "{name}");
        }
        for name in [
            "GOMP_parallel_end",
            "GOMP_parallel_start",
            "GOMP_parallel_loop_static_start",
            "GOMP_barrier",
            "__kmpc_fork_teams",
            "omp_get_num_threads",
        ] {
            assert!(!ProbeSelector::OpenmpRegion.means(name, false), "{name}");
        }
    }

    #[test]
    fn functions_of_libgomp_that_take_a_size_run_a_region_and_that_of_llvm_does_not() {
        for (name, _) in plan::TEAM_SIZES {
            let starts = ProbeSelector::OpenmpRegion.means(name, false);
            let runs = !name.ends_with("_start") && *name != "__kmpc_push_num_threads";
            assert_eq!(starts, runs, "{name}");
            assert!(ProbeSelector::OpenmpSize.means(name, false), "{name}");
        }
        assert!(!ProbeSelector::OpenmpSize.means("__kmpc_fork_call", false));
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
            assert!(ProbeSelector::OpenmpBody.means(symbol, false), "{symbol}");
        }
        for symbol in [
            ".omp_outlined_debug__",
            ".omp_task_entry.",
            "GOMP_parallel",
            "main",
        ] {
            assert!(!ProbeSelector::OpenmpBody.means(symbol, false), "{symbol}");
        }
    }

    #[test]
    fn blas_is_known_by_the_names_of_c_fortran_and_the_wheels_of_python() {
        for (name, function) in [
            ("cblas_dgemm", "cblas_dgemm"),
            ("dgemm_", "dgemm_"),
            ("zgemm3m_", "zgemm3m_"),
            ("scipy_cblas_dgemm64_", "cblas_dgemm"),
            ("scipy_dgemm_64_", "dgemm_"),
            ("scipy_dgesv_", "dgesv_"),
            ("sgetrf_", "sgetrf_"),
        ] {
            assert!(ProbeSelector::BlasCall.means(name, false), "{name}");
            assert_eq!(blas_function(name).as_deref(), Some(function));
        }
        for name in [
            "dgemm_kernel_HASWELL",
            "dgemm_nn",
            "dgemm",
            "cblas_ddot",
            "merge_",
            "GOMP_parallel",
        ] {
            assert!(!ProbeSelector::BlasCall.means(name, false), "{name}");
        }
    }

    #[test]
    fn a_set_of_mpi_takes_no_function_of_the_program_itself() {
        let set = ProbeSelector::Mpi("MPI_?send".into());
        assert!(
            set.means("MPI_Isend", true) && !set.means("MPI_Isend", false) && !set.means("MPI_Send", true)
        );
    }
}
