//! What each purpose needs and why: the one list that `setup`, `test` and `demo` share.
//!
//! Data only; nothing is looked up or installed here.

use std::fmt;

use crate::Result;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    Build,
    Test,
    Ebpf,
    Demo,
    Bench,
    Vm,
}

impl Purpose {
    pub(crate) const ALL: [Purpose; 6] = [
        Purpose::Build,
        Purpose::Test,
        Purpose::Ebpf,
        Purpose::Demo,
        Purpose::Bench,
        Purpose::Vm,
    ];

    pub(crate) fn parse(word: &str) -> Result<Purpose> {
        Purpose::ALL
            .into_iter()
            .find(|purpose| purpose.name() == word)
            .ok_or_else(|| format!("--only takes one of {}", names(&Purpose::ALL)))
    }

    fn name(self) -> &'static str {
        match self {
            Purpose::Build => "build",
            Purpose::Test => "test",
            Purpose::Ebpf => "ebpf",
            Purpose::Demo => "demo",
            Purpose::Bench => "bench",
            Purpose::Vm => "vm",
        }
    }
}

pub(crate) fn names(purposes: &[Purpose]) -> String {
    purposes
        .iter()
        .map(|purpose| purpose.name())
        .collect::<Vec<_>>()
        .join(", ")
}

/// A thing that can be missing.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Package(&'static str),
    MatchingLlvm,
    BpfLinker,
    RustComponent(&'static str),
    Mkl,
    PythonWheels,
    LlamaCpp,
    MpiWheels,
    CargoDeny,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Package(name) => f.write_str(name),
            What::MatchingLlvm => f.write_str("llvm-N-dev libpolly-N-dev"),
            What::BpfLinker => f.write_str("bpf-linker (cargo install)"),
            What::RustComponent(name) => write!(f, "cargo {name}"),
            What::Mkl => f.write_str("MKL (wheels of 225 MB)"),
            What::PythonWheels => f.write_str("NumPy, LightGBM, XGBoost (wheels of 80 MB)"),
            What::LlamaCpp => f.write_str("llama.cpp (wheels of 50 MB)"),
            What::MpiWheels => f.write_str("MPICH 5 and Open MPI 5 (wheels)"),
            What::CargoDeny => f.write_str("cargo deny (a wheel of 5 MB)"),
        }
    }
}

pub(crate) struct Need {
    pub(crate) what: What,
    pub(crate) why: &'static str,
    purposes: &'static [Purpose],
}

impl Need {
    pub(crate) fn is_for(&self, purpose: Purpose) -> bool {
        self.purposes.contains(&purpose)
    }
}

const fn package(name: &'static str, why: &'static str, purposes: &'static [Purpose]) -> Need {
    Need {
        what: What::Package(name),
        why,
        purposes,
    }
}

/// In the order of installation: what comes later may need what comes before.
const NEEDS: [Need; 47] = {
    use Purpose::{Bench, Build, Demo, Ebpf, Test, Vm};
    [
        package(
            "gcc",
            "links every Rust program; compiles the tests' C programs",
            &[Build, Test, Ebpf, Demo],
        ),
        package(
            "libc6-dev",
            "the C library to link against",
            &[Build, Test, Ebpf, Demo],
        ),
        package(
            "g++",
            "compiles the test program that throws C++ exceptions, and libFuzzer",
            &[Test],
        ),
        package(
            "gfortran",
            "compiles the Fortran program whose variables the tests name",
            &[Test],
        ),
        package(
            "binutils",
            "takes debug information out of test programs, and packs it",
            &[Test],
        ),
        package(
            "libc6-dbg",
            "debug information in a file of its own, as distributions have it",
            &[Test],
        ),
        package(
            "strace",
            "a program under it is refused; its record shows the order of writes",
            &[Test],
        ),
        package(
            "libomp5",
            "LLVM's OpenMP: its regions are probed as GNU's are",
            &[Test],
        ),
        package("gdb", "a program under it is refused", &[Test]),
        package(
            "libcap2-bin",
            "setcap: the capabilities of a file are tried",
            &[Test],
        ),
        package(
            "openmpi-bin",
            "Open MPI's mpirun: the jobs that are watched",
            &[Test, Demo],
        ),
        package(
            "libopenmpi-dev",
            "compiles the test programs for Open MPI",
            &[Test],
        ),
        package("mpich", "MPICH's mpirun: the other MPI", &[Test]),
        package("libmpich-dev", "compiles the test programs for MPICH", &[Test]),
        package(
            "lammps",
            "a real, unmodified MPI program: molecular dynamics",
            &[Test, Demo],
        ),
        package(
            "lammps-examples",
            "its melt example, the job of the demo",
            &[Test, Demo],
        ),
        package(
            "gromacs",
            "a real, unmodified MPI program: molecular dynamics of water",
            &[Test],
        ),
        package(
            "gromacs-data",
            "its force fields, of which the box of water is made",
            &[Test],
        ),
        package(
            "python3-numpy",
            "the arrays that mpi4py sends; products of a user without root",
            &[Test],
        ),
        package(
            "python3-mpi4py",
            "MPI from Python: its arrays and objects are counted",
            &[Test],
        ),
        package(
            "libopenblas0-pthread",
            "the BLAS of NumPy, with threads of its own",
            &[Test],
        ),
        package(
            "r-base-core",
            "a real program in R, which needs no repair",
            &[Test],
        ),
        package(
            "python3-venv",
            "brings what Debian has not from the Python Package Index",
            &[Test],
        ),
        package(
            "prometheus",
            "scrapes /metrics and answers every query of the dashboards; not started as a service",
            &[Test],
        ),
        package(
            "tmux",
            "a terminal for the live view, looked at by the tests",
            &[Test],
        ),
        package(
            "slurm-wlm",
            "a real Slurm, over nodes that see a part of a job; not started as a service",
            &[Test],
        ),
        package("munge", "what Slurm's daemons recognise each other by", &[Test]),
        package("bpftrace", "what probes cost with it, beside ours", &[Bench]),
        package("linux-perf", "what probes cost with it, beside ours", &[Bench]),
        package(
            "rustc-web",
            "a Rust compiler whose library source comes with it",
            &[Ebpf],
        ),
        package("cargo-web", "its cargo", &[Ebpf]),
        package(
            "rust-web-src",
            "the library source, to build core for BPF",
            &[Ebpf],
        ),
        package("libzstd-dev", "bpf-linker links against it", &[Ebpf]),
        package("zlib1g-dev", "bpf-linker links against it", &[Ebpf]),
        Need {
            what: What::MatchingLlvm,
            why: "the compiler's own LLVM, for bpf-linker",
            purposes: &[Ebpf],
        },
        Need {
            what: What::BpfLinker,
            why: "links BPF objects",
            purposes: &[Ebpf],
        },
        package(
            "qemu-system-x86",
            "boots other kernels, on which the tests run too",
            &[Vm],
        ),
        package("busybox-static", "the first program of such a machine", &[Vm]),
        package("cpio", "packs what such a machine begins with", &[Vm]),
        package("xz-utils", "unpacks a kernel's modules", &[Vm]),
        Need {
            what: What::Mkl,
            why: "the other BLAS with threads of its own, that of conda",
            purposes: &[Test],
        },
        Need {
            what: What::PythonWheels,
            why: "Python programs whose BLAS and OpenMP threads are tuned",
            purposes: &[Test],
        },
        Need {
            what: What::LlamaCpp,
            why: "a program that spins at barriers of its own making",
            purposes: &[Test],
        },
        Need {
            what: What::MpiWheels,
            why: "the MPIs of today: Debian's are of 2022",
            purposes: &[Test],
        },
        Need {
            what: What::CargoDeny,
            why: "checks licences, sources and versions of dependencies",
            purposes: &[Test],
        },
        Need {
            what: What::RustComponent("fmt"),
            why: "checks the format of the sources",
            purposes: &[Test],
        },
        Need {
            what: What::RustComponent("clippy"),
            why: "checks the sources for likely mistakes",
            purposes: &[Test],
        },
    ]
};

pub(crate) fn of(purposes: &[Purpose]) -> Vec<Need> {
    let wanted = |need: &Need| purposes.iter().any(|purpose| need.is_for(*purpose));
    NEEDS.into_iter().filter(wanted).collect()
}

pub(crate) fn llvm_packages(major: u32) -> Vec<String> {
    vec![format!("llvm-{major}-dev"), format!("libpolly-{major}-dev")]
}
