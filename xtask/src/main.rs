//! Development tasks of the project, as `cargo xtask CMD`.
//!
//! Each command is a module: `setup` installs what the others need, `ebpf` builds the kernel side, `ci` has
//! the steps of continuous integration, `dist` makes what is distributed, `fuzz` runs the fuzz targets, `attack` repeats stress tests, `bench`
//! measures, `vm` runs tests on another kernel, `experiment` repeats published experiments, `demo` shows the
//! product on a real program. The product does not depend on this crate.

mod attack;
mod bench;
mod ci;
mod demo;
mod deny;
mod dist;
mod ebpf;
mod experiment;
mod fuzz;
mod measure;
mod minimum;
mod process;
mod release;
mod setup;
mod slowest;
mod twice;
mod vm;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Result of a task. The error is a text for the terminal with the remedy.
type Result<T> = std::result::Result<T, String>;

const USAGE: &str = "\
cargo xtask setup [--yes] [--only build|test|ebpf|demo|bench|vm|dist]
                                                          install what this machine lacks; lists it with reasons first
cargo xtask ebpf [--check] [--no-rebuild]                 build the BPF objects; --check: compare the committed ones with their sources
cargo xtask test [--long|--dist] [--step NAME...]         all steps of continuous integration, or these steps; --dist: tests of what is distributed
cargo xtask release                                       build the static program for distribution, with its debug information in a separate file
cargo xtask dist                                          everything that is distributed, in target/dist: this, manual pages, completions, rules, a Debian package
cargo xtask fuzz [--long] [--keep]                        run the fuzz targets; --keep: add new inputs to the committed corpus
cargo xtask attack [--quick] [--kills N] [--cycles N] [--soak-s N] [--rounds N]
                                                          repeat the stress tests: kills, sessions, a soak, hostile programs
cargo xtask docs                                          rewrite the generated documents: docs/rules, schemas, tables
cargo xtask experiment NAME|all [--quick] [--out DIR]     repeat published experiments and compare the figures
cargo xtask bench NAME|all [--quick] [--out DIR]          measure the release build; without a name: list the benchmarks
cargo xtask bench actions                                 duration of each tuning action, compared with MATE's times
cargo xtask bench rules                                   cost for the program of five rules on one function, compared with one rule
cargo xtask bench engine                                  hits per second through the rule engine
cargo xtask vm KERNEL.deb [--preempt none|full] [--long]  run the tests that depend on the kernel on another Debian kernel
cargo xtask demo [--yes]                                  make an unmodified LAMMPS faster while it runs
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.split_first() {
        Some((&"setup", rest)) => setup::main(rest),
        Some((&"ebpf", rest)) => ebpf::main(rest),
        Some((&"test", rest)) => ci::main(rest),
        Some((&"release", rest)) => release::main(rest),
        Some((&"dist", rest)) => dist::main(rest),
        Some((&"fuzz", rest)) => fuzz::main(rest),
        Some((&"docs", rest)) => docs(rest),
        Some((&"attack", rest)) => attack::main(rest),
        Some((&"bench", rest)) => bench::main(rest),
        Some((&"experiment", rest)) => experiment::main(rest),
        Some((&"vm", rest)) => vm::main(rest),
        Some((&"vm-runner", rest)) => vm::runner(rest),
        Some((&"demo", rest)) => demo::main(rest),
        Some((&("help" | "--help" | "-h"), _)) => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(format!(
            "not understood: cargo xtask {}\n\n{USAGE}",
            words.join(" ")
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Rewrites the generated documents: the tests that compare them write instead of compare.
fn docs(flags: &[&str]) -> Result<()> {
    only_flags("docs", flags, &[])?;
    let tests = [
        "test --quiet --package tuneagent-rules --lib -- page:: file::schema::",
        "test --quiet --package tuneagent-contract --lib -- schema::",
        "test --quiet --package tuneagent-report --lib -- metrics::tests::the_documentation",
        "test --quiet --package tuneagent-page --lib -- schema::",
    ];
    tests.into_iter().try_for_each(|words| {
        let mut command = process::cargo(&root(), words);
        process::run(command.env("TUNEAGENT_UPDATE", "1"))
    })
}

/// The folder of the checkout, independent of the current directory.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Cargo's target folder; CARGO_TARGET_DIR overrides the default.
fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Rejects unknown flags, so that a mistyped flag is not ignored.
fn only_flags(command: &str, given: &[&str], known: &[&str]) -> Result<()> {
    match given.iter().find(|flag| !known.contains(flag)) {
        None => Ok(()),
        Some(flag) => Err(format!(
            "cargo xtask {command} does not know {flag}; it knows {}",
            known.join(" ")
        )),
    }
}
