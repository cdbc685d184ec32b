//! `cargo xtask ebpf`: builds the kernel side and keeps the committed object honest.
//!
//! The object is committed so that everybody else needs only stable Rust. `provenance` says which sources and
//! which tools it came from, `toolchain` finds compilers that can build it, `build` builds it reproducibly.
//! What the programs do is the business of `ebpf/`.

mod build;
mod provenance;
pub(crate) mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use provenance::Provenance;
use toolchain::Toolchain;

/// Where things are, relative to the checkout.
const FOLDER: &str = "ebpf";
const OBJECT: &str = "ebpf/prebuilt/tuneagent.bpf.o";
const PROVENANCE: &str = "ebpf/prebuilt/PROVENANCE.json";

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    crate::only_flags("ebpf", flags, &["--check", "--no-rebuild"])?;
    let root = crate::root();
    if flags.contains(&"--check") {
        check(&root, !flags.contains(&"--no-rebuild"))
    } else if flags.contains(&"--no-rebuild") {
        Err("--no-rebuild belongs to --check".to_owned())
    } else {
        rebuild(&root)
    }
}

/// Builds the object, and records what it was built from and with.
fn rebuild(root: &Path) -> Result<()> {
    let toolchain = Toolchain::find()?;
    println!("building {FOLDER}/ with {toolchain}");
    let built = build::object(root, &toolchain, &root.join(FOLDER).join("target"))?;
    // After the build: it may have written Cargo.lock, which belongs to the sources.
    let provenance = Provenance::of(root, &built, &toolchain)?;
    let object = root.join(OBJECT);
    create_parent(&object)?;
    fs::write(&object, &built).map_err(|error| format!("cannot write {}: {error}", object.display()))?;
    provenance.write(&root.join(PROVENANCE))?;
    println!(
        "{OBJECT}: {} bytes, sha256 {}",
        built.len(),
        provenance.object_sha256
    );
    Ok(())
}

/// Fails when the committed object is not the one its sources give.
pub(crate) fn check(root: &Path, may_rebuild: bool) -> Result<()> {
    let recorded = Provenance::read(&root.join(PROVENANCE))?;
    if recorded.sources_sha256 != provenance::hash_of_sources(root)? {
        return Err(format!(
            "the sources under {FOLDER}/ changed since {OBJECT} was built; run `cargo xtask ebpf`"
        ));
    }
    let object = root.join(OBJECT);
    let committed = fs::read(&object)
        .map_err(|error| format!("cannot read {OBJECT}: {error}; run `cargo xtask ebpf`"))?;
    if recorded.object_sha256 != provenance::hash_of(&committed) {
        return Err(format!(
            "{OBJECT} is not the one {PROVENANCE} describes; run `cargo xtask ebpf`"
        ));
    }
    println!("{OBJECT}: sources and object are the recorded ones");
    if may_rebuild {
        compare_with_rebuilt(root, &recorded, &committed)
    } else {
        Ok(())
    }
}

/// Builds once more and compares bytes, if the recorded tools are here; else says what was not checked.
fn compare_with_rebuilt(root: &Path, recorded: &Provenance, committed: &[u8]) -> Result<()> {
    let present = Toolchain::all_present();
    let Some(toolchain) = present
        .iter()
        .find(|toolchain| recorded.was_built_with(toolchain))
    else {
        let here: Vec<String> = present.iter().map(Toolchain::to_string).collect();
        let here = if here.is_empty() {
            "no such tools".to_owned()
        } else {
            here.join(", or ")
        };
        println!("not rebuilt for comparison: it was built with {recorded}; here: {here}");
        return Ok(());
    };
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let built = build::object(root, toolchain, folder.path())?;
    if built == committed {
        println!("{OBJECT}: rebuilt, the same {} bytes", built.len());
        return Ok(());
    }
    Err(format!(
        "{OBJECT} differs from what its sources give with the recorded tools ({} bytes committed, {} rebuilt); \
         run `cargo xtask ebpf`",
        committed.len(),
        built.len()
    ))
}

fn create_parent(file: &Path) -> Result<()> {
    let folder: PathBuf = file.parent().map(Path::to_path_buf).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}
