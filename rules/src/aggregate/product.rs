//! The product of doubles, by logarithms in fixed point.

use serde::{Deserialize, Serialize};

use super::exact::{FiniteDouble, UNIT};
use super::scaled::Scaled;
use super::{Count, Merge, WhyNone};

/// The greatest size of the exponent of a double.
const EXPONENT_MAX: u128 = 1074;

/// The product of any number of f64 in 64 bytes.
///
/// A floating-point product of doubles depends on the order, and an exact one grows by 53 bits per factor. So
/// each factor ± m · 2^e, 1 ≤ m < 2, is kept as its sign, e, and log₂ m truncated to 64 fractional bits:
/// integers, whose sums do not depend on the order. log₂ m is too small by less than 2^-62 (proof at `log2`),
/// so the product of n factors is too small by a factor above 1 − (n + 1) · 2^-62 before it is rounded to the
/// nearest f64, whose own error is 2^-53. A product that is a double is exact, for example 2 · 3 = 6: powers
/// of 2 have exact logarithms, and it has at most 33 other factors.
///
/// A factor 0 makes the product 0; one that is not finite makes it none, even with a factor 0. A result below
/// the least f64 becomes 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    count: Count,
    not_finite: u64,
    zeros: u64,
    negative: bool,
    exponents: i128,
    /// Σ log₂ m in units of 2^-64, below 2⁶³ · 2⁶⁴.
    logarithms: u128,
}

impl Product {
    /// Multiplies by a value.
    pub fn add(&mut self, value: f64) {
        self.put(value, 1);
    }

    pub(super) fn put(&mut self, value: f64, times: u64) {
        let count = Count::default().plus(times);
        let mut factor = Product {
            count,
            ..Product::default()
        };
        match FiniteDouble::of(value) {
            None => factor.not_finite = times,
            Some(FiniteDouble { size: 0, .. }) => factor.zeros = times,
            Some(FiniteDouble {
                negative,
                size,
                place,
            }) => {
                let up = size.leading_zeros();
                factor.negative = negative && times % 2 == 1;
                let exponent = place as i128 + i128::from(UNIT) + 63 - i128::from(up);
                factor.exponents = exponent * i128::from(times);
                factor.logarithms = u128::from(log2(size << up)) * u128::from(times);
            }
        }
        self.merge(&factor);
    }

    /// The product in the unit of the values to the power of their count; 1 for no values.
    ///
    /// # Errors
    /// [`WhyNone::NotFinite`], [`WhyNone::TooLarge`], [`WhyNone::Overflow`].
    pub fn product(&self) -> Result<f64, WhyNone> {
        self.count.get()?;
        if self.not_finite > 0 {
            return Err(WhyNone::NotFinite(self.not_finite));
        }
        if self.zeros > 0 {
            return Ok(0.0);
        }
        let exponent = self.exponents + (self.logarithms >> 64) as i128;
        let size = exp2(self.logarithms as u64);
        // The bounds are far beyond the exponents of doubles and far within i64.
        let exponent = exponent.clamp(-5000, 5000) as i64 - 63;
        let product = Scaled {
            size: size.into(),
            inexact: self.logarithms > 0,
            exponent,
        };
        product.rounded(self.negative)
    }

    /// Whether values can have led to this state: it may come from another machine.
    pub(crate) fn is_sound(&self) -> bool {
        let emptied = Product {
            count: self.count,
            ..Product::default()
        };
        let count = u128::from(self.count.0);
        self.count.is_sound(|| *self == emptied)
            && self.not_finite <= self.count.0
            && self.zeros <= self.count.0
            && self.exponents.unsigned_abs() <= count * EXPONENT_MAX
            && self.logarithms <= count * u128::from(u64::MAX)
    }
}

impl Merge for Product {
    fn merge(&mut self, other: &Product) {
        let count = self.count.plus(other.count.0);
        if count.overflowed() {
            *self = Product {
                count,
                ..Product::default()
            };
            return;
        }
        *self = Product {
            count,
            not_finite: self.not_finite + other.not_finite,
            zeros: self.zeros + other.zeros,
            negative: self.negative != other.negative,
            exponents: self.exponents + other.exponents,
            logarithms: self.logarithms + other.logarithms,
        };
    }
}

/// log₂(m / 2⁶³) in units of 2^-64, for m from 2⁶³ on: squaring doubles a logarithm, and its integer part is
/// the next bit.
///
/// The k-th square is truncated by less than 2^-63 of itself, which subtracts less than 2^-63 · log₂ e · 2^-k
/// from the result; the bits after the 64th are less than 2^-64. The total error is less than (1.443 + 0.5) ·
/// 2^-63 < 2^-62, and the result is never too large.
pub(super) fn log2(mut m: u64) -> u64 {
    let mut bits = 0;
    for _ in 0..64 {
        let square = u128::from(m) * u128::from(m);
        let bit = (square >> 127) as u64;
        m = (square >> (63 + bit)) as u64;
        bits = bits << 1 | bit;
    }
    bits
}

/// 2^(f / 2⁶⁴) · 2⁶³: from the last bit to the first, the root of the intermediate result, doubled first if
/// the bit is set.
///
/// A root halves the previous error and truncates less than 2^-63: the total is less than 2^-62 of the
/// result, which is never too large.
pub(super) fn exp2(fraction: u64) -> u64 {
    (0..64).fold(1 << 63, |power: u64, index| {
        let doubled = u128::from(power) << (fraction >> index & 1);
        (doubled << 63).isqrt() as u64
    })
}
