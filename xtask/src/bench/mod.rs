//! `cargo xtask bench`: measurements, of the release build. `all` is all of them that say how we do beside others; with `--quick` it takes
//! minutes, and fails only where a figure is far off its target (`verdict`).

mod attach;
mod events;
mod hits;
mod idle;
mod instrument;
mod options;
mod overhead;
mod scale;
mod sites;
mod stops;
mod summary;
mod tools;
mod verdict;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use self::idle::Windows;
use self::options::Options;
use self::verdict::{Verdict, judge};
use crate::Result;
use crate::process::run;

/// What a benchmark has measured: figures to be kept, and what they are held against. It has shown its tables itself.
struct Measured {
    figures: Value,
    verdicts: Vec<Verdict>,
}

impl Measured {
    fn of(figures: Vec<Value>) -> Measured {
        Measured {
            figures: Value::Array(figures),
            verdicts: Vec::new(),
        }
    }
}

/// A benchmark: its name, the options that it takes besides `--quick`, and how it is done.
type Bench = (
    &'static str,
    &'static [&'static str],
    fn(&Options) -> Result<Measured>,
);

const BENCHES: [Bench; 7] = [
    ("hits", &[], hits::run),
    ("sites", &[], sites::run),
    ("events", &events::OPTIONS, events::run),
    ("idle", &Windows::OPTIONS, idle::run),
    ("attach", &[], attach::run),
    ("scale", &Windows::OPTIONS, scale::run),
    ("overhead", &overhead::OPTIONS, overhead::run),
];

pub(crate) fn main(words: &[&str]) -> Result<()> {
    match words {
        ["actions"] => of_crate("tuneagent-tuner", "actions"),
        ["engine"] => of_crate("tuneagent-rules", "throughput"),
        ["rules"] => {
            release()?;
            let mut measure = crate::ci::whole_programs(&crate::root(), "--release", &[])?;
            run(measure
                .args(["cost::", "--", "--nocapture"])
                .env("TUNEAGENT_LONG", "1"))
        }
        [name @ ("actions" | "engine" | "rules"), flag, ..] => {
            Err(format!("cargo xtask bench {name} takes nothing, and was given {flag}"))
        }
        ["all", rest @ ..] => all(rest),
        ["table", rest @ ..] => summary::main(rest),
        [name, rest @ ..] if let Some(bench) = BENCHES.iter().find(|(known, ..)| known == name) => {
            measure(bench, rest)
        }
        _ => Err(
            "cargo xtask bench knows: actions, engine, rules, overhead, attach, sites, hits, events, idle, scale, all, table"
                .to_owned(),
        ),
    }
}

/// A benchmark that is a crate's own.
fn of_crate(package: &str, name: &str) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["bench", "--quiet", "--package", package, "--bench", name]);
    run(cargo.current_dir(crate::root()))
}

/// One of them: measured, kept, and held against its targets.
fn measure((name, known, bench): &Bench, words: &[&str]) -> Result<()> {
    let options = Options::parse(name, words, known)?;
    if !rustix::process::geteuid().is_root() {
        return Err(format!(
            "bench {name} attaches probes and so needs root: sudo -E cargo xtask bench ..."
        ));
    }
    release()?;
    let measured = bench(&options)?;
    println!("all figures: {}\n", keep(name, &measured.figures)?.display());
    judge(&measured.verdicts)
}

/// One after the other. Which are far off is shown at the end, so that one does not hide the others.
fn all(flags: &[&str]) -> Result<()> {
    crate::only_flags("bench all", flags, &["--quick"])?;
    let mut failed = Vec::new();
    for bench in &BENCHES {
        println!("\n## {}\n", bench.0);
        if let Err(error) = measure(bench, flags) {
            println!("{}: {error}", bench.0);
            failed.push(format!("{}: {error}", bench.0));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

/// A program of `agent/benches`, which measures what takes the agent's own library: built as the agent that is measured. Where another one
/// is given (TUNEAGENT_BIN) it is built without optimisation, which is quicker; what it measures happens in the kernel and in other programs.
fn instrument(name: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["bench", "--quiet", "--package", "tuneagent"]);
    if std::env::var_os("TUNEAGENT_BIN").is_some() {
        cargo.args(["--profile", "dev"]);
    }
    cargo.args(["--bench", name, "--"]).current_dir(crate::root());
    cargo
}

/// Builds the program as it is shipped, and has the harness use it; with TUNEAGENT_BIN another one is measured.
fn release() -> Result<()> {
    crate::experiment::build_agent(&crate::root())
}

/// Where figures are kept.
fn folder() -> PathBuf {
    crate::target_folder(&crate::root()).join("bench")
}

/// Writes the figures for whoever compares them with those of another day.
fn keep(name: &str, figures: &Value) -> Result<PathBuf> {
    let folder = folder();
    let file = folder.join(format!("{name}.json"));
    let text = format!("{figures:#}\n");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, text))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}
