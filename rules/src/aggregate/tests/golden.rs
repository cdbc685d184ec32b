//! Numbers worked out elsewhere, with rational arithmetic, and examples of the works.

use crate::aggregate::{Divisor, Integers, Line, Reals, Regression, WhyNone};

fn reals(values: &[f64]) -> Reals {
    let mut reals = Reals::default();
    values.iter().for_each(|x| reals.add(*x));
    reals
}

fn stddevs(reals: &Reals) -> [Result<f64, WhyNone>; 2] {
    [Divisor::Sample, Divisor::Population].map(|divisor| reals.stddev(divisor))
}

fn variances(reals: &Reals) -> [Result<f64, WhyNone>; 2] {
    [Divisor::Sample, Divisor::Population].map(|divisor| reals.variance(divisor))
}

#[test]
fn what_cancels_leaves_what_is_small() {
    let all = reals(&[1e308, 1.0, -1e308, 1e-308, 2.5, -1e16, 1e16, 3.0]);
    assert_eq!((all.sum(), all.mean()), (Ok(6.5), Ok(0.8125)));
    assert_eq!(variances(&all), [Err(WhyNone::TooLarge); 2]);
    assert_eq!(stddevs(&all), [Ok(5.345224838248488e307), Ok(5e307)]);
}

#[test]
fn ten_tenths_are_one_and_do_not_vary() {
    let all = reals(&[0.1; 10]);
    assert_eq!((all.sum(), all.mean()), (Ok(1.0), Ok(0.1)));
    assert_eq!((variances(&all), stddevs(&all)), ([Ok(0.0); 2], [Ok(0.0); 2]));
}

#[test]
fn a_spread_of_nanounits_around_a_billion_is_seen() {
    let all = reals(&[0, 1, 2, 3, 4, 5, 6].map(|i| 1e9 + f64::from(i) * 1e-6));
    assert_eq!(
        (all.sum(), all.mean()),
        (Ok(7_000_000_000.000021), Ok(1_000_000_000.000003))
    );
    assert_eq!(
        variances(&all),
        [Ok(4.672664371831897e-12), Ok(4.005140890141626e-12)]
    );
    assert_eq!(
        stddevs(&all),
        [Ok(2.1616346527181456e-06), Ok(2.001284809851318e-06)]
    );
}

#[test]
fn subnormal_numbers_count() {
    let all = reals(&[5e-324, 1e-320, -3e-322, 2.2250738585072014e-308, 1.5e-310]);
    assert_eq!(
        (all.sum(), all.mean()),
        (Ok(2.240073858508172e-308), Ok(4.48014771701634e-309))
    );
    assert_eq!(variances(&all), [Ok(0.0); 2]);
    assert_eq!(
        stddevs(&all),
        [Ok(9.934274630663513e-309), Ok(8.88548535252609e-309)]
    );
}

#[test]
fn a_mean_exists_where_the_sum_is_too_large() {
    let all = reals(&[f64::MAX, f64::MIN, f64::MAX, 1e308]);
    assert_eq!(
        (all.sum(), all.mean()),
        (Err(WhyNone::TooLarge), Ok(6.99423283715579e307))
    );
    assert_eq!(
        stddevs(&all),
        [Ok(1.7066858822661116e308), Ok(1.4780333303227102e308)]
    );
}

#[test]
fn a_stddev_exists_where_the_variance_is_no_double() {
    let tiny = reals(&[1e-200, 3e-200, 7e-200]);
    assert_eq!(variances(&tiny), [Ok(0.0); 2]);
    assert_eq!(
        stddevs(&tiny),
        [Ok(3.0550504633038937e-200), Ok(2.4944382578492945e-200)]
    );
    let big = reals(&[1e200, 3e200, 7e200]);
    assert_eq!(variances(&big), [Err(WhyNone::TooLarge); 2]);
    assert_eq!(
        stddevs(&big),
        [Ok(3.0550504633038934e200), Ok(2.4944382578492942e200)]
    );
}

#[test]
fn nothing_has_no_mean_and_one_value_no_spread() {
    let nothing = reals(&[]);
    assert_eq!((nothing.sum(), nothing.mean()), (Ok(0.0), Err(WhyNone::NoValues)));
    assert_eq!(stddevs(&nothing), [Err(WhyNone::NoValues); 2]);
    let one = reals(&[4.0]);
    assert_eq!((one.sum(), one.mean()), (Ok(4.0), Ok(4.0)));
    assert_eq!(stddevs(&one), [Err(WhyNone::OneValue); 2]);
    assert_eq!(
        Integers::default().mean().unwrap_err().to_string(),
        "there are no values"
    );
}

#[test]
fn values_that_are_not_finite_are_counted_and_give_none() {
    let all = reals(&[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!((all.count(), all.not_finite()), (Ok(4), Ok(3)));
    assert_eq!(all.sum(), Err(WhyNone::NotFinite(3)));
    assert_eq!(all.mean(), Err(WhyNone::NotFinite(3)));
    assert_eq!(stddevs(&all), [Err(WhyNone::NotFinite(3)); 2]);
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
    assert_eq!(all.mean(), Ok(7.381166765264068e18));
    assert_eq!(all.variance(Divisor::Sample), Ok(1.0203919304361759e38));
    assert_eq!(all.variance(Divisor::Population), Ok(8.163135443489407e37));
    assert_eq!(all.stddev(Divisor::Sample), Ok(1.0101445096797665e19));
    assert_eq!(all.stddev(Divisor::Population), Ok(9.035007162968609e18));
}

#[test]
fn a_line_far_from_the_origin() {
    let mut all = Regression::default();
    let ys = [0.1, 0.35, 0.52, 0.81, 1.09];
    for (i, y) in (0..).zip(ys) {
        all.add(1e9 + f64::from(i), y);
    }
    let (slope, intercept) = (0.24400000000000002, -243_999_999.91400003);
    assert_eq!(all.line(), Ok(Line { slope, intercept }));
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

/// Dynamic adjusting factoring: C of four chunks of 200 tasks, N = 4, x = 1 + σ√(N/2)/μ, F0 = 1/x. The digest of MATE
/// for MPI (§9.1) has both deviations, as the work does not say which it means.
#[test]
fn the_vectors_of_adjusting_factoring() {
    let all = reals(&[2.0, 2.5, 1.5, 3.0]);
    assert_eq!(all.mean(), Ok(2.25));
    for (divisor, sigma, factor) in [
        (Divisor::Population, 0.559017, 0.739993),
        (Divisor::Sample, 0.645497, 0.711379),
    ] {
        let ours = all.stddev(divisor).unwrap();
        assert!((ours - sigma).abs() < 5e-7);
        assert!((1.0 / (1.0 + ours * 2_f64.sqrt() / 2.25) - factor).abs() < 5e-7);
    }
}
