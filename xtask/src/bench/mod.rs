//! `cargo xtask bench`: measurements, of the release build.

mod aggregate;
mod attach;
mod overhead;
mod sites;

use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::process::run;

pub(crate) fn main(words: &[&str]) -> Result<()> {
    match words {
        ["actions"] => {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            run(cargo
                .args([
                    "bench",
                    "--quiet",
                    "--package",
                    "tuneagent-tuner",
                    "--bench",
                    "actions",
                ])
                .current_dir(crate::root()))
        }
        ["rules"] => {
            release()?;
            let mut measure = crate::ci::whole_programs(&crate::root(), "--release")?;
            run(measure
                .args(["cost::", "--", "--nocapture"])
                .env("TUNEAGENT_LONG", "1"))
        }
        ["overhead", rest @ ..] => overhead::main(rest),
        ["attach", rest @ ..] => attach::main(rest),
        ["aggregate", rest @ ..] => aggregate::main(rest),
        ["sites", rest @ ..] => sites::main(rest),
        _ => Err("cargo xtask bench knows: actions, aggregate, rules, overhead, attach, sites".to_owned()),
    }
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

/// Writes the figures for whoever compares them with those of another day.
fn keep(name: &str, figures: &serde_json::Value) -> Result<PathBuf> {
    let folder = crate::target_folder(&crate::root()).join("bench");
    let file = folder.join(format!("{name}.json"));
    let text = format!("{figures:#}\n");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, text))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}
