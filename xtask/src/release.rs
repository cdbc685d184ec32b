//! `cargo xtask release`: builds the program for distribution, with its debug information in a separate file.
//!
//! It is linked statically with musl, so that it runs beside any C library and without one.
//! `cargo build --release` strips the program. Here it is linked with debug information, and `objcopy` moves
//! this to a file beside it. The program names that file, which gdb, perf and Rust's backtraces look for in
//! the program's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::run;
use crate::{Result, process, target_folder};

/// Maximum size in bytes. It has 22.4 MB; it had 18.9 before messages between machines (NATS with TLS) and the service of
/// a node.
const PROGRAM_MAX: u64 = 22_700_000;

/// The target of programs that are distributed.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    crate::only_flags("release", flags, &[])?;
    build(&crate::root())
}

/// Builds the release. Fails if the program is larger than `PROGRAM_MAX`.
pub(crate) fn build(root: &Path) -> Result<()> {
    let words = format!(
        "rustc --quiet --release --target {TARGET} --package tuneagent --bin tuneagent -- -C strip=none"
    );
    let mut describe = Command::new("git");
    describe.args(["describe", "--always", "--dirty", "--exclude=*"]);
    // A source archive has no commit.
    let commit = process::capture(describe.current_dir(root)).unwrap_or_else(|_| "unknown".to_owned());
    let version = format!(
        "{} (commit {}, {TARGET})",
        env!("CARGO_PKG_VERSION"),
        commit.trim()
    );
    run(process::cargo(root, &words).env("TUNEAGENT_BUILD", version))?;
    let built = target_folder(root).join(TARGET).join("release/tuneagent");
    let folder = folder(root);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (program, debug) = (folder.join("tuneagent"), folder.join("tuneagent.debug"));
    let objcopy = |words: &[&str], from: &Path, to: &Path| {
        let mut command = Command::new("objcopy");
        run(command.args(words).args([from, to]).current_dir(&folder))
    };
    objcopy(
        &["--only-keep-debug", "--compress-debug-sections=zlib"],
        &built,
        &debug,
    )?;
    objcopy(
        &["--strip-all", "--add-gnu-debuglink=tuneagent.debug"],
        &built,
        &program,
    )?;
    let (size, beside) = (size(&program)?, size(&debug)?);
    println!(
        "{}: {size} bytes; {}: {beside} bytes",
        program.display(),
        debug.display()
    );
    match size <= PROGRAM_MAX {
        true => Ok(()),
        false => Err(format!(
            "the program may have {PROGRAM_MAX} bytes, and has {size}"
        )),
    }
}

/// The folder of what is distributed.
pub(crate) fn folder(root: &Path) -> PathBuf {
    target_folder(root).join("dist")
}

fn size(file: &Path) -> Result<u64> {
    let facts = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(facts.len())
}
