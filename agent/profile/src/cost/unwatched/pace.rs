//! How much faster than in windows a process calls while it is not watched: hits cost it time there.

use super::ProcessWindow;
use super::clock::ProgramClock;

/// The true price may exceed the measured one by this part of it, because prices are measured in a loop with
/// warm caches. A test checks that the price is at least 0.6 of the additional time of calls in a program
/// (docs/performance.md).
pub(in crate::cost) const PRICE_ERROR: f64 = 0.67;

/// A clock fits a program if the upper bound of its pace is at most this many times the lower bound.
const FITS: f64 = 1.5;
/// Beyond this many times the lower bound, an upper bound says nothing.
const BOUND_MAX: f64 = 4.0;

/// Pace of the calls of an unwatched process, relative to the windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    pub(super) estimated: f64,
    /// `None` if there is no upper bound.
    pub(super) most: Option<f64>,
}

impl Pace {
    /// The pace after windows of a process with so many threads, by CPU time unless the other clock bounds it better.
    pub(super) fn by_fitting_clock(
        windows: impl Iterator<Item = (ProcessWindow, f64)> + Clone,
        threads: u64,
    ) -> (Pace, ProgramClock) {
        let by_cpu = Pace::of(windows.clone(), ProgramClock::Cpu);
        if by_cpu.is_within(FITS) {
            return (by_cpu, ProgramClock::Cpu);
        }
        let active = ProgramClock::Active { threads };
        let by_active = Pace::of(windows, active);
        match by_active.is_within(by_cpu.most.unwrap_or(BOUND_MAX)) {
            true => (by_active, active),
            false => (by_cpu, ProgramClock::Cpu),
        }
    }

    fn is_within(self, bound: f64) -> bool {
        self.most.is_some_and(|most| most <= bound)
    }

    pub(super) fn of(windows: impl Iterator<Item = (ProcessWindow, f64)>, clock: ProgramClock) -> Pace {
        let (mut ns, mut clock_ns, mut own, mut cost, mut others) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (window, weight) in windows {
            let threads = window.threads.max(1) as f64;
            ns += weight * window.length.at_ns as f64;
            clock_ns += weight * window.length.by(clock) as f64;
            cost += weight * window.cost_ns;
            own += weight * window.cost_ns / threads;
            // The cost of hits in other processes delays a thread only while it waits for them.
            let inside = window.inside_ns as f64 / threads;
            others += weight * (window.others_ns * (1.0 + PRICE_ERROR)).min(inside);
        }
        if ns <= 0.0 || clock_ns <= 0.0 {
            return Pace {
                estimated: 1.0,
                most: None,
            };
        }
        let faster = |lost: f64| (lost < 1.0).then(|| 1.0 / (1.0 - lost));
        // Threads that do not call may wait for the one that does.
        let lost = (cost / clock_ns).max(own / ns) * (1.0 + PRICE_ERROR) + others / ns;
        let most = faster(lost).filter(|most| *most <= BOUND_MAX);
        let estimated = most.and_then(|_| faster(cost / clock_ns));
        Pace {
            estimated: estimated.unwrap_or(1.0),
            most,
        }
    }
}
