//! What a session watches: the job, and how more of its processes are found.

use tuner::process::Pid;

use super::{
    Started, kernel_failure,
    members::{Candidate, Origin},
};
use crate::{
    clock::monotonic_ns,
    discover::{Job, Member, Scout},
    exit::Failure,
    kernel::{Kernel, Ring},
    probe::Probes,
    profile::Metered,
    rulebook::Time,
};

/// The job, and who finds its processes.
pub(super) struct Target {
    pub(super) job: Job,
    pub(super) scout: Scout,
    /// The command that the session was started with.
    pub(super) started: Option<Started>,
    /// Of a command, who of its processes came and went.
    pub(super) comings: Option<Ring>,
}

impl Target {
    pub(super) fn new(
        job: Job,
        scout: Scout,
        started: Option<Started>,
        probes: &mut Probes,
    ) -> Result<Target, Failure> {
        let kernel = probes.kernel_mut().filter(|_| started.is_some());
        let comings = kernel.map(Kernel::take_comings).transpose();
        Ok(Target {
            job,
            scout,
            started,
            comings: comings.map_err(kernel_failure)?,
        })
    }

    /// The session started a command, whose processes the kernel side tells of.
    pub(super) fn is_of_command(&self) -> bool {
        self.comings.is_some()
    }

    pub(super) fn origin(&self) -> Origin {
        match self.is_of_command() {
            true => Origin::Command,
            false => Origin::Attached {
                has_launcher: self.job.roots.iter().any(|root| root.is_launcher),
            },
        }
    }

    pub(super) fn member(&self, slot: u32) -> Option<&Member> {
        self.job.members.get(slot as usize)
    }

    pub(super) fn pid_of(&self, slot: u32) -> Option<Pid> {
        self.member(slot).map(|member| member.process.pid)
    }

    /// The process in this slot has ended, or runs another program.
    pub(super) fn has_ended(&self, slot: u32) -> bool {
        let member = self.member(slot);
        member.is_some_and(|member| !member.process.pid.is_alive() || member.space.is_gone())
    }

    /// Processes that are watched, with their slots.
    pub(super) fn watched(&self, processes: &[Metered]) -> Vec<(u32, &Member)> {
        let watched = processes.iter().filter(|process| process.is_watched());
        watched
            .filter_map(|process| Some((process.slot, self.member(process.slot)?)))
            .collect()
    }

    pub(super) fn has_mpi(&self) -> bool {
        self.job.members.iter().any(|member| member.mpi.is_some())
    }

    pub(super) fn root_pids(&self) -> Vec<i32> {
        let roots = self.job.roots.iter();
        roots.map(|root| root.process.pid.number).collect()
    }

    /// Of a command, what its processes will be, as far as that was known before there were any.
    pub(super) fn foreseen(&self) -> &[Member] {
        self.started.as_ref().map_or(&[], |started| &started.foreseen)
    }
}

/// What `members` needs to know of a process.
pub(super) fn candidate(member: &Member) -> Candidate {
    let process = &member.process;
    Candidate {
        pid: process.pid,
        user: process.uid,
        rank: member.rank.map(|rank| rank.number),
        program: process.executable.clone(),
        has_mpi: member.mpi.is_some(),
        modules: member.space.modules.len(),
        is_linked: member.space.is_linked(),
        started: started(process.pid),
    }
}

/// When a process started, by CLOCK_MONOTONIC; the kernel tells it in hundredths of a second.
fn started(pid: Pid) -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let asleep = since_boot.saturating_sub(monotonic_ns());
    let ticks = procfs::ticks_per_second().max(1);
    Time((pid.start_time * 1_000_000_000 / ticks).saturating_sub(asleep))
}
