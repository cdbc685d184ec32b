//! Readings and the values computed from them: processes, their iterations, calls, parallel regions,
//! messages. Pure: readings are passed in with their times; no clock, probe or file is read.

mod children;
mod durations;
mod load;
mod matrix;
mod process;
mod reading;
mod regions;
#[cfg(test)]
pub(crate) mod tests;
mod thinned;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use abi::{Thread, Totals};

use self::load::TimeSeries;
pub(crate) use self::{durations::DurationHistograms, matrix::Matrix};
pub use self::{
    process::{Inputs, Metered, ProcessRank, Threads, UnknownThreads},
    reading::Reading,
    regions::CALL_NS,
    view::has_mpi,
};
use crate::{
    calls::{Baseline, Collectives},
    cost::{CountTime, ProcessWindow},
    os_metrics::Frequency,
};

/// Maximum age of the last reading of the CPUs' clock frequency, in nanoseconds.
const FREQUENCY_NS: u64 = 2_000_000_000;

/// The data about all processes of a session.
#[derive(Debug, Default)]
pub struct Profile {
    pub processes: Vec<Metered>,
    /// The matched collectives of all ranks.
    pub collectives: Collectives,
    pub durations: DurationHistograms,
    pub matrix: Matrix,
    time: TimeSeries,
    /// A CPU was idle at the last reading.
    pub has_idle_cpu: bool,
    /// The reference of all speedups.
    baseline: Baseline,
    pub armed_ns: u64,
    pub read_ns: u64,
    /// The kernel side's table of threads as read last; `None` once it was changed.
    threads: Option<Vec<(u64, Thread)>>,
    frequency: Option<(u64, Option<Frequency>)>,
}

/// Calls in a period, and the time that the process spent.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// By probe, nested calls included.
    pub calls: Vec<(usize, u64)>,
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// Lower bound of the time in which none of its threads waited for a CPU.
    pub unhindered_ns: u64,
    /// CPUs that its threads used or waited for.
    pub wanted: f64,
    /// The span of these counters.
    pub elapsed_ns: u64,
}

impl Profile {
    pub fn new(now_ns: u64, baseline: Baseline) -> Profile {
        Profile {
            baseline,
            armed_ns: now_ns,
            read_ns: now_ns,
            ..Profile::default()
        }
    }

    /// The data about a process that joins the session.
    pub fn process(&self, pid: i32, rank: Option<u32>, slot: u32) -> Metered {
        let mut process = Metered::new(pid, rank, slot);
        process.regions.teams.scaling.baseline = self.baseline;
        process
    }

    /// The process in a slot.
    pub fn find_mut(&mut self, slot: u32) -> Option<&mut Metered> {
        self.processes.iter_mut().find(|process| process.slot == slot)
    }

    /// Processes that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Metered> {
        self.processes.iter().filter(|process| !process.ended)
    }

    /// Whether no process has run between the last two readings.
    pub fn are_still(&self) -> bool {
        self.processes.iter().all(Metered::is_still)
    }

    /// The slots of the processes that rules see.
    pub fn known_slots(&self) -> Vec<u32> {
        let known = self.processes.iter().filter(|process| process.is_known);
        known.map(|process| process.slot).collect()
    }

    /// CPU time of the running processes, in nanoseconds.
    pub fn running_cpu_ns(&self) -> u64 {
        let cpu_ns = |process: &Metered| Some(process.last()?.counters?.cpu_ns);
        self.running().filter_map(cpu_ns).sum()
    }

    /// The table of threads, if it is still valid: no total has changed since it was read.
    pub fn take_threads(&mut self, has_moved: bool) -> Option<Vec<(u64, Thread)>> {
        self.threads.take().filter(|_| !has_moved)
    }

    /// The table of threads was just read, and no entry was removed from it.
    pub fn keep_threads(&mut self, threads: Vec<(u64, Thread)>) {
        self.threads = Some(threads);
    }

    /// The table of threads has changed since it was read.
    pub fn forget_threads(&mut self) {
        self.threads = None;
    }

    /// Whether the CPUs' clock frequency should be read.
    pub fn is_frequency_due(&self, now_ns: u64) -> bool {
        let is_old = |(read_ns, _)| now_ns.saturating_sub(read_ns) >= FREQUENCY_NS;
        self.frequency.is_none_or(is_old)
    }

    /// Stores a reading of the CPUs' clock frequency.
    pub fn take_frequency(&mut self, frequency: Option<Frequency>, now_ns: u64) {
        self.frequency = Some((now_ns, frequency));
    }

    /// The clock frequency of the CPUs that the job may use.
    pub fn frequency(&self) -> Option<Frequency> {
        self.frequency.and_then(|(_, frequency)| frequency)
    }

    /// The data of each process in the open sampling window. `prices` are the costs of a call by function,
    /// `is_of_mpi` selects the functions that belong to the library.
    pub fn windows(
        &self,
        prices: &BTreeMap<u32, f64>,
        is_of_mpi: impl Fn(usize) -> bool,
    ) -> Vec<ProcessWindow> {
        let window = |process: &Metered| process.window(prices, &is_of_mpi).unwrap_or_default();
        let mut windows: Vec<ProcessWindow> = self.processes.iter().map(window).collect();
        let of_a_thread = |window: &ProcessWindow| window.cost_ns / window.threads.max(1) as f64;
        let all: f64 = windows.iter().map(of_a_thread).sum();
        for window in &mut windows {
            window.others_ns = all - of_a_thread(window);
        }
        windows
    }

    /// Functions are about to be sampled for the first time: the period of recent readings serves as their
    /// first window.
    pub fn begin_sampling(&mut self) {
        for process in self.processes.iter_mut().filter(|process| !process.ended) {
            let first = process.oldest();
            if let Some((at, counted)) = first.map(|first| (first.moment(), first.counted.clone())) {
                process.unwatched.open(at, &counted);
            }
        }
    }

    /// The program may have changed: the gap that begins is estimated from the window before it alone.
    pub fn forget_pace(&mut self) {
        let processes = self.processes.iter_mut();
        processes.for_each(|process| process.unwatched.forget_pace());
    }

    /// The program was changed.
    pub fn program_changed(&mut self) {
        let processes = self.processes.iter_mut();
        processes.for_each(|process| process.unwatched.forget_marks());
    }

    /// These functions are not watched from the last reading on; `windows` has the data of each process in
    /// the window that ended. `cuts_sequence` is whether calls of loops are among them.
    pub fn begin_gap(&mut self, functions: &BTreeSet<u32>, windows: Vec<ProcessWindow>, cuts_sequence: bool) {
        for (process, window) in self.processes.iter_mut().zip(windows) {
            if cuts_sequence {
                process.sequence.close_window(self.read_ns, window.ends_inside);
            }
            let last = process.last().filter(|_| !process.ended);
            let last = last.map(|last| (last.moment(), last.counted.clone(), last.open.clone()));
            if let Some((at, counted, open)) = last {
                process
                    .unwatched
                    .close_window(at, &counted, &open, functions, window);
            }
        }
        self.threads = None;
    }

    /// All functions are watched from the last reading on.
    pub fn end_gap(&mut self, cuts_sequence: bool) {
        for process in self.processes.iter_mut().filter(|process| !process.ended) {
            if cuts_sequence {
                process.sequence.open(self.read_ns);
            }
            if let Some(last) = process.last().map(|last| (last.moment(), last.counted.clone())) {
                process.unwatched.open(last.0, &last.1);
            }
        }
    }

    /// Parallel regions were not probed for a while. Without MPI the sequence of calls consists of them.
    pub fn end_gap_of_regions(&mut self, has_mpi: bool) {
        for process in &mut self.processes {
            process.regions.teams.gap();
            if !has_mpi {
                process.sequence.gap();
            }
        }
    }
}

impl Metered {
    /// The process has just joined. If functions are not watched now (`gap`), its calls until the next window
    /// are missed.
    pub fn join(&mut self, at: CountTime, gap: Option<&BTreeSet<u32>>) {
        match gap {
            Some(functions) => {
                (self.unwatched).close_window(at, &[], &[], functions, ProcessWindow::default())
            }
            None => self.unwatched.open(at, &[]),
        }
    }

    /// The counters at the begin of the open sampling window.
    pub fn counted_at_window(&self) -> Option<&[Totals]> {
        self.unwatched.opened().map(|(_, counted)| counted)
    }

    fn window(
        &self,
        prices: &BTreeMap<u32, f64>,
        is_of_mpi: &impl Fn(usize) -> bool,
    ) -> Option<ProcessWindow> {
        let (last, (since, before)) = self.last().zip(self.unwatched.opened())?;
        let nothing = Totals::default();
        let mut window = ProcessWindow {
            length: last.moment().since(since),
            threads: if last.callers > 0 {
                last.callers
            } else {
                last.probed.max(1)
            },
            probed: last.probed,
            ends_inside: last.open.iter().any(|(probe, _)| is_of_mpi(*probe as usize)),
            ..ProcessWindow::default()
        };
        for (probe, totals) in last.counted.iter().enumerate() {
            let before = before.get(probe).unwrap_or(&nothing);
            let price = prices.get(&(probe as u32)).copied().unwrap_or_default();
            window.cost_ns += hits(totals).saturating_sub(hits(before)) as f64 * price;
            if is_of_mpi(probe) {
                window.inside_ns += totals.time_ns.saturating_sub(before.time_ns);
            }
        }
        let inside = last.mpi_ns.max(1) as f64;
        let waited = last.mpi_waited_ns.unwrap_or_default() as f64 / inside;
        window.waited_ns = (window.inside_ns as f64 * waited.min(1.0)) as u64;
        Some(window)
    }

    /// Between the first reading and the last; `None` if /proc does not report it.
    pub fn usage(&self) -> Option<Usage> {
        self.usage_since(self.first()?)
    }

    /// Between the oldest recent reading and the last; `None` if the process has ended.
    pub fn recent_usage(&self) -> Option<Usage> {
        let oldest = self.oldest().filter(|_| !self.ended);
        oldest.and_then(|oldest| self.usage_since(oldest))
    }

    fn usage_since(&self, first: &Reading) -> Option<Usage> {
        let last = self.last()?;
        let (before, counters) = (first.counters?, last.counters?);
        let waited_ns = counters.runqueue_ns.saturating_sub(before.runqueue_ns);
        let cpu_ns = counters.cpu_ns.saturating_sub(before.cpu_ns);
        let elapsed_ns = last.at_ns.saturating_sub(first.at_ns);
        let hits_of = |reading: &Reading, probe: usize| reading.counted.get(probe).map_or(0, hits);
        let probes = 0..last.counted.len();
        let calls = probes.map(|probe| (probe, hits_of(last, probe).saturating_sub(hits_of(first, probe))));
        Some(Usage {
            calls: calls.collect(),
            cpu_ns,
            unhindered_ns: elapsed_ns.saturating_sub(waited_ns),
            wanted: (cpu_ns + waited_ns) as f64 / elapsed_ns.max(1) as f64,
            elapsed_ns,
        })
    }
}

/// Calls of a function, nested ones included.
pub fn hits(totals: &Totals) -> u64 {
    totals.calls + totals.nested
}

/// The threads of one process, from a table that is sorted by process.
pub fn threads_of(table: &[(u64, Thread)], slot: u32) -> &[(u64, Thread)] {
    let first = table.partition_point(|(_, thread)| thread.process < slot);
    let end = table.partition_point(|(_, thread)| thread.process <= slot);
    &table[first..end]
}
