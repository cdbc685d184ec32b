//! 2⁶³ values fit; one more is an overflow, in any order.

use super::numbers::results;
use crate::aggregate::{FittedLine, Integers, Merge, Reals, Regression, VALUES_MAX, WhyNone};

#[test]
fn as_many_of_the_greatest_doubles_as_there_may_be_are_summed_exactly() {
    for value in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 1.0 / 3.0, -5e-324] {
        let mut all = Reals::default();
        all.put(value, VALUES_MAX);
        let most = value * 2_f64.powi(63);
        let sum = if most.is_finite() {
            Ok(most)
        } else {
            Err(WhyNone::TooLarge)
        };
        assert_eq!(results(&all), [sum, Ok(value), Ok(0.0)]);
    }
}

#[test]
fn the_digits_of_a_sum_hold_the_worst_case_at_every_place() {
    // With all bits of the mantissa set, each shift fills its digits to the maximum.
    for exponent in (1..2047).step_by(7) {
        let value = f64::from_bits(exponent << 52 | ((1 << 52) - 1));
        let mut half = Reals::default();
        half.put(value, VALUES_MAX / 2);
        let mut all = half.clone();
        all.merge(&half);
        assert_eq!(results(&all)[1..], [Ok(value), Ok(0.0)]);
        let mut less = Reals::default();
        less.put(-value, VALUES_MAX / 2);
        less.merge(&half);
        assert_eq!(results(&less), [Ok(0.0), Ok(0.0), Ok(value)]);
    }
}

#[test]
fn one_value_more_than_there_may_be_is_an_overflow_for_good() {
    let (mut full, mut one) = (Reals::default(), Reals::default());
    full.put(1.0, VALUES_MAX);
    one.add(f64::NAN);
    let mut all = full.clone();
    all.merge(&one);
    assert_eq!(results(&all), [Err(WhyNone::Overflow); 3]);
    one.merge(&full);
    assert_eq!(one, all);
    full.add(1.0);
    assert_eq!(full, all);
    full.add(1.0);
    assert_eq!(full, all);
    assert_eq!(WhyNone::Overflow.to_string(), "overflow: more than 2^63 values");
}

#[test]
fn the_greatest_integers_fit_as_often_as_there_may_be_values() {
    let value = u128::from(u64::MAX);
    // Squares in sums from elsewhere have 128 bits: one greatest value, doubled 63 times.
    let mut all = Integers::from_sums(1, value as i128, value * value).unwrap();
    for _ in 0..63 {
        let same = all.clone();
        all.merge(&same);
    }
    assert_eq!(all.count(), Ok(VALUES_MAX));
    assert_eq!(all.sum(), Ok((value << 63) as i128));
    assert_eq!(all.mean_in(1), Ok(u64::MAX as f64));
    assert_eq!(all.stddev_in(1), Ok(0.0));
    let mut more = all.clone();
    more.add(0);
    assert_eq!(more.sum(), Err(WhyNone::Overflow));
    let same = all.clone();
    all.merge(&same);
    assert_eq!(all, more);
}

#[test]
fn sums_that_no_integers_have_are_refused() {
    assert_eq!(Integers::from_sums(0, 0, 0), Some(Integers::default()));
    assert!(Integers::from_sums(0, 1, 1).is_none());
    assert!(Integers::from_sums(0, 0, 1).is_none());
    assert!(Integers::from_sums(2, 6, 18).is_some());
    assert!(Integers::from_sums(2, 6, 17).is_none(), "squares that wrapped");
    assert!(Integers::from_sums(1, 1 << 64, u128::MAX).is_none());
    assert!(Integers::from_sums(1, 1, u128::MAX).is_none());
    assert!(Integers::from_sums(VALUES_MAX + 1, 0, 0).is_none());
    let mut summed = Integers::default();
    for x in [-2, 5] {
        summed.add_signed(x);
    }
    assert_eq!(Integers::from_sums(2, 3, 29), Some(summed));
}

#[test]
fn lines_hold_the_greatest_doubles_and_overflow_alike() {
    let mut all = Regression::default();
    all.put(f64::MAX, f64::MIN, VALUES_MAX / 2);
    all.put(f64::MIN, f64::MAX, VALUES_MAX / 2);
    let (slope, intercept) = (-1.0, 0.0);
    assert_eq!(all.line(), Ok(FittedLine { slope, intercept }));
    all.add(0.0, 0.0);
    assert_eq!(all.line(), Err(WhyNone::Overflow));
}
