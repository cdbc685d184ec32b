//! `cargo xtask bench`: measurements, of the release build.

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
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let build = ["build", "--quiet", "--release", "--package", "tuneagent"];
            run(Command::new(&cargo).args(build).current_dir(crate::root()))?;
            let mut measure = crate::ci::whole_programs(&crate::root(), "--release")?;
            run(measure
                .args(["cost::", "--", "--nocapture"])
                .env("TUNEAGENT_LONG", "1"))
        }
        _ => Err("cargo xtask bench knows: actions, rules".to_owned()),
    }
}
