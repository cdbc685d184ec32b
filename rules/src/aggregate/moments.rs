//! Mean and spread from exact sums: every result is the nearest f64 to the exact one.

use super::natural::{Natural, Scaled, SignedInteger};
use super::{Count, WhyNone};

/// n, Σx in units of 2^`exponent`, Σx² in units of 2^(2·`exponent`).
pub(super) struct Moments {
    pub(super) count: Count,
    pub(super) sum: SignedInteger,
    pub(super) squares: Natural,
    pub(super) exponent: i64,
}

impl Moments {
    /// Σx, the nearest f64.
    pub(super) fn sum(&self) -> Result<f64, WhyNone> {
        self.count.get()?;
        self.sum.rounded(self.exponent)
    }

    /// Σx / n, the nearest f64. It exists even if the sum is too large.
    pub(super) fn mean(&self) -> Result<f64, WhyNone> {
        let count = self.count.at_least(1)?;
        self.sum.ratio(&Natural::from(u128::from(count)), self.exponent)
    }

    /// √(n·Σx² − (Σx)²) / n, for values in units of 1/`per`. It exists even if its square is too large or too
    /// small.
    ///
    /// None of the published works defines the divisor of its σ: PMSL names STDEV without a definition
    /// (§6.2), and the factoring model of MATE for MPI uses σ_C of the measured chunks (Eq. 4.3 and 4.4). We
    /// take the values as the population.
    pub(super) fn stddev(&self, per: u64) -> Result<f64, WhyNone> {
        let count = self.count.at_least(2)?;
        let integral = Natural::from(u128::from(count));
        let deviations = SignedInteger::from(integral.times(&self.squares)).minus(&self.sum.times(&self.sum));
        let by = Natural::from(u128::from(count) * u128::from(count));
        let by = by.times(&Natural::from(u128::from(per) * u128::from(per)));
        // Never negative, by Cauchy–Schwarz, because the sums are exact.
        let spread: Scaled = deviations.size().over(&by).times_power(2 * self.exponent);
        spread.root().rounded(false)
    }
}
