//! From what the user typed to a job that may be looked into.

use rustix::process::geteuid;
use tuner::{memory::MemoryError, process::ProcessError, space::SpaceError};

use crate::{
    discover::{DiscoverError, Job, Member, ProcessTable, Scout, resolve},
    exit::Failure,
    rights,
};

/// The process that TARGET means.
pub(super) fn pid(target: &str) -> Result<i32, Failure> {
    resolve(target, &ProcessTable::read()).map_err(Failure::not_there)
}

/// The job of TARGET. Programs of other users need an extra word.
pub(super) fn job(scout: &mut Scout, target: &str, any_user: bool) -> Result<Job, Failure> {
    let job = scout.job_of(pid(target)?).map_err(failure)?;
    if job.members.is_empty() {
        return Err(Failure::not_there(format!(
            "no process of {target} could be looked into"
        )));
    }
    let caller = rights::caller();
    let foreign = job.members.iter().find(|member| member.process.uid != caller);
    let Some(Member { process, .. }) = foreign.filter(|_| !any_user || rights::is_lent()) else {
        return Ok(job);
    };
    let why = if rights::is_lent() {
        format!(
            "the capabilities of tuneagent's file are lent for one's own programs\nas root: {}",
            super::attach::with_sudo_again()
        )
    } else {
        "--any-user says that this is meant".to_owned()
    };
    Err(Failure::not_permitted(format!(
        "{} (process {}) belongs to {}, not to {}: {why}",
        job.program(),
        process.pid,
        process.user(),
        tuner::who::user_name(caller),
    )))
}

fn failure(error: DiscoverError) -> Failure {
    match of_process(&error) {
        Some(ProcessError::NotPermitted { .. }) if !geteuid().is_root() => {
            Failure::not_permitted(format!("{error}\nas root: {}", super::attach::with_sudo_again()))
        }
        Some(ProcessError::NotPermitted { .. } | ProcessError::Privileged { .. }) => {
            Failure::not_permitted(error)
        }
        _ => Failure::not_there(error),
    }
}

pub(in crate::commands) fn of_process(error: &DiscoverError) -> Option<&ProcessError> {
    match error {
        DiscoverError::Process(process)
        | DiscoverError::Space(
            SpaceError::Process(process) | SpaceError::Memory(MemoryError::Process(process)),
        ) => Some(process),
        DiscoverError::Space(_) | DiscoverError::NoRanks { .. } => None,
    }
}
