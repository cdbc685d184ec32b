//! `cargo xtask ebpf`: builds the kernel side and checks the committed objects.
//!
//! The objects are committed so that building the project needs only stable Rust. `provenance` records the
//! sources and tools they were built from, `toolchain` finds compilers that can build them, `build` builds
//! them reproducibly.

mod build;
mod provenance;
pub(crate) mod toolchain;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Result;
use provenance::Provenance;
use toolchain::Toolchain;

/// Paths relative to the checkout.
const FOLDER: &str = "ebpf";
const PREBUILT: &str = "agent/probe/prebuilt";
const PROVENANCE: &str = "agent/probe/prebuilt/PROVENANCE.json";

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

/// Builds the objects and records their sources and tools.
fn rebuild(root: &Path) -> Result<()> {
    let toolchain = Toolchain::find()?;
    println!("building {FOLDER}/ with {toolchain}");
    let built = build::objects(root, &toolchain, &root.join(FOLDER).join("target"))?;
    // After the build, which may have written Cargo.lock, one of the sources.
    let provenance = Provenance::of(root, &built, &toolchain)?;
    let folder = root.join(PREBUILT);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for (name, bytes) in &built {
        let file = folder.join(name);
        fs::write(&file, bytes).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!(
            "{PREBUILT}/{name}: {} bytes, sha256 {}",
            bytes.len(),
            provenance::hash_of(bytes)
        );
    }
    provenance.write(&root.join(PROVENANCE))
}

/// Fails if a committed object does not match its sources.
pub(crate) fn check(root: &Path, may_rebuild: bool) -> Result<()> {
    let recorded = Provenance::read(&root.join(PROVENANCE))?;
    if recorded.sources_sha256 != provenance::hash_of_sources(root)? {
        return Err(format!(
            "the sources under {FOLDER}/ changed since {PREBUILT} was built; run `cargo xtask ebpf`"
        ));
    }
    let mut committed = BTreeMap::new();
    for (name, sum) in &recorded.objects_sha256 {
        let file = root.join(PREBUILT).join(name);
        let bytes = fs::read(&file)
            .map_err(|error| format!("cannot read {}: {error}; run `cargo xtask ebpf`", file.display()))?;
        if *sum != provenance::hash_of(&bytes) {
            return Err(format!(
                "{PREBUILT}/{name} is not the one {PROVENANCE} describes; run `cargo xtask ebpf`"
            ));
        }
        println!("{PREBUILT}/{name}: sources and object are the recorded ones");
        committed.insert(name.as_str(), bytes);
    }
    if may_rebuild {
        compare_with_rebuilt(root, &recorded, &committed)
    } else {
        Ok(())
    }
}

/// Rebuilds and compares bytes if the recorded tools are installed; otherwise prints what was not checked.
fn compare_with_rebuilt(
    root: &Path,
    recorded: &Provenance,
    committed: &BTreeMap<&str, Vec<u8>>,
) -> Result<()> {
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
    // Cargo keeps what has not changed. In a fresh checkout it builds all of it.
    let folder = crate::target_folder(root).join("ebpf");
    for (name, built) in build::objects(root, toolchain, &folder)? {
        let known = committed.get(name).map(Vec::as_slice).unwrap_or_default();
        if built != known {
            return Err(format!(
                "{PREBUILT}/{name} differs from what its sources give with the recorded tools ({} bytes committed, {} \
                 rebuilt); run `cargo xtask ebpf`",
                known.len(),
                built.len()
            ));
        }
        println!("{PREBUILT}/{name}: rebuilt, the same {} bytes", built.len());
    }
    Ok(())
}
