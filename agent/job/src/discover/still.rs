//! Determines whether a tree of processes may have grown since it was last walked, or a process may have
//! mapped anything: neither is possible without using CPU time. Reading the CPU clocks takes a tenth of the
//! time of a walk.

use std::collections::{BTreeMap, BTreeSet};

use tuner::CpuClock;

/// The CPU time that a process has used, with its clock.
pub(super) type Used = (CpuClock, u64);

/// The CPU time of a process; `None` if it does not exist.
pub(super) fn used(pid: i32) -> Option<Used> {
    let clock = CpuClock::of(pid)?;
    Some((clock, clock.ns()?))
}

/// A tree of processes at the last walk.
#[derive(Debug, Default)]
pub(super) struct Still {
    pids: BTreeSet<i32>,
    /// Those of them that the session watched.
    known: BTreeSet<i32>,
    /// The CPU time of each when the walk began; `None` if it is unknown for any of them.
    used: Option<Vec<Used>>,
}

impl Still {
    /// Whether no process of the tree has used CPU time since, and the session watches the same processes.
    pub(super) fn holds(&self, known: &BTreeSet<i32>) -> bool {
        let stands = |(clock, used): &Used| clock.ns() == Some(*used);
        let used = self.used.as_ref().filter(|used| !used.is_empty());
        self.known == *known && used.is_some_and(|used| used.iter().all(stands))
    }

    /// CPU times of the tree. Call it before the tree is walked.
    pub(super) fn used(&self) -> Option<Vec<Used>> {
        self.pids.iter().map(|pid| used(*pid)).collect()
    }

    /// Stores the result of a walk. `used` are the CPU times of the previous tree when the walk began; they
    /// apply only if the tree is the same.
    pub(super) fn walked(&mut self, found: BTreeSet<i32>, known: &BTreeSet<i32>, used: Option<Vec<Used>>) {
        self.used = used.filter(|_| found == self.pids);
        self.pids = found;
        self.known.clone_from(known);
    }
}

/// Processes that were searched without success, with the CPU time that each had used before.
#[derive(Debug, Default)]
pub(super) struct FailedSearches(BTreeMap<i32, Used>);

impl FailedSearches {
    /// Whether a process has used no CPU time since the last search without success.
    pub(super) fn is_unchanged(&self, pid: i32, used: Option<Used>) -> bool {
        used.is_some() && self.0.get(&pid).copied() == used
    }

    /// Records a search without success; `used` is the CPU time before the search.
    pub(super) fn add(&mut self, pid: i32, used: Option<Used>) {
        self.0.extend(used.map(|used| (pid, used)));
    }

    /// Drops processes that have ended.
    pub(super) fn forget_gone(&mut self) {
        self.0.retain(|_, (clock, _)| clock.ns().is_some());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use tuneagent_e2e::line_program::LineProgram;
    use tuneagent_e2e::wait::{SOON, wait_until};

    use super::*;

    #[test]
    fn a_tree_is_still_only_when_two_walks_found_the_same_and_no_process_ran_since() {
        let mut cat = LineProgram::start(&mut Command::new("cat")).unwrap();
        let pid = cat.pid() as i32;
        let tree = || BTreeSet::from([pid]);
        let (mut still, none) = (Still::default(), BTreeSet::new());
        assert!(!still.holds(&none));
        let used = still.used();
        still.walked(tree(), &none, used);
        assert!(
            !still.holds(&none),
            "what it had used before the walk is not known"
        );
        // It may still be starting.
        let mut since = Instant::now();
        let became_still = wait_until("no use for 20 ms", SOON, || {
            if still.holds(&none) {
                return Ok(since.elapsed() > Duration::from_millis(20));
            }
            let used = still.used();
            still.walked(tree(), &none, used);
            since = Instant::now();
            Ok(false)
        });
        became_still.unwrap();
        assert!(!still.holds(&tree()), "the session has one more of them");
        let used = still.used();
        still.walked(BTreeSet::from([pid, 1]), &none, used);
        assert!(!still.holds(&none), "one more");
        cat.end().unwrap();
        assert_eq!(still.used(), None, "one is gone");
    }
}
