//! Count, sum and sum of squares of doubles, most of which are integers: sizes, counts, ranks.

use serde::{Deserialize, Serialize};

use super::exact::UNIT;
use super::integers::EXACT;
use super::moments::Moments;
use super::{Integers, Merge, Reals, WhyNone};

/// Exact count, sum and sum of squares of f64, as fast as [`Integers`] for integers below 2⁵³.
///
/// Integers go to one aggregate and all other values to a second, which is created on demand. The value alone
/// decides which, so that equal sets of values give equal states.
///
/// ```
/// use rules::aggregate::{Merge, Numbers};
///
/// let (mut here, mut there) = (Numbers::default(), Numbers::default());
/// [1e15, 0.25].iter().for_each(|x| here.add(*x));
/// there.add(-1e15);
/// there.merge(&here);
/// assert_eq!(there.sum(), Ok(0.25));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    integral: Integers,
    others: Option<Box<Reals>>,
}

impl Numbers {
    #[inline]
    pub fn add(&mut self, value: f64) {
        // A cast saturates, and NaN becomes 0, which differs from NaN.
        let integral = value as i64;
        if integral as f64 == value && integral.unsigned_abs() <= EXACT {
            self.integral.add_signed(integral);
        } else {
            self.others.get_or_insert_default().add(value);
        }
    }

    /// Σx, the nearest f64; 0 for no values.
    ///
    /// # Errors
    /// [`WhyNone::NotFinite`], [`WhyNone::TooLarge`], [`WhyNone::Overflow`].
    pub fn sum(&self) -> Result<f64, WhyNone> {
        match &self.others {
            None => self.integral.sum_in(1),
            Some(others) => self.both(others)?.sum(),
        }
    }

    /// Σx / n, the nearest f64.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`], [`WhyNone::NotFinite`], [`WhyNone::Overflow`].
    pub fn mean(&self) -> Result<f64, WhyNone> {
        match &self.others {
            None => self.integral.mean_in(1),
            Some(others) => self.both(others)?.mean(),
        }
    }

    /// The square root of the exact Σ(x − mean)² / n, the nearest f64.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`] and [`WhyNone::OneValue`]; [`WhyNone::NotFinite`], [`WhyNone::Overflow`].
    pub fn stddev(&self) -> Result<f64, WhyNone> {
        match &self.others {
            None => self.integral.stddev_in(1),
            Some(others) => self.both(others)?.stddev(1),
        }
    }

    /// The sums of both aggregates, in units of 2^-1074 and of its square.
    fn both(&self, others: &Reals) -> Result<Moments, WhyNone> {
        let (integral, others) = (self.integral.moments(), others.moments()?);
        self.integral.count()?;
        let up = UNIT.unsigned_abs() as usize;
        let sum = (integral.sum << up) + others.sum;
        Ok(Moments {
            count: integral.count.plus(others.count.0),
            sum,
            squares: (integral.squares << (2 * up)) + others.squares,
            exponent: UNIT,
        })
    }

    /// Bytes of memory beyond its own size.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.others.as_ref().map_or(0, |others| size_of_val(&**others))
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        self.integral.is_sound() && self.others.as_ref().is_none_or(|others| others.is_sound())
    }
}

/// From integers below 2⁵³.
impl From<Integers> for Numbers {
    fn from(integral: Integers) -> Numbers {
        Numbers {
            integral,
            others: None,
        }
    }
}

impl Merge for Numbers {
    fn merge(&mut self, other: &Numbers) {
        self.integral.merge(&other.integral);
        if let Some(others) = &other.others {
            self.others.get_or_insert_default().merge(others);
        }
    }
}
