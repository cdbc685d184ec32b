//! Checks results by multiplication, without division and roots: a result is the nearest double if the exact
//! value lies between the midpoints to its neighbours.

use std::cmp::Ordering;

use num_bigint::BigInt;

use crate::aggregate::WhyNone;

/// The integer x · 2^1074 of a double x.
pub(super) fn of_double(x: f64) -> BigInt {
    let (bits, sign) = (x.abs().to_bits(), if x < 0.0 { -1 } else { 1 });
    let fraction = (bits % (1 << 52)) as i64;
    match bits >> 52 {
        0 => BigInt::from(sign * fraction),
        exponent => BigInt::from(sign * (fraction + (1 << 52))) << (exponent - 1),
    }
}

/// above / below · 2^-down, or its square root.
pub(super) struct Exactly {
    pub(super) above: BigInt,
    pub(super) below: BigInt,
    pub(super) down: usize,
    pub(super) root: bool,
}

impl Exactly {
    /// Compares the size with `mantissa` · 2^-1076.
    fn compare(&self, mantissa: &BigInt) -> Ordering {
        let (square, places) = if self.root {
            (mantissa * mantissa, 2 * 1076)
        } else {
            (mantissa.clone(), 1076)
        };
        let size = |value: &BigInt| BigInt::from(value.magnitude().clone());
        let (here, there): (BigInt, BigInt) = (
            size(&self.above) << places,
            (size(&self.below) * square) << self.down,
        );
        here.cmp(&there)
    }

    /// Whether it is closer to 2^1024 than to the greatest double, or equally close.
    pub(super) fn is_too_large(&self) -> bool {
        self.compare(&(BigInt::from((1_i64 << 54) - 1) << (970 + 1076))) != Ordering::Less
    }

    /// Panics if `result` is not the nearest double, with ties to even.
    pub(super) fn assert_nearest(&self, result: Result<f64, WhyNone>) {
        let x = match result {
            Ok(x) => x,
            Err(WhyNone::TooLarge) => {
                assert!(self.is_too_large());
                return;
            }
            Err(why) => panic!("{why}"),
        };
        if x != 0.0 {
            let negative = !self.root && self.above.sign() != self.below.sign();
            assert_eq!(x < 0.0, negative, "the sign");
        }
        let bits = x.abs().to_bits();
        let middle = |a: f64, b: f64| (of_double(a) + of_double(b)) << 1;
        let (low, high) = (
            (bits > 0).then(|| middle(x.abs(), f64::from_bits(bits - 1))),
            (x.abs() < f64::MAX).then(|| middle(x.abs(), f64::from_bits(bits + 1))),
        );
        let tie = if bits % 2 == 0 {
            Ordering::Equal
        } else {
            Ordering::Less
        };
        if let Some(low) = low {
            let order = self.compare(&low);
            assert!(order == Ordering::Greater || order == tie, "{x:e} is too large");
        }
        if let Some(high) = high {
            let order = self.compare(&high);
            assert!(order == Ordering::Less || order == tie, "{x:e} is too small");
        }
    }
}
