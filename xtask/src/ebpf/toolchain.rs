//! Finds a compiler that can build for BPF: one with the source of `core`, and `bpf-linker`.
//!
//! Two are known: Debian's `rustc-web`, which includes the library source, and rustup's nightly with the
//! component rust-src. `setup` installs Debian packages. This module installs the linker, because it must be
//! built against the LLVM of the compiler.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{capture, find_installed, find_program, run};

/// A compiler and its cargo. The linker may be missing.
pub(crate) struct Compiler {
    pub(crate) rustc: PathBuf,
    pub(crate) cargo: PathBuf,
    /// First line of `rustc --version`.
    pub(crate) version: String,
    pub(crate) llvm_major: u32,
    pub(crate) sysroot: PathBuf,
}

/// All tools that affect the bytes of the objects.
pub(crate) struct Toolchain {
    pub(crate) compiler: Compiler,
    pub(crate) linker: PathBuf,
    pub(crate) rustc_version: String,
    pub(crate) linker_version: String,
}

impl Toolchain {
    /// The first usable compiler with its linker, which is installed if missing.
    pub(crate) fn find() -> Result<Toolchain> {
        let compiler = Compiler::find()?;
        let linker = match find_linker() {
            Some(linker) => linker,
            None => install_linker(&compiler)?,
        };
        Toolchain::of(compiler, linker)
    }

    /// All complete toolchains of this machine. Installs nothing.
    pub(crate) fn all_present() -> Vec<Toolchain> {
        let Some(linker) = find_linker() else {
            return Vec::new();
        };
        Compiler::all()
            .filter_map(|compiler| Toolchain::of(compiler, linker.clone()).ok())
            .collect()
    }

    fn of(compiler: Compiler, linker: PathBuf) -> Result<Toolchain> {
        let linker_version = capture(Command::new(&linker).arg("--version"))?.trim().to_owned();
        let rustc_version = format!("{}, LLVM {}", compiler.version, compiler.llvm_major);
        Ok(Toolchain {
            compiler,
            linker,
            rustc_version,
            linker_version,
        })
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.rustc_version, self.linker_version)
    }
}

impl Compiler {
    /// Debian's first, then rustup's.
    fn all() -> impl Iterator<Item = Compiler> {
        let debian = || Compiler::at(Path::new("/usr/bin/rustc"), Path::new("/usr/bin/cargo"));
        debian().into_iter().chain(nightly())
    }

    pub(crate) fn find() -> Result<Compiler> {
        Compiler::all().next().ok_or_else(|| {
            "no compiler here can build for BPF: it needs the source of Rust's library.\n\
             On Debian: cargo xtask setup --only ebpf\n\
             Elsewhere: rustup toolchain install nightly --component rust-src"
                .to_owned()
        })
    }

    /// The compiler at this path, if it is new enough and has its library source.
    fn at(rustc: &Path, cargo: &Path) -> Option<Compiler> {
        let facts = capture(Command::new(rustc).arg("-vV")).ok()?;
        let sysroot = capture(Command::new(rustc).args(["--print", "sysroot"])).ok()?;
        let sysroot = PathBuf::from(sysroot.trim());
        let (release, llvm_major) = (field(&facts, "release: ")?, field(&facts, "LLVM version: ")?);
        let minor: u32 = release.strip_prefix("1.")?.split('.').next()?.parse().ok()?;
        let has_source = sysroot.join("lib/rustlib/src/rust/library/core").is_dir();
        // Edition 2024 needs 1.85. Older compilers, such as Debian 12's rustc, fail with unclear messages.
        (has_source && minor >= 85 && crate::process::is_executable(cargo)).then_some(())?;
        Some(Compiler {
            rustc: rustc.to_path_buf(),
            cargo: cargo.to_path_buf(),
            version: facts.lines().next()?.to_owned(),
            llvm_major: llvm_major.split('.').next()?.parse().ok()?,
            sysroot,
        })
    }
}

fn nightly() -> Option<Compiler> {
    let rustup = find_program("rustup")?;
    let which = |tool| capture(Command::new(&rustup).args(["which", "--toolchain", "nightly", tool])).ok();
    let (rustc, cargo) = (which("rustc")?, which("cargo")?);
    Compiler::at(Path::new(rustc.trim()), Path::new(cargo.trim()))
}

fn field<'a>(facts: &'a str, name: &str) -> Option<&'a str> {
    facts.lines().find_map(|line| line.strip_prefix(name))
}

pub(crate) fn find_linker() -> Option<PathBuf> {
    find_installed("bpf-linker")
}

/// Installs `bpf-linker`, built against the compiler's LLVM. Another LLVM cannot read its bitcode.
pub(crate) fn install_linker(compiler: &Compiler) -> Result<PathBuf> {
    let major = compiler.llvm_major;
    let prefix = PathBuf::from(format!("/usr/lib/llvm-{major}"));
    if !prefix.join("bin/llvm-config").exists() {
        return Err(format!(
            "bpf-linker is absent, and building it needs LLVM {major}, which is not in {}; \
             run `cargo xtask setup --only ebpf`",
            prefix.display()
        ));
    }
    println!("installing bpf-linker (about half a minute, once)");
    let mut install = Command::new(find_program("cargo").unwrap_or_else(|| compiler.cargo.clone()));
    install
        .args([
            "install",
            "--quiet",
            "--locked",
            "bpf-linker",
            "--no-default-features",
        ])
        .args(["--features", &format!("llvm-{major}")])
        .env("LLVM_PREFIX", &prefix)
        // The caller's target folder and RUSTFLAGS apply to the project, not to the linker.
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS");
    run(&mut install)?;
    find_linker()
        .ok_or_else(|| "bpf-linker was installed but is not where cargo installs programs".to_owned())
}
