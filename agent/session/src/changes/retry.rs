//! Changes that are to be reverted and could not be yet: the program did not come to their place, or a
//! thread stands in the code. They are tried again, each time after twice as long. Whether one is to be taken
//! back is not decided here.

use std::collections::BTreeMap;

use rules::Time;

use super::event::ChangeId;

/// Until the first try, and the longest between two. A try may keep the actuator for seconds.
const PAUSE_NS: u64 = 1_000_000_000;
const PAUSE_NS_MAX: u64 = 64 * PAUSE_NS;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    due_ns: u64,
    pause_ns: u64,
}

/// What is to be tried again. It holds no more than was changed in the session.
#[derive(Debug, Default)]
pub(super) struct Retry {
    waiting: BTreeMap<ChangeId, Waiting>,
}

impl Retry {
    /// It could not be reverted. True for the first time.
    pub(super) fn failed(&mut self, change: ChangeId, now: Time) -> bool {
        let before = self.waiting.get(&change).map(|waiting| waiting.pause_ns);
        let pause_ns = before.map_or(PAUSE_NS, |pause_ns| (2 * pause_ns).min(PAUSE_NS_MAX));
        let due_ns = now.0.saturating_add(pause_ns);
        self.waiting.insert(change, Waiting { due_ns, pause_ns });
        before.is_none()
    }

    /// It was reverted, or there is nothing to revert any more. True if it had failed before.
    pub(super) fn over(&mut self, change: ChangeId) -> bool {
        self.waiting.remove(&change).is_some()
    }

    /// What it is time for; until it is known what came of it, it is not due again.
    pub(super) fn due(&mut self, now: Time) -> Vec<ChangeId> {
        let due = self
            .waiting
            .iter_mut()
            .filter(|(_, waiting)| waiting.due_ns <= now.0);
        due.map(|(change, waiting)| {
            waiting.due_ns = u64::MAX;
            *change
        })
        .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
