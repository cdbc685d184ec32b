//! What one process had counted at one moment. Two readings are a rate.

use std::sync::Arc;

use abi::Totals;

use crate::{cost::CountTime, os_metrics::Counters};

/// What one process had counted at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// By probe, as they are shown: the counts, and the estimates for gaps in which a function was not
    /// watched.
    pub totals: Arc<[Totals]>,
    /// Of them, what was counted. Where that was nothing it is that of the reading before.
    pub counted: Arc<[Totals]>,
    /// Time of calls that are still open, by probe.
    pub open: Vec<(u32, u64)>,
    /// Calls that were open in threads that have ended, by probe.
    pub left_open: Vec<u32>,
    /// Time inside MPI, open calls included.
    pub mpi_ns: u64,
    /// Of it, time ready to run but waiting for a CPU, open calls included; none if the kernel does not
    /// report it.
    pub mpi_waited_ns: Option<u64>,
    /// Both as far as they were seen.
    pub seen_ns: (u64, u64),
    /// Threads that have called MPI.
    pub callers: u64,
    /// `None` when /proc no longer shows the process.
    pub counters: Option<Counters>,
    /// CPUs that the process may use.
    pub cpus: Option<f64>,
    /// Share of the time outside MPI of late.
    pub useful: Option<f64>,
    /// The mean time of an iteration of late, in nanoseconds.
    pub iteration_ns: Option<f64>,
}

impl Reading {
    /// When it was taken; if /proc does not report CPU time, the elapsed time stands for it.
    pub fn moment(&self) -> CountTime {
        CountTime {
            at_ns: self.at_ns,
            cpu_ns: self.counters.map_or(self.at_ns, |counters| counters.cpu_ns),
        }
    }

    /// Time in a function, open calls included.
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
