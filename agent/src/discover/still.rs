//! Whether a tree of processes can have started any since it was last walked: none of them can while none uses CPU time. Asking their
//! clocks takes a tenth of a walk.

use std::collections::BTreeSet;

use crate::clock::CpuClock;

/// A tree as it was found at the last walk.
#[derive(Debug, Default)]
pub(super) struct Still {
    pids: BTreeSet<i32>,
    /// Of them, those that the session had.
    known: BTreeSet<i32>,
    /// Of each, what it had used when the tree was begun to be walked; none where that is not known of all.
    used: Option<Vec<(CpuClock, u64)>>,
}

impl Still {
    /// Nobody in it did anything since, and the session has the same of them.
    pub(super) fn holds(&self, known: &BTreeSet<i32>) -> bool {
        let stands = |(clock, used): &(CpuClock, u64)| clock.ns() == Some(*used);
        let used = self.used.as_ref().filter(|used| !used.is_empty());
        self.known == *known && used.is_some_and(|used| used.iter().all(stands))
    }

    /// To be asked before the tree is walked.
    pub(super) fn used(&self) -> Option<Vec<(CpuClock, u64)>> {
        let used = |pid: &i32| {
            let clock = CpuClock::of(*pid)?;
            Some((clock, clock.ns()?))
        };
        self.pids.iter().map(used).collect()
    }

    /// What the walk has found, and what those of the walk before had used when it began: it says nothing of others.
    pub(super) fn walked(
        &mut self,
        found: BTreeSet<i32>,
        known: &BTreeSet<i32>,
        used: Option<Vec<(CpuClock, u64)>>,
    ) {
        self.used = used.filter(|_| found == self.pids);
        self.pids = found;
        self.known.clone_from(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_still_only_when_two_walks_found_the_same_and_nobody_ran_since() {
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
