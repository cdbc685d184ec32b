//! Targets that name what processes belong to: a job of Slurm on this node (`slurm:4711`, `slurm:4711.0`), a container
//! (`container:3f9c`), or what one launcher of MPI started. Reads environments, command lines and cgroups only.

use std::{collections::BTreeSet, fs};

use tuner::Process;

use super::{launcher::is_launcher, table::ProcessTable};
use crate::hosts;

/// What a process may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobSelector<'a> {
    /// A job of Slurm, or one step of it.
    Slurm { job: &'a str, step: Option<&'a str> },
    /// A container, by the first digits of its id.
    Container(&'a str),
    /// The processes that one launcher of MPI started, by the name that it gave them in PMIx, on any machine.
    Pmix(&'a str),
    /// The processes that one launcher of MPICH started, by the address to which its proxies connect, on any machine.
    Hydra(&'a str),
}

/// The flag of Hydra's proxies before that address.
pub(super) const CONTROL_PORT: &str = "--control-port";

/// Fewer digits of a container's id are ambiguous.
const DIGITS_MIN: usize = 4;

/// Digits of a container's id in the path of its cgroup, with any runtime: `…/docker-3f9c….scope`,
/// `…/docker/3f9c…`, `…/libpod-3f9c….scope/container`, `…/cri-containerd-3f9c….scope`.
const DIGITS_OF_CONTAINER: usize = 64;

impl JobSelector<'_> {
    /// Parses `KIND:ID`; `None` for an unknown kind.
    pub(super) fn of<'a>(kind: &str, id: &'a str) -> Option<JobSelector<'a>> {
        match kind {
            "slurm" => {
                let (job, step) = id
                    .split_once('.')
                    .map_or((id, None), |(job, step)| (job, Some(step)));
                Some(JobSelector::Slurm { job, step })
            }
            "container" => Some(JobSelector::Container(id)),
            "pmix" => Some(JobSelector::Pmix(id)),
            "hydra" => Some(JobSelector::Hydra(id)),
            _ => None,
        }
    }

    /// The processes that belong to it and have no ancestor that does.
    pub(super) fn topmost(self, table: &ProcessTable) -> Vec<i32> {
        // The agent itself may have been started within it (srun --overlap).
        let ours = table.lineage(std::process::id().cast_signed());
        let ours: BTreeSet<i32> = ours.map(|(pid, _)| pid).collect();
        let others = table
            .iter()
            .filter(|(pid, entry)| !ours.contains(pid) && !entry.is_kernel_thread);
        let others = others.map(|(pid, _)| pid);
        let members = match self {
            JobSelector::Container(id) => others.filter(|pid| is_of_container(&cgroups(*pid), id)).collect(),
            JobSelector::Pmix(name) => {
                let is_of = |pid: &i32| has(&environment(*pid), "PMIX_NAMESPACE", name);
                others.filter(is_of).collect()
            }
            JobSelector::Hydra(port) => {
                let proxies =
                    others.filter(|pid| table.get(*pid).is_some_and(|entry| is_launcher(&entry.name)));
                proxies.filter(|pid| is_proxy(*pid, port)).collect()
            }
            JobSelector::Slurm { job, step } => {
                let known = others.map(|pid| (pid, environment(pid)));
                let members: Vec<_> = known.filter(|(_, of)| is_of_job(of, job, step)).collect();
                let of_steps: BTreeSet<i32> = members
                    .iter()
                    .filter(|(_, of)| is_of_step(of))
                    .map(|(pid, _)| *pid)
                    .collect();
                match of_steps.is_empty() {
                    false => of_steps,
                    true => members.into_iter().map(|(pid, _)| pid).collect(),
                }
            }
        };
        topmost(table, &members)
    }
}

/// The cgroups of a process; empty if they may not be read.
fn cgroups(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

fn environment(pid: i32) -> Vec<String> {
    let process = Process::open(pid).ok();
    process
        .and_then(|process| process.environment().ok())
        .unwrap_or_default()
}

/// Whether a process is a proxy that connects there.
fn is_proxy(pid: i32, port: &str) -> bool {
    Process::open(pid).is_ok_and(|process| hosts::after(&process.arguments, &[CONTROL_PORT]) == Some(port))
}

fn topmost(table: &ProcessTable, members: &BTreeSet<i32>) -> Vec<i32> {
    let parent = |pid: &i32| table.get(*pid).map(|entry| entry.parent);
    let is_topmost = |pid: &&i32| !parent(pid).is_some_and(|parent| members.contains(&parent));
    members.iter().filter(is_topmost).copied().collect()
}

fn is_of_job(environment: &[String], job: &str, step: Option<&str>) -> bool {
    has(environment, "SLURM_JOB_ID", job) && step.is_none_or(|step| has(environment, "SLURM_STEP_ID", step))
}

fn has(environment: &[String], name: &str, value: &str) -> bool {
    let mut lines = environment.iter();
    lines.any(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) == Some(value))
}

/// Whether a process belongs to what `srun` started, and not to the surrounding script, whose step number is
/// one of Slurm's greatest.
fn is_of_step(environment: &[String]) -> bool {
    const FIRST_OF_SLURM: u32 = 0xffff_fff0;
    let step = environment
        .iter()
        .find_map(|line| line.strip_prefix("SLURM_STEP_ID="));
    step.and_then(|step| step.parse().ok())
        .is_some_and(|step: u32| step < FIRST_OF_SLURM)
}

fn is_of_container(cgroups: &str, id: &str) -> bool {
    let mut words = cgroups.split(|c: char| !c.is_ascii_hexdigit());
    id.len() >= DIGITS_MIN && words.any(|word| word.len() == DIGITS_OF_CONTAINER && word.starts_with(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_slurm_is_known_by_the_environment_of_its_processes() {
        let environment = ["HOME=/root", "SLURM_JOB_ID=4711", "SLURM_STEP_ID=0"].map(String::from);
        let is_of = |id| match JobSelector::of("slurm", id) {
            Some(JobSelector::Slurm { job, step }) => is_of_job(&environment, job, step),
            other => panic!("{other:?}"),
        };
        assert!(is_of("4711") && is_of("4711.0"));
        assert!(!is_of("471") && !is_of("47111") && !is_of("4711.1"));
        assert_eq!(JobSelector::of("pbs", "1"), None);
        assert!(is_of_step(&environment));
        // The batch script.
        assert!(!is_of_step(&["SLURM_STEP_ID=4294967291".to_owned()]));
        assert!(!is_of_step(&environment[..2]));
    }

    #[test]
    fn a_container_is_known_by_the_begin_of_its_number_with_any_runtime() {
        let number = "3f9c5d".to_owned() + &"0".repeat(58);
        for path in [
            format!("0::/system.slice/docker-{number}.scope"),
            format!("12:cpuset:/docker/{number}\n0::/"),
            format!("0::/machine.slice/libpod-{number}.scope/container"),
            format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{number}.scope"),
        ] {
            assert!(
                is_of_container(&path, "3f9c") && is_of_container(&path, &number),
                "{path}"
            );
            assert!(
                !is_of_container(&path, "9c5d") && !is_of_container(&path, "3f9"),
                "{path}"
            );
        }
        assert!(!is_of_container(
            "0::/user.slice/user-1000.slice/session-3f9c.scope",
            "3f9c"
        ));
    }

    #[test]
    fn processes_started_by_a_selected_process_are_selected() {
        let table = ProcessTable::of(&[
            (10, 1, "bash"),
            (11, 10, "mpirun"),
            (12, 11, "lmp"),
            (20, 2, "sleep"),
        ]);
        assert_eq!(topmost(&table, &[10, 11, 12, 20].into()), [10, 20]);
        assert_eq!(topmost(&table, &[12].into()), [12]);
    }
}
