//! Partial aggregates of the hits of one node. Merging the nodes' parts gives *exactly* the result of one
//! evaluator that has all hits.
//!
//! Every type here is a commutative monoid: [`Default`] is the empty aggregate, [`Merge::merge`] is
//! associative and commutative bit for bit, and adding a value is merging an aggregate of that value alone.
//! Hence any split of the hits over nodes, any tree of merges and any order of arrival give equal states, and
//! equal states give equal results. Therefore no floating-point numbers are added here: sums are integers of
//! fixed width ([`Integers`]) or fixed-point numbers wide enough for every double (`Reals`, [`Regression`]),
//! and rounding happens once, when a result is read. No result depends on a maths library either: two
//! machines give the same bits.
//!
//! | type | keeps | gives | bytes |
//! |---|---|---|---|
//! | [`Integers`] | count, Σx, Σx² of u64 and i64 | sum, mean, standard deviation | 48 |
//! | `Reals` | count, Σx, Σx² of f64 | as above | 1600 |
//! | [`Numbers`] | [`Integers`] of the integers, `Reals` of the others | as above | 80, with others 1680 |
//! | [`Regression`] | count, Σx, Σy, Σx², Σxy | slope and intercept of y on x | 3184 |
//! | [`Product`] | count, sign, Σ log₂ of the sizes | product | 64 |
//! | [`Truths`] | counts of true and false | both | 16 |
//! | [`Quantiles`] | up to 64 values, or logarithmic buckets | quantiles, exact or to 1/64 | varies |
//!
//! **Bounds.** An aggregate takes [`VALUES_MAX`] = 2⁶³ values; with one more it is overflowed permanently,
//! and its results are none ([`WhyNone::Overflow`]). Within this bound no sum can overflow, for any values.
//! The bound applies to the count alone, because a count only grows: unlike a bound on a sum with signs, it
//! is exceeded in every order or in none.
//!
//! **None.** A result that does not exist is `Err` with its reason: no values, values that are not finite, an
//! overflow. The sum of no values is 0; the owner of the aggregate distinguishes "nothing happened" from
//! "nothing was measured".
//!
//! **Merging published formulas.** PMSL has MEAN and STDEV (its §6.2) but does not define how partial results
//! of two hosts combine. The usual formula on (count, mean, M2) is that of Chan, Golub and LeVeque (1979),
//! with δ = μ_b − μ_a:
//!
//! ```text
//! μ = μ_a + δ·n_b/n        M2 = M2_a + M2_b + δ²·n_a·n_b/n        n = n_a + n_b
//! ```
//! In floating point it is not associative; it agrees with ours up to rounding, which the tests check.

mod exact;
mod finite;
mod integers;
mod moments;
mod numbers;
mod product;
mod quantiles;
mod reals;
mod regression;
mod scaled;
mod truths;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use finite::Finite;
pub use integers::Integers;
pub use numbers::Numbers;
pub use product::Product;
pub use quantiles::{FEW, Quantiles};
pub(crate) use reals::Reals;
pub use regression::{FittedLine, Regression};
pub use truths::Truths;

/// The most values of one aggregate, 2⁶³: at a billion per second that is 292 years.
pub const VALUES_MAX: u64 = 1 << 63;

/// Partial results that combine: associative and commutative, with [`Default`] as the neutral element.
pub trait Merge {
    /// Adds the values of `other`.
    fn merge(&mut self, other: &Self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum WhyNone {
    #[error("there are no values")]
    NoValues,
    /// There is one value where at least two are needed: a spread, a line.
    #[error("there is one value, two are needed")]
    OneValue,
    /// The number of values that were infinite or not a number.
    #[error("{}", not_finite(*.0))]
    NotFinite(u64),
    /// There are more than [`VALUES_MAX`] values.
    #[error("overflow: more than 2^63 values")]
    Overflow,
    /// The result exceeds the greatest finite f64.
    #[error("the result is too large for a number")]
    TooLarge,
    /// All points have the same x, so there is no unique line.
    #[error("the x of all points are the same")]
    SameX,
    /// The requested share is not between 0 and 1.
    #[error("the share of a quantile is from 0 to 1")]
    NoShare,
}

fn not_finite(count: u64) -> String {
    match count {
        1 => "1 value is not a finite number".to_owned(),
        count => format!("{count} values are not finite numbers"),
    }
}

/// A number of values that saturates one above [`VALUES_MAX`], which stands for an overflow. Saturating is
/// associative, because counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Count(u64);

impl Count {
    fn plus(self, more: u64) -> Count {
        Count(self.0.saturating_add(more).min(VALUES_MAX + 1))
    }

    /// An overflowed aggregate has no values.
    fn is_sound(self, is_empty: impl FnOnce() -> bool) -> bool {
        self.0 <= VALUES_MAX || (self.0 == VALUES_MAX + 1 && is_empty())
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

    /// The count, if it is at least `least`, which is 1 or 2.
    fn at_least(self, least: u64) -> Result<u64, WhyNone> {
        match self.get()? {
            0 => Err(WhyNone::NoValues),
            count if count < least => Err(WhyNone::OneValue),
            count => Ok(count),
        }
    }
}
