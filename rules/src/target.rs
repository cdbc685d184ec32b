//! The target of a probe: a function, all functions whose names match a pattern, a built-in set, or a mark.
//!
//! The functions of a program and the places of its marks are resolved elsewhere.

use std::fmt;

use plan::GpuCall;

use crate::facts::matches_glob;

/// What a probe is placed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The function of this name, with `::` for a member of a class or a namespace.
    Function(String),
    /// Every function whose name matches the pattern (`*`, `?`).
    Pattern(String),
    /// A built-in set of functions.
    Set(FunctionSet),
    /// The marks with this provider and name, as `provider:name`: places that the program's source names.
    Mark(String),
    /// The iterations of the loop that was detected in a process. They need no probe: the agent passes them in
    /// when they have ended.
    LoopIteration,
}

/// The notation of [`Target::LoopIteration`].
pub(crate) const LOOP_ITERATION: &str = "loop.iteration";

/// A built-in set of functions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionSet {
    /// The MPI functions whose names match the pattern; calls by other MPI functions are left out.
    Mpi(String),
    /// Every function of an OpenMP library that starts a team of threads.
    OpenmpRegion,
    /// Every function by which programs request the size of an OpenMP team.
    OpenmpSize,
    /// The multi-threaded functions of BLAS and LAPACK libraries.
    BlasCall,
    /// Functions of CUDA, HIP, NCCL and RCCL. Nested calls count as one, because a run-time calls its driver.
    Gpu(GpuCall),
}

/// The notation of sets, for messages.
pub(crate) const SETS: &[&str] = &[
    "mpi.*",
    "mpi.MPI_Send",
    "openmp.region",
    "openmp.size",
    "blas.call",
    "gpu.launch",
    "gpu.copy",
    "gpu.wait",
    "gpu.collective",
    LOOP_ITERATION,
];

/// Where a probe sits in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    Entry,
    Return,
    /// From entry to return: has a duration.
    Span,
}

impl Target {
    /// The target `text`; `None` for a set that does not exist.
    pub(crate) fn named(text: &str) -> Option<Target> {
        if let Some(set) = text.strip_prefix("openmp.") {
            return match set {
                "region" => Some(Target::Set(FunctionSet::OpenmpRegion)),
                "size" => Some(Target::Set(FunctionSet::OpenmpSize)),
                _ => None,
            };
        }
        if let Some(set) = text.strip_prefix("blas.") {
            return (set == "call").then_some(Target::Set(FunctionSet::BlasCall));
        }
        if text.starts_with("gpu.") {
            return GpuCall::named(text).map(|call| Target::Set(FunctionSet::Gpu(call)));
        }
        if text.starts_with("loop.") {
            return (text == LOOP_ITERATION).then_some(Target::LoopIteration);
        }
        if let Some(names) = text.strip_prefix("mpi.") {
            return (!names.is_empty()).then(|| Target::Set(FunctionSet::Mpi(names.to_string())));
        }
        Some(if text.contains(['*', '?']) {
            Target::Pattern(text.to_string())
        } else {
            Target::Function(text.to_string())
        })
    }

    /// The mark `text`; `None` if it does not have the form `provider:name`.
    pub(crate) fn mark(text: &str) -> Option<Target> {
        let (provider, name) = text.split_once(':')?;
        let is_proper = |part: &str| !part.is_empty() && !part.contains([':', '*', '?']);
        (is_proper(provider) && is_proper(name)).then(|| Target::Mark(text.to_string()))
    }

    pub fn is_mark(&self) -> bool {
        matches!(self, Target::Mark(_))
    }

    /// The name of the function, if it is a single one.
    pub fn function(&self) -> Option<&str> {
        match self {
            Target::Function(name) => Some(name),
            Target::Pattern(_) | Target::Set(_) | Target::Mark(_) | Target::LoopIteration => None,
        }
    }

    /// Whether it includes the function of this name, as far as the name determines that: false for functions
    /// of OpenMP, BLAS and GPUs, whose names are listed elsewhere.
    pub fn fits(&self, name: &str) -> bool {
        match self {
            Target::Function(known) | Target::Mark(known) => known == name,
            Target::Pattern(pattern) => matches_glob(pattern, name),
            Target::Set(FunctionSet::Mpi(pattern)) => matches_glob(pattern, name),
            Target::LoopIteration
            | Target::Set(
                FunctionSet::OpenmpRegion
                | FunctionSet::OpenmpSize
                | FunctionSet::BlasCall
                | FunctionSet::Gpu(_),
            ) => false,
        }
    }
}

/// The notation in a rule.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Function(name) | Target::Pattern(name) | Target::Mark(name) => f.write_str(name),
            Target::Set(FunctionSet::Mpi(pattern)) => write!(f, "mpi.{pattern}"),
            Target::Set(FunctionSet::OpenmpRegion) => f.write_str("openmp.region"),
            Target::Set(FunctionSet::OpenmpSize) => f.write_str("openmp.size"),
            Target::Set(FunctionSet::BlasCall) => f.write_str("blas.call"),
            Target::Set(FunctionSet::Gpu(call)) => f.write_str(call.name()),
            Target::LoopIteration => f.write_str(LOOP_ITERATION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_printed_as_it_is_written() {
        for text in [
            "f",
            "solve_*",
            "A::b",
            "mpi.*",
            "mpi.MPI_Send",
            "openmp.region",
            "openmp.size",
            "blas.call",
            "gpu.launch",
            "gpu.copy",
            "gpu.wait",
            "gpu.collective",
            "loop.iteration",
        ] {
            assert_eq!(
                Target::named(text).map(|target| target.to_string()).as_deref(),
                Some(text)
            );
        }
        assert_eq!(Target::named("openmp.regoin"), None);
        assert_eq!(Target::named("blas.calls"), None);
        assert_eq!(Target::named("gpu.waits"), None);
        assert_eq!(Target::named("loop.iterations"), None);
        assert_eq!(Target::named("mpi."), None);
    }

    #[test]
    fn a_mark_is_named_with_its_provider() {
        let mark = Target::mark("app:step");
        assert_eq!(mark, Some(Target::Mark("app:step".into())));
        assert!(mark.is_some_and(|mark| mark.fits("app:step") && mark.to_string() == "app:step"));
        for text in ["step", "app:", ":step", "a::b", "app:st*p", "a:b:c", ""] {
            assert_eq!(Target::mark(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_fits_its_target() {
        let fits = |target: &str, name: &str| Target::named(target).is_some_and(|target| target.fits(name));
        assert!(fits("solve_*", "solve_fast") && !fits("solve_*", "resolve_fast"));
        assert!(fits("mpi.MPI_?send", "MPI_Isend") && !fits("mpi.MPI_Send", "MPI_Isend"));
        assert!(fits("f", "f") && !fits("f", "ff"));
    }
}
