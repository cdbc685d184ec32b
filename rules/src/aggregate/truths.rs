//! Counts of true and false conditions.

use serde::{Deserialize, Serialize};

use super::Merge;

/// Counts of true and false values, for `any` and `all`. The counts saturate at 2⁶⁴ − 1, which changes
/// neither result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

    /// The number of false values.
    pub fn failed(&self) -> u64 {
        self.failed
    }
}

impl Merge for Truths {
    fn merge(&mut self, other: &Truths) {
        self.held = self.held.saturating_add(other.held);
        self.failed = self.failed.saturating_add(other.failed);
    }
}
