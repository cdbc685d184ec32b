//! Results so close to the midpoint of two doubles that only the remainder of a division or a root decides.

use crate::aggregate::WhyNone;
use crate::aggregate::natural::{Natural, Scaled, SignedInteger};

/// The midpoint of the doubles 2^54 and 2^54 + 4.
const MIDDLE: u128 = (1 << 54) + 2;
const BELOW: f64 = (1_u64 << 54) as f64;
const ABOVE: f64 = ((1_u64 << 54) + 4) as f64;

fn natural(value: u128) -> Natural {
    Natural::from(value)
}

#[test]
fn a_rest_behind_128_bits_of_a_quotient_is_seen() {
    let divisor = natural((1 << 120) + 1);
    let middle = natural(MIDDLE).times(&divisor);
    assert_eq!(SignedInteger::from(middle.clone()).ratio(&divisor, 0), Ok(BELOW));
    let beside = middle.plus(&natural(1));
    assert_eq!(SignedInteger::from(beside.clone()).ratio(&divisor, 0), Ok(ABOVE));
    assert_eq!(SignedInteger::new(true, beside).ratio(&divisor, 0), Ok(-ABOVE));
}

#[test]
fn a_bit_far_below_what_is_kept_is_seen() {
    let far = (0..9).fold(natural(1), |power, _| power.times(&natural(1 << 60)));
    let middle = natural(MIDDLE).times(&far);
    assert_eq!(SignedInteger::from(middle.clone()).rounded(-540), Ok(BELOW));
    let beside = SignedInteger::from(middle.plus(&natural(1)));
    assert_eq!(beside.rounded(-540), Ok(ABOVE));
    assert_eq!(beside.ratio(&far, 0), Ok(ABOVE));
}

#[test]
fn the_rest_of_a_root_is_seen_wherever_it_is() {
    let root = |size: u128, inexact, exponent| {
        Scaled {
            size,
            inexact,
            exponent,
        }
        .root()
        .rounded(false)
    };
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
    let of = |size: u128, inexact, exponent| {
        Scaled {
            size,
            inexact,
            exponent,
        }
        .rounded(false)
    };
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
    assert_eq!(SignedInteger::from(-3).rounded(-1080), Ok(0.0));
}
