//! Quantiles of doubles of any sign: exact for few values, from logarithmic buckets for many.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Count, Merge, VALUES_MAX, WhyNone};

/// Up to this number, the values themselves are kept.
pub const FEW: usize = 64;
/// A bucket is identified by the sign, the exponent and the first 5 fractional bits: 32 buckets per power of
/// two.
const CUT: u32 = 52 - 5;
/// That of the greatest double.
const LAST_BUCKET: i32 = (0x7ff << 5) - 1;

/// The values themselves while there are at most [`FEW`], otherwise the number of values in each bucket.
///
/// The form depends on the number of values alone, so that any split and order of them give equal states. A
/// bucket that begins at `low` is at most `low` / 32 wide: the result is its middle, off by at most 1/64 of
/// the value.
///
/// ```
/// use rules::aggregate::Quantiles;
///
/// let mut spans = Quantiles::default();
/// (1..=4).for_each(|ms| spans.add(f64::from(ms)));
/// assert_eq!(spans.quantile(0.5), Ok(2.5));
/// (5..=1000).for_each(|ms| spans.add(f64::from(ms)));
/// assert!((spans.quantile(0.5).unwrap() - 500.0).abs() <= 500.0 / 64.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    count: Count,
    not_finite: u64,
    few: Vec<f64>,
    buckets: BTreeMap<i32, u64>,
}

impl Quantiles {
    /// Adds a value. One that is not finite is counted, and there are no quantiles then.
    pub fn add(&mut self, value: f64) {
        self.count = self.count.plus(1);
        if !value.is_finite() {
            self.not_finite = self.not_finite.saturating_add(1);
            return;
        }
        // −0 + 0 is 0.
        let value = value + 0.0;
        if !self.buckets.is_empty() {
            *self.buckets.entry(bucket(value)).or_default() += 1;
            return;
        }
        let index = self.few.partition_point(|known| *known <= value);
        self.few.insert(index, value);
        if self.few.len() > FEW {
            self.spill();
        }
    }

    fn spill(&mut self) {
        for value in std::mem::take(&mut self.few) {
            *self.buckets.entry(bucket(value)).or_default() += 1;
        }
    }

    /// The value below which the share `q` of all values lies. For few values it is interpolated linearly
    /// between two of them; otherwise it is the middle of the bucket of the r-th smallest value, where r is
    /// the least rank with r / n ≥ `q`.
    ///
    /// # Errors
    /// [`WhyNone::NoShare`], [`WhyNone::NoValues`], [`WhyNone::NotFinite`], [`WhyNone::Overflow`].
    pub fn quantile(&self, q: f64) -> Result<f64, WhyNone> {
        let count = self.count.at_least(1)?;
        if !(0.0..=1.0).contains(&q) {
            return Err(WhyNone::NoShare);
        }
        if self.not_finite > 0 {
            return Err(WhyNone::NotFinite(self.not_finite));
        }
        if self.buckets.is_empty() {
            let index = q * (self.few.len() - 1) as f64;
            let at = |index: f64| self.few.get(index as usize).copied().ok_or(WhyNone::NoValues);
            let (low, high) = (at(index.floor())?, at(index.ceil())?);
            return Ok(low + (high - low) * index.fract());
        }
        let (rank, mut below) = (rank(q, count), 0);
        for (bucket, more) in &self.buckets {
            below = more.saturating_add(below);
            if below >= rank {
                return Ok(middle(*bucket));
            }
        }
        Err(WhyNone::NoValues)
    }

    /// Bytes of memory beyond its own size, at most.
    pub(crate) fn heap_bytes(&self) -> usize {
        const NODE: usize = 11;
        let buckets = match self.buckets.len() {
            0 => 0,
            many => 2 * many + NODE,
        };
        self.few.capacity() * size_of::<f64>() + buckets * size_of::<(i32, u64)>()
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        let few = self.few.is_sorted_by(|a, b| a <= b) && self.few.iter().all(|value| value.is_finite());
        let kept = self
            .buckets
            .values()
            .try_fold(self.few.len() as u64, |sum, more| sum.checked_add(*more));
        let kept = kept.and_then(|kept| kept.checked_add(self.not_finite));
        let is_bucket = |bucket: &i32| (-1 - LAST_BUCKET..=LAST_BUCKET).contains(bucket);
        self.count.0 <= VALUES_MAX + 1
            && few
            && (self.few.len() <= FEW && (self.few.is_empty() || self.buckets.is_empty()))
            && (self.count.overflowed() || kept == Some(self.count.0))
            && self.buckets.keys().all(is_bucket)
    }
}

impl Merge for Quantiles {
    fn merge(&mut self, other: &Quantiles) {
        self.count = self.count.plus(other.count.0);
        self.not_finite = self.not_finite.saturating_add(other.not_finite);
        self.few.extend(&other.few);
        self.few.sort_by(f64::total_cmp);
        for (bucket, more) in &other.buckets {
            let count = self.buckets.entry(*bucket).or_default();
            *count = count.saturating_add(*more);
        }
        if self.few.len() > FEW || !self.buckets.is_empty() {
            self.spill();
        }
    }
}

/// Ordered as the values: 0 for the positive values nearest to 0, −1 for the negative ones.
fn bucket(value: f64) -> i32 {
    let size = (value.abs().to_bits() >> CUT) as i32;
    if value < 0.0 { -1 - size } else { size }
}

fn middle(bucket: i32) -> f64 {
    let size = if bucket < 0 { -1 - bucket } else { bucket } as u64;
    let (low, high) = (
        f64::from_bits(size << CUT),
        f64::from_bits((size << CUT) | ((1 << CUT) - 1)),
    );
    let middle = low + (high - low) / 2.0;
    if bucket < 0 { -middle } else { middle }
}

/// The least r of 1 to `count` with r / `count` ≥ `q`. r / `count` is monotonic in r, even rounded.
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
