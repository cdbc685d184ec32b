//! Tables: rows of the smallest keys, complete, and what was dropped, counted alike by every split.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{lawful, split};
use crate::aggregate::{Integers, Least, Merge, Table};

type Small = Table<u8, Integers, 3>;

fn check<const MOST: usize>(split: &super::Split<(u8, u64)>) {
    let all = lawful(split, |table: &mut Table<u8, Integers, MOST>, (key, value)| {
        table.add(*key, |row| row.add(*value));
    });
    let mut unbounded: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    for (key, value) in &split.values {
        unbounded.entry(*key).or_default().push(*value);
    }
    let rows: Vec<_> = all
        .rows()
        .map(|(key, row)| (*key, row.sum(), row.count()))
        .collect();
    let smallest = unbounded.iter().take(MOST).map(|(key, values)| {
        let sum = values.iter().map(|value| i128::from(*value)).sum();
        (*key, Ok(sum), Ok(values.len() as u64))
    });
    assert_eq!(rows, smallest.collect::<Vec<_>>());
    let beyond = || unbounded.iter().skip(MOST);
    assert_eq!(
        all.dropped(),
        beyond().map(|(_, values)| values.len() as u64).sum::<u64>()
    );
    assert_eq!(all.first_dropped(), beyond().map(|(key, _)| key).next());
}

proptest! {
    #[test]
    fn tables_are_lawful_and_keep_the_smallest_keys_whole(split in split((0..12_u8, 0..1000_u64))) {
        check::<0>(&split);
        check::<1>(&split);
        check::<3>(&split);
        check::<8>(&split);
        check::<12>(&split);
    }

    #[test]
    fn tables_of_what_was_counted_elsewhere_are_lawful_up_to_the_last_count(
        split in split((0..9_u8, prop_oneof![0..9_u64, Just(u64::MAX), Just(1 << 63)])),
    ) {
        let _ = lawful(&split, |table: &mut Small, (key, values)| {
            table.add_counted(*key, *values, |row| row.add(*values));
        });
    }

    #[test]
    fn tables_of_tables_are_lawful(split in split((0..6_u8, 0..6_u8, 0..9_u64))) {
        let _ = lawful(&split, |table: &mut Table<u8, Table<u8, Least<u64, u8>, 2>, 3>, (a, b, value)| {
            table.add(*a, |row| row.add(*b, |row| row.add(*value, *b)));
        });
    }
}

/// Two nodes that dropped the same key would both count it, one that evicts a row and sees its key again too: values
/// are counted, of which there is each only once.
#[test]
fn a_key_that_two_nodes_dropped_is_not_counted_twice() {
    let node = |keys: [u8; 5]| {
        let mut table = Small::default();
        for key in keys {
            table.add(key, |row| row.add(1));
        }
        table
    };
    let (mut a, b) = (node([9, 1, 2, 3, 9]), node([3, 9, 2, 4, 0]));
    assert_eq!((a.dropped(), a.first_dropped()), (2, Some(&9)));
    assert_eq!((b.dropped(), b.first_dropped()), (2, Some(&4)));
    a.merge(&b);
    assert_eq!(a.rows().map(|(key, _)| *key).collect::<Vec<_>>(), [0, 1, 2]);
    // 3 twice, 4 once, 9 thrice.
    assert_eq!((a.dropped(), a.first_dropped()), (6, Some(&3)));
    assert_eq!(a.get(&2).map(Integers::count), Some(Ok(2)));
    assert!(a.get(&3).is_none());
}

#[test]
fn what_would_be_dropped_at_once_is_not_even_aggregated() {
    let mut table = Small::default();
    for key in [5, 3, 4] {
        table.add(key, |row| row.add(1));
    }
    for key in [6, 7, 6] {
        table.add(key, |_| unreachable!("key {key} has no place"));
    }
    assert_eq!((table.dropped(), table.first_dropped()), (3, Some(&6)));
    table.add(1, |row| row.add(1));
    table.add(5, |_| unreachable!("5 lost its place to 1"));
    assert_eq!((table.dropped(), table.first_dropped()), (5, Some(&5)));
    assert_eq!(table.rows().count(), 3);
}
