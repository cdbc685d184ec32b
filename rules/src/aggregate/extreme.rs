//! Min and max with the key of the extreme: argmin, argmax.

use std::cmp::{Ordering, Reverse};

use super::{Merge, WhyNone};

/// A finite f64, which has an order. −0 is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finite(f64);

impl Finite {
    /// None if the value is infinite or not a number.
    pub fn new(value: f64) -> Option<Finite> {
        // −0 + 0 is 0.
        value.is_finite().then_some(Finite(value + 0.0))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Finite {}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Finite) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Finite) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The least value and its key; of equal values the one with the smallest key.
///
/// `V` is any ordered value, for f64 it is [`Finite`].
///
/// ```
/// use rules::aggregate::{Greatest, Least};
///
/// let (mut least, mut greatest) = (Least::default(), Greatest::default());
/// for (rank, ns) in [(3, 70), (1, 20), (0, 70), (2, 20)] {
///     least.add(ns, rank);
///     greatest.add(ns, rank);
/// }
/// assert_eq!(least.get(), Ok((&20, &1)));
/// assert_eq!(greatest.get(), Ok((&70, &0)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Least<V, K> {
    found: Option<(V, K)>,
    not_finite: u64,
}

// A derived one would want a default of V and K.
impl<V, K> Default for Least<V, K> {
    fn default() -> Least<V, K> {
        Least {
            found: None,
            not_finite: 0,
        }
    }
}

impl<V: Ord, K: Ord> Least<V, K> {
    pub fn add(&mut self, value: V, key: K) {
        let new = (value, key);
        if self.found.as_ref().is_none_or(|found| new < *found) {
            self.found = Some(new);
        }
    }

    /// The least value and its key.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`], [`WhyNone::NotFinite`].
    pub fn get(&self) -> Result<(&V, &K), WhyNone> {
        if self.not_finite > 0 {
            return Err(WhyNone::NotFinite(self.not_finite));
        }
        let (value, key) = self.found.as_ref().ok_or(WhyNone::NoValues)?;
        Ok((value, key))
    }
}

impl<K: Ord> Least<Finite, K> {
    /// Adds an f64; one that is not finite is counted, and the least is none then.
    pub fn add_real(&mut self, value: f64, key: K) {
        match Finite::new(value) {
            Some(value) => self.add(value, key),
            None => self.not_finite = self.not_finite.saturating_add(1),
        }
    }
}

impl<V: Ord + Clone, K: Ord + Clone> Merge for Least<V, K> {
    fn merge(&mut self, other: &Least<V, K>) {
        self.not_finite = self.not_finite.saturating_add(other.not_finite);
        if let Some(new) = &other.found
            && self.found.as_ref().is_none_or(|found| new < found)
        {
            self.found = Some(new.clone());
        }
    }
}

/// The greatest value and its key; of equal values the one with the smallest key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greatest<V, K>(Least<Reverse<V>, K>);

impl<V, K> Default for Greatest<V, K> {
    fn default() -> Greatest<V, K> {
        Greatest(Least::default())
    }
}

impl<V: Ord, K: Ord> Greatest<V, K> {
    pub fn add(&mut self, value: V, key: K) {
        self.0.add(Reverse(value), key);
    }

    /// The greatest value and its key.
    ///
    /// # Errors
    /// [`WhyNone::NoValues`], [`WhyNone::NotFinite`].
    pub fn get(&self) -> Result<(&V, &K), WhyNone> {
        self.0.get().map(|(Reverse(value), key)| (value, key))
    }
}

impl<K: Ord> Greatest<Finite, K> {
    /// Adds an f64; one that is not finite is counted, and the greatest is none then.
    pub fn add_real(&mut self, value: f64, key: K) {
        match Finite::new(value) {
            Some(value) => self.add(value, key),
            None => self.0.not_finite = self.0.not_finite.saturating_add(1),
        }
    }
}

impl<V: Ord + Clone, K: Ord + Clone> Merge for Greatest<V, K> {
    fn merge(&mut self, other: &Greatest<V, K>) {
        self.0.merge(&other.0);
    }
}
