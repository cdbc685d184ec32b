//! Whether a tree of processes can have started any since it was last walked, and one process mapped
//! anything: none of them can while it uses no CPU time. Reading their clocks takes a tenth of a walk.

use std::collections::{BTreeMap, BTreeSet};

use tuner::CpuClock;

/// What a process has used, by its clock.
pub(super) type Used = (CpuClock, u64);

/// Of a process; none where there is no such process.
pub(super) fn used(pid: i32) -> Option<Used> {
    let clock = CpuClock::of(pid)?;
    Some((clock, clock.ns()?))
}

/// A tree as it was found at the last walk.
#[derive(Debug, Default)]
pub(super) struct Still {
    pids: BTreeSet<i32>,
    /// Of them, those that the session had.
    known: BTreeSet<i32>,
    /// Of each, what it had used when the tree was begun to be walked; none where that is not known of all.
    used: Option<Vec<Used>>,
}

impl Still {
    /// No process in it used CPU time since, and the session knows the same processes.
    pub(super) fn holds(&self, known: &BTreeSet<i32>) -> bool {
        let stands = |(clock, used): &Used| clock.ns() == Some(*used);
        let used = self.used.as_ref().filter(|used| !used.is_empty());
        self.known == *known && used.is_some_and(|used| used.iter().all(stands))
    }

    /// Call it before the tree is walked.
    pub(super) fn used(&self) -> Option<Vec<Used>> {
        self.pids.iter().map(|pid| used(*pid)).collect()
    }

    /// What the walk has found, and what those of the walk before had used when it began: it says nothing of
    /// others.
    pub(super) fn walked(&mut self, found: BTreeSet<i32>, known: &BTreeSet<i32>, used: Option<Vec<Used>>) {
        self.used = used.filter(|_| found == self.pids);
        self.pids = found;
        self.known.clone_from(known);
    }
}

/// Processes in which something was looked for in vain, with what each had used before.
#[derive(Debug, Default)]
pub(super) struct InVain(BTreeMap<i32, Used>);

impl InVain {
    /// Whether a process has used no CPU time since the last search in it found nothing.
    pub(super) fn holds(&self, pid: i32, used: Option<Used>) -> bool {
        used.is_some() && self.0.get(&pid).copied() == used
    }

    /// It was not found in a process that had used so much before anybody looked.
    pub(super) fn add(&mut self, pid: i32, used: Option<Used>) {
        self.0.extend(used.map(|used| (pid, used)));
    }

    /// Lets go of processes that have ended.
    pub(super) fn forget_gone(&mut self) {
        self.0.retain(|_, (clock, _)| clock.ns().is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_still_only_when_two_walks_found_the_same_and_no_process_ran_since() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let tree = || BTreeSet::from([child.id() as i32]);
        let (mut still, none) = (Still::default(), BTreeSet::new());
        assert!(!still.holds(&none));
        let used = still.used();
        still.walked(tree(), &none, used);
        assert!(
            !still.holds(&none),
            "what it had used before the walk is not known"
        );
        // It may still be starting.
        let became_still = (0..200).any(|_| {
            let used = still.used();
            still.walked(tree(), &none, used);
            std::thread::sleep(std::time::Duration::from_millis(20));
            still.holds(&none)
        });
        assert!(became_still);
        assert!(!still.holds(&tree()), "the session has one more of them");
        let used = still.used();
        still.walked(BTreeSet::from([child.id() as i32, 1]), &none, used);
        assert!(!still.holds(&none), "one more");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(still.used(), None, "one is gone");
    }
}
