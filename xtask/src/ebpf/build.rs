//! Compiles `ebpf/` to its objects, the same bytes on every machine that has the same tools.
//!
//! Paths of the machine would differ, so they are renamed in the debug information. What is compiled, and
//! into what programs, is decided in `ebpf/`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::build::elf::{Builder, SectionData};

use super::toolchain::{Toolchain, cargo_home};
use crate::Result;
use crate::process::run;

const TARGET: &str = "bpfel-unknown-none";

/// An object by the name under which it is committed, and its bytes.
pub(crate) type Object = (&'static str, Vec<u8>);

/// The committed name of each object, and the program of the package that it is.
const PROGRAMS: [(&str, &str); 3] = [
    ("tuneagent.bpf.o", "tuneagent-bpf"),
    ("sync.bpf.o", "tuneagent-sync-bpf"),
    ("bench.bpf.o", "tuneagent-bench-bpf"),
];

/// Builds into `target` and returns the objects.
pub(crate) fn objects(root: &Path, toolchain: &Toolchain, target: &Path) -> Result<Vec<Object>> {
    let package = root.join(super::FOLDER);
    if !package.join("Cargo.toml").exists() {
        return Err(format!(
            "{} has no Cargo.toml: there is nothing to build",
            package.display()
        ));
    }
    let mut cargo = Command::new(&toolchain.compiler.cargo);
    cargo
        .current_dir(&package)
        .args([
            "build",
            "--quiet",
            "--release",
            "-Zbuild-std=core",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target)
        .env("RUSTC", &toolchain.compiler.rustc)
        // Debian's compiler calls itself stable; -Zbuild-std is what we need of nightly.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags(root, toolchain))
        .env("PATH", path_with(&toolchain.linker))
        // Set by `cargo xtask` for the stable toolchain; they would choose its compiler or wrap ours.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTFLAGS");
    run(&mut cargo).map_err(|error| format!("the BPF objects were not built: {error}"))?;
    PROGRAMS
        .into_iter()
        .map(|(name, program)| {
            let built = target.join(TARGET).join("release").join(program);
            let bytes =
                fs::read(&built).map_err(|error| format!("{} was not built: {error}", built.display()))?;
            let kept = without_dwarf(&bytes).map_err(|error| format!("{}: {error}", built.display()))?;
            Ok((name, kept))
        })
        .collect()
}

/// The object without DWARF: the linker has made BTF of it, and nothing else reads it. It would be three
/// quarters of the bytes, in every program that is shipped.
fn without_dwarf(object: &[u8]) -> object::build::Result<Vec<u8>> {
    let mut builder = Builder::read(object)?;
    for section in builder.sections.iter_mut() {
        section.delete = section.name.starts_with(b".debug_") || section.name.starts_with(b".rel.debug_");
    }
    builder.delete_orphans();
    // LLVM keeps the names of sections with those of symbols; what is written here has a section for each.
    let names = builder.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut kept = Vec::new();
    builder.write(&mut kept)?;
    Ok(kept)
}

/// The linker is named without its folder: flags take part in the names of symbols.
fn flags(root: &Path, toolchain: &Toolchain) -> OsString {
    let mut flags: Vec<OsString> = ["-Cdebuginfo=2", "-Clink-arg=--btf", "-Clinker=bpf-linker"]
        .map(OsString::from)
        .to_vec();
    // The library's source is a link on Debian; the compiler may name either end of it.
    let library = toolchain.compiler.sysroot.join("lib/rustlib/src/rust");
    let real_library = fs::canonicalize(&library).unwrap_or_else(|_| library.clone());
    for (folder, name) in [
        (root.to_path_buf(), "/tuneagent"),
        (cargo_home(), "/cargo"),
        (library, "/rust"),
        (real_library, "/rust"),
    ] {
        flags.push(remap(&folder, name));
    }
    // Sources of dependencies lie in a folder that is named after where they came from. The last rule that
    // fits counts.
    if let Ok(origins) = fs::read_dir(cargo_home().join("registry").join("src")) {
        flags.extend(origins.flatten().map(|origin| remap(&origin.path(), "/crates")));
    }
    flags.join(OsString::from("\x1f").as_os_str())
}

fn remap(folder: &Path, name: &str) -> OsString {
    let mut flag = OsString::from("--remap-path-prefix=");
    flag.push(folder);
    flag.push("=");
    flag.push(name);
    flag
}

fn path_with(linker: &Path) -> OsString {
    let first = linker.parent().map(Path::to_path_buf);
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = first.into_iter().chain(std::env::split_paths(&rest)).collect();
    std::env::join_paths(all).unwrap_or(rest)
}
