//! The clock that the kernel side stamps its records with: CLOCK_MONOTONIC, as the tuner reads it.

pub use tuner::clock::{CpuClock, monotonic_ns, rfc3339};
