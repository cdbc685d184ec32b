//! The first and the last hit.

use super::{Greatest, Least, Merge, WhyNone};
use crate::value::{ProcessId, Time};

/// A hit's place in the order of all hits: by its time, then its process, then its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub time: Time,
    pub process: ProcessId,
    /// Which one of its process it was.
    pub sequence: u64,
}

/// The value of the first hit.
///
/// Two hits of one [`Moment`] should not exist; if they do, the smaller value is kept, in whatever order they come. A
/// captured f64 may be an `Option<Finite>`, with [`super::Finite`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First<V>(Least<Moment, V>);

impl<V> Default for First<V> {
    fn default() -> First<V> {
        First(Least::default())
    }
}

impl<V: Ord> First<V> {
    pub fn add(&mut self, moment: Moment, value: V) {
        self.0.add(moment, value);
    }

    /// The first hit's moment and value.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`].
    pub fn get(&self) -> Result<(&Moment, &V), WhyNone> {
        self.0.get()
    }
}

impl<V: Ord + Clone> Merge for First<V> {
    fn merge(&mut self, other: &First<V>) {
        self.0.merge(&other.0);
    }
}

/// The value of the last hit. Of two hits of one [`Moment`] the smaller value is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last<V>(Greatest<Moment, V>);

impl<V> Default for Last<V> {
    fn default() -> Last<V> {
        Last(Greatest::default())
    }
}

impl<V: Ord> Last<V> {
    pub fn add(&mut self, moment: Moment, value: V) {
        self.0.add(moment, value);
    }

    /// The last hit's moment and value.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`].
    pub fn get(&self) -> Result<(&Moment, &V), WhyNone> {
        self.0.get()
    }
}

impl<V: Ord + Clone> Merge for Last<V> {
    fn merge(&mut self, other: &Last<V>) {
        self.0.merge(&other.0);
    }
}
