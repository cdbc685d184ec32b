//! What comes with the dependencies: licences, sources, second versions, known vulnerabilities. `deny.toml`
//! says what is allowed, `cargo deny` checks it, and `setup` brings that program.

use std::path::Path;
use std::process::Command;

use crate::process::{capture, run};
use crate::{Result, wheels};

/// Seconds for the database of vulnerabilities to arrive: where nothing answers, git waits for minutes.
const FETCH_S: &str = "60";

pub(crate) fn check(root: &Path) -> Result<()> {
    let program = wheels::deny().ok_or("cargo deny is not here: cargo xtask setup --only test")?;
    let check = |words: &str| {
        // The kernel side is a workspace of its own, and part of the program all the same.
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
