//! Changes that could not be reverted yet: the program did not reach their place, or a thread stands in the
//! code. They are retried with a pause that doubles each time. Whether a change must be reverted is decided
//! elsewhere.

use std::collections::BTreeMap;

use rules::Time;

use super::event::ChangeId;

/// Pause before the first retry, and the longest pause. A retry may occupy the actuator for seconds.
const PAUSE_NS: u64 = 1_000_000_000;
const PAUSE_NS_MAX: u64 = 64 * PAUSE_NS;

#[derive(Clone, Copy, Debug)]
struct PendingRetry {
    due_ns: u64,
    pause_ns: u64,
}

/// The changes to retry: at most those of the session.
#[derive(Debug, Default)]
pub(super) struct Retry {
    waiting: BTreeMap<ChangeId, PendingRetry>,
}

impl Retry {
    /// Records a failed revert. True for the first failure of the change.
    pub(super) fn failed(&mut self, change: ChangeId, now: Time) -> bool {
        let before = self.waiting.get(&change).map(|waiting| waiting.pause_ns);
        let pause_ns = before.map_or(PAUSE_NS, |pause_ns| (2 * pause_ns).min(PAUSE_NS_MAX));
        let due_ns = now.0.saturating_add(pause_ns);
        self.waiting.insert(change, PendingRetry { due_ns, pause_ns });
        before.is_none()
    }

    /// Records that it was reverted, or that nothing is left to revert. True if it had failed before.
    pub(super) fn over(&mut self, change: ChangeId) -> bool {
        self.waiting.remove(&change).is_some()
    }

    /// The changes whose retry is due; they are not due again until the result is known.
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
