//! What may be aggregated of a probe's hits where they happen, because no formula needs them one by one: the
//! request of a plan, and the result. Which probes these are is decided in [`crate::engine`].

use crate::value::Time;

/// Most values that are added up of one probe.
pub(crate) const VALUES_MAX: usize = 4;

/// The aggregates of a probe's hits. A hit that cannot be aggregated — a value of it could not be read, is no
/// whole number or reaches 2⁵³, or there is no room — is passed in by itself, as [`crate::Observation::Hit`]:
/// each hit in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSum {
    /// What decides which hits of a process are aggregated together.
    pub by: Grouping,
    /// What is added up, in this order.
    pub values: Vec<SummedValue>,
}

/// What decides which hits of a process are aggregated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// A whole number that is read at each, by its place in [`crate::PlannedProbe::captures`].
    Read(usize),
    /// That no hit of a probe with [`crate::PlannedProbe::parts_sums`] lies between them in their process.
    Epoch,
}

/// What is added up of each hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummedValue {
    /// How long it took, in nanoseconds.
    Duration,
    /// What was read, a whole number, by its place in [`crate::PlannedProbe::captures`].
    Read(usize),
}

/// Hits of a probe in one process that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Those with this number.
    Key(i64),
    /// Those of this epoch; the numbers are only compared.
    Epoch(u64),
}

/// What came of hits of one probe in one process that go together. Of one group several may be handed in one
/// after the other, of different hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSum {
    pub group: Group,
    /// Not later than the first of all hits of the group.
    pub first: Time,
    /// When the last of these hits ended.
    pub last: Time,
    pub count: u64,
    /// Of each value that the plan requests.
    pub sums: Vec<Sums>,
}

/// What came of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    pub sum: i128,
    pub squares: u128,
    /// The least of all hits of the group so far.
    pub least: i64,
    /// The greatest of all hits of the group so far.
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

    /// Takes in those of other hits.
    pub fn add(&mut self, other: &Sums) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }
}

impl PartialSum {
    /// Takes in another of the same group.
    pub fn add(&mut self, other: &PartialSum) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.count = self.count.saturating_add(other.count);
        for (sums, more) in self.sums.iter_mut().zip(&other.sums) {
            sums.add(more);
        }
    }
}
