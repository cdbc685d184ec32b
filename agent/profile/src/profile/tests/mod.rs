//! Tests of the numbers that are computed from readings.

mod gaps;
mod readings;
mod table;
mod totals;

use abi::{Frame, Thread, Totals};

use super::*;
use crate::{os_metrics::Counters, probe::Probe};

/// A second.
pub(super) const S: u64 = 1_000_000_000;

impl Inputs<'_> {
    /// The process has spent all of its time since 0 on a CPU.
    pub(super) fn busy(now_ns: u64) -> Inputs<'static> {
        let counters = Counters {
            cpu_ns: now_ns,
            ..Counters::default()
        };
        Inputs {
            counters: Some(counters),
            has_run: Some(true),
            ..Inputs::at(now_ns)
        }
    }
}

/// A probed function, of MPI if its name says so.
pub(crate) fn probe(name: &str) -> Probe {
    let spec = abi::ProbeSpec {
        flags: abi::SpecFlags::SPAN,
        ..abi::ProbeSpec::default()
    };
    Probe::new(name, crate::mpi::find(name).map(|called| called.function), spec)
}

pub(super) fn process() -> Metered {
    Metered::new(100, Some(0), 0)
}

/// Counters with this number of calls of function 0, a millisecond each.
pub(super) fn calls(calls: u64) -> Option<Vec<Totals>> {
    Some(vec![Totals {
        calls,
        timed: calls,
        time_ns: calls * 1_000_000,
        ..Totals::default()
    }])
}

/// A thread of the first process that has been inside MPI for `closed_ns`, and entered its open call of
/// function 0 at `entered_ns`; 0 means no open call.
pub(super) fn thread(closed_ns: u64, entered_ns: u64) -> Thread {
    let mut thread = Thread {
        closed_ns,
        open_since_ns: entered_ns,
        ..Thread::default()
    };
    if entered_ns > 0 {
        (thread.depth, thread.inside) = (1, 1);
        thread.frames[0] = Frame {
            entered_ns,
            outermost: 1,
            inside: 1,
            ..Frame::default()
        };
    }
    thread
}

/// The operating system's threads: the numbers of the existing ones, each of which has waited for a CPU for
/// this time.
pub(super) struct Living(pub(super) &'static [i32], pub(super) u64);

impl Threads for Living {
    fn lives(&self, thread: i32, _is_sampled: bool) -> bool {
        self.0.contains(&thread)
    }

    fn waited_ns(&self, thread: i32) -> Option<u64> {
        self.0.contains(&thread).then_some(self.1)
    }
}
