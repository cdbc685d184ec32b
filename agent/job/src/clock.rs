//! The clock that the kernel side stamps its records with: CLOCK_MONOTONIC, as the tuner reads it.

pub use tuner::clock::{CpuClock, monotonic_ns, rfc3339};

/// The wall clock, in seconds since 1970.
pub fn unix_s() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
