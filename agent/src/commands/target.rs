//! From what the user typed to a job that may be looked into.

use rustix::process::geteuid;
use tuner::{
    memory::MemoryError,
    process::{Process, ProcessError},
    space::SpaceError,
};

use crate::{
    discover::{DiscoverError, Job, ProcessTable, Scout, resolve},
    exit::Failure,
    rights,
};

/// The process that TARGET means.
pub(super) fn pid(target: &str) -> Result<i32, Failure> {
    resolve(target, &ProcessTable::read()).map_err(Failure::not_there)
}

/// The job of TARGET.
pub(super) fn job(scout: &mut Scout, target: &str, any_user: bool) -> Result<Job, Failure> {
    let job = scout.job_of(pid(target)?).map_err(failure)?;
    let Some(first) = job.members.first() else {
        return Err(Failure::not_there(format!(
            "no process of {target} could be looked into"
        )));
    };
    may_look(&first.process, &job.program(), any_user)?;
    Ok(job)
}

/// Programs of other users need an extra word.
pub(super) fn may_look(process: &Process, program: &str, any_user: bool) -> Result<(), Failure> {
    let caller = rights::caller();
    if process.uid == caller || any_user {
        return Ok(());
    }
    Err(Failure::not_permitted(format!(
        "{program} (process {}) belongs to {}, not to {}: --any-user says that this is meant",
        process.pid,
        process.user(),
        tuner::who::user_name(caller),
    )))
}

pub(super) fn failure(error: DiscoverError) -> Failure {
    if !is_not_permitted(&error) {
        return Failure::not_there(error);
    }
    if geteuid().is_root() {
        return Failure::not_permitted(error);
    }
    Failure::not_permitted(format!("{error}\nas root: {}", super::attach::with_sudo_again()))
}

fn is_not_permitted(error: &DiscoverError) -> bool {
    let process = match error {
        DiscoverError::Process(process)
        | DiscoverError::Space(
            SpaceError::Process(process) | SpaceError::Memory(MemoryError::Process(process)),
        ) => process,
        DiscoverError::Space(_) | DiscoverError::NoRanks { .. } => return false,
    };
    matches!(process, ProcessError::NotPermitted { .. })
}
