//! Count, sum and sum of squares of doubles.

use serde::{Deserialize, Serialize};

use super::exact::{DOUBLE, Exact, FiniteDouble, SINGLE, UNIT};
use super::moments::Moments;
use super::{Count, Merge, WhyNone};

/// Exact count, sum and sum of squares of f64. 1600 bytes, of which two or three limbs of 16 bytes are in use
/// for values of similar size.
///
/// Sums are never rounded, so that 1e300 + 1 − 1e300 is 1; results are rounded once. An infinity or NaN among
/// the values is counted, and the results are none then. −0 is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reals {
    count: Count,
    not_finite: u64,
    sum: Exact<SINGLE>,
    squares: Exact<DOUBLE>,
}

impl Reals {
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        self.put(value, 1);
    }

    #[inline]
    pub(super) fn put(&mut self, value: f64, times: u64) {
        self.count = self.count.plus(times);
        if self.count.overflowed() {
            *self = self.emptied();
            return;
        }
        match FiniteDouble::of(value) {
            Some(x) => {
                self.sum.add(x, times);
                self.squares.add(x, x, times);
            }
            None => self.not_finite += times,
        }
    }

    /// All overflowed aggregates have the same state.
    #[cold]
    fn emptied(&self) -> Reals {
        Reals {
            count: self.count,
            ..Reals::default()
        }
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
            squares: self.squares.total().into_parts().1,
            exponent: UNIT,
        })
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        self.count.is_sound(|| *self == self.emptied())
            && self.not_finite <= self.count.0
            && self.sum.is_of(self.count.0)
            && self.squares.is_of(self.count.0)
    }
}

impl Merge for Reals {
    fn merge(&mut self, other: &Reals) {
        self.count = self.count.plus(other.count.0);
        if self.count.overflowed() {
            *self = self.emptied();
            return;
        }
        self.not_finite += other.not_finite;
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }
}
