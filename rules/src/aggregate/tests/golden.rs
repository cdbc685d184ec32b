//! Values computed elsewhere with rational arithmetic, and examples of the published works.

use super::numbers::results;
use crate::aggregate::{FittedLine, Integers, Numbers, Reals, Regression, WhyNone};

/// Sum, mean and deviation, which must be equal for `Reals` and `Numbers`.
fn of(values: &[f64]) -> [Result<f64, WhyNone>; 3] {
    let (mut reals, mut numbers) = (Reals::default(), Numbers::default());
    values.iter().for_each(|x| reals.add(*x));
    values.iter().for_each(|x| numbers.add(*x));
    let found = results(&reals);
    assert_eq!([numbers.sum(), numbers.mean(), numbers.stddev()], found);
    found
}

#[test]
fn sums_means_and_deviations_of_doubles() {
    for (what, values, expected) in [
        (
            "what cancels leaves what is small",
            &[1e308, 1.0, -1e308, 1e-308, 2.5, -1e16, 1e16, 3.0][..],
            [Ok(6.5), Ok(0.8125), Ok(5e307)],
        ),
        (
            "ten tenths are one and do not vary",
            &[0.1; 10],
            [Ok(1.0), Ok(0.1), Ok(0.0)],
        ),
        (
            "a spread of nanounits around a billion is seen",
            &[0, 1, 2, 3, 4, 5, 6].map(|i| 1e9 + f64::from(i) * 1e-6),
            [
                Ok(7_000_000_000.000021),
                Ok(1_000_000_000.000003),
                Ok(2.001284809851318e-06),
            ],
        ),
        (
            "subnormal numbers count",
            &[5e-324, 1e-320, -3e-322, 2.2250738585072014e-308, 1.5e-310],
            [
                Ok(2.240073858508172e-308),
                Ok(4.48014771701634e-309),
                Ok(8.88548535252609e-309),
            ],
        ),
        (
            "a mean exists where the sum is too large",
            &[f64::MAX, f64::MIN, f64::MAX, 1e308],
            [
                Err(WhyNone::TooLarge),
                Ok(6.99423283715579e307),
                Ok(1.4780333303227102e308),
            ],
        ),
        (
            "a deviation exists where its square is too small for a double",
            &[1e-200, 3e-200, 7e-200],
            [
                Ok(1.1e-199),
                Ok(3.666666666666667e-200),
                Ok(2.4944382578492945e-200),
            ],
        ),
        (
            "and where it is too large for one",
            &[1e200, 3e200, 7e200],
            [Ok(1.1e201), Ok(3.666666666666667e200), Ok(2.4944382578492942e200)],
        ),
        (
            "S1 §9.1: C of four chunks of 200 tasks, by n",
            &[2.0, 2.5, 1.5, 3.0],
            [Ok(9.0), Ok(2.25), Ok(0.5590169943749475)],
        ),
    ] {
        assert_eq!(of(values), expected, "{what}");
    }
}

#[test]
fn what_has_no_value_says_why() {
    for (what, values, expected) in [
        (
            "nothing has a sum",
            &[][..],
            [Ok(0.0), Err(WhyNone::NoValues), Err(WhyNone::NoValues)],
        ),
        (
            "one value has a mean",
            &[4.0],
            [Ok(4.0), Ok(4.0), Err(WhyNone::OneValue)],
        ),
        (
            "what is not finite is counted",
            &[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
            [Err(WhyNone::NotFinite(3)); 3],
        ),
    ] {
        assert_eq!(of(values), expected, "{what}");
    }
    assert_eq!(WhyNone::NoValues.to_string(), "there are no values");
    assert_eq!(
        WhyNone::NotFinite(3).to_string(),
        "3 values are not finite numbers"
    );
}

#[test]
fn integers_beyond_64_bits() {
    let mut all = Integers::default();
    for x in [u64::MAX, u64::MAX, 1, 0, 12_345_678_901_234_567] {
        all.add(x);
    }
    assert_eq!(all.sum(), Ok(36_905_833_826_320_337_798));
    assert_eq!(all.mean_in(1), Ok(7.381166765264068e18));
    assert_eq!(all.stddev_in(1), Ok(9.035007162968609e18));
}

#[test]
fn a_line_far_from_the_origin() {
    let mut all = Regression::default();
    let ys = [0.1, 0.35, 0.52, 0.81, 1.09];
    for (i, y) in (0..).zip(ys) {
        all.add(1e9 + f64::from(i), y);
    }
    let (slope, intercept) = (0.24400000000000002, -243_999_999.91400003);
    assert_eq!(all.line(), Ok(FittedLine { slope, intercept }));
}

#[test]
fn no_line_without_two_x() {
    let mut all = Regression::default();
    assert_eq!(all.line(), Err(WhyNone::NoValues));
    all.add(0.1, 1.0);
    assert_eq!(all.line(), Err(WhyNone::OneValue));
    all.add(0.1, 2.0);
    assert_eq!(all.line(), Err(WhyNone::SameX));
    all.add(0.1, f64::NAN);
    assert_eq!(all.line(), Err(WhyNone::NotFinite(1)));
}
