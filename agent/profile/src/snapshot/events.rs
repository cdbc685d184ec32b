//! How hits reached the rules, for display.

/// How hits reached the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsView {
    /// Records that the kernel side sent: hits and partial sums.
    pub received: u64,
    /// Hits that were aggregated in the kernel.
    pub aggregated: u64,
    /// Hits that should have been aggregated in the kernel but were sent one by one.
    pub sent_alone: u64,
}
