//! Mean and spread from exact sums: every result is the nearest f64 to the exact one.

use num_bigint::{BigInt, BigUint};

use super::scaled::{Scaled, ratio, rounded};
use super::{Count, WhyNone};

/// n, Σx in units of 2^`exponent`, Σx² in units of 2^(2·`exponent`).
pub(super) struct Moments {
    pub(super) count: Count,
    pub(super) sum: BigInt,
    pub(super) squares: BigUint,
    pub(super) exponent: i64,
}

impl Moments {
    /// Σx, the nearest f64.
    pub(super) fn sum(&self) -> Result<f64, WhyNone> {
        self.count.get()?;
        rounded(&self.sum, self.exponent)
    }

    /// Σx / n, the nearest f64. It exists even if the sum is too large.
    pub(super) fn mean(&self) -> Result<f64, WhyNone> {
        let count = self.count.at_least(1)?;
        ratio(&self.sum, &count.into(), self.exponent)
    }

    /// √(n·Σx² − (Σx)²) / n, for values in units of 1/`per`. It exists even if its square is too large or too
    /// small.
    ///
    /// None of the published works defines the divisor of its σ: PMSL names STDEV without a definition
    /// (§6.2), and the factoring model of MATE for MPI uses σ_C of the measured chunks (Eq. 4.3 and 4.4). We
    /// take the values as the population.
    pub(super) fn stddev(&self, per: u64) -> Result<f64, WhyNone> {
        let count = self.count.at_least(2)?;
        // Never negative, by Cauchy–Schwarz, because the sums are exact.
        let deviations = BigInt::from(&self.squares * count) - &self.sum * &self.sum;
        let by = u128::from(count) * u128::from(count) * BigUint::from(u128::from(per) * u128::from(per));
        let spread = Scaled::of_quotient(deviations.magnitude(), &by).times_power(2 * self.exponent);
        spread.root().rounded(false)
    }
}
