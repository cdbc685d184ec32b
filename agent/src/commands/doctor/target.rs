//! Tests on one program: inspecting it, probing it, and whether writes would be permitted. Writes nothing.

use job::{Discovery, Job, Member};
use plan::ValueType;
use probe::kernel::{CallMoment, Kernel, LinkRequest, LoadOptions, ProbeSite};
use profile::error::ErrorText;
use tuner::journal::StateDir;
use tuner::{LockError, Process, ProcessError, VariableName, WritablePlace, WritablePlaceError, WriterLock};

use super::{
    super::target::{self, of_process},
    Check, CheckResult,
};
use crate::{exit::Failure, rights};

/// A variable that every program with a C library has.
const SOME_VARIABLE: &str = "optopt";

/// The first process of a target, if it runs here.
pub(super) fn pid(target: &str) -> Result<i32, Failure> {
    let pid = target::pid(target)?;
    match Process::open(pid) {
        Err(error @ ProcessError::NotFound { .. }) => Err(target::failure(error.into())),
        Ok(_) | Err(_) => Ok(pid),
    }
}

pub(super) fn checks(pid: i32) -> Vec<Check> {
    let job = match Discovery::default().job_of(pid) {
        Ok(job) => job,
        Err(error) => {
            let needs_rights = matches!(of_process(&error), Some(ProcessError::NotPermitted { .. }));
            let check = Check::failed("target", &error);
            return vec![if needs_rights { check.with_rights() } else { check }];
        }
    };
    let mut checks = vec![looked_into(&job)];
    if let Some(member) = job.members.first() {
        checks.extend([
            owner(member),
            files(member),
            probed(attach(member)),
            written(member),
        ]);
        checks.extend([lock(member), left_behind(&job)]);
    }
    checks
}

fn looked_into(job: &Job) -> Check {
    let sites: usize = job
        .members
        .iter()
        .filter_map(|member| member.mpi.as_ref())
        .map(|mpi| mpi.sites.len())
        .sum();
    let text = format!(
        "{}: {} can be inspected, {} MPI functions",
        job.program(),
        profile::format::plural(job.members.len(), "process"),
        if sites == 0 {
            "no".to_owned()
        } else {
            sites.to_string()
        },
    );
    match job.unreachable.first() {
        None => Check::works("target", text),
        Some((_, why)) => Check::lacks(
            "target",
            format!("{text}; {} cannot: {why}", job.unreachable.len()),
        )
        .with_rights(),
    }
}

fn owner(member: &Member) -> Check {
    let (process, caller) = (&member.process, rights::caller());
    if process.uid == caller {
        return Check::works("its user", process.user());
    }
    let text = format!("{}, not {}", process.user(), tuner::user_name(caller));
    if rights::is_lent() {
        return Check::fails(
            "its user",
            format!("{text}: the file's capabilities are lent for your own programs"),
        )
        .with_rights();
    }
    Check::lacks("its user", text).by(format!("tuneagent attach {} --any-user", process.pid))
}

fn files(member: &Member) -> Check {
    match member.space.unreadable.first() {
        None => Check::works(
            "its files",
            format!("all {} can be read", member.space.modules.len()),
        ),
        Some(error) => Check::lacks(
            "its files",
            format!(
                "{} cannot be read: {}",
                member.space.unreadable.len(),
                ErrorText::of(error)
            ),
        )
        .with_rights(),
    }
}

/// Attaches to the entry of the program in this process only, and detaches.
fn attach(member: &Member) -> CheckResult<()> {
    let module = member.space.executable().ok_or("it has no program")?;
    let functions = module.image.functions(&["main", "_start"])?;
    let first = functions
        .first()
        .ok_or("its program is stripped: no function has a name")?;
    let kernel = Kernel::load(LoadOptions::ONE_PROBE)?;
    let request = LinkRequest::new(
        module.probe_path()?,
        vec![ProbeSite::new(first.offset.0, 0)],
        CallMoment::Entry,
        Some(member.process.pid.number.unsigned_abs()),
    );
    kernel.attach(&request)?;
    Ok(())
}

fn probed(attached: CheckResult<()>) -> Check {
    match attached {
        Ok(()) => Check::works("probing it", "attached to its first function and detached"),
        Err(error) => Check::failed("probing it", &*error).with_rights(),
    }
}

/// Everything before a write, on a variable of the program; nothing is written.
fn written(member: &Member) -> Check {
    let name = "writing into it";
    let Ok(location) = member.space.variable(&VariableName::from(SOME_VARIABLE)) else {
        return Check::lacks(name, format!("not tried: it has no variable {SOME_VARIABLE}"));
    };
    match WritablePlace::validate(&location, Some(ValueType::I32)) {
        Ok(_) => Check::works(name, "is permitted"),
        // No command helps: only the user of the debugger knows when it will detach.
        Err(error @ WritablePlaceError::Traced { .. }) => Check::failed(name, &error),
        Err(error) => Check::failed(name, &error).with_rights(),
    }
}

fn lock(member: &Member) -> Check {
    match WriterLock::acquire(member.process.pid) {
        Ok(_) => Check::works("its writer", "no other session has the right to write now"),
        Err(error @ LockError::Held { pid, .. }) => {
            Check::lacks("its writer", ErrorText::of(&error).to_string())
                .by(format!("tuneagent session stop {pid}"))
        }
        Err(error) => Check::lacks("its writer", ErrorText::of(&error).to_string()),
    }
}

/// Changes of earlier sessions that are still in force.
fn left_behind(job: &Job) -> Check {
    let Ok(state) = StateDir::usual() else {
        return Check::lacks("its changes", "there is no journal");
    };
    let changes = job.members.iter().flat_map(|member| {
        let history = state.history(member.process.pid).unwrap_or_default();
        history.standing()
    });
    match changes.count() {
        0 => Check::works("its changes", "none is in force"),
        number => {
            let pid = job.members.first().map_or(0, |member| member.process.pid.number);
            Check::works(
                "its changes",
                format!(
                    "{}, in force as far as is known; revert: tuneagent undo {pid}",
                    profile::format::plural(number, "change")
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("`bpf_link_create` failed")]
    struct CallFailed(#[source] io::Error);

    #[test]
    fn a_failed_probe_is_shown_with_the_number_of_the_system_error() {
        let failed = CallFailed(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(
            probed(Err(failed.into())).text,
            "`bpf_link_create` failed: Operation not permitted (os error 1)"
        );
    }
}
