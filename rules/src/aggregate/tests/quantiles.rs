//! Histograms against sorted values.

use proptest::prelude::*;

use super::{lawful, split, times};
use crate::aggregate::histogram::rank;
use crate::aggregate::{BUCKETS, Histogram, MOST_VALUES, WhyNone};

/// Values of every size.
fn values() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
}

proptest! {
    #[test]
    fn histograms_are_lawful_and_quantiles_within_their_bound(split in split(values()), q in 0.0..=1.0) {
        let all = lawful(&split, |histogram: &mut Histogram, value| histogram.add(*value));
        let mut sorted = split.values.clone();
        sorted.sort_unstable();
        for q in [0.0, 0.5, 0.9, 0.99, 1.0, q] {
            let Some(exact) = (sorted.len() as u64).checked_sub(1).map(|_| rank(q, sorted.len() as u64)) else {
                prop_assert_eq!(all.quantile(q), Err(WhyNone::NoValues));
                continue;
            };
            let exact = sorted[exact as usize - 1];
            let ours = all.quantile(q).unwrap();
            prop_assert!(ours.abs_diff(exact) <= exact / 64, "{} for {}", ours, exact);
        }
    }

    #[test]
    fn histograms_beyond_the_bound_are_lawful(split in split((values(), times()))) {
        let _ = lawful(&split, |histogram: &mut Histogram, (value, times)| histogram.add_counted(*value, *times));
    }

    #[test]
    fn a_value_is_in_its_bucket_and_no_bucket_is_too_wide(value in values()) {
        let range = Histogram::range(Histogram::bucket(value)).unwrap();
        prop_assert!(range.contains(&value));
        prop_assert!(range.end() - range.start() < (range.start() / 32).max(1));
    }

    #[test]
    fn the_rank_is_the_least_whose_share_reaches(q in 0.0..=1.0, count in 1..2000_u64) {
        let least = (1..=count).find(|r| *r as f64 / count as f64 >= q);
        prop_assert_eq!(Some(rank(q, count)), least);
    }
}

#[test]
fn the_buckets_follow_each_other_from_0_to_the_greatest_value() {
    let mut next = Some(0);
    for bucket in 0..BUCKETS {
        let range = Histogram::range(bucket).unwrap();
        assert_eq!(Some(*range.start()), next);
        assert_eq!(Histogram::bucket(*range.start()), bucket);
        assert_eq!(Histogram::bucket(*range.end()), bucket);
        next = range.end().checked_add(1);
    }
    assert_eq!((next, Histogram::range(BUCKETS)), (None, None));
}

#[test]
fn a_share_that_was_written_as_a_decimal_means_what_it_says() {
    assert_eq!((rank(0.07, 100), rank(0.7, 10), rank(0.29, 100)), (7, 7, 29));
    assert_eq!(
        (rank(0.0, 5), rank(1.0, 5), rank(0.5, 4), rank(0.5, 5)),
        (1, 5, 2, 3)
    );
    assert_eq!(rank(1.0, MOST_VALUES), MOST_VALUES);
}

#[test]
fn small_values_are_exact_and_no_share_is_no_quantile() {
    let mut all = Histogram::default();
    (0..64).for_each(|value| all.add(value));
    for value in 0..64 {
        assert_eq!(all.quantile((value + 1) as f64 / 64.0), Ok(value));
    }
    assert_eq!(all.buckets().count(), 64);
    for q in [-0.1, 1.1, f64::NAN] {
        assert_eq!(all.quantile(q), Err(WhyNone::NoShare));
    }
}

#[test]
fn one_value_more_than_there_may_be_is_an_overflow() {
    let mut all = Histogram::default();
    all.add_counted(9, MOST_VALUES);
    assert_eq!(all.quantile(0.5), Ok(9));
    all.add(9);
    assert_eq!(all.quantile(0.5), Err(WhyNone::Overflow));
    assert_eq!(all.count(), Err(WhyNone::Overflow));
}
