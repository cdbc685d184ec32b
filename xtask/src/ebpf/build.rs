//! Compiles `ebpf/` to its objects, reproducibly: the same tools give the same bytes on every machine.
//!
//! Paths of the machine would differ, so they are remapped in the debug information.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::build::elf::{Builder, SectionData};

use super::toolchain::Toolchain;
use crate::Result;
use crate::process::{cargo_home, run};

const TARGET: &str = "bpfel-unknown-none";

/// File name of a committed object, and its contents.
pub(crate) type Object = (&'static str, Vec<u8>);

/// File name of each committed object, and the binary target that it is built from.
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
        // Debian's compiler is a stable one; -Zbuild-std needs this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags(root, toolchain))
        .env("PATH", path_with(&toolchain.linker))
        // `cargo xtask` sets these for the stable toolchain. They would select its compiler or wrap ours.
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

/// Strips DWARF: the linker has made BTF of it, and nothing else reads it. It would be three quarters of the
/// object's size.
fn without_dwarf(object: &[u8]) -> object::build::Result<Vec<u8>> {
    let mut builder = Builder::read(object)?;
    for section in builder.sections.iter_mut() {
        section.delete = section.name.starts_with(b".debug_") || section.name.starts_with(b".rel.debug_");
    }
    builder.delete_orphans();
    // LLVM keeps section and symbol names in one table; the writer needs a separate one for sections.
    let names = builder.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut kept = Vec::new();
    builder.write(&mut kept)?;
    Ok(kept)
}

/// Names the linker without its folder: flags are hashed into the names of symbols.
fn flags(root: &Path, toolchain: &Toolchain) -> OsString {
    let mut flags: Vec<OsString> = ["-Cdebuginfo=2", "-Clink-arg=--btf", "-Clinker=bpf-linker"]
        .map(OsString::from)
        .to_vec();
    // On Debian the library's source is a symbolic link; the compiler may print either path.
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
    // The folder of a registry's sources has the registry's hash in its name. If several rules match, the
    // last one applies.
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
