//! Partial aggregates: what a node keeps of the hits it saw, so that merging the nodes' parts gives *exactly*
//! what one evaluator that saw every hit would have.
//!
//! Every type here is a commutative monoid: [`Default`] is the empty aggregate, [`Merge::merge`] is
//! associative and commutative bit for bit, and adding one value is merging an aggregate of that value alone.
//! Hence any split of the hits over nodes, any tree of merges and any order of arrival give equal states, and
//! equal states give equal results. That is why no floating-point number is ever added to another here: sums
//! are integers of fixed width ([`Integers`]) or fixed-point numbers wide enough for every double (`Reals`,
//! [`Regression`]), and rounding happens once, when a result is read. Nothing depends on a maths library
//! either: two machines give the same bits.
//!
//! | type | keeps | gives | bytes |
//! |---|---|---|---|
//! | [`Integers`] | count, Σx, Σx² of u64 and i64 | sum, mean, standard deviation | 48 |
//! | `Reals` | count, Σx, Σx² of f64 | the same | 1600 |
//! | [`Numbers`] | [`Integers`] of the whole ones, `Reals` of the others | the same | 80, with others 1680 |
//! | [`Regression`] | count, Σx, Σy, Σx², Σxy | slope and intercept of y on x | 3184 |
//! | [`Product`] | count, sign, Σ log₂ of the sizes | product | 64 |
//! | [`Truths`] | how many held, how many did not | both | 16 |
//! | [`Quantiles`] | up to 64 values, or counts in logarithmic buckets | quantiles, exact or to 1/64 | by its buckets |
//!
//! **Bounds.** An aggregate takes [`VALUES_MAX`] = 2⁶³ values; with one more it is overflowed for good, and
//! its results are none ([`WhyNone::Overflow`]). Up to there no sum can overflow, whatever the values. The
//! bound is on the count alone because a count only grows: whether it is passed does not depend on the order,
//! as it would for a sum with signs.
//!
//! **None.** A result that does not exist is `Err` with its reason: no values, values that are not finite, an
//! overflow. The sum of no values is 0; whether nothing happened or nothing was measured, the owner of the
//! aggregate knows.
//!
//! **Merging published formulas.** PMSL has MEAN and STDEV (its §6.2) but says nothing on how partial results
//! of two hosts combine. The usual formula on (count, mean, M2) is that of Chan, Golub and LeVeque (1979),
//! with δ = μ_b − μ_a:
//!
//! ```text
//! μ = μ_a + δ·n_b/n        M2 = M2_a + M2_b + δ²·n_a·n_b/n        n = n_a + n_b
//! ```
//! In floating point it is not associative; it agrees with ours to rounding, and the tests hold it to that.

mod exact;
mod finite;
mod integers;
mod moments;
mod natural;
mod numbers;
mod product;
mod quantiles;
mod reals;
mod regression;
mod truths;

#[cfg(test)]
mod tests;

use std::fmt;

pub use finite::Finite;
pub use integers::Integers;
pub use numbers::Numbers;
pub use product::Product;
pub use quantiles::{FEW, Quantiles};
pub(crate) use reals::Reals;
pub use regression::{FittedLine, Regression};
pub use truths::Truths;

/// The most values one aggregate takes, 2⁶³: at a billion a second that is 292 years.
pub const VALUES_MAX: u64 = 1 << 63;

/// Partial results that combine: associative, commutative, and [`Default`] changes nothing.
pub trait Merge {
    /// Takes in what `other` was made of.
    fn merge(&mut self, other: &Self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyNone {
    /// It was given no value.
    NoValues,
    /// It was given one value where two are the least: a spread, a line.
    OneValue,
    /// So many of its values were infinite or not a number.
    NotFinite(u64),
    /// It was given more than [`VALUES_MAX`].
    Overflow,
    /// The result is beyond the greatest finite f64.
    TooLarge,
    /// The x of all points are equal: no line, or any.
    SameX,
    /// The requested share is not between 0 and 1.
    NoShare,
}

impl fmt::Display for WhyNone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyNone::NoValues => f.write_str("there are no values"),
            WhyNone::OneValue => f.write_str("there is one value, two are needed"),
            WhyNone::NotFinite(1) => f.write_str("1 value is not a finite number"),
            WhyNone::NotFinite(count) => write!(f, "{count} values are not finite numbers"),
            WhyNone::Overflow => f.write_str("overflow: more than 2^63 values"),
            WhyNone::TooLarge => f.write_str("the result is too large for a number"),
            WhyNone::SameX => f.write_str("the x of all points are the same"),
            WhyNone::NoShare => f.write_str("the share of a quantile is from 0 to 1"),
        }
    }
}

impl std::error::Error for WhyNone {}

/// A number of values that stops one above [`VALUES_MAX`], where it means an overflow. Stopping is
/// associative, because counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count(u64);

impl Count {
    fn plus(self, more: u64) -> Count {
        Count(self.0.saturating_add(more).min(VALUES_MAX + 1))
    }

    fn overflowed(self) -> bool {
        self.0 > VALUES_MAX
    }

    fn get(self) -> Result<u64, WhyNone> {
        if self.overflowed() {
            Err(WhyNone::Overflow)
        } else {
            Ok(self.0)
        }
    }

    /// The count when it is at least `least`, which is 1 or 2.
    fn at_least(self, least: u64) -> Result<u64, WhyNone> {
        match self.get()? {
            0 => Err(WhyNone::NoValues),
            count if count < least => Err(WhyNone::OneValue),
            count => Ok(count),
        }
    }
}
