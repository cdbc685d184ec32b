//! Sums of doubles, and of products of two doubles, without any rounding.
//!
//! A finite double is an integer multiple of 2^-1074 below 2^1024, a product of two is one of 2^-2148 below
//! 2^2048: fixed-point numbers of 2098 and 4196 bits. They are kept in digits of base 2⁶⁴, each with a sign
//! and 64 spare bits: a value adds less than 2⁶⁴ to two digits (a product to three) without carries, so 2⁶³
//! arbitrary values fit. The digits of a sum are therefore sums of integers, equal for every order of adding
//! and merging.

use std::fmt;

use num_bigint::BigInt;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Digits for a sum of doubles.
pub(super) const SINGLE: usize = 33;
/// Digits for a sum of products of two doubles.
pub(super) const DOUBLE: usize = 66;
/// The weight of the lowest bit of a double is 2^-1074.
pub(super) const UNIT: i64 = -1074;

/// A finite double: ± `size` · 2^(`place` − 1074), `size` below 2⁵³, `place` up to 2045.
#[derive(Clone, Copy)]
pub(super) struct FiniteDouble {
    pub(super) negative: bool,
    pub(super) size: u64,
    pub(super) place: usize,
}

impl FiniteDouble {
    /// `None` if the value is not finite.
    #[inline]
    pub(super) fn of(value: f64) -> Option<FiniteDouble> {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        let (size, place) = match exponent {
            0x7ff => return None,
            0 => (fraction, 0),
            _ => (fraction | 1 << 52, exponent - 1),
        };
        let negative = bits >> 63 == 1;
        Some(FiniteDouble {
            negative,
            size,
            place,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exact<const DIGITS: usize>([i128; DIGITS]);

impl<const DIGITS: usize> Default for Exact<DIGITS> {
    fn default() -> Exact<DIGITS> {
        Exact([0; DIGITS])
    }
}

#[inline]
fn signed(piece: u64, negative: bool, times: u64) -> i128 {
    // Below 2⁶⁴ · 2⁶³, so it fits an i128.
    let size = (u128::from(piece) * u128::from(times)) as i128;
    if negative { -size } else { size }
}

impl Exact<SINGLE> {
    #[inline]
    pub(super) fn add(&mut self, x: FiniteDouble, times: u64) {
        let (digit, bit) = (x.place / 64, x.place % 64);
        let wide = u128::from(x.size) << bit;
        self.0[digit] += signed(wide as u64, x.negative, times);
        self.0[digit + 1] += signed((wide >> 64) as u64, x.negative, times);
    }
}

impl Exact<DOUBLE> {
    /// Adds x · y.
    #[inline]
    pub(super) fn add(&mut self, x: FiniteDouble, y: FiniteDouble, times: u64) {
        let place = x.place + y.place;
        let (digit, bit) = (place / 64, place % 64);
        let product = u128::from(x.size) * u128::from(y.size);
        let low = u128::from(product as u64) << bit;
        let high = (product >> 64) << bit;
        let negative = x.negative != y.negative;
        self.0[digit] += signed(low as u64, negative, times);
        // The upper half of `low` ends below the bit at which `high` begins.
        self.0[digit + 1] += signed((low >> 64) as u64 | high as u64, negative, times);
        self.0[digit + 2] += signed((high >> 64) as u64, negative, times);
    }
}

impl<const DIGITS: usize> Exact<DIGITS> {
    pub(super) fn merge(&mut self, other: &Exact<DIGITS>) {
        for (digit, more) in self.0.iter_mut().zip(&other.0) {
            *digit += more;
        }
    }

    /// The sum in units of its lowest bit.
    pub(super) fn total(&self) -> BigInt {
        let mut carry = 0;
        let mut bytes = Vec::with_capacity((DIGITS + 1) * 8);
        for digit in &self.0 {
            // |digit| is at most 2¹²⁷ − 2⁶³ and the carry within ±2⁶³: the sum is an i128.
            let sum = digit + carry;
            bytes.extend((sum as u64).to_le_bytes());
            carry = sum >> 64;
        }
        bytes.extend((carry as u64).to_le_bytes());
        BigInt::from_signed_bytes_le(&bytes)
    }

    /// Whether it can be the sum of this many values.
    pub(super) fn is_of(&self, count: u64) -> bool {
        let most = u128::from(count) * u128::from(u64::MAX);
        self.0.iter().all(|digit| digit.unsigned_abs() <= most)
    }
}

/// All digits, so that a message is not much shorter than what it becomes in memory.
impl<const DIGITS: usize> Serialize for Exact<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(DIGITS)?;
        self.0
            .iter()
            .try_for_each(|digit| tuple.serialize_element(digit))?;
        tuple.end()
    }
}

impl<'de, const DIGITS: usize> Deserialize<'de> for Exact<DIGITS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(DIGITS, Digits)
    }
}

struct Digits<const DIGITS: usize>;

impl<'de, const DIGITS: usize> Visitor<'de> for Digits<DIGITS> {
    type Value = Exact<DIGITS>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{DIGITS} digits")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut digits: A) -> Result<Exact<DIGITS>, A::Error> {
        let mut exact = Exact::default();
        for (place, digit) in exact.0.iter_mut().enumerate() {
            *digit = digits
                .next_element()?
                .ok_or_else(|| A::Error::invalid_length(place, &self))?;
        }
        Ok(exact)
    }
}
