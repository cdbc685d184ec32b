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
        _ => Err("cargo xtask bench knows: actions".to_owned()),
    }
}
