//! Measures how long this machine keeps a thread off a CPU that it has for itself. This is a lower bound for
//! the delay of any reader of a ring.
//!
//! The hypervisor of a virtual machine can take CPUs away at any time. Do not run this beside another
//! measurement: it occupies every CPU.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use tuneagent_e2e::Outcome;

/// Same priority as the agent.
const NICE: i32 = -15;
/// Maximum time that a hit should stay unread.
const LONG: Duration = Duration::from_millis(5);

/// Interruptions of all CPUs together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stops {
    pub(super) longest: Duration,
    /// Number of interruptions longer than `LONG`.
    pub(super) long: u32,
}

impl Stops {
    /// Runs one thread per CPU that only reads the clock.
    pub(super) fn of_this_machine(during: Duration) -> Outcome<Stops> {
        let allowed = sched_getaffinity(None).map_err(std::io::Error::from)?;
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let threads: Vec<JoinHandle<std::io::Result<Stops>>> = cpus
            .map(|cpu| std::thread::spawn(move || watch(cpu, during)))
            .collect();
        let mut all = Stops::default();
        for thread in threads {
            let one = thread
                .join()
                .map_err(|_| "a thread that reads the clock panicked")??;
            all.longest = all.longest.max(one.longest);
            all.long += one.long;
        }
        Ok(all)
    }
}

fn watch(cpu: usize, during: Duration) -> std::io::Result<Stops> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only)?;
    // On Linux, a thread id sets the priority of this thread only.
    setpriority_process(Some(gettid()), NICE)?;
    let began = Instant::now();
    let clock = std::iter::repeat_with(Instant::now);
    Ok(stops(clock.take_while(|now| now.duration_since(began) < during)))
}

fn stops(mut readings: impl Iterator<Item = Instant>) -> Stops {
    let mut stops = Stops::default();
    let Some(mut last) = readings.next() else {
        return stops;
    };
    for now in readings {
        let gap = now.duration_since(last);
        stops.longest = stops.longest.max(gap);
        stops.long += u32::from(gap > LONG);
        last = now;
    }
    stops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stop_is_reported_and_how_many_were_long() {
        let began = Instant::now();
        let readings = [0, 1, 2, 8, 9, 30, 33].map(|ms| began + Duration::from_millis(ms));
        let stops = stops(readings.into_iter());
        assert_eq!((stops.longest, stops.long), (Duration::from_millis(21), 2));
    }
}
