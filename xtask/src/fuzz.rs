//! `cargo xtask fuzz`: builds the fuzz targets of the crates `rules` and `recording` and runs them side by side, each on one
//! CPU, for some seconds or, with `--long`, for five minutes. A crash, or an input that takes more than ten
//! seconds or 256 MiB, is a failure.
//!
//! Stable Rust builds them: libFuzzer needs only LLVM's coverage counters. An address sanitizer would need a
//! nightly compiler and finds nothing in a crate that forbids unsafe code.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{cargo, host, run};
use crate::{Result, target_folder};

const TARGETS: [&str; 4] = ["rule_file", "contract_file", "recording", "message"];
const SMOKE_SECONDS: u32 = 5;
const LONG_SECONDS: u32 = 300;
/// Number of output lines shown of a target that fails.
const LAST_LINES: usize = 40;

/// The flags of cargo-fuzz without a sanitizer. Debug assertions compare values with their static types.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    crate::only_flags("fuzz", flags, &["--long", "--keep"])?;
    let root = crate::root();
    build(&root)?;
    let seconds = if flags.contains(&"--long") {
        LONG_SECONDS
    } else {
        SMOKE_SECONDS
    };
    fuzz_all(&root, seconds)?;
    if flags.contains(&"--keep") {
        TARGETS.iter().try_for_each(|target| keep(&root, target))?;
    }
    Ok(())
}

/// Checks that the targets compile. Tests of the crate `rules` check the same laws on the corpus and its
/// mutations.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut command = cargo(root, "check --quiet --locked");
    command
        .current_dir(root.join("rules/fuzz"))
        .env("CARGO_TARGET_DIR", target_folder(root))
        // A check links nothing, so libFuzzer need not be built.
        .env("CUSTOM_LIBFUZZER_PATH", "/none/libfuzzer.a");
    run(&mut command)
}

/// Each target for five minutes.
pub(crate) fn long(root: &Path) -> Result<()> {
    build(root)?;
    fuzz_all(root, LONG_SECONDS)
}

/// Runs all targets at once. Prints the output of each in one piece and lists all that fail.
fn fuzz_all(root: &Path, seconds: u32) -> Result<()> {
    let outcomes = std::thread::scope(|scope| {
        let running = TARGETS.map(|target| scope.spawn(move || fuzz(root, target, seconds)));
        running.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let mut failures = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(figures) => println!("    {figures}"),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

fn folder(root: &Path) -> PathBuf {
    target_folder(root).join("fuzz")
}

fn build(root: &Path) -> Result<()> {
    let mut command = cargo(root, "build --quiet --release --locked --target");
    command
        // With an explicit target, RUSTFLAGS do not apply to build scripts.
        .arg(host()?)
        .current_dir(root.join("rules/fuzz"))
        .env("CARGO_TARGET_DIR", folder(root))
        .env("RUSTFLAGS", RUSTFLAGS);
    run(&mut command)
}

/// Command, folder of earlier findings, and committed corpus of a target. New inputs go into the first
/// folder.
fn target(root: &Path, name: &str) -> Result<(Command, PathBuf, PathBuf)> {
    let binary = folder(root).join(host()?).join("release").join(name);
    let found = folder(root).join("found").join(name);
    std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    Ok((
        Command::new(binary),
        found,
        root.join("rules/fuzz/corpus").join(name),
    ))
}

/// Runs a target and returns its final statistics.
fn fuzz(root: &Path, name: &str, seconds: u32) -> Result<String> {
    let (mut command, found, corpus) = target(root, name)?;
    command
        .arg(&found)
        .arg(corpus)
        .arg(format!("-max_total_time={seconds}"))
        .args([
            "-rss_limit_mb=256",
            "-timeout=10",
            "-max_len=4096",
            "-print_final_stats=1",
        ])
        .arg(format!("-artifact_prefix={}/{name}-", folder(root).display()));
    let dictionary = root.join("rules/fuzz").join(format!("{name}.dict"));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let output = command
        .output()
        .map_err(|error| format!("{name} cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let figures = said.lines().filter_map(|line| line.strip_prefix("stat::"));
        let figures: Vec<String> = figures
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        return Ok(format!("{name}: {}", figures.join(", ")));
    }
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    Err(format!(
        "{last}\n{name} ended with {}; the input is kept where the lines above say: make it a test, then mend it",
        output.status
    ))
}

/// Adds the smallest set of found inputs with new coverage to the committed corpus, ignoring execution
/// counts.
fn keep(root: &Path, name: &str) -> Result<()> {
    let (mut command, found, corpus) = target(root, name)?;
    run(command
        .args(["-set_cover_merge=1", "-use_counters=0"])
        .arg(corpus)
        .arg(found))
}
