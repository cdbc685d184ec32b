//! Sums, means, deviations and regression lines, compared with simple long arithmetic and with the published
//! merge.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::naive::{Exactly, of_double};
use super::{doubles, finite, lawful, split, times};
use crate::aggregate::{FittedLine, Integers, Reals, Regression, WhyNone};

/// Integers of both types, small ones and extremes.
fn integers() -> impl Strategy<Value = i128> {
    prop_oneof![
        any::<u64>().prop_map(i128::from),
        any::<i64>().prop_map(i128::from),
        (-1000..1000_i128),
        (1_000_000_000..1_000_000_100_i128),
        proptest::sample::select(vec![u64::MAX.into(), i64::MIN.into(), i64::MAX.into()]),
    ]
}

fn add_integer(integers: &mut Integers, value: &i128) {
    match u64::try_from(*value) {
        Ok(value) => integers.add(value),
        Err(_) => integers.add_signed(i64::try_from(*value).unwrap()),
    }
}

/// Mean and deviation of n values from Σx and Σx², in units of 2^-`down` and its square.
struct Expected {
    count: usize,
    sum: BigInt,
    squares: BigInt,
    down: usize,
}

impl Expected {
    fn mean(&self) -> Exactly {
        Exactly {
            above: self.sum.clone(),
            below: self.count.into(),
            down: self.down,
            root: false,
        }
    }

    fn stddev(&self) -> Exactly {
        let count = BigInt::from(self.count);
        Exactly {
            above: &count * &self.squares - &self.sum * &self.sum,
            below: &count * &count,
            down: 2 * self.down,
            root: true,
        }
    }
}

/// Sum, mean and deviation of doubles.
pub(super) fn results(reals: &Reals) -> [Result<f64, WhyNone>; 3] {
    match reals.moments() {
        Ok(moments) => [moments.sum(), moments.mean(), moments.stddev(1)],
        Err(why) => [Err(why); 3],
    }
}

fn check(expected: &Expected, mean: Result<f64, WhyNone>, stddev: Result<f64, WhyNone>) {
    match expected.count {
        0 => assert_eq!((mean, stddev), (Err(WhyNone::NoValues), Err(WhyNone::NoValues))),
        1 => assert_eq!(stddev, Err(WhyNone::OneValue)),
        _ => expected.stddev().assert_nearest(stddev),
    }
    if expected.count > 0 {
        expected.mean().assert_nearest(mean);
    }
}

fn line(regression: &Regression, points: &[(f64, f64)]) {
    let big = |value: fn(&(f64, f64)) -> BigInt| points.iter().map(value).sum::<BigInt>();
    let count = BigInt::from(points.len());
    let (x, y) = (big(|p| of_double(p.0)), big(|p| of_double(p.1)));
    let xx = big(|p| of_double(p.0).pow(2));
    let xy = big(|p| of_double(p.0) * of_double(p.1));
    let below = &count * &xx - &x * &x;
    let of = |above: BigInt, down| Exactly {
        above,
        below: below.clone(),
        down,
        root: false,
    };
    let slope = of(&count * &xy - &x * &y, 0);
    let intercept = of(y * xx - x * xy, 1074);
    match regression.line() {
        Ok(FittedLine {
            slope: a,
            intercept: b,
        }) => {
            slope.assert_nearest(Ok(a));
            intercept.assert_nearest(Ok(b));
        }
        Err(WhyNone::SameX) => assert!(points.windows(2).all(|two| two[0].0 == two[1].0)),
        Err(WhyNone::TooLarge) => assert!(slope.is_too_large() || intercept.is_too_large()),
        Err(WhyNone::NoValues) => assert_eq!(points.len(), 0),
        Err(WhyNone::OneValue) => assert_eq!(points.len(), 1),
        Err(why) => panic!("{why}"),
    }
}

proptest! {
    #[test]
    fn integers_are_lawful_and_their_results_are_the_nearest(split in split(integers())) {
        let all = lawful(&split, add_integer);
        let values = &split.values;
        prop_assert_eq!(all.count(), Ok(values.len() as u64));
        prop_assert_eq!(all.sum(), Ok(values.iter().sum::<i128>()));
        let expected = Expected {
            count: values.len(),
            sum: values.iter().sum(),
            squares: values.iter().map(|x| BigInt::from(*x).pow(2)).sum(),
            down: 0,
        };
        check(&expected, all.mean_in(1), all.stddev_in(1));
    }

    #[test]
    fn integers_summed_elsewhere_are_lawful_beyond_the_bound_too(
        split in split((1..=u64::MAX >> 1, 0..=u32::MAX)),
    ) {
        let _ = lawful(&split, |integers: &mut Integers, (count, value)| {
            let (count, value) = (u128::from(*count), u128::from(*value));
            let part = Integers::from_sums(count as u64, (count * value) as i128, count * value * value);
            crate::aggregate::Merge::merge(integers, &part.unwrap_or_default());
        });
    }

    #[test]
    fn reals_are_lawful_and_their_results_are_the_nearest(split in split(finite())) {
        let all = lawful(&split, |reals: &mut Reals, x| reals.add(*x));
        let values = &split.values;
        let expected = Expected {
            count: values.len(),
            sum: values.iter().map(|x| of_double(*x)).sum(),
            squares: values.iter().map(|x| of_double(*x).pow(2)).sum(),
            down: 1074,
        };
        let sum = Exactly { below: 1.into(), ..expected.mean() };
        let [found, mean, stddev] = results(&all);
        sum.assert_nearest(found);
        check(&expected, mean, stddev);
    }

    #[test]
    fn reals_that_are_not_finite_or_too_many_are_lawful(split in split((doubles(), times()))) {
        let all = lawful(&split, |reals: &mut Reals, (x, times)| reals.put(*x, *times));
        let total: u128 = split.values.iter().map(|(_, times)| u128::from(*times)).sum();
        prop_assert_eq!(results(&all)[0] == Err(WhyNone::Overflow), total > 1 << 63);
    }

    #[test]
    fn values_and_what_cancels_them_leave_nothing(values in proptest::collection::vec(finite(), 1..100)) {
        let mut reals = Reals::default();
        values.iter().for_each(|x| reals.add(*x));
        values.iter().rev().for_each(|x| reals.add(-x));
        prop_assert_eq!(&results(&reals)[..2], [Ok(0.0); 2]);
    }

    #[test]
    fn regressions_are_lawful_and_their_lines_are_the_nearest(split in split((finite(), finite()))) {
        let all = lawful(&split, |regression: &mut Regression, (x, y)| regression.add(*x, *y));
        line(&all, &split.values);
    }

    #[test]
    fn regressions_beyond_the_bound_are_lawful(split in split((doubles(), doubles(), times()))) {
        let _ = lawful(&split, |regression: &mut Regression, (x, y, times)| regression.put(*x, *y, *times));
    }

    /// PMSL's digest (§8) finds that MEAN and STDEV need a mergeable state, which the thesis does not define;
    /// the published form is (count, mean, M2) merged by Chan, Golub and LeVeque (1979).
    #[test]
    fn the_published_merge_of_mean_and_stddev_agrees_to_rounding(
        a in proptest::collection::vec(1.0..1000.0, 2..50),
        b in proptest::collection::vec(1.0..1000.0, 2..50),
    ) {
        let parts = [&a, &b].map(|values: &Vec<f64>| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            (n, mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>())
        });
        let [(n_a, mean_a, m2_a), (n_b, mean_b, m2_b)] = parts;
        let (n, delta) = (n_a + n_b, mean_b - mean_a);
        let mean = mean_a + delta * n_b / n;
        let m2 = m2_a + m2_b + delta * delta * n_a * n_b / n;
        let mut all = Reals::default();
        a.iter().chain(&b).for_each(|x| all.add(*x));
        let near = |ours: Result<f64, WhyNone>, theirs: f64| (ours.unwrap() - theirs).abs() <= 1e-9 * theirs.abs();
        let [_, our_mean, stddev] = results(&all);
        prop_assert!(near(our_mean, mean));
        prop_assert!(near(stddev, (m2 / n).sqrt()));
    }
}
