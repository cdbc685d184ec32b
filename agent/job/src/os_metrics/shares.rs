//! What a job may use, asked now and then: masks and quotas seldom change, and asking takes files of every process.
//!
//! Not here: how it is asked ([`super::cpus`]).

use std::collections::BTreeSet;

use super::cpus::{CpuShare, RequestedCpus, usable};

/// As old as an answer may be, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000_000;

/// And where none of the processes has run meanwhile: what they may use changes nothing for them then.
const STILL_PERIOD_NS: u64 = 10_000_000_000;

/// Answers, kept while they are young and the processes the same.
#[derive(Debug, Default)]
pub struct Shares {
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    at_ns: u64,
    pids: Vec<i32>,
    requested: Option<RequestedCpus>,
    reach: BTreeSet<usize>,
}

impl Shares {
    /// What the processes may use together, and which CPUs are within their reach or that of those around them; `None` when none of
    /// them could be asked. What was kept from running is always of now. `are_still` says that none of them has run of late.
    pub fn look(
        &mut self,
        pids: &[i32],
        around: &[i32],
        are_still: bool,
        now_ns: u64,
    ) -> Option<(CpuShare, &BTreeSet<usize>)> {
        let period_ns = if are_still { STILL_PERIOD_NS } else { PERIOD_NS };
        let is_good = |known: &Known| known.pids == pids && now_ns.saturating_sub(known.at_ns) < period_ns;
        if !self.known.as_ref().is_some_and(is_good) {
            let all: Vec<i32> = pids.iter().chain(around).copied().collect();
            self.known = Some(Known {
                at_ns: now_ns,
                pids: pids.to_vec(),
                requested: RequestedCpus::of(pids),
                reach: usable(&all),
            });
        }
        let known = self.known.as_ref()?;
        Some((known.requested.as_ref()?.share(), &known.reach))
    }

    /// CPUs that one of them may keep busy for itself.
    pub fn of(&self, pid: i32) -> Option<f64> {
        self.known.as_ref()?.requested.as_ref()?.each.get(&pid).copied()
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
        let (share, reach) = shares.look(&[us], &[], false, 5).unwrap();
        assert_eq!(&share.allowed, reach);
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
