//! When the loop wakes beside its ticks: how long calls and hits may lie. Every waking on a CPU that a rank has for itself delays the rank, and
//! with it all that wait for it. What is done then is the session's.

use std::time::Duration;

use tokio::time::Instant;

use super::Session;
use crate::{clock::monotonic_ns, format::percent};

/// Rings of calls are read this often at most, ticks aside: what a rank calls more often than its ring has room for is counted as not
/// seen, and nothing is gained by following it.
const CALLS_PERIOD: Duration = Duration::from_millis(100);

/// Hits at which nothing falls due are let lie for so long.
const HITS_NS: u64 = 4_000_000;

/// Looks in a row that find the agent too dear before it reads them at its ticks alone, and cheap before it reads them as ever.
const DEAR_LOOKS: u32 = 3;
const CHEAP_LOOKS: u32 = 10;

/// It is cheap below this part of what all may take: it reads up to five times as often then.
const CHEAP: f64 = 0.2;

/// What is kept of it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// A ring of calls is half full.
    pub(super) is_filling: bool,
    calls_read_ns: u64,
    /// When hits are to be looked for again, on the monotonic clock; 0 where one that comes wakes us.
    hits_due_ns: u64,
    /// One was since it was last looked what that costs.
    has_filled: bool,
    /// Rings of calls are read at ticks alone.
    rests: bool,
    looks: u32,
}

impl Pace {
    /// All rings of calls were just read.
    pub(super) fn have_read_calls(&mut self, now_ns: u64) {
        self.has_filled |= self.is_filling;
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

    /// Nobody is to wake us when a ring of calls fills.
    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    /// What the agent takes is this part of what it may. True where it reads less often from now on, or as ever.
    fn turns_at(&mut self, part: f64) -> bool {
        let has_filled = std::mem::take(&mut self.has_filled);
        let (is_so, most) = match self.rests {
            true => (part < CHEAP, CHEAP_LOOKS),
            // What rings do not cause would not become less.
            false => (part > 1.0 && has_filled, DEAR_LOOKS),
        };
        self.looks = if is_so { self.looks + 1 } else { 0 };
        let turns = self.looks == most;
        if turns {
            (self.rests, self.looks) = (!self.rests, 0);
        }
        turns
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

    /// Reads rings of calls less often where the agent takes more than it may, both in CPUs, and as ever once it takes far less.
    pub(super) fn rest_where_dear(&mut self, agent: f64, allowed: f64) {
        if !self.pace.turns_at(agent / allowed) {
            return;
        }
        let (agent, often) = (percent(agent), 1.0 / self.tick().as_secs_f64());
        self.painter.say(&match self.pace.rests {
            true => format!(
                "note: tuneagent itself takes {agent} of a core, more than it may (--budget): it reads calls only {often:.0} times a second \
                 from now on; where more are made than there is room for, iterations and call sites lack some, which are counted"
            ),
            false => format!("note: tuneagent itself takes {agent} of a core: calls are read as they come again"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_dear_for_what_rings_bring_reads_them_less_often_until_it_is_cheap() {
        let mut pace = Pace::default();
        let mut look = |part: f64, has_filled: bool| {
            pace.is_filling = has_filled;
            pace.have_read_calls(0);
            pace.turns_at(part).then(|| pace.rests())
        };
        // Not for what it does besides.
        assert!((0..9).all(|_| look(2.0, false).is_none()));
        // Nor for once.
        let looks = [(2.0, true), (2.0, true), (0.9, true), (2.0, true), (2.0, true)];
        assert!(
            looks
                .iter()
                .all(|(part, has_filled)| look(*part, *has_filled).is_none())
        );
        assert_eq!(look(2.0, true), Some(true));
        // Half of what it may is no reason to read more.
        assert!((0..99).all(|_| look(0.5, false).is_none()));
        assert!((1..CHEAP_LOOKS).all(|_| look(0.1, false).is_none()));
        assert_eq!(look(0.1, false), Some(false));
    }

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
