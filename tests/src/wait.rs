//! Waiting for a state that nothing announces: looks repeatedly, up to a bound.

use std::time::{Duration, Instant};

use crate::{Outcome, Problem};

/// A bound for anything that works; a test that reaches it has failed.
pub const SOON: Duration = Duration::from_secs(60);
/// Pauses between two looks. Any value is correct.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Looks until there is a value, and returns it. `what` completes "waited for".
///
/// A pause is four times as long as the look before it took, up to a bound: looking takes time from the program
/// that is looked at.
pub fn wait_for<T>(what: &str, bound: Duration, mut look: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    let deadline = Instant::now() + bound;
    loop {
        let begin = Instant::now();
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(Problem::new(format!("waited {bound:?} for {what}")));
        }
        let pause = (4 * begin.elapsed()).clamp(PAUSE_MIN, PAUSE_MAX);
        #[expect(clippy::disallowed_methods, reason = "the one loop that polls, with a bound")]
        std::thread::sleep(pause);
    }
}

/// Looks until a condition holds. `what` completes "waited for".
pub fn wait_until(what: &str, bound: Duration, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome {
    wait_for(what, bound, || Ok(is_so()?.then_some(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(20);

    #[test]
    fn waiting_returns_what_a_later_look_finds() -> Outcome {
        let mut looks = 0;
        let found = wait_for("the third look", Duration::from_secs(60), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        })?;
        assert_eq!(found, 3);
        Ok(())
    }

    #[test]
    fn waiting_ends_at_the_bound_and_at_an_error() {
        let late = wait_until("a lie", BOUND, || Ok(false)).unwrap_err().to_string();
        assert_eq!(late, "waited 20ms for a lie");
        let failed = wait_until("a lie", BOUND, || Err("no file".into()));
        assert_eq!(failed.unwrap_err().to_string(), "no file");
    }
}
