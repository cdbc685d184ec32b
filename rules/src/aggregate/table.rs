//! An aggregate for each key, of a bounded number of keys.

use std::collections::BTreeMap;

use super::Merge;

/// An aggregate `A` for each of the `MOST` smallest keys; values of greater keys are dropped, and counted.
///
/// **Why the smallest keys, and why values are counted.** Let U be all keys that were ever added and S those that one
/// part saw. The rank of a key of S within S is at most its rank within U. So a key among the `MOST` smallest of U is
/// among the
/// `MOST` smallest of every part and at every moment: it is never dropped anywhere, and its row is complete. A key that is
/// dropped anywhere is not among the `MOST` smallest of U: its row is gone from the end result, whatever else
/// happened to it. So the rows at the end are those of U's `MOST` smallest keys, for any split and order. The number
/// of *dropped keys* cannot be merged (two nodes may have dropped the same one, and the bound forbids to remember
/// which). The number of *dropped values* can: it is the number of values added less those in the rows, two numbers
/// that the order does not change. And the smallest dropped key is the smallest of U without a row, for it was
/// dropped somewhere: from it on, everything is missing, below it nothing.
///
/// ```
/// use rules::aggregate::{Integers, Table};
///
/// let mut by_rank: Table<u32, Integers, 2> = Table::default();
/// for (rank, ns) in [(7, 10), (3, 20), (5, 30), (3, 40), (7, 50)] {
///     by_rank.add(rank, |row| row.add(ns));
/// }
/// assert_eq!(by_rank.get(&3).unwrap().sum(), Ok(60));
/// assert_eq!((by_rank.dropped(), by_rank.first_dropped()), (2, Some(&7)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<K, A, const MOST: usize> {
    rows: BTreeMap<K, Row<A>>,
    dropped: u64,
    first_dropped: Option<K>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row<A> {
    /// How many values were added. Stops at 2⁶⁴ − 1, as `dropped` does: only the number of dropped values suffers.
    values: u64,
    aggregate: A,
}

// A derived one would want a default of K and A.
impl<K, A, const MOST: usize> Default for Table<K, A, MOST> {
    fn default() -> Table<K, A, MOST> {
        Table {
            rows: BTreeMap::new(),
            dropped: 0,
            first_dropped: None,
        }
    }
}

impl<K: Ord, A: Default, const MOST: usize> Table<K, A, MOST> {
    /// Adds one value to the row of its key: `add` does it, and is not called if the key is beyond the bound.
    pub fn add(&mut self, key: K, add: impl FnOnce(&mut A)) {
        self.add_counted(key, 1, add);
    }

    /// Adds what was aggregated elsewhere from so many values, as in the kernel.
    pub fn add_counted(&mut self, key: K, values: u64, add: impl FnOnce(&mut A)) {
        if self.is_beyond(&key) {
            self.drop_values(key, values);
            return;
        }
        let row = self.rows.entry(key).or_default();
        row.values = row.values.saturating_add(values);
        add(&mut row.aggregate);
        self.keep_the_smallest();
    }
}

impl<K: Ord, A, const MOST: usize> Table<K, A, MOST> {
    /// The row of a key.
    pub fn get(&self, key: &K) -> Option<&A> {
        self.rows.get(key).map(|row| &row.aggregate)
    }

    /// The rows in the order of their keys.
    pub fn rows(&self) -> impl Iterator<Item = (&K, &A)> {
        self.rows.iter().map(|(key, row)| (key, &row.aggregate))
    }

    /// How many values were dropped because their keys are beyond the bound.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The smallest key that was dropped: rows below it are complete, and from it on there are none.
    pub fn first_dropped(&self) -> Option<&K> {
        self.first_dropped.as_ref()
    }

    /// Whether there is no place for a key: all are taken by smaller ones.
    fn is_beyond(&self, key: &K) -> bool {
        self.rows.len() >= MOST && self.rows.last_key_value().is_none_or(|(last, _)| key > last)
    }

    fn drop_values(&mut self, key: K, values: u64) {
        self.dropped = self.dropped.saturating_add(values);
        if self.first_dropped.as_ref().is_none_or(|first| key < *first) {
            self.first_dropped = Some(key);
        }
    }

    fn keep_the_smallest(&mut self) {
        while self.rows.len() > MOST
            && let Some((key, row)) = self.rows.pop_last()
        {
            self.drop_values(key, row.values);
        }
    }
}

impl<K: Ord + Clone, A: Merge + Default, const MOST: usize> Merge for Table<K, A, MOST> {
    fn merge(&mut self, other: &Table<K, A, MOST>) {
        for (key, row) in &other.rows {
            self.add_counted(key.clone(), row.values, |aggregate| {
                aggregate.merge(&row.aggregate)
            });
        }
        if let Some(key) = &other.first_dropped {
            // The other's rows are all taken by smaller keys, and so are ours now: no row is at or behind that key.
            self.drop_values(key.clone(), other.dropped);
        }
    }
}
