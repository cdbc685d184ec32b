//! Doubles that are mostly integers, quantiles of few and of many values, and counts of conditions.

use proptest::collection::vec;
use proptest::prelude::*;

use super::numbers::results;
use super::{doubles, finite, lawful, split};
use crate::aggregate::quantiles::rank;
use crate::aggregate::{
    FEW, Finite, Integers, Merge, Numbers, Quantiles, Reals, Truths, VALUES_MAX, WhyNone,
};

proptest! {
    #[test]
    fn numbers_are_what_the_sums_of_all_doubles_are(split in split(doubles())) {
        let numbers: Numbers = lawful(&split, |numbers: &mut Numbers, value| numbers.add(*value));
        let mut reals = Reals::default();
        split.values.iter().for_each(|value| reals.add(*value));
        prop_assert_eq!([numbers.sum(), numbers.mean(), numbers.stddev()], results(&reals));
    }

    #[test]
    fn sums_in_a_greater_unit_are_rounded_once(values in vec(prop_oneof![0..1u64 << 60, 0..1000u64], 1..20)) {
        let (mut integers, mut reals) = (Integers::default(), Reals::default());
        // After division by a power of 2, each value is below 2^53 and exact.
        values.iter().map(|value| value >> 7).for_each(|value| {
            integers.add(value);
            reals.add(value as f64 / 1024.0);
        });
        prop_assert_eq!([integers.sum_in(1024), integers.mean_in(1024), integers.stddev_in(1024)], results(&reals));
    }

    #[test]
    fn quantiles_of_few_lie_between_two_and_of_many_in_their_bucket(
        values in vec(finite(), 1..3 * FEW), cut in any::<prop::sample::Index>(), q in 0.0..=1.0f64,
    ) {
        let (one, two) = values.split_at(cut.index(values.len()));
        let of = |values: &[f64]| {
            let mut quantiles = Quantiles::default();
            values.iter().for_each(|value| quantiles.add(*value));
            quantiles
        };
        let (mut merged, mut other, all) = (of(one), of(two), of(&values));
        merged.merge(&of(two));
        other.merge(&of(one));
        prop_assert_eq!(&merged, &all);
        prop_assert_eq!(&other, &all);
        let mut sorted: Vec<f64> = values.iter().map(|value| value + 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let found = all.quantile(q).unwrap();
        if values.len() <= FEW {
            let place = q * (values.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            prop_assert!(found >= low && (found <= high || (high - low).is_infinite()), "{low} {found} {high}");
        } else {
            let rank = rank(q, values.len() as u64);
            let exact = sorted[rank as usize - 1];
            // Subnormal numbers have no leading bit.
            prop_assert!((found - exact).abs() <= exact.abs() / 64.0 + f64::MIN_POSITIVE, "{found} {exact}");
        }
    }

    #[test]
    fn truths_are_lawful(split in split(any::<bool>())) {
        let truths = lawful(&split, |truths: &mut Truths, holds| truths.add(*holds));
        let held = split.values.iter().filter(|holds| **holds).count();
        prop_assert_eq!((truths.held(), truths.failed()), (held as u64, (split.values.len() - held) as u64));
    }

    #[test]
    fn the_rank_is_the_lowest_that_reaches_the_share(q in 0.0..=1.0, count in 1..2000_u64) {
        let least = (1..=count).find(|r| *r as f64 / count as f64 >= q);
        prop_assert_eq!(Some(rank(q, count)), least);
    }
}

#[test]
fn quantiles_have_none_where_there_is_none() {
    let mut quantiles = Quantiles::default();
    assert_eq!(quantiles.quantile(0.5), Err(WhyNone::NoValues));
    quantiles.add(1.0);
    assert_eq!(quantiles.quantile(1.5), Err(WhyNone::NoShare));
    quantiles.add(f64::NAN);
    assert_eq!(quantiles.quantile(0.5), Err(WhyNone::NotFinite(1)));
}

#[test]
fn a_share_that_was_written_as_a_decimal_means_what_it_says() {
    assert_eq!((rank(0.07, 100), rank(0.7, 10), rank(0.29, 100)), (7, 7, 29));
    assert_eq!(
        (rank(0.0, 5), rank(1.0, 5), rank(0.5, 4), rank(0.5, 5)),
        (1, 5, 2, 3)
    );
    assert_eq!(rank(1.0, VALUES_MAX), VALUES_MAX);
}

#[test]
fn both_zeros_are_one_value() {
    assert_eq!(Finite::new(-0.0), Finite::new(0.0));
    assert!(Finite::new(-0.0).unwrap().get().is_sign_positive());
}
