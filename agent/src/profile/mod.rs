//! Readings and what is computed from them: plain data, no probe, no clock.

mod reading;

pub use reading::Reading;
