//! Linear regression by least squares.

use num_bigint::BigInt;
use num_traits::Zero;

use serde::{Deserialize, Serialize};

use super::exact::{DOUBLE, Exact, FiniteDouble, SINGLE, UNIT};
use super::scaled::ratio;
use super::{Count, Merge, WhyNone};

/// A straight line: y = intercept + slope · x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLine {
    /// In the unit of y over the unit of x.
    pub slope: f64,
    /// In the unit of y.
    pub intercept: f64,
}

/// Exact n, Σx, Σy, Σx², Σxy of points, for the linear regression of y on x. 3184 bytes.
///
/// With D = n·Σx² − (Σx)² the slope is (n·Σxy − Σx·Σy) / D and the intercept (Σy·Σx² − Σx·Σxy) / D, both from
/// exact integers and rounded once: there is no cancellation, however far the points are from 0.
///
/// ```
/// use rules::aggregate::Regression;
///
/// let mut line = Regression::default();
/// for (x, y) in [(1e9, 5.0), (1e9 + 1.0, 7.0), (1e9 + 2.0, 9.0)] {
///     line.add(x, y);
/// }
/// assert_eq!(line.line().unwrap().slope, 2.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Regression {
    count: Count,
    not_finite: u64,
    x: Exact<SINGLE>,
    y: Exact<SINGLE>,
    xx: Exact<DOUBLE>,
    xy: Exact<DOUBLE>,
}

impl Regression {
    /// Adds a point. A point with a coordinate that is not finite is counted, and the line is none then.
    pub fn add(&mut self, x: f64, y: f64) {
        self.put(x, y, 1);
    }

    pub(super) fn put(&mut self, x: f64, y: f64, times: u64) {
        self.count = self.count.plus(times);
        if self.count.overflowed() {
            *self = self.emptied();
            return;
        }
        match FiniteDouble::of(x).zip(FiniteDouble::of(y)) {
            Some((x, y)) => {
                self.x.add(x, times);
                self.y.add(y, times);
                self.xx.add(x, x, times);
                self.xy.add(x, y, times);
            }
            None => self.not_finite += times,
        }
    }

    fn emptied(&self) -> Regression {
        Regression {
            count: self.count,
            ..Regression::default()
        }
    }

    /// The line with the least sum of squared differences in y; slope and intercept are each the nearest f64.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`], [`WhyNone::OneValue`], [`WhyNone::SameX`], [`WhyNone::NotFinite`],
    /// [`WhyNone::TooLarge`], [`WhyNone::Overflow`].
    pub fn line(&self) -> Result<FittedLine, WhyNone> {
        if self.not_finite > 0 {
            return Err(WhyNone::NotFinite(self.not_finite));
        }
        let count = self.count.at_least(2)?;
        let count = BigInt::from(count);
        let (x, y) = (self.x.total(), self.y.total());
        let (xx, xy) = (self.xx.total(), self.xy.total());
        let below = &count * &xx - &x * &x;
        if below.is_zero() {
            return Err(WhyNone::SameX);
        }
        let slope = count * &xy - &x * &y;
        let intercept = y * xx - x * xy;
        Ok(FittedLine {
            slope: ratio(&slope, below.magnitude(), 0)?,
            intercept: ratio(&intercept, below.magnitude(), UNIT)?,
        })
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        let sums = self.x.is_of(self.count.0) && self.y.is_of(self.count.0);
        let products = self.xx.is_of(self.count.0) && self.xy.is_of(self.count.0);
        self.count.is_sound(|| *self == self.emptied()) && self.not_finite <= self.count.0 && sums && products
    }
}

impl Merge for Regression {
    fn merge(&mut self, other: &Regression) {
        self.count = self.count.plus(other.count.0);
        if self.count.overflowed() {
            *self = self.emptied();
            return;
        }
        self.not_finite += other.not_finite;
        self.x.merge(&other.x);
        self.y.merge(&other.y);
        self.xx.merge(&other.xx);
        self.xy.merge(&other.xy);
    }
}
