//! `cargo xtask bench`: measurements, of the release build. `all` is all of them that say how we do beside others; with `--quick` it takes
//! minutes, and fails only where a figure is far off its target (`verdict`).

mod aggregate;
mod attach;
mod events;
mod hits;
mod idle;
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

use crate::Result;
use crate::process::run;

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
        ["overhead", rest @ ..] => overhead::main(rest),
        ["attach", rest @ ..] => attach::main(rest),
        ["aggregate", rest @ ..] => aggregate::main(rest),
        ["sites", rest @ ..] => sites::main(rest),
        ["hits", rest @ ..] => hits::main(rest),
        ["events", rest @ ..] => events::main(rest),
        ["idle", rest @ ..] => idle::main(rest),
        ["scale", rest @ ..] => scale::main(rest),
        ["all", rest @ ..] => all(rest),
        ["table", rest @ ..] => summary::main(rest),
        _ => Err(
            "cargo xtask bench knows: actions, aggregate, engine, rules, overhead, attach, sites, hits, events, idle, scale, all, table"
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

/// One after the other. Which are far off is told at the end, so that one does not hide the others.
fn all(flags: &[&str]) -> Result<()> {
    crate::only_flags("bench all", flags, &["--quick"])?;
    type Bench = fn(&[&str]) -> Result<()>;
    let benches: [(&str, Bench); 8] = [
        ("hits", hits::main),
        ("sites", sites::main),
        ("aggregate", aggregate::main),
        ("events", events::main),
        ("idle", idle::main),
        ("attach", attach::main),
        ("scale", scale::main),
        ("overhead", overhead::main),
    ];
    let mut failed = Vec::new();
    for (name, bench) in benches {
        println!("\n## {name}\n");
        if let Err(error) = bench(flags) {
            println!("{name}: {error}");
            failed.push(format!("{name}: {error}"));
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
    if std::env::var_os("TUNEAGENT_BIN").is_some() {
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "--release", "--package", "tuneagent"];
    run(Command::new(&cargo).args(build).current_dir(crate::root()))?;
    tuneagent_e2e::agent::take(crate::target_folder(&crate::root()).join("release/tuneagent"));
    Ok(())
}

/// Probes need root, which a measurement had better say before it begins.
fn as_root(what: &str) -> Result<()> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(format!(
            "{what} attaches probes and so needs root: sudo -E cargo xtask bench ..."
        )),
    }
}

/// Where figures are kept.
fn folder() -> PathBuf {
    crate::target_folder(&crate::root()).join("bench")
}

/// Writes the figures for whoever compares them with those of another day.
fn keep(name: &str, figures: &serde_json::Value) -> Result<PathBuf> {
    let folder = folder();
    let file = folder.join(format!("{name}.json"));
    let text = format!("{figures:#}\n");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, text))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}
