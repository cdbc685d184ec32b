//! `completions`: prints a script by which a shell completes our commands and flags.

use clap_complete::Shell;

use crate::{
    cli::Cli,
    exit::{Code, CommandResult, Failure},
};

pub(super) fn run(shell: Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::for_users(), "tuneagent", &mut script);
    let script = String::from_utf8(script).map_err(Failure::failed)?;
    report::console::complete(&script).map_err(Failure::failed)?;
    Ok(Code::Done)
}
