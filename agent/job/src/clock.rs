//! The wall clock, for times that are compared between machines.

/// Seconds since 1970, by the wall clock.
pub fn unix_s() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
