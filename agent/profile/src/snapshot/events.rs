//! How hits came to the rules, for display.

/// How hits came to the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsView {
    /// Records that the kernel side sent, hits and what was added up.
    pub received: u64,
    /// Hits that the kernel side added up.
    pub added_up: u64,
    /// Of those that were to be added up, hits that were sent instead.
    pub sent_alone: u64,
}
