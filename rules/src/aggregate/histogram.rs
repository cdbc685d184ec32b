//! Counts of values in logarithmic buckets, for quantiles.

use std::ops::RangeInclusive;

use super::{Count, Merge, WhyNone};

/// Buckets of each power of two: 2^5.
const FINENESS: u32 = 5;
/// How many buckets there are for all of u64.
pub const BUCKETS: usize = (64 - FINENESS as usize + 1) << FINENESS;

/// Counts of u64 in [`BUCKETS`] buckets, at most 15 360 bytes: as many as reach to the greatest value.
///
/// Values below 64 have a bucket each. Above, each power of two is divided into 32 equal buckets, so that a bucket
/// from `low` on is at most `low` / 32 wide, and its middle is at most 1/64 of the value away from any value in it.
///
/// ```
/// use rules::aggregate::Histogram;
///
/// let mut spans = Histogram::default();
/// (1..=1000).for_each(|us| spans.add(us * 1000));
/// let median = spans.quantile(0.5).unwrap();
/// assert!(median.abs_diff(500_000) <= 500_000 / 64);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    total: Count,
    /// The last one is not 0.
    counts: Vec<u64>,
}

impl Histogram {
    pub fn add(&mut self, value: u64) {
        self.add_counted(value, 1);
    }

    /// Adds a value so many times. What was counted in a bucket elsewhere, as in the kernel, is added as any value of
    /// it.
    pub fn add_counted(&mut self, value: u64, count: u64) {
        self.total = self.total.plus(count);
        if self.total.overflowed() {
            self.counts = Vec::new();
        } else if count > 0 {
            let bucket = Histogram::bucket(value);
            if self.counts.len() <= bucket {
                self.counts.resize(bucket + 1, 0);
            }
            self.counts[bucket] += count;
        }
    }

    /// The bucket of a value: itself below 32, else 32·(e − 4) + the next 5 bits behind the highest, which is bit e.
    pub fn bucket(value: u64) -> usize {
        let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
        ((shift as usize) << FINENESS) + (value >> shift) as usize
    }

    /// The values of a bucket; none from [`BUCKETS`] on.
    pub fn range(bucket: usize) -> Option<RangeInclusive<u64>> {
        if bucket >= BUCKETS {
            return None;
        }
        let shift = (bucket >> FINENESS).saturating_sub(1);
        let low = ((bucket - (shift << FINENESS)) as u64) << shift;
        Some(low..=low + ((1 << shift) - 1))
    }

    /// The buckets that are not empty, with their counts, from the smallest values on.
    pub fn buckets(&self) -> impl Iterator<Item = (RangeInclusive<u64>, u64)> {
        let numbered = self.counts.iter().enumerate();
        let filled = numbered.filter(|(_, count)| **count > 0);
        filled.filter_map(|(bucket, count)| Some((Histogram::range(bucket)?, *count)))
    }

    /// How many values were added.
    ///
    /// # Errors
    /// [`WhyNone::Overflow`].
    pub fn count(&self) -> Result<u64, WhyNone> {
        self.total.get()
    }

    /// The value that the share `q` of all n values is at most: the r-th smallest, r the least from 1 on with r / n ≥
    /// `q`, where r / n is rounded to f64 (so that 0.07 of 100 values is the 7th). What is given is the middle of its
    /// bucket: exact below 64, else off by at most 1/64 of the value, in its unit. q = 0 gives the least, 1 the
    /// greatest.
    ///
    /// # Errors
    /// [`WhyNone::NoShare`], [`WhyNone::NoValues`], [`WhyNone::Overflow`].
    pub fn quantile(&self, q: f64) -> Result<u64, WhyNone> {
        let count = self.total.at_least(1)?;
        if !(0.0..=1.0).contains(&q) {
            return Err(WhyNone::NoShare);
        }
        let rank = rank(q, count);
        let mut below = 0;
        for (values, count) in self.buckets() {
            below += count;
            if below >= rank {
                return Ok(values.start() + (values.end() - values.start()) / 2);
            }
        }
        Err(WhyNone::NoValues)
    }
}

/// The least r of 1 to `count` with r / `count` ≥ `q`; r / `count` only grows with r, also when rounded.
pub(super) fn rank(q: f64, count: u64) -> u64 {
    if q >= 1.0 {
        // From 2⁵³ values on, ranks below the count are rounded to a share of 1 too.
        return count;
    }
    let (mut low, mut high) = (1, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if middle as f64 / count as f64 >= q {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

impl Merge for Histogram {
    fn merge(&mut self, other: &Histogram) {
        self.total = self.total.plus(other.total.0);
        if self.total.overflowed() {
            self.counts = Vec::new();
            return;
        }
        let length = self.counts.len().max(other.counts.len());
        self.counts.resize(length, 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }
}
