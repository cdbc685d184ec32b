//! Mean and spread from exact sums: every result is the nearest f64 to the exact one.

use super::natural::{Natural, Scaled, Whole};
use super::{Count, WhyNone};

/// What the squared deviations are divided by.
///
/// None of the works says which one its σ is: PMSL names STDEV without a definition (§6.2), and the factoring model
/// of MATE for MPI uses σ_C of the measured chunks (Eq. 4.3 and 4.4) without saying it. Its derived vectors have
/// both: 2.0, 2.5, 1.5, 3.0 have 0.645497 by n − 1 and 0.559017 by n. The model estimates a distribution's σ from a
/// sample, for which n − 1 is the unbiased choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// n − 1: the values are a sample, and the spread of what they were drawn from is wanted.
    Sample,
    /// n: the values are all there are.
    Population,
}

/// n, Σx in units of 2^`exponent`, Σx² in units of 2^(2·`exponent`).
pub(super) struct Moments {
    pub(super) count: Count,
    pub(super) sum: Whole,
    pub(super) squares: Natural,
    pub(super) exponent: i64,
}

impl Moments {
    /// (n·Σx² − (Σx)²) / (n·(n−1)), or / n², for values in units of 1/`per`.
    fn spread(&self, divisor: Divisor, per: u64) -> Result<Scaled, WhyNone> {
        let count = self.count.at_least(2)?;
        let whole = Natural::from(u128::from(count));
        let deviations = Whole::from(whole.times(&self.squares)).minus(&self.sum.times(&self.sum));
        let by = match divisor {
            Divisor::Sample => count - 1,
            Divisor::Population => count,
        };
        let by = Natural::from(u128::from(count) * u128::from(by));
        let by = by.times(&Natural::from(u128::from(per) * u128::from(per)));
        // Never negative, by Cauchy and Schwarz, for the sums are exact.
        Ok(deviations.size().over(&by).times_power(2 * self.exponent))
    }

    pub(super) fn variance(&self, divisor: Divisor) -> Result<f64, WhyNone> {
        self.spread(divisor, 1)?.rounded(false)
    }

    pub(super) fn stddev(&self, divisor: Divisor, per: u64) -> Result<f64, WhyNone> {
        self.spread(divisor, per)?.root().rounded(false)
    }
}

pub(super) fn mean(count: Count, sum: &Whole, exponent: i64) -> Result<f64, WhyNone> {
    let count = count.at_least(1)?;
    sum.ratio(&Natural::from(u128::from(count)), exponent)
}
