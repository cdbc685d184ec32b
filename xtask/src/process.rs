//! Runs other programs to their end, with error texts that name the command.
//!
//! Programs that outlive one call (the demo's job) are not here; they need a process group and a guard.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// A cargo command for the tests, with the variable that makes missing requirements an error.
pub(crate) fn cargo(root: &Path, words: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(words.split_whitespace())
        .current_dir(root)
        .env("TUNEAGENT_REQUIRE_ALL", "1");
    command
}

/// This machine's target triple.
pub(crate) fn host() -> Result<String> {
    let facts = capture(Command::new("rustc").arg("-vV"))?;
    let host = facts.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not print its host")?.to_owned())
}

/// The target triple in the spelling of cargo's environment variables.
pub(crate) fn host_in_variables() -> Result<String> {
    Ok(host()?.to_uppercase().replace(['-', '.'], "_"))
}

/// Runs a command with its output on the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", shown(command)))
    }
}

/// Runs a command and returns its output. Its error output is shown only if it fails.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} ended with {}\n{}",
        shown(command),
        output.status,
        said.trim_end()
    ))
}

/// The command line as text.
pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let mut words = vec![program.into_owned()];
    words.extend(
        command
            .get_args()
            .map(|argument| quoted(&argument.to_string_lossy())),
    );
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Searches PATH as the shell does.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// Folder into which `cargo install` puts programs, which may not be on the PATH.
pub(crate) fn cargo_home() -> PathBuf {
    let home = || {
        std::env::var_os("HOME")
            .map(PathBuf::from)
            .unwrap_or_default()
            .join(".cargo")
    };
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// Searches PATH, and where `cargo install` puts programs.
pub(crate) fn find_installed(name: &str) -> Option<PathBuf> {
    let installed = cargo_home().join("bin").join(name);
    find_program(name).or_else(|| is_executable(&installed).then_some(installed))
}

pub(crate) fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Error text for a command that is missing or not executable.
pub(crate) fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", shown(command))
}
