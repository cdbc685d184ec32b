//! When the loop wakes beside its ticks: how long calls and hits may lie. Every waking on a CPU that a rank has for itself delays the rank, and
//! with it all that wait for it. What is done then is the session's.

use std::time::Duration;

use tokio::time::Instant;

use super::Session;
use crate::clock::monotonic_ns;

/// Rings of calls are read this often at most, ticks aside: what a rank calls more often than its ring has room for is counted as not
/// seen, and nothing is gained by following it.
const CALLS_PERIOD: Duration = Duration::from_millis(100);

/// Hits at which nothing falls due are let lie for so long.
const HITS_NS: u64 = 4_000_000;

/// What is kept of it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// A ring of calls is half full.
    pub(super) is_filling: bool,
    calls_read_ns: u64,
    /// When hits are to be looked for again, on the monotonic clock; 0 where one that comes wakes us.
    hits_due_ns: u64,
}

impl Pace {
    /// All rings of calls were just read.
    pub(super) fn have_read_calls(&mut self, now_ns: u64) {
        (self.is_filling, self.calls_read_ns) = (false, now_ns);
    }

    /// The ring of hits was just emptied. When we look again by ourselves, where that is now another time than before.
    pub(super) fn have_read_hits(&mut self, has_found: bool, now_ns: u64) -> Option<u64> {
        let due_ns = match has_found {
            true => now_ns + HITS_NS,
            false if now_ns < self.hits_due_ns => self.hits_due_ns,
            false => 0,
        };
        (std::mem::replace(&mut self.hits_due_ns, due_ns) != due_ns).then_some(due_ns)
    }

    /// When hits are to be looked for; none where one that comes wakes us.
    pub(super) fn hits_due(&self) -> Option<Instant> {
        let rest = Duration::from_nanos(self.hits_due_ns.saturating_sub(monotonic_ns()));
        (self.hits_due_ns > 0).then(|| Instant::now() + rest)
    }
}

impl Session {
    /// When calls are to be looked at before the next tick: a ring is half full, or a window is open.
    pub(super) fn calls_due(&self) -> Option<Instant> {
        let since = Duration::from_nanos(monotonic_ns().saturating_sub(self.pace.calls_read_ns));
        let must = self.pace.is_filling || self.sampling.is_open();
        must.then(|| Instant::now() + CALLS_PERIOD.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_looked_for_again_as_long_as_there_are_some_and_then_wake_us() {
        let mut pace = Pace::default();
        assert_eq!(pace.have_read_hits(false, 100), None);
        assert_eq!(pace.hits_due(), None);
        assert_eq!(pace.have_read_hits(true, 100), Some(100 + HITS_NS));
        assert!(pace.hits_due().is_some());
        // Woken before that time for another reason.
        assert_eq!(pace.have_read_hits(false, 200), None);
        assert_eq!(pace.have_read_hits(true, 300), Some(300 + HITS_NS));
        assert_eq!(pace.have_read_hits(false, 300 + HITS_NS), Some(0));
        assert_eq!(pace.hits_due(), None);
    }
}
