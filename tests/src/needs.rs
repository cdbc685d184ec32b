//! Decides whether a test can run on this machine.
//!
//! A test that cannot run prints `skipped: …`; with TUNEAGENT_REQUIRE_ALL=1, which `cargo xtask test` sets,
//! it fails. Missing software is installed by `cargo xtask setup`.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::problem::Context;
pub use crate::turns::{calm, machine, shared};
use crate::{Outcome, Problem};

/// Attempts, of one second each, to find an idle core.
const IDLE_TRIES: u32 = 60;

/// One row per need: variant, text, and the check on this machine.
macro_rules! needs {
    ($($need:ident: $words:literal => $is_met:expr;)+) => {
        /// A requirement of a test that a machine may not meet.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Need {
            $(#[doc = $words] $need),+
        }

        fn is_met(need: Need) -> bool {
            match need {
                $(Need::$need => $is_met),+
            }
        }

        fn said(need: Need) -> &'static str {
            match need {
                $(Need::$need => $words),+
            }
        }
    };
}

needs! {
    Root: "root" => rustix::process::geteuid().is_root();
    OpenMpi: "Open MPI (packages openmpi-bin, libopenmpi-dev)" =>
        finds("mpicc.openmpi") && finds("mpirun.openmpi");
    Mpich: "MPICH (packages mpich, libmpich-dev)" => finds("mpicc.mpich") && finds("mpirun.mpich");
    Lammps: "LAMMPS (packages lammps, lammps-examples)" => finds("lmp") && crate::lammps::example().is_some();
    Gromacs: "GROMACS (packages gromacs, gromacs-data)" => finds("gmx") && finds("gmx_mpi");
    NumPy: "NumPy (packages python3-numpy, libopenblas0-pthread)" =>
        Path::new("/usr/lib/python3/dist-packages/numpy").exists();
    Mkl: "MKL (cargo xtask setup)" => crate::wheels::MKL.file().is_some() && finds("cc");
    MpiWheels: "MPICH 5 and Open MPI 5 (cargo xtask setup)" => [crate::wheels::MPICH, crate::wheels::OPEN_MPI].iter().all(|mpi| mpi.file().is_some()) && finds("cc");
    PythonWheels: "NumPy, LightGBM and XGBoost (cargo xtask setup)" => crate::wheels::PYTHON.file().is_some();
    LlamaCpp: "llama.cpp (cargo xtask setup)" => crate::wheels::LLAMA_CPP.file().is_some();
    OnnxRuntime: "ONNX Runtime (cargo xtask setup)" => crate::wheels::ONNX_RUNTIME.file().is_some();
    Mpi4py: "mpi4py (package python3-mpi4py)" => Path::new("/usr/lib/python3/dist-packages/mpi4py").exists();
    R: "R (package r-base-core)" => finds("Rscript");
    Cc: "a C compiler (package gcc)" => finds("cc");
    Cxx: "a C++ compiler (package g++)" => finds("c++");
    Fortran: "a Fortran compiler (package gfortran)" => finds("gfortran");
    LlvmOpenMp: "LLVM's OpenMP (package libomp5)" => finds_library("libomp.so.5");
    IdleCore: "a core that is idle" => has_idle_core();
    Man: "man (package man-db)" => finds("man");
    Shells: "zsh and fish (packages zsh, fish)" => finds("zsh") && finds("fish");
    Strace: "strace (package strace)" => finds("strace");
    SystemdAnalyze: "systemd-analyze (package systemd)" => finds("systemd-analyze");
    Prometheus: "Prometheus (package prometheus)" => finds("prometheus") && finds("promtool");
    Browser: "Chromium (packages chromium, chromium-driver) and axe-core (cargo xtask setup)" =>
        finds("chromium") && finds("chromedriver") && crate::wheels::AXE.file().is_some();
    Firefox: "Firefox (package firefox-esr)" => finds("firefox-esr");
    Tmux: "tmux (package tmux)" => finds("tmux");
    Slurm: "Slurm (packages slurm-wlm, munge)" =>
        ["slurmctld", "slurmd", "srun", "munged"].into_iter().all(finds);
    Nodes: "nats-server and sshd (packages nats-server, openssh-server), and namespaces" =>
        finds("nats-server") && finds("sshd") && crate::bed::Bed::start().is_ok();
    Quota: "control groups with a quota of CPU time, which root may make" =>
        crate::group::Group::with_quota(1.0).is_ok();
    Tasks: "control groups with a bound on processes, which root may make" =>
        crate::group::Group::with_tasks(1).is_ok();
}

/// Returns from the test with a visible message if the machine lacks a requirement. With `shared:`, `calm:` or
/// `machine:` before the needs it evaluates to a guard that the test must hold.
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

/// As `require!`, for tests that return nothing and fail by panicking.
#[macro_export]
macro_rules! require_or_return {
    ($($need:ident),+ $(,)?) => {
        if !$crate::needs::has(module_path!(), &[$($crate::needs::Need::$need),+]) {
            return;
        }
    };
}

/// Whether the machine meets the needs; prints what it lacks. Panics if skipping is not allowed.
pub fn has(test: &str, needs: &[Need]) -> bool {
    !lacks(test, needs).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Whether to skip the test, after printing the reason. An error if skipping is not allowed.
pub fn lacks(test: &str, needs: &[Need]) -> Outcome<bool> {
    let lacking: Vec<Need> = needs.iter().copied().filter(|need| !is_met(*need)).collect();
    if lacking.is_empty() {
        return Ok(false);
    }
    // An idle core is not something that could have been installed.
    let is_of_the_moment = lacking.iter().all(|need| matches!(need, Need::IdleCore));
    let lacking = lacking.into_iter().map(said).collect::<Vec<_>>().join(", ");
    report(test, &format!("needs {lacking}"), is_of_the_moment)?;
    Ok(true)
}

/// Prints that the rest of this test is skipped, for a reason that is found on the way. Panics if skipping is not
/// allowed.
pub fn skip(reason: &str) {
    report("a test", reason, false).unwrap_or_else(|problem| panic!("{problem}"));
}

fn report(test: &str, reason: &str, is_allowed: bool) -> Outcome {
    if !is_allowed && env::var("TUNEAGENT_REQUIRE_ALL").as_deref() == Ok("1") {
        return Err(Problem::new(format!("every test must run here: {reason}")));
    }
    // Not eprintln: the test runner captures it, and an invisible skip looks like a pass.
    let name = std::thread::current().name().unwrap_or(test).to_owned();
    writeln!(std::io::stderr(), "skipped: {name}: {reason}")?;
    Ok(())
}

/// Waits for a second in which all cores but one were idle.
fn has_idle_core() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // Clock ticks: idle ones, and all.
    let passed = || {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let numbers = stat.lines().next()?.split_whitespace().skip(1).take(8);
        let ticks: Vec<f64> = numbers.map_while(|number| number.parse().ok()).collect();
        Some((*ticks.get(3)?, ticks.iter().sum::<f64>()))
    };
    let was_idle = || {
        let before = passed()?;
        #[expect(clippy::disallowed_methods, reason = "ticks of a fixed time are counted")]
        std::thread::sleep(Duration::from_secs(1));
        let after = passed()?;
        Some(cores * (after.0 - before.0) / (after.1 - before.1) >= cores - 1.1)
    };
    cores > 1.0 && (0..IDLE_TRIES).any(|_| was_idle() == Some(true))
}

/// Searches Debian's library folder.
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

/// Size of a test with a long form: the value of the variable, else `long` with TUNEAGENT_LONG=1, else
/// `short`.
pub fn amount(variable: &str, short: u64, long: u64) -> Outcome<u64> {
    match env::var(variable) {
        Ok(text) => text.parse().context(format!("{variable}={text}")),
        Err(_) => Ok(if is_long() { long } else { short }),
    }
}

/// Whether tests run in their long form, which repeats and measures more: TUNEAGENT_LONG=1.
pub fn is_long() -> bool {
    env::var("TUNEAGENT_LONG").as_deref() == Ok("1")
}
