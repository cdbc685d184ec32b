//! Aggregation of a probe's hits in the kernel, possible if no formula needs them one by one: the request in
//! a plan, and the result. [`crate::engine`] decides which probes are aggregated.

use serde::{Deserialize, Serialize};

use crate::value::Time;

/// Maximum number of values that are summed for one probe.
pub(crate) const VALUES_MAX: usize = 4;

/// The aggregates of a probe's hits. A hit that cannot be aggregated (a value of it could not be read, is not
/// an integer or reaches 2⁵³, or there is no room) is passed in by itself, as [`crate::Observation::Hit`]:
/// each hit is passed in exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSum {
    /// Determines which hits of a process are aggregated together.
    pub by: Grouping,
    /// The summed values, in this order.
    pub values: Vec<SummedValue>,
}

/// Determines which hits of a process are aggregated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Hits with the same value of a read integer, by its index in [`crate::PlannedProbe::captures`].
    Read(usize),
    /// Hits without a hit of a probe with [`crate::PlannedProbe::parts_sums`] between them in their process.
    Epoch,
}

/// A summed value of each hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummedValue {
    /// The duration in nanoseconds.
    Duration,
    /// A read integer, by its index in [`crate::PlannedProbe::captures`].
    Read(usize),
}

/// Identifies the hits of a probe in one process that are aggregated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Group {
    /// The hits with this key.
    Key(i64),
    /// The hits of this epoch; epochs are only compared.
    Epoch(u64),
}

/// The aggregate of hits of one group, of one probe in one process. Several aggregates of different hits of
/// one group may be passed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialSum {
    pub group: Group,
    /// Not later than the first hit of the group.
    pub first: Time,
    /// When the last of these hits ended.
    pub last: Time,
    pub count: u64,
    /// For each value that the plan requests.
    pub sums: Vec<Sums>,
}

/// The aggregate of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    pub sum: i128,
    pub squares: u128,
    /// The least value of the group so far.
    pub least: i64,
    /// The greatest value of the group so far.
    pub greatest: i64,
}

impl Sums {
    pub fn of(value: i64) -> Sums {
        let size = u128::from(value.unsigned_abs());
        Sums {
            sum: value.into(),
            squares: size * size,
            least: value,
            greatest: value,
        }
    }

    /// Adds the aggregate of other hits.
    pub fn add(&mut self, other: &Sums) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }
}

impl PartialSum {
    /// Adds another aggregate of the same group.
    pub fn add(&mut self, other: &PartialSum) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.count = self.count.saturating_add(other.count);
        for (sums, more) in self.sums.iter_mut().zip(&other.sums) {
            sums.add(more);
        }
    }
}
