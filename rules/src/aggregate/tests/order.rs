//! Extremes, the first and the last, any and all.

use proptest::prelude::*;

use super::{doubles, lawful, split};
use crate::aggregate::{Finite, First, Greatest, Last, Least, Moment, Truths, WhyNone};
use crate::value::{ProcessId, Time};

fn moment((time, process, sequence): (u64, u32, u64)) -> Moment {
    Moment {
        time: Time(time),
        process: ProcessId(process),
        sequence,
    }
}

proptest! {
    #[test]
    fn extremes_are_lawful_and_ties_go_to_the_smallest_key(split in split((0..6_u64, 0..9_u32))) {
        let least = lawful(&split, |least: &mut Least<u64, u32>, (value, key)| least.add(*value, *key));
        let greatest = lawful(&split, |greatest: &mut Greatest<u64, u32>, (value, key)| greatest.add(*value, *key));
        let values = || split.values.iter().map(|(value, _)| *value);
        let key_of = |wanted| split.values.iter().filter(|(value, _)| *value == wanted).map(|(_, key)| *key).min();
        let expected = |value: Option<u64>| value.map(|value| (value, key_of(value).unwrap())).ok_or(WhyNone::NoValues);
        prop_assert_eq!(least.get().map(|(v, k)| (*v, *k)), expected(values().min()));
        prop_assert_eq!(greatest.get().map(|(v, k)| (*v, *k)), expected(values().max()));
    }

    #[test]
    fn extremes_of_reals_are_lawful_and_none_with_what_is_not_finite(split in split((doubles(), 0..9_u32))) {
        let least = lawful(&split, |least: &mut Least<Finite, u32>, (value, key)| least.add_real(*value, *key));
        let greatest = lawful(&split, |greatest: &mut Greatest<Finite, u32>, (value, key)| {
            greatest.add_real(*value, *key);
        });
        let values = || split.values.iter().map(|(value, _)| *value);
        match values().filter(|x| !x.is_finite()).count() as u64 {
            0 if split.values.is_empty() => prop_assert_eq!(least.get(), Err(WhyNone::NoValues)),
            0 => {
                prop_assert_eq!(least.get().unwrap().0.get(), values().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(greatest.get().unwrap().0.get(), values().fold(f64::NEG_INFINITY, f64::max));
            }
            count => {
                prop_assert_eq!(least.get(), Err(WhyNone::NotFinite(count)));
                prop_assert_eq!(greatest.get(), Err(WhyNone::NotFinite(count)));
            }
        }
    }

    #[test]
    fn first_and_last_are_lawful_even_with_hits_of_one_moment(
        split in split(((0..4_u64, 0..3_u32, 0..3_u64), any::<u8>())),
    ) {
        let first = lawful(&split, |first: &mut First<u8>, (at, value)| first.add(moment(*at), *value));
        let last = lawful(&split, |last: &mut Last<u8>, (at, value)| last.add(moment(*at), *value));
        let smallest = |at| split.values.iter().filter(|hit| hit.0 == at).map(|hit| hit.1).min().unwrap();
        let expected = |at: Option<_>| at.map(|at| (moment(at), smallest(at))).ok_or(WhyNone::NoValues);
        let moments = || split.values.iter().map(|hit| hit.0);
        prop_assert_eq!(first.get().map(|(at, value)| (*at, *value)), expected(moments().min()));
        prop_assert_eq!(last.get().map(|(at, value)| (*at, *value)), expected(moments().max()));
    }

    #[test]
    fn truths_are_lawful(split in split(any::<bool>())) {
        let truths = lawful(&split, |truths: &mut Truths, holds| truths.add(*holds));
        let values = &split.values;
        prop_assert_eq!(truths.held() + truths.failed(), values.len() as u64);
        if values.is_empty() {
            prop_assert_eq!((truths.any(), truths.all()), (Err(WhyNone::NoValues), Err(WhyNone::NoValues)));
        } else {
            prop_assert_eq!(truths.any(), Ok(values.contains(&true)));
            prop_assert_eq!(truths.all(), Ok(!values.contains(&false)));
        }
    }
}

#[test]
fn hits_of_one_time_are_ordered_by_process_and_then_by_number() {
    let mut last = Last::default();
    last.add(moment((5, 1, 9)), "process 1");
    last.add(moment((5, 2, 3)), "process 2, its third");
    last.add(moment((5, 2, 4)), "process 2, its fourth");
    last.add(moment((4, 9, 9)), "earlier");
    assert_eq!(last.get().unwrap().1, &"process 2, its fourth");
}

#[test]
fn both_zeros_are_one_value() {
    assert_eq!(Finite::new(-0.0), Finite::new(0.0));
    assert!(Finite::new(-0.0).unwrap().get().is_sign_positive());
    let mut least = Least::default();
    least.add_real(-0.0, 2);
    least.add_real(0.0, 1);
    assert_eq!(least.get().unwrap().1, &1);
}
