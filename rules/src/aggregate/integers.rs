//! Count, sum and sum of squares of integers: nanoseconds, bytes, counts.

use num_bigint::BigUint;

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::scaled::ratio;
use super::{Count, Merge, VALUES_MAX, WhyNone};

/// Exact count, sum and sum of squares of u64 and i64.
///
/// Up to [`VALUES_MAX`] values nothing can overflow: |Σx| ≤ 2⁶³ · 2⁶⁴ has an i128, and Σx² < 2⁶³ · 2¹²⁸ is
/// kept in 192 bits.
///
/// ```
/// use rules::aggregate::{Integers, Merge};
///
/// let (mut here, mut there) = (Integers::default(), Integers::default());
/// [2, 4, 4, 4].iter().for_each(|ns| here.add(*ns));
/// [5, 5, 7, 9].iter().for_each(|ns| there.add(*ns));
/// here.merge(&there);
/// assert_eq!((here.sum(), here.mean_in(1)), (Ok(40), Ok(5.0)));
/// assert_eq!(here.stddev_in(1), Ok(2.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integers {
    count: Count,
    sum: i128,
    /// Σx² is `squares` + `carries` · 2¹²⁸.
    squares: u128,
    carries: u64,
}

impl Integers {
    pub fn add(&mut self, value: u64) {
        let square = u128::from(value) * u128::from(value);
        self.put(1, value.into(), square, 0);
    }

    /// Adds a value that may be negative.
    pub fn add_signed(&mut self, value: i64) {
        let square = u128::from(value.unsigned_abs()) * u128::from(value.unsigned_abs());
        self.put(1, value.into(), square, 0);
    }

    /// From sums made elsewhere, as in the kernel: count, Σx and Σx². `None` if no 64-bit values have these
    /// sums, which are then torn or wrapped: |Σx| ≤ n·(2⁶⁴−1), Σx² ≤ n·(2⁶⁴−1)² and (Σx)² ≤ n·Σx² hold for
    /// all values.
    pub fn from_sums(count: u64, sum: i128, squares: u128) -> Option<Integers> {
        let (number, most) = (BigUint::from(count), BigUint::from(u64::MAX));
        let (size, sum_of_squares) = (BigUint::from(sum.unsigned_abs()), BigUint::from(squares));
        let possible = count <= VALUES_MAX
            && size <= &number * &most
            && sum_of_squares <= &number * &most * &most
            && &size * &size <= number * &sum_of_squares;
        possible.then_some(Integers {
            count: Count(count),
            sum,
            squares,
            carries: 0,
        })
    }

    fn put(&mut self, count: u64, sum: i128, squares: u128, carries: u64) {
        let total = self.count.plus(count);
        if total.overflowed() {
            *self = Integers {
                count: total,
                ..Integers::default()
            };
            return;
        }
        let (squares, carry) = self.squares.overflowing_add(squares);
        self.count = total;
        self.sum += sum;
        self.squares = squares;
        self.carries += carries + u64::from(carry);
    }

    /// The number of values.
    ///
    /// # Errors
    /// [`WhyNone::Overflow`].
    pub fn count(&self) -> Result<u64, WhyNone> {
        self.count.get()
    }

    /// Σx, exact; 0 for no values.
    ///
    /// # Errors
    /// [`WhyNone::Overflow`].
    pub fn sum(&self) -> Result<i128, WhyNone> {
        self.count.get().map(|_| self.sum)
    }

    /// Σx / `per`, the nearest f64: the sum in a unit `per` times as large.
    ///
    /// # Errors
    /// [`WhyNone::Overflow`].
    pub fn sum_in(&self, per: u64) -> Result<f64, WhyNone> {
        let sum = self.sum()?;
        match (small(sum), per < EXACT) {
            // Both are exact doubles, so one division gives the nearest.
            (Some(sum), true) => Ok(sum / per as f64),
            _ => ratio(&sum.into(), &per.max(1).into(), 0),
        }
    }

    /// Σx / n / `per`, the nearest f64.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`], [`WhyNone::Overflow`].
    pub fn mean_in(&self, per: u64) -> Result<f64, WhyNone> {
        let count = self.count.at_least(1)?;
        let by = u128::from(count) * u128::from(per.max(1));
        match (small(self.sum), by < u128::from(EXACT)) {
            (Some(sum), true) => Ok(sum / by as f64),
            _ => ratio(&self.sum.into(), &by.into(), 0),
        }
    }

    /// The standard deviation √(Σ(x − mean)² / n) / `per`, the nearest f64.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`]; [`WhyNone::OneValue`], because one value has no spread; [`WhyNone::Overflow`].
    pub fn stddev_in(&self, per: u64) -> Result<f64, WhyNone> {
        self.moments().stddev(per.max(1))
    }

    pub(super) fn moments(&self) -> Moments {
        Moments {
            count: self.count,
            sum: self.sum.into(),
            squares: (BigUint::from(self.carries) << 128) + self.squares,
            exponent: 0,
        }
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        let most = u128::from(self.count.0) * u128::from(u64::MAX);
        let emptied = Integers {
            count: self.count,
            ..Integers::default()
        };
        self.count.is_sound(|| *self == emptied)
            && self.sum.unsigned_abs() <= most
            && self.carries <= self.count.0
    }
}

/// Integers up to this are exact as doubles.
pub(super) const EXACT: u64 = 1 << 53;

/// An integer as a double, if it is certainly exact.
fn small(value: i128) -> Option<f64> {
    (value.unsigned_abs() <= u128::from(EXACT)).then_some(value as f64)
}

impl Merge for Integers {
    fn merge(&mut self, other: &Integers) {
        self.put(other.count.0, other.sum, other.squares, other.carries);
    }
}
