//! `tuneagent node`: joining a session of another machine, the service for users without rights, and its policy.

pub(super) mod join;
pub(super) mod machines;
mod policy;

use std::path::Path;

use rules::policy::NodePolicy;

use self::policy::PolicyError;
use crate::{
    cli::{NodeCommand, ServeArgs},
    diagnostics,
    exit::{Code, CommandResult, Failure},
    service::{self, ServiceOptions},
};

pub(super) fn run(command: NodeCommand) -> CommandResult {
    match command {
        NodeCommand::Serve(args) => {
            let ServeArgs {
                socket,
                policy,
                journal,
                syslog,
            } = args;
            let options = ServiceOptions {
                socket,
                policy,
                read_policy,
                journal,
                syslog,
            };
            service::serve(options).map(|()| Code::Done)
        }
        NodeCommand::Join(args) => join::join(&args),
        NodeCommand::Check { file } => check(&file),
        NodeCommand::Schema => {
            say!("{}", rules::policy::schema());
            Ok(Code::Done)
        }
    }
}

fn check(file: &Path) -> CommandResult {
    let policy = read_policy(file)?;
    match file.exists() {
        true => say!("{}:", file.display()),
        false => say!("{} does not exist, so the defaults apply:", file.display()),
    }
    policy.in_words().iter().for_each(|line| say!("{line}"));
    Ok(Code::Done)
}

/// The policy in a file; its mistakes are printed.
fn read_policy(file: &Path) -> Result<NodePolicy, Failure> {
    policy::read(file).map_err(|error| {
        if let PolicyError::Wrong { path, text, wrong } = &error {
            diagnostics::print(&path.display().to_string(), text, wrong);
        }
        Failure::failed(error)
    })
}
