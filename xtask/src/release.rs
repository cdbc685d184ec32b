//! `cargo xtask release`: builds the program for distribution, with its debug information in a separate file.
//!
//! `cargo build --release` strips the program. Here it is linked with debug information, and `objcopy` moves
//! this to a file beside it. The program names that file, which gdb, perf and Rust's backtraces look for in
//! the program's folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::run;
use crate::{Result, process, target_folder};

/// Maximum size in bytes; it has 18.1 MB. The aim is 15 MB, and the code alone has 15.
const PROGRAM_MAX: u64 = 18_300_000;

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    crate::only_flags("release", flags, &[])?;
    build(&crate::root())
}

/// Builds the release. Fails if the program is larger than `PROGRAM_MAX`.
pub(crate) fn build(root: &Path) -> Result<()> {
    let words = "rustc --quiet --release --package tuneagent --bin tuneagent -- -C strip=none";
    run(&mut process::cargo(root, words))?;
    let built = target_folder(root).join("release/tuneagent");
    let folder = target_folder(root).join("dist");
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

fn size(file: &Path) -> Result<u64> {
    let facts = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(facts.len())
}
