//! How many conditions held.

use super::{Merge, WhyNone};

/// Counts of what held and what did not, for any and all. Counts stop at 2⁶⁴ − 1, which changes neither result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truths {
    held: u64,
    failed: u64,
}

impl Truths {
    pub fn add(&mut self, holds: bool) {
        let count = if holds { &mut self.held } else { &mut self.failed };
        *count = count.saturating_add(1);
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    /// How many did not hold.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Whether at least one held.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`].
    pub fn any(&self) -> Result<bool, WhyNone> {
        self.counted().map(|()| self.held > 0)
    }

    /// Whether none failed. Of no values it is none and not true, as logic has it: nothing should act on nothing.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`].
    pub fn all(&self) -> Result<bool, WhyNone> {
        self.counted().map(|()| self.failed == 0)
    }

    fn counted(&self) -> Result<(), WhyNone> {
        if self.held == 0 && self.failed == 0 {
            return Err(WhyNone::NoValues);
        }
        Ok(())
    }
}

impl Merge for Truths {
    fn merge(&mut self, other: &Truths) {
        self.held = self.held.saturating_add(other.held);
        self.failed = self.failed.saturating_add(other.failed);
    }
}
