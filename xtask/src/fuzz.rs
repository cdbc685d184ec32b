//! `cargo xtask fuzz`: builds the fuzz targets of the crates `rules` and `recording` and runs them for some seconds, with
//! `--long` for five minutes, side by side: each keeps one CPU busy. A crash, an input that takes ten seconds
//! or more than 256 MiB is a failure.
//!
//! Built by the compiler that builds everything else: libFuzzer only needs the coverage counters that LLVM
//! puts in. An address sanitizer, for which a nightly compiler would be needed, has nothing to find in a
//! crate that forbids unsafe code.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{cargo, host, run};
use crate::{Result, target_folder};

const TARGETS: [&str; 2] = ["rule_file", "recording"];
const SMOKE_SECONDS: u32 = 5;
const LONG_SECONDS: u32 = 300;
/// Of what a target says that fails.
const LAST_LINES: usize = 40;

/// What cargo-fuzz gives to the compiler, without a sanitizer. Debug assertions compare values with their
/// types.
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

/// Whether the targets still compile. Their laws are held by tests of the crate `rules`, on the corpus and on
/// mutations of it.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut command = cargo(root, "check --quiet --locked");
    command
        .current_dir(root.join("rules/fuzz"))
        .env("CARGO_TARGET_DIR", target_folder(root))
        // Nothing is linked: libFuzzer need not be built.
        .env("CUSTOM_LIBFUZZER_PATH", "/none/libfuzzer.a");
    run(&mut command)
}

/// Each target for five minutes.
pub(crate) fn long(root: &Path) -> Result<()> {
    build(root)?;
    fuzz_all(root, LONG_SECONDS)
}

/// All targets at once. What one says is told as a whole, and all that fail are.
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
        // Named, so that build scripts are built without the counters.
        .arg(host()?)
        .current_dir(root.join("rules/fuzz"))
        .env("CARGO_TARGET_DIR", folder(root))
        .env("RUSTFLAGS", RUSTFLAGS);
    run(&mut command)
}

/// The target, what it has found before, and the committed corpus. New inputs go into the first folder.
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

/// The target's figures when it was done.
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

/// Adds to the committed corpus the fewest inputs that reach what it does not reach yet; how often does not
/// count.
fn keep(root: &Path, name: &str) -> Result<()> {
    let (mut command, found, corpus) = target(root, name)?;
    run(command
        .args(["-set_cover_merge=1", "-use_counters=0"])
        .arg(corpus)
        .arg(found))
}
