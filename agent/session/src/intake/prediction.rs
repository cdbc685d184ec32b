//! Predicts when the next decision is due from the times of the previous ones: with regular iterations, the
//! session can wake shortly before one ends and poll for its hit, so that neither it nor the actuator must be
//! woken then. Waking a sleeping CPU takes longer than making and writing the decision.
//!
//! The session itself polls, and checks that no other thread needs the CPU meanwhile.

use std::{collections::VecDeque, time::Duration};

/// Number of previous intervals that are used.
const RECENT: usize = 8;

/// Number of shortest and of longest intervals that are ignored: one iteration in eight may be late without
/// longer polling in the others.
const LEFT_OUT: usize = 1;

/// Additional polling time before and after the expected time, in nanoseconds.
const SLACK_NS: u64 = 60_000;

/// Greatest share of time spent polling.
pub(crate) const SHARE_MAX: f64 = 0.05;

/// Longest polling time, in nanoseconds: other events wait meanwhile.
const LOOK_NS_MAX: u64 = 2_000_000;

/// How long before the expected time the warm-up begins, in nanoseconds: from a cold start it takes about as
/// long as the decision.
const WARM_UP_NS: u64 = 400_000;

/// Longest time from the last hit to the order; the actuator waits this much longer for the order than we
/// poll for the hit.
pub const DECISION: Duration = Duration::from_micros(300);

/// The time for polling, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The earliest likely time.
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Expected {
    /// How long to sleep until the warm-up; `None` after the expected time.
    pub fn sleep(self, now_ns: u64) -> Option<Duration> {
        let until_ns = self.from_ns.saturating_sub(now_ns + WARM_UP_NS);
        (now_ns <= self.until_ns).then(|| Duration::from_nanos(until_ns))
    }

    /// How long the order may take to arrive.
    pub fn longest(self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.until_ns.saturating_sub(now_ns)) + DECISION
    }
}

#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// When the last decision was due.
    pub last_ns: Option<u64>,
    intervals: VecDeque<u64>,
}

impl Prediction {
    pub fn fell_due(&mut self, at_ns: u64) {
        if let Some(last) = self.last_ns.replace(at_ns) {
            if self.intervals.len() == RECENT {
                self.intervals.pop_front();
            }
            self.intervals.push_back(at_ns.saturating_sub(last));
        }
    }

    /// When the next decision is likely; `None` if intervals are too irregular, or that time has passed.
    pub fn next(&self, now_ns: u64) -> Option<Expected> {
        if self.intervals.len() < RECENT {
            return None;
        }
        let mut sorted: Vec<u64> = self.intervals.iter().copied().collect();
        sorted.sort_unstable();
        let likely = &sorted[LEFT_OUT..RECENT - LEFT_OUT];
        let (shortest, longest) = (*likely.first()?, *likely.last()?);
        let last = self.last_ns?;
        let expected = Expected {
            from_ns: last + shortest.saturating_sub(SLACK_NS),
            until_ns: last + longest + SLACK_NS,
        };
        let most = ((SHARE_MAX * shortest as f64) as u64).min(LOOK_NS_MAX);
        (expected.until_ns - expected.from_ns <= most && expected.from_ns > now_ns).then_some(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn after(intervals: impl IntoIterator<Item = u64>) -> (Prediction, u64) {
        let (mut prediction, mut now) = (Prediction::default(), 5 * MS);
        prediction.fell_due(now);
        for interval in intervals {
            now += interval;
            prediction.fell_due(now);
        }
        (prediction, now)
    }

    #[test]
    fn repeated_hits_are_awaited_shortly_before_they_are_due_and_not_for_long() {
        let (prediction, now) = after([27, 27, 27, 90, 27, 27, 27, 27].map(|interval| interval * MS));
        let expected = prediction.next(now).unwrap();
        assert_eq!(expected.from_ns, now + 27 * MS - SLACK_NS);
        assert_eq!(expected.until_ns, now + 27 * MS + SLACK_NS);
    }

    #[test]
    fn irregular_and_too_frequent_hits_are_not_awaited() {
        let (irregular, now) = after([27, 31, 22, 40, 27, 33, 25, 29].map(|interval| interval * MS));
        assert_eq!(irregular.next(now), None);
        let (frequent, now) = after([MS; 8]);
        assert_eq!(frequent.next(now), None);
    }

    #[test]
    fn nothing_is_looked_for_before_enough_was_seen_nor_once_its_time_has_passed() {
        let (few, now) = after([27 * MS; 7]);
        assert_eq!(few.next(now), None);
        let (enough, now) = after([27 * MS; 8]);
        assert!(enough.next(now).is_some());
        assert_eq!(enough.next(now + 27 * MS), None);
    }

    #[test]
    fn the_reader_sleeps_until_the_warm_up_and_not_after_it() {
        let expected = Expected {
            from_ns: 10 * MS,
            until_ns: 11 * MS,
        };
        let ns = Duration::from_nanos;
        for (now_ns, sleep, longest) in [
            (5 * MS, Some(ns(5 * MS - WARM_UP_NS)), ns(6 * MS) + DECISION),
            (
                10 * MS - WARM_UP_NS,
                Some(Duration::ZERO),
                ns(MS + WARM_UP_NS) + DECISION,
            ),
            (11 * MS, Some(Duration::ZERO), DECISION),
            (11 * MS + 1, None, DECISION),
        ] {
            assert_eq!(expected.sleep(now_ns), sleep, "{now_ns}");
            assert_eq!(expected.longest(now_ns), longest, "{now_ns}");
        }
    }

    proptest::proptest! {
        #[test]
        fn however_they_fell_due_no_more_than_a_twentieth_of_the_time_is_looked_for(
            intervals in proptest::collection::vec(0..100 * MS, 8..40)
        ) {
            let (prediction, now) = after(intervals.iter().copied());
            if let Some(expected) = prediction.next(now) {
                let mut recent: Vec<u64> = intervals.iter().rev().take(RECENT).copied().collect();
                recent.sort_unstable();
                let most = SHARE_MAX * recent[LEFT_OUT] as f64;
                proptest::prop_assert!((expected.until_ns - expected.from_ns) as f64 <= most);
                proptest::prop_assert!(expected.until_ns - expected.from_ns <= LOOK_NS_MAX);
            }
        }
    }
}
