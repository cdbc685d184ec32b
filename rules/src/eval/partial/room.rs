//! The room for the data of open windows.

/// States of an instance in a job of few processes; further ones make it partial.
const STATES: usize = 65_536;
/// Further entries of any kind for each process.
const PER_PROCESS: usize = 16;

/// The room in a job of this many processes: it grows with them, so that the hits of a window whose boundaries
/// each rank hits fit for any number of ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    processes: usize,
}

impl Room {
    pub(crate) fn of(processes: usize) -> Room {
        Room { processes }
    }

    /// The bound of something for which a job of few processes has `least` entries.
    pub(crate) fn bound(self, least: usize) -> usize {
        least.saturating_add(self.processes.saturating_mul(PER_PROCESS))
    }

    /// The most states of an instance: one for each fold and process, and some for rows by other keys.
    pub(super) fn states(self, folds: usize) -> usize {
        self.bound(STATES)
            .saturating_add(self.processes.saturating_mul(folds))
    }
}
