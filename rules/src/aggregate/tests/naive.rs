//! Checks results with simple long arithmetic on 32-bit digits, without division and roots: a result is the
//! nearest double if the exact value lies between the midpoints to its neighbours.

use std::cmp::Ordering;

use crate::aggregate::WhyNone;

/// An integer: digits of 32 bits, the lowest first.
#[derive(Clone, Debug)]
pub(super) struct Big {
    negative: bool,
    digits: Vec<u32>,
}

impl Big {
    pub(super) fn of(value: i128) -> Big {
        let size = value.unsigned_abs();
        Big {
            negative: value < 0,
            digits: (0..4).map(|index| (size >> (32 * index)) as u32).collect(),
        }
    }

    /// The integer x · 2^1074 of a double x.
    pub(super) fn of_double(x: f64) -> Big {
        let (bits, sign) = (x.abs().to_bits(), if x < 0.0 { -1 } else { 1 });
        let fraction = i128::from(bits % (1 << 52));
        match bits >> 52 {
            0 => Big::of(sign * fraction),
            exponent => Big::of(sign * (fraction + (1 << 52))).up(exponent as usize - 1),
        }
    }

    pub(super) fn up(&self, bits: usize) -> Big {
        let power = Big {
            negative: false,
            digits: [vec![0; bits / 32], vec![1 << (bits % 32)]].concat(),
        };
        self.times(&power)
    }

    pub(super) fn times(&self, other: &Big) -> Big {
        let mut digits = vec![0; self.digits.len() + other.digits.len() + 1];
        for (i, a) in self.digits.iter().enumerate() {
            let mut carry = 0;
            for j in 0..=other.digits.len() {
                let b = other.digits.get(j).copied().unwrap_or(0);
                let sum = u64::from(*a) * u64::from(b) + u64::from(digits[i + j]) + carry;
                digits[i + j] = sum as u32;
                carry = sum >> 32;
            }
        }
        Big {
            negative: self.negative != other.negative,
            digits,
        }
    }

    pub(super) fn plus(&self, other: &Big) -> Big {
        let length = self.digits.len().max(other.digits.len()) + 1;
        let signed = |big: &Big, index: usize| {
            let digit = i64::from(big.digits.get(index).copied().unwrap_or(0));
            if big.negative { -digit } else { digit }
        };
        let mut sums: Vec<i64> = (0..length).map(|i| signed(self, i) + signed(other, i)).collect();
        let negative = sums
            .iter()
            .rev()
            .find(|sum| **sum != 0)
            .is_some_and(|sum| *sum < 0);
        let mut carry = 0;
        for sum in &mut sums {
            let size = if negative { -*sum } else { *sum } + carry;
            (*sum, carry) = (size.rem_euclid(1 << 32), size.div_euclid(1 << 32));
        }
        let digits = sums.into_iter().map(|sum| sum as u32).collect();
        Big { negative, digits }
    }

    pub(super) fn minus(&self, other: &Big) -> Big {
        let negative = !other.negative;
        self.plus(&Big {
            negative,
            ..other.clone()
        })
    }

    pub(super) fn sum(of: impl IntoIterator<Item = Big>) -> Big {
        of.into_iter().fold(Big::of(0), |sum, big| sum.plus(&big))
    }

    pub(super) fn sign(&self) -> Ordering {
        match (self.digits.iter().all(|digit| *digit == 0), self.negative) {
            (true, _) => Ordering::Equal,
            (_, true) => Ordering::Less,
            _ => Ordering::Greater,
        }
    }

    fn size(&self) -> Big {
        let negative = false;
        Big {
            negative,
            ..self.clone()
        }
    }
}

/// above / below · 2^-down, or its square root.
pub(super) struct Exactly {
    pub(super) above: Big,
    pub(super) below: Big,
    pub(super) down: usize,
    pub(super) root: bool,
}

impl Exactly {
    /// Compares the size with `mantissa` · 2^-1076.
    fn compare(&self, mantissa: &Big) -> Ordering {
        let (square, places) = if self.root {
            (mantissa.times(mantissa), 2 * 1076)
        } else {
            (mantissa.clone(), 1076)
        };
        let here = self.above.size().up(places);
        here.minus(&self.below.size().times(&square).up(self.down)).sign()
    }

    /// Whether it is closer to 2^1024 than to the greatest double, or equally close.
    pub(super) fn is_too_large(&self) -> bool {
        self.compare(&Big::of((1 << 54) - 1).up(970 + 1076)) != Ordering::Less
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
        let middle = |a: f64, b: f64| Big::of_double(a).plus(&Big::of_double(b)).up(1);
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
