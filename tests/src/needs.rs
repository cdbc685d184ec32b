//! Whether a test can run on this machine, and which tests may not run beside each other.
//!
//! A test that cannot run says `skipped: …` where everybody sees it; with TUNEAGENT_REQUIRE_ALL=1, as
//! `cargo xtask test` sets it, it fails instead. Nothing is installed here: that is `cargo xtask setup`.

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Outcome, Problem};

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
    /// a C compiler
    Cc,
    /// a C++ compiler
    Cxx,
    /// LLVM's library for OpenMP
    LlvmOpenMp,
    /// the kernel's own record of what a program did
    Strace,
}

/// Leaves the test (successfully, but visibly) when this machine lacks something that it needs.
#[macro_export]
macro_rules! require {
    ($($need:ident),+ $(,)?) => {
        if $crate::needs::lacks(module_path!(), &[$($crate::needs::Need::$need),+])? {
            return Ok(());
        }
    };
}

/// True if the test is to be skipped, which has then been said; a problem if skipping is not allowed.
pub fn lacks(test: &str, needs: &[Need]) -> Outcome<bool> {
    let lacking: Vec<&str> = needs
        .iter()
        .filter(|need| !is_met(**need))
        .map(|need| said(*need))
        .collect();
    if lacking.is_empty() {
        return Ok(false);
    }
    let lacking = lacking.join(", ");
    if env::var("TUNEAGENT_REQUIRE_ALL").as_deref() == Ok("1") {
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
        Need::Cc => finds("cc"),
        Need::Cxx => finds("c++"),
        Need::LlvmOpenMp => finds_library("libomp.so.5"),
        Need::Strace => finds("strace"),
    }
}

fn said(need: Need) -> &'static str {
    match need {
        Need::Root => "root",
        Need::OpenMpi => "Open MPI (packages openmpi-bin, libopenmpi-dev)",
        Need::Mpich => "MPICH (packages mpich, libmpich-dev)",
        Need::Lammps => "LAMMPS (packages lammps, lammps-examples)",
        Need::Cc => "a C compiler (package gcc)",
        Need::Cxx => "a C++ compiler (package g++)",
        Need::LlvmOpenMp => "LLVM's OpenMP (package libomp5)",
        Need::Strace => "strace (package strace)",
    }
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

/// Held by tests that fill the machine or attach probes: on two cores they would measure each other.
pub fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed while it held the machine has left it in order: its values were dropped.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
