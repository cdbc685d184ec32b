//! When the loop wakes beside its ticks: how long calls and hits may lie. Every waking on a CPU that a rank has for itself delays the rank, and
//! with it all that wait for it. What is done then is the session's.

use std::time::Duration;

use tokio::time::Instant;

use super::Session;
use crate::clock::monotonic_ns;

/// Rings of calls are read this often at most, ticks aside: what a rank calls more often than its ring has room for is counted as not
/// seen, and nothing is gained by following it.
const CALLS_PERIOD: Duration = Duration::from_millis(100);

/// Where no window ends at a hit, hits are let lie for so long.
const HITS_PERIOD: Duration = Duration::from_millis(4);

/// What is kept of it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// A ring of calls is half full.
    pub(super) is_filling: bool,
    calls_read_ns: u64,
    /// When hits were read last.
    hits_read: Option<Instant>,
}

impl Pace {
    /// All rings of calls were just read.
    pub(super) fn have_read_calls(&mut self, now_ns: u64) {
        (self.is_filling, self.calls_read_ns) = (false, now_ns);
    }

    /// Hits were just read of which none is waited for.
    pub(super) fn have_read_hits(&mut self) {
        self.hits_read = Some(Instant::now());
    }

    /// Until when hits may lie; none where they may not any longer.
    pub(super) fn hits_rest(&self) -> Option<Instant> {
        let until = self.hits_read? + HITS_PERIOD;
        (until > Instant::now()).then_some(until)
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
    fn hits_that_nobody_waits_for_are_let_lie_after_others_were_read_and_not_before() {
        let mut pace = Pace::default();
        assert_eq!(pace.hits_rest(), None);
        pace.have_read_hits();
        let until = pace.hits_rest().unwrap();
        assert!(until <= Instant::now() + HITS_PERIOD);
        pace.hits_read = Instant::now().checked_sub(HITS_PERIOD);
        assert_eq!(pace.hits_rest(), None);
    }
}
