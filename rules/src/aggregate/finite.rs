//! Doubles with a total order.

use std::cmp::Ordering;

/// A finite f64, which is totally ordered. −0 is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finite(f64);

impl Finite {
    /// `None` if the value is infinite or not a number.
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
