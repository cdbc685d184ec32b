//! Whether a test can run on this machine.
//!
//! A test that cannot run says `skipped: …` where everybody sees it; with TUNEAGENT_REQUIRE_ALL=1, as
//! `cargo xtask test` sets it, it fails instead. Nothing is installed here: that is `cargo xtask setup`.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::problem::While;
pub use crate::turns::{machine, shared};
use crate::{Outcome, Problem};

/// Seconds for which a core that is idle is waited for.
const IDLE_TRIES: u32 = 60;

/// Something that a test may need and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    /// Probes and other users' processes need it.
    Root,
    /// `mpicc.openmpi`, `mpirun.openmpi`
    OpenMpi,
    /// `mpicc.mpich`, `mpirun.mpich`
    Mpich,
    /// `lmp` and the package with its examples
    Lammps,
    /// `gmx`, `gmx_mpi`
    Gromacs,
    /// Debian's Python with NumPy
    NumPy,
    /// Intel's MKL, and a compiler for the program that calls it
    Mkl,
    /// MPICH 5 and Open MPI 5 of the Python Package Index, and a compiler
    MpiWheels,
    /// NumPy, LightGBM and XGBoost of the Python Package Index
    PythonWheels,
    /// llama.cpp of the Python Package Index, and what writes its models
    LlamaCpp,
    /// Debian's mpi4py, for Open MPI
    Mpi4py,
    /// `Rscript`
    R,
    /// a C compiler
    Cc,
    /// a C++ compiler
    Cxx,
    /// a Fortran compiler
    Fortran,
    /// LLVM's library for OpenMP
    LlvmOpenMp,
    /// a core that nobody else keeps busy
    IdleCore,
    /// the kernel's own record of what a program did
    Strace,
    /// `prometheus`, `promtool`
    Prometheus,
    /// A terminal to look at
    Tmux,
    /// `slurmctld`, `slurmd`, `srun` and what they recognise each other by
    Slurm,
    /// a group of processes with a quota of CPU time
    Quota,
    /// a group of processes with a bound on their number
    Tasks,
}

/// Leaves the test (successfully, but visibly) when this machine lacks something that it needs. With `shared:` or `machine:` before the
/// needs it gives what the test is to hold meanwhile.
#[macro_export]
macro_rules! require {
    ($hold:ident: $($need:ident),+ $(,)?) => {{
        $crate::require!($($need),+);
        $crate::needs::$hold()
    }};
    ($($need:ident),+ $(,)?) => {
        if $crate::needs::lacks(module_path!(), &[$($crate::needs::Need::$need),+])? {
            return Ok(());
        }
    };
}

/// True if the test is to be skipped, which has then been said; a problem if skipping is not allowed.
pub fn lacks(test: &str, needs: &[Need]) -> Outcome<bool> {
    let lacking: Vec<Need> = needs.iter().copied().filter(|need| !is_met(*need)).collect();
    if lacking.is_empty() {
        return Ok(false);
    }
    // What else runs on the machine is nothing that could have been installed.
    let is_of_the_moment = lacking.iter().all(|need| matches!(need, Need::IdleCore));
    let lacking = lacking.into_iter().map(said).collect::<Vec<_>>().join(", ");
    if !is_of_the_moment && env::var("TUNEAGENT_REQUIRE_ALL").as_deref() == Ok("1") {
        return Err(Problem::new(format!(
            "every test must run here, and this one needs {lacking}"
        )));
    }
    // Not eprintln: the test runner would hide it, and a skip that nobody sees looks like a pass.
    let name = std::thread::current().name().unwrap_or(test).to_owned();
    writeln!(std::io::stderr(), "skipped: {name} needs {lacking}")?;
    Ok(true)
}

fn is_met(need: Need) -> bool {
    match need {
        Need::Root => rustix::process::geteuid().is_root(),
        Need::OpenMpi => finds("mpicc.openmpi") && finds("mpirun.openmpi"),
        Need::Mpich => finds("mpicc.mpich") && finds("mpirun.mpich"),
        Need::Lammps => finds("lmp") && crate::lammps::example().is_some(),
        Need::Gromacs => finds("gmx") && finds("gmx_mpi"),
        Need::NumPy => Path::new("/usr/lib/python3/dist-packages/numpy").exists(),
        Need::Mkl => crate::wheels::mkl().is_some() && finds("cc"),
        Need::MpiWheels => crate::wheels::has_mpis() && finds("cc"),
        Need::PythonWheels => crate::wheels::python().is_some(),
        Need::LlamaCpp => crate::wheels::llama_cpp().is_some(),
        Need::Mpi4py => Path::new("/usr/lib/python3/dist-packages/mpi4py").exists(),
        Need::R => finds("Rscript"),
        Need::Cc => finds("cc"),
        Need::Cxx => finds("c++"),
        Need::Fortran => finds("gfortran"),
        Need::LlvmOpenMp => finds_library("libomp.so.5"),
        Need::IdleCore => has_idle_core(),
        Need::Strace => finds("strace"),
        Need::Prometheus => finds("prometheus") && finds("promtool"),
        Need::Tmux => finds("tmux"),
        Need::Slurm => ["slurmctld", "slurmd", "srun", "munged"].into_iter().all(finds),
        Need::Quota => crate::group::Group::with_quota(1.0).is_ok(),
        Need::Tasks => crate::group::Group::with_tasks(1).is_ok(),
    }
}

fn said(need: Need) -> &'static str {
    match need {
        Need::Root => "root",
        Need::OpenMpi => "Open MPI (packages openmpi-bin, libopenmpi-dev)",
        Need::Mpich => "MPICH (packages mpich, libmpich-dev)",
        Need::Lammps => "LAMMPS (packages lammps, lammps-examples)",
        Need::Gromacs => "GROMACS (packages gromacs, gromacs-data)",
        Need::NumPy => "NumPy (packages python3-numpy, libopenblas0-pthread)",
        Need::Mkl => "MKL (cargo xtask setup)",
        Need::MpiWheels => "MPICH 5 and Open MPI 5 (cargo xtask setup)",
        Need::PythonWheels => "NumPy, LightGBM and XGBoost (cargo xtask setup)",
        Need::LlamaCpp => "llama.cpp (cargo xtask setup)",
        Need::Mpi4py => "mpi4py (package python3-mpi4py)",
        Need::R => "R (package r-base-core)",
        Need::Cc => "a C compiler (package gcc)",
        Need::Cxx => "a C++ compiler (package g++)",
        Need::Fortran => "a Fortran compiler (package gfortran)",
        Need::LlvmOpenMp => "LLVM's OpenMP (package libomp5)",
        Need::IdleCore => "a core that is idle",
        Need::Strace => "strace (package strace)",
        Need::Prometheus => "Prometheus (package prometheus)",
        Need::Tmux => "tmux (package tmux)",
        Need::Slurm => "Slurm (packages slurm-wlm, munge)",
        Need::Quota => "control groups with a quota of CPU time, which root may make",
        Need::Tasks => "control groups with a bound on processes, which root may make",
    }
}

/// Waits a while for a second in which all cores but one, at least, had nothing to do.
fn has_idle_core() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // In ticks of the clock: idle, and in all.
    let passed = || {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let numbers = stat.lines().next()?.split_whitespace().skip(1).take(8);
        let ticks: Vec<f64> = numbers.map_while(|number| number.parse().ok()).collect();
        Some((*ticks.get(3)?, ticks.iter().sum::<f64>()))
    };
    let was_idle = || {
        let before = passed()?;
        std::thread::sleep(Duration::from_secs(1));
        let after = passed()?;
        Some(cores * (after.0 - before.0) / (after.1 - before.1) >= cores - 1.1)
    };
    cores > 1.0 && (0..IDLE_TRIES).any(|_| was_idle() == Some(true))
}

/// Where Debian has libraries.
fn finds_library(name: &str) -> bool {
    let folder = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    PathBuf::from(folder).join(name).exists()
}

fn finds(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder: PathBuf| folder.join(program))
        .any(|file| file.is_file())
}

/// How much a test with a long form makes of something: as the variable says, else `long` with TUNEAGENT_LONG=1, else `short`.
pub fn amount(variable: &str, short: u64, long: u64) -> Outcome<u64> {
    match env::var(variable) {
        Ok(text) => text.parse().while_(format!("{variable}={text}")),
        Err(_) => Ok(if is_long() { long } else { short }),
    }
}

/// The run of every test in its long form, which repeats and measures more: TUNEAGENT_LONG=1.
pub fn is_long() -> bool {
    env::var("TUNEAGENT_LONG").as_deref() == Ok("1")
}
