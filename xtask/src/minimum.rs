//! Checks `rust-version` in Cargo.toml, the oldest Rust that builds this project. If rustup has that
//! toolchain, it checks the workspace. Otherwise three facts replace this: this toolchain is not older, no
//! dependency declares a newer version, and clippy's `incompatible_msrv` (a separate step) rejects newer
//! functions of the standard library.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{capture, find_program, run};
use crate::{Result, process, target_folder};
use tuneagent_e2e::each;

/// Major and minor version number.
type Version = (u32, u32);

pub(crate) fn check(root: &Path) -> Result<()> {
    let metadata = capture(&mut process::cargo(root, "metadata --locked --format-version 1"))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let declared = declared(&metadata).ok_or("Cargo.toml declares no rust-version")?;
    let newer = newer_than(&metadata, declared);
    let (major, minor) = declared;
    if !newer.is_empty() {
        let newer = newer.join(", ");
        return Err(format!(
            "the project declares Rust {major}.{minor}; these dependencies need a newer one: {newer}"
        ));
    }
    let rustc = capture(Command::new("rustc").arg("--version"))?;
    let here = rustc.split(' ').nth(1).and_then(version);
    if here.is_none_or(|here| here < declared) {
        return Err(format!("older than Rust {major}.{minor}: {}", rustc.trim()));
    }
    match toolchain(declared) {
        Some(toolchain) => build(root, &toolchain),
        None => {
            println!(
                "not built with Rust {major}.{minor}, which rustup does not have here, but with {}; no dependency needs a newer one",
                rustc.trim()
            );
            Ok(())
        }
    }
}

fn build(root: &Path, toolchain: &str) -> Result<()> {
    let mut command = Command::new("rustup");
    command.args(format!("run {toolchain} cargo check --quiet --locked --workspace").split(' '));
    command
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target_folder(root).join("minimum"));
    run(&mut command)?;
    println!("checked with {toolchain}, the declared minimum");
    Ok(())
}

/// Name of rustup's toolchain of this version.
fn toolchain((major, minor): Version) -> Option<String> {
    let list = capture(Command::new(find_program("rustup")?).args(["toolchain", "list"])).ok()?;
    let mut names = list.lines().filter_map(|line| line.split(' ').next());
    names
        .find(|name| version(name) == Some((major, minor)))
        .map(str::to_owned)
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    each(&metadata["packages"])
}

/// The newest version that a package of the workspace declares.
fn declared(metadata: &Value) -> Option<Version> {
    let own = packages(metadata).filter(|package| package["source"].is_null());
    own.filter_map(|package| version(package["rust_version"].as_str()?))
        .max()
}

fn newer_than(metadata: &Value, declared: Version) -> Vec<String> {
    let is_newer = |package: &&Value| {
        let needed = package["rust_version"].as_str().and_then(version);
        needed.is_some_and(|needed| needed > declared)
    };
    let shown = |package: &Value| {
        let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
        format!(
            "{} {} ({})",
            field("name"),
            field("version"),
            field("rust_version")
        )
    };
    packages(metadata).filter(is_newer).map(shown).collect()
}

/// Parses `1.88`, `1.88.0`, `1.88.0-nightly`, `1.88-x86_64-unknown-linux-gnu`.
fn version(text: &str) -> Option<Version> {
    let numbers = text.split('-').next()?;
    let mut numbers = numbers.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_all_that_name_them() {
        for text in [
            "1.88",
            "1.88.0",
            "1.88.0-nightly",
            "1.88-x86_64-unknown-linux-gnu",
        ] {
            assert_eq!(version(text), Some((1, 88)), "{text}");
        }
        assert_eq!(version("stable-x86_64-unknown-linux-gnu"), None);
    }

    #[test]
    fn a_dependency_that_needs_a_newer_rust_is_named() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "own", "version": "0.1.0", "rust_version": "1.88", "source": null },
            { "name": "old", "version": "2.0.0", "rust_version": "1.9.0", "source": "registry" },
            { "name": "none", "version": "2.0.0", "rust_version": null, "source": "registry" },
            { "name": "new", "version": "3.0.0", "rust_version": "1.90", "source": "registry" },
        ]});
        let declared = declared(&metadata).unwrap();
        assert_eq!(declared, (1, 88));
        assert_eq!(newer_than(&metadata, declared), ["new 3.0.0 (1.90)"]);
    }
}
