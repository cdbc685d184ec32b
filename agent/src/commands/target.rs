//! Resolves the TARGET of a command to a job that the user may inspect.

use std::time::{Duration, Instant};

use job::{DiscoverError, Discovery, Job, ProcessTable, TargetError};
use profile::format::suggestion;
use report::console;
use rustix::process::geteuid;
use tuner::{MemoryError, Process, ProcessError, SpaceError};

use crate::{exit::Failure, rights};

/// How long a launcher may take to start its first rank, and how often that is checked.
const RANKS_WAIT: Duration = Duration::from_secs(10);
const RANKS_LOOK: Duration = Duration::from_millis(50);

/// The first process that TARGET refers to.
pub(super) fn pid(target: &str) -> Result<i32, Failure> {
    let none = || Failure::invalid(format!("no program named {target} runs here"));
    pids(target)?.first().copied().ok_or_else(none)
}

/// Whether TARGET is neither a process nor the name of a program that runs here.
pub(super) fn runs_nowhere(target: &str) -> bool {
    let found = resolved(target, &ProcessTable::read());
    !matches!(found, Ok(_) | Err(TargetError::Ambiguous { .. }))
}

fn resolved(target: &str, table: &ProcessTable) -> Result<Vec<i32>, TargetError> {
    let caller = rights::caller();
    let is_own = |pid: i32| Process::open(pid).is_ok_and(|process| process.uid == caller);
    job::resolve_target(target, table, is_own)
}

fn pids(target: &str) -> Result<Vec<i32>, Failure> {
    let table = ProcessTable::read();
    resolved(target, &table).map_err(|error| match error {
        TargetError::NoSuchProgram { .. } if rules::shipped_text(target).is_some() => Failure::invalid(format!(
            "{target} is a rule, and no program of that name runs here; to let it act: --apply={target} (with `=`)"
        )),
        TargetError::NoSuchProgram { .. } => {
            let names = table.iter().map(|(_, entry)| entry.name.clone());
            let near = suggestion(names, target);
            Failure::invalid(format!("{error}{near} (busy programs: tuneagent ps --all)"))
        }
        error => Failure::invalid(error),
    })
}

/// Joins the jobs of all TARGETs.
pub(super) fn jobs(discovery: &mut Discovery, targets: &[String], any_user: bool) -> Result<Job, Failure> {
    let mut all = Job::default();
    for target in targets {
        all.join(job(discovery, target, any_user)?);
    }
    Ok(all)
}

/// The job of TARGET. Its data is parsed with the rights of a process that only reads.
pub(super) fn job(discovery: &mut Discovery, target: &str, any_user: bool) -> Result<Job, Failure> {
    discovery.any_user = any_user && !rights::is_lent();
    let job = rights::looking(|| looked_up(discovery, target)).map_err(Failure::not_permitted)??;
    for member in &job.members {
        may_look(&member.process, &job.program(), any_user)?;
    }
    Ok(job)
}

fn looked_up(discovery: &mut Discovery, target: &str) -> Result<Job, Failure> {
    let mut job = Job::default();
    for pid in pids(target)? {
        let is_known = job.members.iter().any(|member| member.process.pid.number == pid);
        if !is_known {
            job.join(once_it_has_ranks(discovery, pid)?);
        }
    }
    if job.members.is_empty() {
        return Err(Failure::invalid(format!(
            "no process of {target} could be inspected"
        )));
    }
    Ok(job)
}

/// The job of a process. For a running launcher without ranks, waits until it has started one or the time is
/// over.
fn once_it_has_ranks(discovery: &mut Discovery, pid: i32) -> Result<Job, Failure> {
    let began = Instant::now();
    let mut is_reported = false;
    loop {
        match discovery.job_of(pid) {
            Err(DiscoverError::NoRanks { pid, name }) if began.elapsed() < RANKS_WAIT => {
                if !is_reported {
                    console::error_line(format_args!(
                        "{name} (process {pid}) has started no rank yet: waiting for one, {} s at most",
                        RANKS_WAIT.as_secs()
                    ));
                }
                is_reported = true;
                std::thread::sleep(RANKS_LOOK);
            }
            result => return result.map_err(failure),
        }
    }
}

/// Inspecting programs of other users takes an explicit option, and the caller's own rights.
pub(super) fn may_look(process: &Process, program: &str, any_user: bool) -> Result<(), Failure> {
    let caller = rights::caller();
    if process.uid == caller || (any_user && !rights::is_lent()) {
        return Ok(());
    }
    let why = if rights::is_lent() {
        format!(
            "the capabilities of tuneagent's file are lent for your own programs\nas root: {}",
            crate::hint::as_root_again()
        )
    } else {
        "add --any-user if you want this".to_owned()
    };
    Err(Failure::not_permitted(format!(
        "{program} (process {}) belongs to {}, not to {}: {why}",
        process.pid,
        process.user(),
        tuner::user_name(caller),
    )))
}

pub(super) fn failure(error: DiscoverError) -> Failure {
    match of_process(&error) {
        Some(ProcessError::NotPermitted { .. }) if !geteuid().is_root() => {
            Failure::not_permitted(format!("{error}\nas root: {}", crate::hint::as_root_again()))
        }
        Some(ProcessError::NotPermitted { .. } | ProcessError::Privileged { .. }) => {
            Failure::not_permitted(error)
        }
        Some(ProcessError::NotFound { .. }) => Failure::invalid(format!("{error}{}", where_else())),
        _ => Failure::invalid(error),
    }
}

/// Where the process may be if it is not on this machine, as far as can be guessed here.
fn where_else() -> String {
    let host = job::host();
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|folder| folder.join("srun").is_file()) {
        true => format!(
            " (on {host}); busy programs: tuneagent ps --all; ranks of a Slurm job are on its nodes: srun --jobid JOB --overlap --pty \
             tuneagent attach slurm:JOB"
        ),
        false => format!(" (on {host}); busy programs: tuneagent ps --all"),
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
