//! Changes that are to be taken back and could not be yet: the program did not come to their place, or a thread stands in the code. They
//! are tried again, each time after twice as long. Whether one is to be taken back is not decided here.

use std::collections::BTreeMap;

use tuner::process::Pid;

use super::{Session, act::time_of_day};
use crate::clock::monotonic_ns;

/// Until the first try, and the longest between two. A try may keep the actuator for seconds.
const PAUSE_NS: u64 = 1_000_000_000;
const PAUSE_NS_MAX: u64 = 64 * PAUSE_NS;

/// A change of a process, by its number.
type Made = (Pid, u64);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    due_ns: u64,
    pause_ns: u64,
}

/// What is to be tried again. It holds no more than was changed in the session.
#[derive(Debug, Default)]
pub(super) struct Again {
    waiting: BTreeMap<Made, Waiting>,
}

impl Again {
    /// It could not be taken back. True for the first time.
    pub(super) fn failed(&mut self, made: Made, now_ns: u64) -> bool {
        let before = self.waiting.get(&made).map(|waiting| waiting.pause_ns);
        let pause_ns = before.map_or(PAUSE_NS, |pause_ns| (2 * pause_ns).min(PAUSE_NS_MAX));
        let due_ns = now_ns.saturating_add(pause_ns);
        self.waiting.insert(made, Waiting { due_ns, pause_ns });
        before.is_none()
    }

    /// It was taken back, or there is nothing to take back any more. True if it had failed before.
    pub(super) fn over(&mut self, made: Made) -> bool {
        self.waiting.remove(&made).is_some()
    }

    /// What it is time for; until it is known what came of it, it is not due again.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<Made> {
        let waiting = self.waiting.iter_mut();
        let due = waiting.filter(|(_, waiting)| waiting.due_ns <= now_ns);
        due.map(|(made, waiting)| {
            waiting.due_ns = u64::MAX;
            *made
        })
        .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Session {
    /// What came of taking it back, in words.
    pub(super) fn is_back(&mut self, made: (Pid, u64), outcome: &str) -> String {
        if self.ledger.again.over(made) {
            let (time, (pid, change)) = (time_of_day(), made);
            self.painter.say(&format!(
                "{time}  undo     change {change} of process {pid}: {outcome} now"
            ));
        }
        outcome.to_owned()
    }

    /// If it may go better it is tried again. A process that has ended holds nothing.
    pub(super) fn is_not_back(&mut self, made: (Pid, u64), reason: &str, may_pass: bool) -> String {
        let outcome = format!("not put back: {reason}");
        let (pid, change) = made;
        if !may_pass || !pid.is_alive() {
            self.ledger.again.over(made);
        } else if self.ledger.again.failed(made, monotonic_ns()) {
            let time = time_of_day();
            self.painter.say(&format!(
                "{time}  undo     change {change} of process {pid} is {outcome}; it is tried again"
            ));
        }
        outcome
    }

    /// Has taken back what could not be before.
    pub(super) fn try_again(&mut self) {
        let due = self.ledger.again.due(monotonic_ns());
        self.order_undo(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn made(number: i32, change: u64) -> Made {
        let start_time = 1;
        (Pid { number, start_time }, change)
    }

    #[test]
    fn what_fails_again_and_again_is_tried_after_twice_as_long_and_once_a_minute_in_the_end() {
        let (mut again, mut now) = (Again::default(), 0);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            again.failed(made(7, 1), now);
            let failed_ns = now;
            while again.due(now).is_empty() {
                now += SECOND / 2;
            }
            pauses.push((now - failed_ns) / SECOND);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn a_try_that_is_under_way_is_not_made_twice_and_what_succeeds_is_forgotten() {
        let mut again = Again::default();
        assert!(again.failed(made(7, 1), 0) && again.failed(made(7, 3), 0));
        assert_eq!(again.due(SECOND), [made(7, 1), made(7, 3)]);
        assert_eq!(again.due(100 * SECOND), []);
        assert!(!again.failed(made(7, 3), 2 * SECOND));
        assert!(again.over(made(7, 1)) && !again.over(made(7, 1)));
        assert_eq!(again.due(100 * SECOND), [made(7, 3)]);
        assert!(again.over(made(7, 3)) && again.is_empty());
    }
}
