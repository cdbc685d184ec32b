//! How long hits wait in the ring until they are read.

use profile::cost::UnreadView;

/// Approximate time span of recent values.
const PERIOD_NS: u64 = 1_000_000_000;

/// Hits should not be unread for longer than this, in nanoseconds.
const LATE_NS: u64 = 5_000_000;

/// The longest time that hits were unread, in nanoseconds: in this period, in the previous one, in total.
#[derive(Debug, Default)]
pub(super) struct Unread {
    since_ns: u64,
    now: Option<u64>,
    before: Option<u64>,
    most: Option<u64>,
    reads: u64,
    late: u64,
}

impl Unread {
    /// Records how long the first hit of a batch was unread.
    pub(super) fn add(&mut self, lay_ns: u64, now_ns: u64) {
        self.turn(now_ns);
        self.now = self.now.max(Some(lay_ns));
        self.most = self.most.max(Some(lay_ns));
        self.reads += 1;
        self.late += u64::from(lay_ns > LATE_NS);
    }

    pub(super) fn turn(&mut self, now_ns: u64) {
        let periods = now_ns.saturating_sub(self.since_ns) / PERIOD_NS;
        if periods > 0 {
            self.before = self.now.take().filter(|_| periods == 1);
            self.since_ns = now_ns;
        }
    }

    /// As it is shown; `None` without hits.
    pub(super) fn view(&self) -> Option<UnreadView> {
        Some(UnreadView {
            recent_ns: self.now.max(self.before).unwrap_or_default(),
            most_ns: self.most?,
            reads: self.reads,
            late: self.late,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_late_is_forgotten_and_the_longest_of_all_is_not() {
        let mut unread = Unread::default();
        let view = |unread: &Unread| unread.view().map(|view| (view.recent_ns, view.most_ns));
        assert_eq!(view(&unread), None);
        unread.add(900, PERIOD_NS);
        unread.add(20, PERIOD_NS + 1);
        assert_eq!(view(&unread), Some((900, 900)));
        unread.add(30, 2 * PERIOD_NS + 1);
        assert_eq!(view(&unread), Some((900, 900)));
        unread.add(40, 3 * PERIOD_NS + 1);
        assert_eq!(view(&unread), Some((40, 900)));
        unread.turn(9 * PERIOD_NS);
        assert_eq!(view(&unread), Some((0, 900)));
    }

    #[test]
    fn reads_that_find_hits_which_lay_too_long_are_counted() {
        let mut unread = Unread::default();
        for lay_ns in [1, LATE_NS, LATE_NS + 1, 10 * LATE_NS] {
            unread.add(lay_ns, PERIOD_NS);
        }
        let counted = unread.view().map(|view| (view.reads, view.late));
        assert_eq!(counted, Some((4, 2)));
    }
}
