//! What a job may use, read occasionally: masks and quotas rarely change, and reading them takes files of
//! every process. They are read by [`super::cpus`].

use std::collections::BTreeSet;

use procfs::process::Process;

use super::cpus::{Confined, CpuShare, RequestedCpus, usable};

/// Maximum age of an answer, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000_000;

/// Maximum age if none of the processes has run since: a change has no effect on them then.
const STILL_PERIOD_NS: u64 = 10_000_000_000;

/// Cached answers, valid while they are recent and for the same processes.
#[derive(Debug, Default)]
pub struct Shares {
    known: Option<CachedShares>,
}

#[derive(Debug)]
struct CachedShares {
    at_ns: u64,
    pids: Vec<i32>,
    requested: Option<RequestedCpus>,
    limits: CpuLimits,
}

/// Sets of CPUs beyond those of the processes themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuLimits {
    /// CPUs that the processes or their launchers may use.
    pub launched: BTreeSet<usize>,
    /// CPUs of the starters of the job (launchers, or parents of its first processes); empty if unknown.
    pub started: BTreeSet<usize>,
    /// CPUs that the cgroups of the processes grant.
    pub granted: BTreeSet<usize>,
}

impl Shares {
    /// What the processes may use together, and the CPUs around them; `None` if none of them could be read.
    /// The throttled time is always current. `roots` are the processes that started those of the job, each
    /// with whether it is a launcher. `are_still`: none of the processes has run recently.
    pub fn look(
        &mut self,
        pids: &[i32],
        roots: &[(i32, bool)],
        are_still: bool,
        now_ns: u64,
    ) -> Option<(CpuShare, &CpuLimits)> {
        let period_ns = if are_still { STILL_PERIOD_NS } else { PERIOD_NS };
        let is_good =
            |known: &CachedShares| known.pids == pids && now_ns.saturating_sub(known.at_ns) < period_ns;
        if !self.known.as_ref().is_some_and(is_good) {
            let starters: Vec<i32> = roots.iter().filter_map(starter).collect();
            let launchers = roots.iter().map(|(pid, _)| *pid);
            let all: Vec<i32> = pids.iter().copied().chain(launchers).collect();
            let confined = Confined::read(&all);
            let limits = CpuLimits {
                granted: confined.granted(),
                started: usable(&starters),
                launched: confined.usable(&all),
            };
            self.known = Some(CachedShares {
                at_ns: now_ns,
                pids: pids.to_vec(),
                requested: RequestedCpus::of(pids, &confined),
                limits,
            });
        }
        let known = self.known.as_ref()?;
        Some((known.requested.as_ref()?.share(), &known.limits))
    }

    /// Number of CPUs that the cgroups grant to the processes.
    pub fn granted(&self) -> Option<usize> {
        let granted = self.known.as_ref()?.limits.granted.len();
        (granted > 0).then_some(granted)
    }

    /// CPUs that one of them may keep busy by itself.
    pub fn of(&self, pid: i32) -> Option<f64> {
        self.known.as_ref()?.requested.as_ref()?.each.get(&pid).copied()
    }
}

/// The process from which another one inherited its CPUs: a launcher for its ranks, otherwise the parent.
fn starter(&(pid, is_launcher): &(i32, bool)) -> Option<i32> {
    match is_launcher {
        true => Some(pid),
        false => Some(Process::new(pid).ok()?.stat().ok()?.ppid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_a_second_or_longer_while_no_process_runs_and_never_for_other_processes() {
        let us = std::process::id() as i32;
        let mut shares = Shares::default();
        assert_eq!(shares.of(us), None);
        let (share, limits) = shares.look(&[us], &[], false, 5).unwrap();
        assert_eq!(share.allowed, limits.launched);
        assert!(limits.granted.is_superset(&limits.launched), "{limits:?}");
        let granted = limits.granted.len();
        assert_eq!(shares.granted(), Some(granted));
        assert_eq!(shares.of(us), Some(share.cpus()));
        let requested_at = |shares: &Shares| shares.known.as_ref().unwrap().at_ns;
        shares.look(&[us], &[], false, PERIOD_NS).unwrap();
        shares.look(&[us], &[], true, 5 + PERIOD_NS).unwrap();
        assert_eq!(requested_at(&shares), 5);
        shares.look(&[us], &[], false, 5 + PERIOD_NS).unwrap();
        assert_eq!(requested_at(&shares), 5 + PERIOD_NS);
        assert_eq!(
            shares.look(&[i32::MAX - 1], &[], true, 6 + PERIOD_NS),
            None,
            "nobody"
        );
        assert_eq!(shares.of(us), None);
    }
}
