//! What a job may use, read now and then: masks and quotas seldom change, and reading them takes files of
//! every process.
//!
//! Not here: how they are read ([`super::cpus`]).

use std::collections::BTreeSet;

use procfs::process::Process;

use super::cpus::{CpuShare, RequestedCpus, granted, usable};

/// As old as an answer may be, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000_000;

/// And where none of the processes has run meanwhile: what they may use changes nothing for them then.
const STILL_PERIOD_NS: u64 = 10_000_000_000;

/// Answers, kept while they are young and the processes the same.
#[derive(Debug, Default)]
pub struct Shares {
    known: Option<CachedShares>,
}

#[derive(Debug)]
struct CachedShares {
    at_ns: u64,
    pids: Vec<i32>,
    requested: Option<RequestedCpus>,
    around: Around,
}

/// CPUs of more than the processes themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Around {
    /// Those that the processes or what launched them may use.
    pub launched: BTreeSet<usize>,
    /// Those that what started the job may use: its launchers, or the parents of its first processes; empty
    /// where that is not known.
    pub started: BTreeSet<usize>,
    /// Those that the cgroups of the processes grant.
    pub granted: BTreeSet<usize>,
}

impl Shares {
    /// What the processes may use together, and which CPUs are around them; `None` when none of them could be
    /// read. What was kept from running is always of now. `roots` are what started processes of the job, each
    /// with whether it is a launcher. `are_still` says that none of them has run of late.
    pub fn look(
        &mut self,
        pids: &[i32],
        roots: &[(i32, bool)],
        are_still: bool,
        now_ns: u64,
    ) -> Option<(CpuShare, &Around)> {
        let period_ns = if are_still { STILL_PERIOD_NS } else { PERIOD_NS };
        let is_good =
            |known: &CachedShares| known.pids == pids && now_ns.saturating_sub(known.at_ns) < period_ns;
        if !self.known.as_ref().is_some_and(is_good) {
            let all: Vec<i32> = pids
                .iter()
                .copied()
                .chain(roots.iter().map(|(pid, _)| *pid))
                .collect();
            let starters: Vec<i32> = roots.iter().filter_map(starter).collect();
            let launched = usable(&all);
            let around = Around {
                // Where a cpuset cannot be read, what they are bound to counts as granted.
                granted: &granted(&all) | &launched,
                started: usable(&starters),
                launched,
            };
            self.known = Some(CachedShares {
                at_ns: now_ns,
                pids: pids.to_vec(),
                requested: RequestedCpus::of(pids),
                around,
            });
        }
        let known = self.known.as_ref()?;
        Some((known.requested.as_ref()?.share(), &known.around))
    }

    /// CPUs that the groups of the processes grant them.
    pub fn granted(&self) -> Option<usize> {
        let granted = self.known.as_ref()?.around.granted.len();
        (granted > 0).then_some(granted)
    }

    /// CPUs that one of them may keep busy for itself.
    pub fn of(&self, pid: i32) -> Option<f64> {
        self.known.as_ref()?.requested.as_ref()?.each.get(&pid).copied()
    }
}

/// What gave a process the CPUs that it had at first: a launcher its ranks, a parent any other.
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
        let (share, around) = shares.look(&[us], &[], false, 5).unwrap();
        assert_eq!(share.allowed, around.launched);
        assert!(around.granted.is_superset(&around.launched), "{around:?}");
        let granted = around.granted.len();
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
