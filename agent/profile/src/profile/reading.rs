//! The counters of one process at one moment. Two readings give a rate.

use std::sync::Arc;

use abi::Totals;

use crate::{
    calls::{Losses, Visit},
    cost::CountTime,
    os_metrics::Counters,
};

/// The counters of one process at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Nanoseconds of the clock CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Displayed totals by probe: the counts, plus estimates for gaps in which a function was not watched.
    pub totals: Arc<[Totals]>,
    /// The counted part of `totals`. Shared with the previous reading if nothing was counted.
    pub counted: Arc<[Totals]>,
    /// Time of calls that are still open, by probe.
    pub open: Vec<(u32, u64)>,
    /// Calls that were open in threads that have ended, by probe.
    pub left_open: Vec<u32>,
    /// Time inside MPI in nanoseconds, open calls included.
    pub mpi_ns: u64,
    /// The part of `mpi_ns` in which threads were ready to run but waited for a CPU; `None` if the kernel
    /// does not report it.
    pub mpi_waited_ns: Option<u64>,
    /// `mpi_ns` and `mpi_waited_ns` without estimates.
    pub seen_ns: (u64, u64),
    /// No MPI call of the process has begun or ended since the probes were armed, and one may have been open
    /// then: its time inside MPI is unknown, not 0.
    pub is_mpi_unknown: bool,
    /// Time until the reading for which some function was not watched because it is sampled.
    pub gaps_ns: u64,
    /// Threads that have called MPI.
    pub callers: u64,
    /// Threads that have hit probes.
    pub probed: u64,
    /// `None` if /proc no longer shows the process.
    pub counters: Option<Counters>,
    /// CPUs that the process may use.
    pub cpus: Option<f64>,
    /// Recent share of the time outside MPI.
    pub useful: Option<f64>,
    /// Mean time of recent iterations, in nanoseconds.
    pub iteration_ns: Option<f64>,
    /// Measured team sizes, and the lost threads of the last one.
    pub losses: Option<(usize, Losses)>,
    /// Share of a single thread's time that more threads do not shorten.
    pub serial_fraction: Option<f64>,
    /// The team size to measure next, and the share of the time, watched and left, that is lost to such visits.
    pub visit: Option<(Visit, f64)>,
}

impl Reading {
    /// The time of the reading; if /proc does not report CPU time, the elapsed time replaces it.
    pub fn moment(&self) -> CountTime {
        CountTime {
            at_ns: self.at_ns,
            cpu_ns: self.counters.map_or(self.at_ns, |counters| counters.cpu_ns),
            waited_ns: self.counters.map_or(0, |counters| counters.runqueue_ns),
        }
    }

    /// Time in a function in nanoseconds, open calls included.
    pub fn time_ns(&self, probe: u32) -> u64 {
        let closed = self.totals.get(probe as usize).map_or(0, |totals| totals.time_ns);
        closed
            + self
                .open
                .iter()
                .filter(|(open, _)| *open == probe)
                .map(|(_, time)| time)
                .sum::<u64>()
    }
}
