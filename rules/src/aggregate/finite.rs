//! Doubles with a total order.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// A finite f64, which is totally ordered. −0 is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
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

impl TryFrom<f64> for Finite {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Finite, &'static str> {
        Finite::new(value).ok_or("a value is not finite")
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
