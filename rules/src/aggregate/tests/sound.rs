//! States that arrive from another machine: only sums to which values can have led are sound, and a sound one
//! can be merged and read.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::exact::{DOUBLE, SINGLE};
use super::super::{Integers, Numbers, Product, Quantiles, Reals, Regression, VALUES_MAX};
use super::*;

/// A state from its fields in their order.
fn of<T: DeserializeOwned>(fields: &[u8]) -> T {
    postcard::from_bytes(fields).unwrap()
}

fn bytes(of: impl Serialize) -> Vec<u8> {
    postcard::to_extend(&of, Vec::new()).unwrap()
}

fn digits(counts: (u64, u64), digits: &[i128], sizes: &[usize]) -> Vec<u8> {
    let mut out = bytes(counts);
    let mut digits = digits.iter().copied().chain(std::iter::repeat(0));
    for size in sizes {
        (0..*size).for_each(|_| out.extend(bytes(digits.next().unwrap())));
    }
    out
}

fn reals(counts: (u64, u64), of_sums: &[i128]) -> Reals {
    of(&digits(counts, of_sums, &[SINGLE, DOUBLE]))
}

fn regression(counts: (u64, u64), of_sums: &[i128]) -> Regression {
    of(&digits(counts, of_sums, &[SINGLE, SINGLE, DOUBLE, DOUBLE]))
}

fn integers(fields: (u64, i128, u128, u64)) -> Integers {
    of(&bytes(fields))
}

type OfProduct = (u64, u64, u64, bool, i128, u128);

fn product(fields: OfProduct) -> Product {
    of(&bytes(fields))
}

fn quantiles(count: u64, not_finite: u64, few: &[f64], buckets: &[(i32, u64)]) -> Quantiles {
    let buckets: BTreeMap<i32, u64> = buckets.iter().copied().collect();
    of(&bytes((count, not_finite, few, buckets)))
}

const MOST: i128 = u64::MAX as i128;

#[test]
fn a_state_to_which_no_values_lead_is_not_sound() {
    assert!(integers((2, 5, 13, 0)).is_sound());
    for wrong in [
        (1, MOST + 1, 1, 0),
        (1, -MOST - 1, 1, 0),
        (1, 5, 25, 2),
        (VALUES_MAX + 2, 0, 0, 0),
        (VALUES_MAX + 1, 1, 0, 0),
    ] {
        assert!(!integers(wrong).is_sound(), "{wrong:?}");
    }
    assert!(reals((1, 0), &[MOST]).is_sound() && regression((1, 0), &[MOST]).is_sound());
    for (counts, digit) in [
        ((1, 0), MOST + 1),
        ((0, 0), 1),
        ((1, 2), 0),
        ((VALUES_MAX + 1, 0), 1),
        ((u64::MAX, 0), 0),
    ] {
        assert!(!reals(counts, &[digit]).is_sound(), "{counts:?} {digit}");
        assert!(!regression(counts, &[0, digit]).is_sound(), "{counts:?} {digit}");
    }
    assert!(product((1, 0, 0, false, 1, 1)).is_sound());
    for wrong in [
        (1, 2, 0, false, 0, 0),
        (1, 0, 2, false, 0, 0),
        (1, 0, 0, false, 1075, 0),
        (1, 0, 0, false, 0, 1 << 64),
        (VALUES_MAX + 1, 0, 1, false, 0, 0),
    ] {
        assert!(!product(wrong).is_sound(), "{wrong:?}");
    }
    assert!(quantiles(3, 1, &[1.0, 2.0], &[]).is_sound());
    assert!(quantiles(70, 0, &[], &[(3, 70)]).is_sound());
    for (count, few, buckets) in [
        (1, &[1.0, 2.0][..], &[][..]),
        (2, &[2.0, 1.0], &[]),
        (1, &[f64::NAN], &[]),
        (2, &[1.0], &[(0, 1)]),
        (1, &[], &[(i32::MAX, 1)]),
        (1, &[], &[(i32::MIN, 1)]),
        (u64::MAX, &[], &[(0, u64::MAX)]),
        (70, &[], &[(0, u64::MAX), (1, 71)]),
    ] {
        assert!(
            !quantiles(count, 0, few, buckets).is_sound(),
            "{count} {few:?} {buckets:?}"
        );
    }
}

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..4, Just(VALUES_MAX), Just(VALUES_MAX + 1), any::<u64>()]
}

fn any_digits() -> impl Strategy<Value = Vec<i128>> {
    let digit = prop_oneof![-9i128..9, -MOST..MOST, any::<i128>()];
    prop::collection::vec(digit, 0..SINGLE + DOUBLE)
}

/// Merges it with itself several times, as nodes may report the same.
fn doubled<T: Merge + Clone>(state: &T) -> T {
    let mut all = state.clone();
    (0..4).for_each(|_| all.merge(&all.clone()));
    all
}

proptest! {
    #[test]
    fn a_sound_state_can_be_merged_and_read(
        count in any_count(),
        not_finite in any_count(),
        of_sums in any_digits(),
        numbers in (any::<i128>(), any::<u128>(), any::<u64>()),
        few in prop::collection::vec(any::<f64>(), 0..4),
        buckets in prop::collection::vec((-70_000i32..70_000, any_count()), 0..3),
        share in 0.0f64..1.0,
    ) {
        let state = reals((count, not_finite), &of_sums);
        if state.is_sound() {
            let all = Numbers::from(Integers::default());
            let mut all = doubled(&all);
            all.merge(&of(&[bytes(Integers::default()), vec![1], bytes(&state)].concat()));
            let _ = (all.sum(), all.mean(), all.stddev());
        }
        let state = regression((count, not_finite), &of_sums);
        if state.is_sound() {
            let _ = doubled(&state).line();
        }
        let state = integers((count, numbers.0, numbers.1, numbers.2));
        if state.is_sound() {
            let all = doubled(&state);
            let _ = (all.sum_in(7), all.mean_in(7), all.stddev_in(7));
        }
        let state = product((count, not_finite, 0, true, numbers.0, numbers.1));
        if state.is_sound() {
            let _ = doubled(&state).product();
        }
        let state = quantiles(count, not_finite, &few, &buckets);
        if state.is_sound() {
            let _ = doubled(&state).quantile(share);
        }
    }
}
