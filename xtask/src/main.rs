//! The project's own chores, as `cargo xtask CMD`.
//!
//! Each command is a module: `setup` brings a fresh machine to what the others need, `ebpf` builds the kernel
//! side, `ci` is what continuous integration runs, `fuzz` runs the fuzz targets, `attack` repeats the attacks
//! that must hold, `bench` measures, `vm` runs tests on another kernel, `experiment` repeats published
//! experiments, `demo` shows the product on a real program. Nothing here is part of the product, and nothing
//! of the product depends on it.

mod attack;
mod bench;
mod ci;
mod demo;
mod deny;
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

/// What a chore ends with: an error is one text for the person at the terminal, saying what to do.
type Result<T> = std::result::Result<T, String>;

const USAGE: &str = "\
cargo xtask setup [--yes] [--only build|test|ebpf|demo|bench|vm]
                                                          install what this machine lacks, saying why
cargo xtask ebpf [--check] [--no-rebuild]                 build the BPF object; --check: is the committed one right?
cargo xtask test [--long] [--step NAME...]                everything that continuous integration checks, or these steps of it
cargo xtask release                                       the program as it is given away, its debug information beside it
cargo xtask fuzz [--long] [--keep]                        run the fuzz targets; --keep: add to their corpus
cargo xtask attack [--quick] [--kills N] [--cycles N] [--soak-s N] [--rounds N]
                                                          kills, sessions, a soak, hostile programs: what must hold, repeated
cargo xtask docs                                          write what is made of the sources: docs/rules, schema, tables
cargo xtask experiment NAME|all [--quick] [--out DIR]      the published experiments, with the published figures beside ours
cargo xtask bench NAME|all [--quick] [--out DIR]           measurements of the release build; without a name it lists them
cargo xtask bench actions                                 how long each tuning action takes, beside MATE's times
cargo xtask bench rules                                   what five rules on one function cost the program, beside one
cargo xtask bench engine                                  how many hits a second rules are evaluated on
cargo xtask vm KERNEL.deb [--preempt none|full] [--long]  the tests of sync points on another kernel of Debian's
cargo xtask demo [--yes]                                  watch an unmodified LAMMPS become faster while it runs
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.split_first() {
        Some((&"setup", rest)) => setup::main(rest),
        Some((&"ebpf", rest)) => ebpf::main(rest),
        Some((&"test", rest)) => ci::main(rest),
        Some((&"release", rest)) => release::main(rest),
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

/// The tests that compare these documents with their sources write them where this is asked for.
fn docs(flags: &[&str]) -> Result<()> {
    only_flags("docs", flags, &[])?;
    let tests = [
        "test --quiet --package tuneagent-rules --lib -- page:: file::schema::",
        "test --quiet --package tuneagent-report --lib -- metrics::tests::the_documentation",
    ];
    tests.into_iter().try_for_each(|words| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = std::process::Command::new(cargo);
        command.args(words.split_whitespace()).current_dir(root());
        process::run(command.env("TUNEAGENT_UPDATE", "1"))
    })
}

/// The folder of the checkout, whichever folder the command was given in.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where cargo puts what it builds.
fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Refuses what a command does not know, so that a mistyped flag is never silently ignored.
fn only_flags(command: &str, given: &[&str], known: &[&str]) -> Result<()> {
    match given.iter().find(|flag| !known.contains(flag)) {
        None => Ok(()),
        Some(flag) => Err(format!(
            "cargo xtask {command} does not know {flag}; it knows {}",
            known.join(" ")
        )),
    }
}
