//! `tuneagent doctor`: tests each step of a session, and prints what works, what does not, and the command
//! that would fix it. Leaves nothing behind. `machine` tests what needs no program, `versions` explains the
//! kernel's version, `target` tests one program.

mod holding;
mod machine;
mod target;
mod versions;

use std::error::Error;

use profile::error::ErrorText;
use serde::Serialize;

use crate::{
    cli::DoctorArgs,
    exit::{Code, CommandResult, Failure},
};

/// Name and version of the format of `--json`.
const SCHEMA: &str = "tuneagent.doctor/1";

/// A step of an attempt. Whatever its error is, it is shown.
type CheckResult<T> = Result<T, Box<dyn Error>>;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Works,
    /// Missing, but sessions work without it.
    Lacks,
    /// Missing, and required by sessions.
    Fails,
}

/// A test, its result, and how to change that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    text: String,
    /// The command that would fix it; `None` if it works, or if no command can.
    command: Option<String>,
    /// The purpose of the command.
    #[serde(skip)]
    label: &'static str,
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    schema: &'static str,
    tuneagent: &'static str,
    checks: &'a [Check],
}

impl Check {
    fn works(name: &'static str, text: impl Into<String>) -> Check {
        Check::new(name, Status::Works, text)
    }

    fn lacks(name: &'static str, text: impl Into<String>) -> Check {
        Check::new(name, Status::Lacks, text)
    }

    fn fails(name: &'static str, text: impl Into<String>) -> Check {
        Check::new(name, Status::Fails, text)
    }

    /// A step that failed with this error. All its causes are shown.
    fn failed(name: &'static str, error: &(dyn Error + 'static)) -> Check {
        Check::fails(name, ErrorText::of(error).to_string())
    }

    fn new(name: &'static str, status: Status, text: impl Into<String>) -> Check {
        Check {
            name,
            status,
            text: text.into(),
            command: None,
            label: "change it",
        }
    }

    /// Adds the command that would fix it.
    fn by(self, command: impl Into<Option<String>>) -> Check {
        Check {
            command: command.into(),
            ..self
        }
    }

    /// Adds the command that runs a session with the missing rights.
    fn with_rights(self) -> Check {
        let is_root = rustix::process::geteuid().is_root();
        Check {
            command: (!is_root).then(|| crate::hint::as_root("attach TARGET")),
            label: "with the rights",
            ..self
        }
    }

    fn lines(&self) -> Vec<String> {
        let mark = match self.status {
            Status::Works => "works",
            Status::Lacks => "lacks",
            Status::Fails => "FAILS",
        };
        let mut texts = self.text.lines();
        let first = texts.next().unwrap_or_default();
        let mut lines = vec![format!("{mark}  {:<17} {first}", self.name)];
        let change = self
            .command
            .iter()
            .map(|command| format!("{}: {command}", self.label));
        let more = texts.map(str::to_owned).chain(change);
        lines.extend(more.map(|line| format!("       {:<17} {line}", "")));
        lines
    }
}

pub(super) fn run(args: &DoctorArgs) -> CommandResult {
    // An unknown target fails before the checks.
    let target = args.target.as_deref().map(target::pid).transpose()?;
    let mut checks = machine::checks();
    checks.extend(target.into_iter().flat_map(target::checks));
    if args.json {
        let report = DoctorReport {
            schema: SCHEMA,
            tuneagent: env!("CARGO_PKG_VERSION"),
            checks: &checks,
        };
        say!(
            "{}",
            serde_json::to_string_pretty(&report).map_err(Failure::failed)?
        );
    } else {
        checks
            .iter()
            .flat_map(Check::lines)
            .for_each(|line| say!("{line}"));
    }
    Ok(if checks.iter().any(|check| check.status == Status::Fails) {
        Code::Failed
    } else {
        Code::Done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_what_happened_and_what_would_change_it() {
        let check = Check::lacks("Yama", "scope 1: only parents\nmay look")
            .by("sudo sysctl kernel.yama.ptrace_scope=0".to_owned());
        insta::assert_snapshot!(check.lines().join("\n"), @r"
        lacks  Yama              scope 1: only parents
                                 may look
                                 change it: sudo sysctl kernel.yama.ptrace_scope=0
        ");
        assert_eq!(Check::works("a", "b").lines(), ["works  a                 b"]);
    }
}
