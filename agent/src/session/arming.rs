//! Attaches the probes at the start of a session: collects the requests for each process, and reports why any
//! cannot be attached.

use std::ops::Range;

use job::{Job, Member};
use probe::{ArmError, Probes};
use profile::probe::{ProbeSelector, Wanted};

use super::{Options, Started, kernel_failure, parts::Setup, target::WatchedJob};
use crate::{
    exit::Failure,
    rulebook::{RuleBook, Time},
};

/// The probe requests of a session.
pub(super) struct Requests {
    wanted: Vec<Wanted>,
    /// Requests that do not come from rules: those of the user and of the profile.
    pub(super) own: Range<usize>,
    /// The requests of the profile, parallel regions, are the last.
    pub(super) regions: Range<usize>,
}

impl Requests {
    pub(super) fn new(rules: &RuleBook, options: &Options, job: &Job) -> Requests {
        let mut wanted = rules.wanted();
        let own = wanted.len();
        wanted.extend((options.probe.iter()).map(|name| Wanted::calls_of(name, rules.is_recorded())));
        let regions = wanted.len();
        wanted.extend(wanted_regions(job));
        Requests {
            own: own..wanted.len(),
            regions: regions..wanted.len(),
            wanted,
        }
    }

    pub(super) fn arm(self, job: &Job, rules: &RuleBook, options: &Options) -> Result<Probes, Failure> {
        let Requests { wanted, own, regions } = self;
        let expected = options.started.as_ref().map(Started::job);
        let members = &expected.as_ref().unwrap_or(job).members;
        let requested = members.iter().map(|member| requested_in(rules, &own, member));
        let requested: Vec<Vec<bool>> = requested.collect();
        let is_requested = requested
            .iter()
            .any(|requested| requested[..regions.start].contains(&true));
        let is_without = !is_requested && members.iter().all(|member| member.mpi.is_none());
        let probes = match (&options.cannot_probe, options.started.as_ref().zip(expected)) {
            (Some(why), _) => Probes::none(job, vec![why.clone()]),
            (None, Some((started, job))) => {
                Probes::arm_family(&job, wanted, &requested, started.root).map_err(arm_failure)?
            }
            // Rules that are added later may request probes.
            (None, None) if is_without => {
                let armed = Probes::arm(job, wanted, requested, &options.loader);
                armed.unwrap_or_else(|_| Probes::none(job, Vec::new()))
            }
            (None, None) => Probes::arm(job, wanted, requested, &options.loader).map_err(arm_failure)?,
        };
        let has_rules = !rules.is_empty() || options.applies;
        let must_probe = options.started.is_none() && (!options.probe.is_empty() || !has_rules);
        if probes.site_count() == 0 && probes.kernel().is_some() && must_probe {
            return Err(nothing_to_probe(&probes, "no function to probe"));
        }
        // The libraries of a running process are not searched again for the function. MPI may come late.
        let is_found = |(want, name): (usize, &String)| name.contains("MPI_") || probes.is_found(want);
        let mut named = (own.start..regions.start).zip(&options.probe);
        if must_probe && probes.kernel().is_some() && !options.probe.is_empty() && !named.any(is_found) {
            return Err(nothing_to_probe(&probes, "no process has a function of --probe"));
        }
        Ok(probes)
    }
}

/// Which probe requests apply to a process: those of the user apply to all.
pub(super) fn requested_in(rules: &RuleBook, plain: &Range<usize>, member: &Member) -> Vec<bool> {
    let mut requested = rules.requested_in(member);
    requested.resize(requested.len().max(plain.end), false);
    plain.clone().for_each(|number| requested[number] = true);
    requested
}

/// Parallel regions, which the profile requests. The bodies of regions are left out if the threads take more
/// than half the room of the kernel side.
fn wanted_regions(job: &Job) -> Vec<Wanted> {
    let threads = job.members.iter().map(threads_of);
    let has_room = threads.sum::<u64>() <= abi::THREADS_MAX as u64 / 2;
    let bodies = has_room.then(|| Wanted::quietly(ProbeSelector::OpenmpBody));
    let region = Wanted::quietly(ProbeSelector::OpenmpRegion);
    [region].into_iter().chain(bodies).collect()
}

fn threads_of(member: &Member) -> u64 {
    let process = procfs::process::Process::new(member.process.pid.number);
    let stat = process.and_then(|process| process.stat());
    stat.map_or(1, |stat| stat.num_threads.max(1) as u64)
}

/// What the state machines know when the probes are attached.
pub(super) fn setup(options: &Options, target: &WatchedJob, armed_ns: u64) -> Setup {
    Setup {
        may_write: options.applies,
        keeps: options.keep,
        origin: target.origin(),
        missing: not_watched(&target.job, options.is_lent),
        program: target.job.program(),
        armed: Time(armed_ns),
    }
}

/// Messages about processes of a job that are not watched.
fn not_watched(job: &Job, is_lent: bool) -> Vec<String> {
    let processes = job.unreachable.iter();
    let processes = processes.map(|(pid, why)| format!("process {pid} is not watched: {why}"));
    processes
        .chain(of_other_users(job.of_other_users, is_lent))
        .collect()
}

/// The processes that are left out because another user runs them, and how they are included.
fn of_other_users(left_out: usize, is_lent: bool) -> Option<String> {
    let belong = match left_out {
        0 => return None,
        1 => "1 process below the program belongs to another user and is",
        _ => &format!("{left_out} processes below the program belong to another user and are"),
    };
    let them = if left_out == 1 { "it" } else { "them" };
    // Lent capabilities serve the caller's own programs only.
    let root = if is_lent { "root's " } else { "" };
    Some(format!("{belong} not watched: {root}--any-user includes {them}"))
}

fn nothing_to_probe(probes: &Probes, why: &str) -> Failure {
    let missing = probes.missing().join("\n");
    Failure::invalid(format!("{missing}\nnothing was attached: {why}").trim_start())
}

fn arm_failure(error: ArmError) -> Failure {
    match error {
        ArmError::Kernel(error) => kernel_failure(error),
        error @ (ArmError::Capture(_) | ArmError::TooManyFunctions { .. } | ArmError::NoMore(_)) => {
            Failure::invalid("nothing was attached").caused_by(&error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_other_users;

    #[test]
    fn processes_of_other_users_below_the_program_are_said_with_what_includes_them() {
        for (left_out, is_lent, said) in [
            (0, false, None),
            (
                1,
                false,
                Some(
                    "1 process below the program belongs to another user and is not watched: --any-user includes it",
                ),
            ),
            (
                2,
                true,
                Some(
                    "2 processes below the program belong to another user and are not watched: root's --any-user includes them",
                ),
            ),
        ] {
            assert_eq!(of_other_users(left_out, is_lent).as_deref(), said);
        }
    }
}
