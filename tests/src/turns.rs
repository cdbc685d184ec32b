//! Which tests may run beside each other: on two cores those that fill the machine would measure each other.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Tests that share the machine at most. They wait most of the time.
const SHARING_MAX: usize = 3;

/// Who has the machine now, and how many wait to have it alone.
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

/// The machine alone: for tests that fill it, that hold times to a bound, or that look at what all of it has (sessions, probes, BPF
/// programs, processes).
pub fn machine() -> Machine {
    let mut turns = locked();
    turns.waiting += 1;
    let mut turns = wait_while(turns, |turns| turns.is_taken || turns.sharing > 0);
    turns.waiting -= 1;
    turns.is_taken = true;
    Machine::new(true)
}

/// The machine beside a few others: for tests that are right however slowly they run, and look only at what they started.
pub fn shared() -> Machine {
    // Who wants it alone goes first, or would wait until nobody else is left.
    let is_full = |turns: &Turns| turns.is_taken || turns.waiting > 0 || turns.sharing == SHARING_MAX;
    wait_while(locked(), is_full).sharing += 1;
    Machine::new(false)
}

fn locked() -> MutexGuard<'static, Turns> {
    // A test that failed while it had the machine has left it in order: its values were dropped.
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

/// The machine for one test, until this is dropped. How long that was is added to the file that TUNEAGENT_TIMES names: seconds, a tab, the test.
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
        // A time that cannot be kept is no reason for a test to fail.
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
