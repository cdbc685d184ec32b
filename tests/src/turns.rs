//! Limits which tests run at the same time: on two cores, tests that use all CPUs would disturb each other's
//! measurements.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How a test uses the machine. Tests of different uses do not run at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Alone,
    Calm,
    Shared,
}

/// By use: its name in the file of times, and the maximum number of tests that run at the same time. They mostly
/// wait.
const USES: [(&str, usize); 3] = [("alone", 1), ("calm", 2), ("shared", 4)];

/// The use of the tests that hold the machine, their number, and by use the number of tests that wait for it.
#[derive(Debug)]
struct Turns {
    current: Use,
    running: usize,
    waiting: [usize; USES.len()],
}

static TURNS: Mutex<Turns> = Mutex::new(Turns {
    current: Use::Shared,
    running: 0,
    waiting: [0; USES.len()],
});
static CHANGED: Condvar = Condvar::new();

/// Exclusive use of the machine, for tests that use all CPUs, compare times with a bound, or look at
/// everything on it (sessions, probes, BPF programs, processes).
pub fn machine() -> Machine {
    Machine::take(Use::Alone)
}

/// Use beside tests of the same kind, for those that compare times of programs that sleep their work, and look
/// only at what they started.
pub fn calm() -> Machine {
    Machine::take(Use::Calm)
}

/// Shared use of the machine, for tests that are correct at any speed and look only at what they started.
pub fn shared() -> Machine {
    Machine::take(Use::Shared)
}

impl Turns {
    /// A use keeps the machine while tests wait for it: at each change of the use, CPUs are idle until the last
    /// test has ended.
    fn lets(&self, wanted: Use) -> bool {
        match self.running {
            0 => self.current == wanted || self.waiting[self.current as usize] == 0,
            running => self.current == wanted && running < USES[wanted as usize].1,
        }
    }
}

fn locked() -> MutexGuard<'static, Turns> {
    // A poisoned lock is usable: a failed test has dropped its values, so the machine is clean.
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Use of the machine by one test until drop. Appends seconds, the test's name and the use to the file
/// TUNEAGENT_TIMES.
#[must_use = "the machine is given back when this is dropped"]
#[derive(Debug)]
pub struct Machine {
    how: Use,
    since: Instant,
}

impl Machine {
    fn take(how: Use) -> Machine {
        let mut turns = locked();
        turns.waiting[how as usize] += 1;
        let waiting = CHANGED.wait_while(turns, |turns| !turns.lets(how));
        turns = waiting.unwrap_or_else(PoisonError::into_inner);
        turns.waiting[how as usize] -= 1;
        turns.running += 1;
        turns.current = how;
        let since = Instant::now();
        Machine { how, since }
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
            USES[self.how as usize].0
        );
        let file = OpenOptions::new().create(true).append(true).open(file);
        // A failure to write a time must not fail the test.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.note();
        locked().running -= 1;
        CHANGED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn tests_of_one_use_run_beside_a_few_of_the_same_and_none_of_another() {
        let running: [AtomicUsize; USES.len()] = Default::default();
        std::thread::scope(|scope| {
            for number in 0..40 {
                let running = &running;
                scope.spawn(move || {
                    let how = [Use::Alone, Use::Calm, Use::Shared][number % USES.len()];
                    let _machine = Machine::take(how);
                    running[how as usize].fetch_add(1, Ordering::SeqCst);
                    let now = running.each_ref().map(|of| of.load(Ordering::SeqCst));
                    assert!((1..=USES[how as usize].1).contains(&now[how as usize]), "{now:?}");
                    assert_eq!(now.iter().filter(|of| **of > 0).count(), 1, "{now:?}");
                    std::thread::yield_now();
                    running[how as usize].fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(locked().running, 0);
    }
}
