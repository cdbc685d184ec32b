//! The sources and tools of the committed objects, in a small JSON file beside them.
//!
//! Hashes cover contents and relative paths, so they are equal in every checkout. `ebpf::check` compares
//! them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::build::Object;
use super::toolchain::Toolchain;
use crate::Result;

/// Files and folders that the objects depend on, relative to the checkout; they may be absent.
const SOURCES: [&str; 6] = [
    "ebpf/.cargo",
    "ebpf/Cargo.lock",
    "ebpf/Cargo.toml",
    "ebpf/abi/Cargo.toml",
    "ebpf/abi/src",
    "ebpf/src",
];

#[derive(Serialize, Deserialize)]
pub(crate) struct Provenance {
    schema: String,
    pub(crate) sources_sha256: String,
    /// Hash by name of the object.
    pub(crate) objects_sha256: BTreeMap<String, String>,
    rustc: String,
    bpf_linker: String,
}

impl Provenance {
    pub(crate) fn of(root: &Path, objects: &[Object], toolchain: &Toolchain) -> Result<Provenance> {
        Ok(Provenance {
            schema: "tuneagent.provenance/2".to_owned(),
            sources_sha256: hash_of_sources(root)?,
            objects_sha256: objects
                .iter()
                .map(|(name, bytes)| ((*name).to_owned(), hash_of(bytes)))
                .collect(),
            rustc: toolchain.rustc_version.clone(),
            bpf_linker: toolchain.linker_version.clone(),
        })
    }

    pub(crate) fn read(file: &Path) -> Result<Provenance> {
        let say = |problem: String| {
            format!(
                "cannot read {}: {problem}; run `cargo xtask ebpf`",
                file.display()
            )
        };
        let text = fs::read_to_string(file).map_err(|error| say(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| say(error.to_string()))
    }

    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(file, text + "\n").map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    pub(crate) fn was_built_with(&self, toolchain: &Toolchain) -> bool {
        self.rustc == toolchain.rustc_version && self.bpf_linker == toolchain.linker_version
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.rustc, self.bpf_linker)
    }
}

/// One hash of all sources. Each file's path and length are hashed before its bytes, so that moving bytes
/// between files changes the hash.
pub(crate) fn hash_of_sources(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root.join(source), &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        hash.update(format!("{}\0{}\0", name.display(), bytes.len()));
        hash.update(&bytes);
    }
    Ok(hexadecimal(&hash.finalize()))
}

pub(crate) fn hash_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn collect(path: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        let entries =
            fs::read_dir(path).map_err(|error| format!("cannot list {}: {error}", path.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("cannot list {}: {error}", path.display()))?;
            collect(&entry.path(), into)?;
        }
    } else if path.exists() {
        into.push(path.to_path_buf());
    }
    Ok(())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_hash_is_the_same_in_two_folders_and_ignores_what_is_no_source() {
        let one = checkout(&[("ebpf/src/main.rs", "a"), ("ebpf/abi/src/lib.rs", "b")]);
        let two = checkout(&[
            ("ebpf/src/main.rs", "a"),
            ("ebpf/abi/src/lib.rs", "b"),
            ("ebpf/target/x", "c"),
        ]);
        assert_eq!(
            hash_of_sources(one.path()).unwrap(),
            hash_of_sources(two.path()).unwrap()
        );
    }

    #[test]
    fn the_hash_changes_with_contents_names_and_the_boundary_between_files() {
        let base =
            hash_of_sources(checkout(&[("ebpf/src/a.rs", "xy"), ("ebpf/src/b.rs", "z")]).path()).unwrap();
        for other in [
            checkout(&[("ebpf/src/a.rs", "xy"), ("ebpf/src/b.rs", "w")]),
            checkout(&[("ebpf/src/a.rs", "xy"), ("ebpf/src/c.rs", "z")]),
            checkout(&[("ebpf/src/a.rs", "x"), ("ebpf/src/b.rs", "yz")]),
        ] {
            assert_ne!(base, hash_of_sources(other.path()).unwrap());
        }
    }

    #[test]
    fn a_sha256_is_written_in_hexadecimal() {
        assert_eq!(
            hash_of(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
