//! Checks licences, sources, duplicate versions and known vulnerabilities of the dependencies with `cargo
//! deny`. The rules are in `deny.toml`; `setup` installs the program.

use std::path::Path;
use std::process::Command;

use crate::process::{capture, run};
use crate::{Result, wheels};

/// Seconds for the download of the vulnerability database. Without a connection git would wait for minutes.
const FETCH_S: &str = "60";

pub(crate) fn check(root: &Path) -> Result<()> {
    let program = wheels::deny().ok_or("cargo deny is not here: cargo xtask setup --only test")?;
    let check = |words: &str| {
        // The kernel side has a workspace of its own, but is part of the program.
        ["Cargo.toml", "ebpf/Cargo.toml"]
            .into_iter()
            .try_for_each(|manifest| {
                let mut command = Command::new(&program);
                command
                    .args(["--log-level", "error", "--locked", "--config", "deny.toml"])
                    .args(["--manifest-path", manifest, "check"])
                    .args(words.split_whitespace());
                run(command.current_dir(root))
            })
    };
    check("licenses bans sources")?;
    let mut fetch = Command::new("timeout");
    fetch.arg(FETCH_S).arg(&program).args(["fetch", "db"]);
    match capture(fetch.current_dir(root)) {
        Ok(_) => check("--disable-fetch advisories"),
        Err(_) => {
            println!("advisories were not checked: the RustSec database cannot be reached from here");
            Ok(())
        }
    }
}
