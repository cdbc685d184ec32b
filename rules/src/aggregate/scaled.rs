//! Results of exact integers: quotients and roots, rounded once.

use num_bigint::{BigInt, BigUint, Sign};
use num_traits::ToPrimitive;

use super::WhyNone;

/// Bits of a quotient before rounding; its square root still has 63.
const QUOTIENT_BITS: i64 = 128;

/// (`size` + a remainder below 1 if `inexact`) · 2^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) size: u128,
    pub(super) inexact: bool,
    pub(super) exponent: i64,
}

/// `value` · 2^`exponent` as the nearest f64.
pub(super) fn rounded(value: &BigInt, exponent: i64) -> Result<f64, WhyNone> {
    let size = Scaled::of(value.magnitude());
    size.times_power(exponent).rounded(value.sign() == Sign::Minus)
}

/// `value` / `divisor` · 2^`exponent` as the nearest f64.
pub(super) fn ratio(value: &BigInt, divisor: &BigUint, exponent: i64) -> Result<f64, WhyNone> {
    let quotient = Scaled::of_quotient(value.magnitude(), divisor);
    quotient
        .times_power(exponent)
        .rounded(value.sign() == Sign::Minus)
}

impl Scaled {
    /// The upper 128 bits of an integer.
    fn of(size: &BigUint) -> Scaled {
        let cut = size.bits().saturating_sub(128);
        Scaled {
            size: (size >> cut).to_u128().unwrap_or(u128::MAX),
            inexact: size.trailing_zeros().is_some_and(|zeros| zeros < cut),
            exponent: cut as i64,
        }
    }

    /// The quotient by a non-zero number, to at least 127 bits.
    pub(super) fn of_quotient(dividend: &BigUint, divisor: &BigUint) -> Scaled {
        // The dividend gets 127 bits more than the divisor, so the quotient has 127 or 128.
        let lift = divisor.bits() as i64 + QUOTIENT_BITS - 1 - dividend.bits() as i64;
        let (up, down) = (lift.max(0) as u64, lift.min(0).unsigned_abs());
        let (dividend, divisor) = (dividend << up, divisor << down);
        let size = &dividend / &divisor;
        Scaled {
            inexact: &size * divisor != dividend,
            exponent: -lift,
            size: size.to_u128().unwrap_or(u128::MAX),
        }
    }

    pub(super) fn times_power(self, exponent: i64) -> Scaled {
        Scaled {
            exponent: self.exponent + exponent,
            ..self
        }
    }

    /// The square root, to 63 bits or more where the size has 127.
    pub(super) fn root(self) -> Scaled {
        let odd = self.exponent.rem_euclid(2) as u32;
        let even = self.size >> odd;
        let root = even.isqrt();
        Scaled {
            size: root,
            inexact: self.inexact || even << odd != self.size || root * root != even,
            exponent: (self.exponent + i64::from(odd)) / 2,
        }
    }

    /// The nearest f64, ties to even. An inexact size has at least 55 bits.
    pub(super) fn rounded(self, negative: bool) -> Result<f64, WhyNone> {
        if self.size == 0 {
            return Ok(0.0);
        }
        let top = self.exponent + i64::from(self.size.ilog2());
        // The weight of the result's last bit; subnormal numbers end at 2^-1074.
        let unit = (top - 52).max(-1074);
        let mantissa = match unit - self.exponent {
            up if up <= 0 => self.size << -up,
            down @ 1..=128 => {
                let half = 1_u128 << (down - 1);
                let integral = self.size.checked_shr(down as u32).unwrap_or(0);
                let rest = self.size & (half | (half - 1));
                let above = rest > half || rest == half && (self.inexact || integral & 1 == 1);
                integral + u128::from(above)
            }
            _ => 0,
        };
        if top > 1023 {
            return Err(WhyNone::TooLarge);
        }
        // A mantissa that was rounded up to 2^53 carries correctly into the exponent's bits.
        let bits = (((unit + 1074) as u64) << 52) + mantissa as u64;
        let size = f64::from_bits(bits);
        if size.is_infinite() {
            return Err(WhyNone::TooLarge);
        }
        // A result is never −0.
        Ok(if negative && size > 0.0 { -size } else { size })
    }
}
