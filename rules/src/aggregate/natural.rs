//! Arbitrary-precision integers, used only for reading results: exact products, differences and quotients,
//! rounded once.

use std::cmp::Ordering;

use super::WhyNone;

/// Bits of a quotient before rounding; its square root still has 63.
const QUOTIENT_BITS: usize = 128;

/// A natural number: limbs of 64 bits, the lowest first, the highest never 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Natural(Vec<u64>);

/// An integer with its sign; 0 is never negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SignedInteger {
    negative: bool,
    size: Natural,
}

/// (`size` + a remainder below 1 if `inexact`) · 2^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) size: u128,
    pub(super) inexact: bool,
    pub(super) exponent: i64,
}

impl From<u128> for Natural {
    fn from(value: u128) -> Natural {
        Natural::from_limbs(vec![value as u64, (value >> 64) as u64])
    }
}

impl Natural {
    pub(super) fn from_limbs(mut limbs: Vec<u64>) -> Natural {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Natural(limbs)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of bits: 0 for 0.
    fn bits(&self) -> usize {
        let high = self.0.last().map_or(0, |limb| limb.leading_zeros() as usize);
        self.0.len() * 64 - high
    }

    fn bit(&self, index: usize) -> u64 {
        self.0.get(index / 64).map_or(0, |limb| limb >> (index % 64) & 1)
    }

    pub(super) fn plus(&self, other: &Natural) -> Natural {
        let mut limbs = self.0.clone();
        limbs.resize(self.0.len().max(other.0.len()) + 1, 0);
        let mut carry = false;
        for (index, limb) in limbs.iter_mut().enumerate() {
            let more = other.0.get(index).copied().unwrap_or(0);
            let (sum, first) = limb.overflowing_add(more);
            let (sum, second) = sum.overflowing_add(carry.into());
            (*limb, carry) = (sum, first || second);
        }
        Natural::from_limbs(limbs)
    }

    /// The difference; `other` is not greater.
    fn minus(&self, other: &Natural) -> Natural {
        let mut limbs = self.0.clone();
        subtract(&mut limbs, &other.0);
        Natural::from_limbs(limbs)
    }

    pub(super) fn times(&self, other: &Natural) -> Natural {
        let mut limbs = vec![0; self.0.len() + other.0.len()];
        for (start, a) in self.0.iter().enumerate().filter(|(_, a)| **a != 0) {
            let mut carry = 0;
            for (index, b) in other.0.iter().enumerate() {
                // (2⁶⁴−1)² + 2·(2⁶⁴−1) is 2¹²⁸−1.
                let sum = u128::from(*a) * u128::from(*b) + u128::from(limbs[start + index]) + carry;
                limbs[start + index] = sum as u64;
                carry = sum >> 64;
            }
            limbs[start + other.0.len()] = carry as u64;
        }
        Natural::from_limbs(limbs)
    }

    pub(super) fn up(&self, bits: usize) -> Natural {
        let mut limbs = vec![0; bits / 64];
        let mut carry = 0;
        for limb in &self.0 {
            let wide = u128::from(*limb) << (bits % 64) | carry;
            limbs.push(wide as u64);
            carry = wide >> 64;
        }
        limbs.push(carry as u64);
        Natural::from_limbs(limbs)
    }

    /// Divided by 2^`bits`, and whether bits were lost.
    fn down(&self, bits: usize) -> (Natural, bool) {
        let (skipped, bits) = ((bits / 64).min(self.0.len()), bits % 64);
        let kept = &self.0[skipped..];
        let cut = self.0[..skipped].iter().any(|limb| *limb != 0);
        let lowest = kept.first().map_or(0, |limb| limb & ((1 << bits) - 1));
        let limbs = kept.iter().enumerate().map(|(index, limb)| {
            let above = u128::from(kept.get(index + 1).copied().unwrap_or(0));
            ((above << 64 | u128::from(*limb)) >> bits) as u64
        });
        (Natural::from_limbs(limbs.collect()), cut || lowest != 0)
    }

    /// Without its lowest limbs that are 0, and the number of bits removed.
    fn trimmed(&self) -> (Natural, i64) {
        let zeros = self.0.iter().take_while(|limb| **limb == 0).count();
        (Natural(self.0[zeros..].to_vec()), zeros as i64 * 64)
    }

    /// The upper 128 bits.
    pub(super) fn scaled(&self) -> Scaled {
        let cut = self.bits().saturating_sub(128);
        let (top, inexact) = self.down(cut);
        let limb = |index: usize| u128::from(top.0.get(index).copied().unwrap_or(0));
        Scaled {
            size: limb(1) << 64 | limb(0),
            inexact,
            exponent: cut as i64,
        }
    }

    /// Divided by a non-zero number, to at least 127 bits.
    pub(super) fn over(&self, divisor: &Natural) -> Scaled {
        if self.is_zero() {
            return self.scaled();
        }
        let ((dividend, up), (divisor, down)) = (self.trimmed(), divisor.trimmed());
        // The dividend gets 127 bits more than the divisor, so the quotient has 127 or 128.
        let lift = divisor.bits() as i64 + QUOTIENT_BITS as i64 - 1 - dividend.bits() as i64;
        let (dividend, mut inexact) = if lift < 0 {
            dividend.down(lift.unsigned_abs() as usize)
        } else {
            (dividend.up(lift as usize), false)
        };
        let mut rest = dividend.down(QUOTIENT_BITS).0.0;
        rest.resize(divisor.0.len() + 1, 0);
        let mut size = 0_u128;
        for index in (0..QUOTIENT_BITS).rev() {
            double(&mut rest, dividend.bit(index));
            if compare(&rest, &divisor.0) != Ordering::Less {
                subtract(&mut rest, &divisor.0);
                size |= 1 << index;
            }
        }
        inexact |= rest.iter().any(|limb| *limb != 0);
        Scaled {
            size,
            inexact,
            exponent: up - down - lift,
        }
    }
}

/// `limbs` · 2 + `bit`; the highest bit is free.
fn double(limbs: &mut [u64], bit: u64) {
    let mut carry = bit;
    for limb in limbs {
        (*limb, carry) = (*limb << 1 | carry, *limb >> 63);
    }
}

/// Subtracts a smaller or equal number.
fn subtract(from: &mut [u64], less: &[u64]) {
    let mut borrow = false;
    for (index, limb) in from.iter_mut().enumerate() {
        if index >= less.len() && !borrow {
            break;
        }
        let taken = less.get(index).copied().unwrap_or(0);
        let (difference, first) = limb.overflowing_sub(taken);
        let (difference, second) = difference.overflowing_sub(borrow.into());
        (*limb, borrow) = (difference, first || second);
    }
}

/// `a` has at least as many limbs as `b`, possibly with leading zeros.
fn compare(a: &[u64], b: &[u64]) -> Ordering {
    let (low, high) = a.split_at(b.len());
    if high.iter().any(|limb| *limb != 0) {
        return Ordering::Greater;
    }
    low.iter().rev().cmp(b.iter().rev())
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Natural) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Natural) -> Ordering {
        let by_limbs = self.0.len().cmp(&other.0.len());
        by_limbs.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl From<i128> for SignedInteger {
    fn from(value: i128) -> SignedInteger {
        SignedInteger::new(value < 0, value.unsigned_abs().into())
    }
}

impl From<Natural> for SignedInteger {
    fn from(size: Natural) -> SignedInteger {
        SignedInteger::new(false, size)
    }
}

impl SignedInteger {
    pub(super) fn new(negative: bool, size: Natural) -> SignedInteger {
        SignedInteger {
            negative: negative && !size.is_zero(),
            size,
        }
    }

    pub(super) fn size(&self) -> &Natural {
        &self.size
    }

    pub(super) fn times(&self, other: &SignedInteger) -> SignedInteger {
        SignedInteger::new(self.negative != other.negative, self.size.times(&other.size))
    }

    pub(super) fn plus(&self, other: &SignedInteger) -> SignedInteger {
        self.minus(&SignedInteger::new(!other.negative, other.size.clone()))
    }

    /// This · 2^`bits`.
    pub(super) fn up(&self, bits: usize) -> SignedInteger {
        SignedInteger::new(self.negative, self.size.up(bits))
    }

    pub(super) fn minus(&self, other: &SignedInteger) -> SignedInteger {
        if self.negative != other.negative {
            return SignedInteger::new(self.negative, self.size.plus(&other.size));
        }
        match self.size.cmp(&other.size) {
            Ordering::Less => SignedInteger::new(!self.negative, other.size.minus(&self.size)),
            _ => SignedInteger::new(self.negative, self.size.minus(&other.size)),
        }
    }

    /// This · 2^`exponent` as the nearest f64.
    pub(super) fn rounded(&self, exponent: i64) -> Result<f64, WhyNone> {
        self.size.scaled().times_power(exponent).rounded(self.negative)
    }

    /// This / `divisor` · 2^`exponent` as the nearest f64.
    pub(super) fn ratio(&self, divisor: &Natural, exponent: i64) -> Result<f64, WhyNone> {
        let quotient = self.size.over(divisor);
        quotient.times_power(exponent).rounded(self.negative)
    }
}

impl Scaled {
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
