//! `cargo xtask bench`: measurements of the release build. `all` runs those that compare us with other tools.
//! With `--quick` they take minutes and fail only if a figure is far off its target.

mod added;
mod attach;
mod events;
mod hits;
mod idle;
mod instrument;
mod overhead;
mod scale;
mod sites;
mod stops;
mod tools;

use std::process::Command;

use crate::Result;
use crate::measure::{self, Measurement, Suite};
use crate::process::{cargo, run};

#[rustfmt::skip]
const BENCHES: Suite = Suite {
    command: "bench",
    folder: "bench",
    all: &[
        Measurement::new("hits", "what a probe adds to a call, by what is done there", &[], hits::run),
        Measurement::new("sites", "what a probe adds to a call, by what the kernel does with the probed instruction", &[], sites::run),
        Measurement::new("events", "how many hits a second the agent reads, and that each is read or counted", &["--seconds", "--producers"], events::run),
        Measurement::new("idle", "what the agent takes while nothing happens, over ranks and probes", &["--windows", "--seconds"], idle::run),
        Measurement::new("attach", "how long attaching and leaving take, and until there are first numbers", &["--windows", "--seconds"], attach::run),
        Measurement::new("scale", "what the agent takes over hits a second", &["--windows", "--seconds"], scale::run),
        Measurement::new("overhead", "what being watched costs programs, beside a preloaded profiler", &["--pairs", "--seconds", "--ranks"], overhead::run),
    ],
};

pub(crate) fn main(words: &[&str]) -> Result<()> {
    match words {
        ["actions"] => of_crate("tuneagent-tuner", "actions"),
        ["engine"] => of_crate("tuneagent-rules", "throughput"),
        ["rules"] => {
            measure::build_agent(&crate::root())?;
            let mut tests = crate::ci::program_tests(&crate::root(), "--release", &[])?;
            run(tests
                .args(["cost::", "--", "--nocapture"])
                .env("TUNEAGENT_LONG", "1"))
        }
        [name @ ("actions" | "engine" | "rules"), flag, ..] => Err(format!(
            "cargo xtask bench {name} takes nothing, and was given {flag}"
        )),
        _ => measure::run(&BENCHES, words),
    }
}

/// Runs a benchmark of another crate.
fn of_crate(package: &str, name: &str) -> Result<()> {
    let words = format!("bench --quiet --package {package} --bench {name}");
    run(&mut cargo(&crate::root(), &words))
}

/// A program of `agent/benches`, which uses the agent's own library and is built like the measured agent. If
/// TUNEAGENT_BIN names another agent it is built without optimisation, which is quicker. The measured code
/// runs in the kernel and in other programs, so this does not change the results.
fn instrument(name: &str) -> Command {
    let mut command = cargo(&crate::root(), "bench --quiet --package tuneagent");
    if std::env::var_os("TUNEAGENT_BIN").is_some() {
        command.args(["--profile", "dev"]);
    }
    command.args(["--bench", name, "--"]);
    command
}
