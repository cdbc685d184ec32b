//! Doubles with a total order.

use serde::{Deserialize, Serialize};

use crate::value::Ordered;

/// A finite f64, which is totally ordered. −0 is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Finite(Ordered);

impl Finite {
    /// `None` if the value is infinite or not a number.
    pub fn new(value: f64) -> Option<Finite> {
        // −0 + 0 is 0.
        value.is_finite().then_some(Finite(Ordered(value + 0.0)))
    }

    pub fn get(self) -> f64 {
        self.0.0
    }
}

impl TryFrom<f64> for Finite {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Finite, &'static str> {
        Finite::new(value).ok_or("a value is not finite")
    }
}
