//! Count, sum and sum of squares of doubles.

use super::exact::{DOUBLE, Exact, Parts, SINGLE, UNIT};
use super::moments::{self, Divisor, Moments};
use super::{Count, Merge, WhyNone};

/// Exact count, sum and sum of squares of f64. 1600 bytes, of which two or three limbs of 16 bytes are in use for
/// values of like size.
///
/// No sum is ever rounded, so that 1e300 + 1 − 1e300 is 1; results are, once. An infinity or NaN among the values is
/// counted, and the results are none then. −0 is 0.
///
/// ```
/// use rules::aggregate::{Merge, Reals};
///
/// let (mut here, mut there) = (Reals::default(), Reals::default());
/// here.add(1e300);
/// here.add(1.0);
/// there.add(-1e300);
/// there.merge(&here);
/// assert_eq!(there.sum(), Ok(1.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reals {
    count: Count,
    not_finite: u64,
    sum: Exact<SINGLE>,
    squares: Exact<DOUBLE>,
}

impl Reals {
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.put(value, 1);
    }

    #[inline]
    pub(super) fn put(&mut self, value: f64, times: u64) {
        self.count = self.count.plus(times);
        if self.count.overflowed() {
            self.overflow();
            return;
        }
        match Parts::of(value) {
            Some(x) => {
                self.sum.add(x, times);
                self.squares.add(x, x, times);
            }
            None => self.not_finite += times,
        }
    }

    /// One state for all overflowed aggregates.
    #[cold]
    fn overflow(&mut self) {
        *self = Reals {
            count: self.count,
            ..Reals::default()
        };
    }

    /// How many values were added, those that are not finite included.
    ///
    /// # Errors
    /// [`WhyNone::Overflow`].
    pub fn count(&self) -> Result<u64, WhyNone> {
        self.count.get()
    }

    /// How many of the values are not finite.
    ///
    /// # Errors
    /// [`WhyNone::Overflow`].
    pub fn not_finite(&self) -> Result<u64, WhyNone> {
        self.count.get().map(|_| self.not_finite)
    }

    /// Σx, the nearest f64; 0 of no values.
    ///
    /// # Errors
    /// [`WhyNone::NotFinite`], [`WhyNone::TooLarge`], [`WhyNone::Overflow`].
    pub fn sum(&self) -> Result<f64, WhyNone> {
        self.usable()?;
        self.sum.total().rounded(UNIT)
    }

    /// Σx / n, the nearest f64, in the unit of the values. It exists also where the sum is too large.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`], [`WhyNone::NotFinite`], [`WhyNone::Overflow`].
    pub fn mean(&self) -> Result<f64, WhyNone> {
        moments::mean(self.usable()?, &self.sum.total(), UNIT)
    }

    /// Σ(x − mean)² / (n − 1 or n), the nearest f64, in the square of the values' unit.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`] and [`WhyNone::OneValue`], for either divisor: one value shows no spread;
    /// [`WhyNone::NotFinite`], [`WhyNone::TooLarge`], [`WhyNone::Overflow`].
    pub fn variance(&self, divisor: Divisor) -> Result<f64, WhyNone> {
        self.moments()?.variance(divisor)
    }

    /// The square root of the exact variance, the nearest f64, in the unit of the values. It exists also where the
    /// variance is too large or too small for an f64.
    ///
    /// # Errors
    /// Those of [`Reals::variance`].
    pub fn stddev(&self, divisor: Divisor) -> Result<f64, WhyNone> {
        self.moments()?.stddev(divisor, 1)
    }

    /// The count, if all values are finite.
    fn usable(&self) -> Result<Count, WhyNone> {
        match self.not_finite {
            0 => self.count.get().map(|_| self.count),
            count => Err(WhyNone::NotFinite(count)),
        }
    }

    pub(super) fn moments(&self) -> Result<Moments, WhyNone> {
        Ok(Moments {
            count: self.usable()?,
            sum: self.sum.total(),
            squares: self.squares.total().size().clone(),
            exponent: UNIT,
        })
    }
}

impl Merge for Reals {
    fn merge(&mut self, other: &Reals) {
        self.count = self.count.plus(other.count.0);
        if self.count.overflowed() {
            self.overflow();
            return;
        }
        self.not_finite += other.not_finite;
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }
}
