//! Limits which tests run at the same time: on two cores, tests that use all CPUs would disturb each other's
//! measurements.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Maximum number of tests that share the machine. They mostly wait.
const SHARING_MAX: usize = 3;

/// Current holders of the machine, and the number of tests that wait to have it alone.
#[derive(Debug, Default)]
struct Turns {
    sharing: usize,
    is_taken: bool,
    waiting: usize,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns {
    sharing: 0,
    is_taken: false,
    waiting: 0,
});
static CHANGED: Condvar = Condvar::new();

/// Exclusive use of the machine, for tests that use all CPUs, compare times with a bound, or look at
/// everything on it (sessions, probes, BPF programs, processes).
pub fn machine() -> Machine {
    let mut turns = locked();
    turns.waiting += 1;
    let mut turns = wait_while(turns, |turns| turns.is_taken || turns.sharing > 0);
    turns.waiting -= 1;
    turns.is_taken = true;
    Machine::new(true)
}

/// Shared use of the machine, for tests that are correct at any speed and look only at what they started.
pub fn shared() -> Machine {
    // Tests that wait for exclusive use go first; otherwise they would wait for the last shared test.
    let is_full = |turns: &Turns| turns.is_taken || turns.waiting > 0 || turns.sharing == SHARING_MAX;
    wait_while(locked(), is_full).sharing += 1;
    Machine::new(false)
}

fn locked() -> MutexGuard<'static, Turns> {
    // A poisoned lock is usable: a failed test has dropped its values, so the machine is clean.
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_while(
    turns: MutexGuard<'static, Turns>,
    is_so: impl Fn(&Turns) -> bool,
) -> MutexGuard<'static, Turns> {
    CHANGED
        .wait_while(turns, |turns| is_so(turns))
        .unwrap_or_else(PoisonError::into_inner)
}

/// Use of the machine by one test until drop. Appends seconds, the test's name and `alone` or `shared` to the
/// file TUNEAGENT_TIMES.
#[must_use = "the machine is given back when this is dropped"]
#[derive(Debug)]
pub struct Machine {
    is_alone: bool,
    since: Instant,
}

impl Machine {
    fn new(is_alone: bool) -> Machine {
        Machine {
            is_alone,
            since: Instant::now(),
        }
    }

    fn note(&self) {
        let Some(file) = env::var_os("TUNEAGENT_TIMES") else {
            return;
        };
        let thread = std::thread::current();
        let line = format!(
            "{:.3}\t{}\t{}\n",
            self.since.elapsed().as_secs_f64(),
            thread.name().unwrap_or_default(),
            if self.is_alone { "alone" } else { "shared" }
        );
        let file = OpenOptions::new().create(true).append(true).open(file);
        // A failure to write a time must not fail the test.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.note();
        let mut turns = locked();
        match self.is_alone {
            true => turns.is_taken = false,
            false => turns.sharing -= 1,
        }
        CHANGED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_test_that_is_alone_meets_no_other_and_one_that_shares_meets_a_few() {
        let (sharing, alone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..40 {
                let (sharing, alone) = (&sharing, &alone);
                scope.spawn(move || {
                    if number % 4 == 0 {
                        let _machine = machine();
                        assert_eq!(alone.fetch_add(1, Ordering::SeqCst), 0);
                        assert_eq!(sharing.load(Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        alone.fetch_sub(1, Ordering::SeqCst);
                    } else {
                        let _machine = shared();
                        assert!(sharing.fetch_add(1, Ordering::SeqCst) < SHARING_MAX);
                        assert_eq!(alone.load(Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        sharing.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(alone.into_inner() + sharing.into_inner(), 0);
    }
}
