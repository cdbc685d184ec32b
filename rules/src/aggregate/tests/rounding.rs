//! Results so close to the midpoint of two doubles that only the remainder of a division or a root decides.

use num_bigint::{BigInt, BigUint};

use crate::aggregate::WhyNone;
use crate::aggregate::scaled::{Scaled, ratio, rounded};

/// The midpoint of the doubles 2^54 and 2^54 + 4.
const MIDDLE: u128 = (1 << 54) + 2;
const BELOW: f64 = (1_u64 << 54) as f64;
const ABOVE: f64 = ((1_u64 << 54) + 4) as f64;

fn scaled(size: u128, inexact: bool, exponent: i64) -> Scaled {
    Scaled {
        size,
        inexact,
        exponent,
    }
}

#[test]
fn a_rest_behind_128_bits_of_a_quotient_is_seen() {
    let divisor = BigUint::from((1_u128 << 120) + 1);
    let middle = BigInt::from(&divisor * MIDDLE);
    assert_eq!(ratio(&middle, &divisor, 0), Ok(BELOW));
    let beside: BigInt = middle + 1;
    assert_eq!(ratio(&beside, &divisor, 0), Ok(ABOVE));
    assert_eq!(ratio(&-beside, &divisor, 0), Ok(-ABOVE));
}

#[test]
fn a_bit_far_below_what_is_kept_is_seen() {
    let far = BigUint::from(1_u8) << 540;
    let middle = BigInt::from(&far * MIDDLE);
    assert_eq!(rounded(&middle, -540), Ok(BELOW));
    let beside: BigInt = middle + 1;
    assert_eq!(rounded(&beside, -540), Ok(ABOVE));
    assert_eq!(ratio(&beside, &far, 0), Ok(ABOVE));
}

#[test]
fn the_rest_of_a_root_is_seen_wherever_it_is() {
    let root = |size, inexact, exponent| scaled(size, inexact, exponent).root().rounded(false);
    let square = (MIDDLE * MIDDLE) << 18;
    assert_eq!(root(square, false, -18), Ok(BELOW));
    assert_eq!(root(square + 1, false, -18), Ok(ABOVE));
    assert_eq!(root(square, true, -18), Ok(ABOVE));
    // An odd exponent takes one bit of the size.
    assert_eq!(root(square << 1, false, -19), Ok(BELOW));
    assert_eq!(root((square << 1) + 1, false, -19), Ok(ABOVE));
}

#[test]
fn the_ends_of_the_doubles() {
    let of = |size, inexact, exponent| scaled(size, inexact, exponent).rounded(false);
    assert_eq!(of(1, false, -1074), Ok(5e-324));
    assert_eq!(
        of(1, false, -1075),
        Ok(0.0),
        "half of the least is as near to 0, which is even"
    );
    assert_eq!(of(1 << 100, true, -1175), Ok(5e-324));
    assert_eq!(of(1 << 127, false, -1202), Ok(0.0));
    assert_eq!(of(u128::MAX, true, -1203), Ok(0.0));
    assert_eq!(of((1 << 127) + 1, false, -1202), Ok(5e-324));
    assert_eq!(
        of((1 << 53) - 1, false, -1075),
        Ok(f64::MIN_POSITIVE),
        "up into the normal numbers"
    );
    assert_eq!(of((1 << 53) - 1, false, 971), Ok(f64::MAX));
    assert_eq!(
        of((1 << 54) - 1, false, 970),
        Err(WhyNone::TooLarge),
        "as near to 2^1024"
    );
    assert_eq!(of((1 << 54) - 2, false, 970), Ok(f64::MAX));
    assert_eq!(of((1 << 55) - 3, true, 969), Ok(f64::MAX));
    assert_eq!(of(1, false, 1024), Err(WhyNone::TooLarge));
    assert_eq!(rounded(&(-3).into(), -1080), Ok(0.0));
}
