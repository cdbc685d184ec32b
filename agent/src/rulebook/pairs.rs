//! Spans between two functions: from the entry of one to the return of the other in the same thread. The last
//! entry before the return counts. Bounded; entries beyond the bound are counted.

use std::collections::BTreeMap;

use rules::{ProbeId, Reads, RuleId};

/// Maximum number of open spans, over all threads.
const OPEN_MAX: usize = 65_536;

/// A probe of a rule.
type RuleProbe = (RuleId, ProbeId);

#[derive(Debug)]
pub(super) struct Entered {
    pub(super) time_ns: u64,
    pub(super) reads: Reads,
}

/// The spans of a session.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// By probe, process and thread.
    open: BTreeMap<(RuleProbe, u32, u32), Entered>,
    /// Number of spans and their total duration in nanoseconds, by probe and process.
    totals: BTreeMap<(RuleProbe, u32), (u64, u64)>,
    /// Entries beyond the bound.
    dropped: u64,
}

impl Pairs {
    /// The first function was entered.
    pub(super) fn enter(&mut self, of: RuleProbe, process: u32, thread: u32, entered: Entered) {
        let key = (of, process, thread);
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&key) {
            self.dropped += 1;
            return;
        }
        self.open.insert(key, entered);
    }

    /// The second function has returned; returns the matching entry, if any.
    pub(super) fn leave(
        &mut self,
        of: RuleProbe,
        process: u32,
        thread: u32,
        time_ns: u64,
    ) -> Option<Entered> {
        let entered = self.open.remove(&(of, process, thread))?;
        let (count, sum_ns) = self.totals.entry((of, process)).or_default();
        *count += 1;
        *sum_ns += time_ns.saturating_sub(entered.time_ns);
        Some(entered)
    }

    /// Hits were lost, so the return of an open entry may have been missed.
    pub(super) fn forget_open(&mut self) {
        self.open.clear();
    }

    pub(super) fn forget(&mut self, process: u32) {
        self.open.retain(|(_, of, _), _| *of != process);
    }

    pub(super) fn forget_rule(&mut self, rule: RuleId) {
        self.open.retain(|((of, _), _, _), _| *of != rule);
        self.totals.retain(|((of, _), _), _| *of != rule);
    }

    /// The number of completed spans of a process, and the sum of their durations.
    pub(super) fn totals(&self, of: RuleProbe, process: u32) -> (u64, u64) {
        self.totals.get(&(of, process)).copied().unwrap_or_default()
    }

    /// Entries beyond the bound.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(time_ns: u64) -> Entered {
        Entered {
            time_ns,
            reads: Reads::new(),
        }
    }

    #[test]
    fn a_span_goes_from_the_last_entry_to_the_return_in_the_same_thread() {
        let of = (RuleId(0), ProbeId(0));
        let mut pairs = Pairs::default();
        pairs.enter(of, 1, 10, entered(100));
        pairs.enter(of, 1, 11, entered(150));
        pairs.enter(of, 1, 10, entered(200));
        assert!(pairs.leave(of, 1, 12, 300).is_none());
        assert_eq!(
            pairs.leave(of, 1, 10, 300).map(|entered| entered.time_ns),
            Some(200)
        );
        assert!(pairs.leave(of, 1, 10, 310).is_none(), "it has been left");
        assert_eq!(
            pairs.leave(of, 1, 11, 350).map(|entered| entered.time_ns),
            Some(150)
        );
        assert_eq!(pairs.totals(of, 1), (2, 300));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let of = (RuleId(0), ProbeId(0));
        let mut pairs = Pairs::default();
        let threads = OPEN_MAX as u32 + 3;
        (0..threads).for_each(|thread| pairs.enter(of, 1, thread, entered(1)));
        assert_eq!(pairs.dropped(), 3);
        pairs.enter(of, 1, 0, entered(2));
        assert_eq!(pairs.dropped(), 3, "one that is open already needs none");
    }
}
