//! The counters of one process, reading by reading. Nothing is read here: readings are passed in as
//! [`Inputs`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use abi::{Frame, Thread, Totals};

use super::{
    Reading,
    load::{LoadParts, TimedEnd},
    regions::{TimedIteration, WatchedRegions},
    view::{counted_calls, has_mpi, mpi_hits, outside_mpi},
};
use crate::{
    calls::{BoundarySide, IterationBoundary, Iterations, LoopSeen, Sequence},
    cost::Unwatched,
    os_metrics::Counters,
    probe::Probe,
};

/// Rates are computed over about this period.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// The process to which calls or spans belong.
#[derive(Clone, Copy, Debug)]
pub struct ProcessRank {
    pub pid: i32,
    pub rank: Option<u32>,
}

/// Information of the operating system about the threads of a process.
pub trait Threads {
    /// Whether a thread exists; `is_sampled` means that all threads were just read.
    fn lives(&self, thread: i32, is_sampled: bool) -> bool;

    /// Time for which a thread was ready to run but waited for a CPU, in nanoseconds; `None` if unknown.
    fn waited_ns(&self, thread: i32) -> Option<u64>;
}

/// For when no information about threads is available: each is taken to exist.
#[derive(Clone, Copy, Debug)]
pub struct UnknownThreads;

impl Threads for UnknownThreads {
    fn lives(&self, _thread: i32, _is_sampled: bool) -> bool {
        true
    }

    fn waited_ns(&self, _thread: i32) -> Option<u64> {
        None
    }
}

/// The data of a reading of one process, in addition to its counters.
pub struct Inputs<'a> {
    pub now_ns: u64,
    /// `None` if /proc does not report them.
    pub counters: Option<Counters>,
    /// Whether it has used CPU time since the last reading; `None` if unknown.
    pub has_run: Option<bool>,
    /// Its threads, as the operating system reports them.
    pub system: &'a dyn Threads,
    /// Its threads in the kernel side's table.
    pub threads: &'a [(u64, Thread)],
    /// Whether a frame belongs to a function that was detached during the call, so that its return was not
    /// recorded.
    pub is_stale: &'a dyn Fn(&Frame) -> bool,
    /// Whether the kernel side measures how long threads wait for CPUs.
    pub has_waits: bool,
    /// CPUs that it may use.
    pub cpus: Option<f64>,
    pub probes: &'a [Probe],
    /// It could be inside an MPI call since before the probes were armed.
    pub may_be_in_mpi: bool,
    /// Since when parallel regions are probed; `None` if they are not.
    pub regions_since_ns: Option<u64>,
    /// Time until the program ends; 0 if unknown.
    pub left_ns: u64,
}

/// Time for which a probe was not watched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnwatchedTime {
    /// Nanoseconds until the last reading.
    pub(super) ns: u64,
    /// It is not watched now.
    pub(super) is_resting: bool,
    /// Calls that were counted meanwhile, while the links were still being closed. They do not belong to the
    /// watched time.
    pub(super) calls: u64,
}

/// The measured data of one process.
#[derive(Debug, Default)]
pub struct Metered {
    pub pid: i32,
    pub rank: Option<u32>,
    pub slot: u32,
    pub ended: bool,
    /// The last counters of the program that it executed before, if it was watched with that one.
    pub before: Option<Counters>,
    /// It could be inspected while it ran, and can be watched. Rules only see such processes.
    pub is_known: bool,
    /// The sequence of its calls.
    pub sequence: Sequence,
    pub regions: WatchedRegions,
    /// Iterations of the detected loop that ended between the last two readings.
    ended_iterations: Vec<TimedIteration>,
    /// /proc has no data about it, or must not be read.
    pub is_foreign: bool,
    /// It has used CPU time since the last check whether it runs another program, as of the last reading.
    pub has_run: bool,
    /// The estimates for functions while they are not watched.
    pub(super) unwatched: Unwatched,
    /// By probe: the time for which it was not watched.
    pub(super) rested: Vec<UnwatchedTime>,
    /// It used no CPU time between the last two readings.
    slept: bool,
    /// The counters of the kernel side by probe, and whether they have grown since the previous read.
    counted: (Arc<[Totals]>, bool),
    pub(super) first: Option<Reading>,
    /// The last reading for which [`Reading::is_mpi_unknown`] holds: its time inside MPI is measured from
    /// then on.
    pub(super) mpi_from: Option<Reading>,
    pub(super) readings: VecDeque<Reading>,
    pub(super) load: LoadParts,
    /// Up to here its time is in that of all processes; `None` before.
    pub(super) added: Option<TimedEnd>,
    /// Time inside MPI of threads whose records were removed, and in calls that were under way when their
    /// probes were armed.
    retired_ns: u64,
    /// The part of `retired_ns` spent waiting for a CPU.
    retired_waited_ns: u64,
    /// Calls that were open in those threads when they ended, by probe: they never return.
    pub(super) never_returned: BTreeMap<u32, u64>,
    /// Displayed time by probe. It never decreases, although a call that ends while the tables are read may
    /// be seen both as open and as closed once.
    pub(super) shown_ns: Vec<u64>,
}

impl Inputs<'_> {
    /// Only the time is known.
    pub fn at(now_ns: u64) -> Inputs<'static> {
        Inputs {
            now_ns,
            counters: None,
            has_run: None,
            system: &UnknownThreads,
            threads: &[],
            is_stale: &|_| false,
            has_waits: false,
            cpus: None,
            probes: &[],
            may_be_in_mpi: false,
            regions_since_ns: None,
            left_ns: 0,
        }
    }
}

impl Metered {
    pub fn new(pid: i32, rank: Option<u32>, slot: u32) -> Metered {
        Metered {
            pid,
            rank,
            slot,
            is_known: true,
            ..Metered::default()
        }
    }

    /// The owner of its spans in a trace.
    pub fn whose(&self) -> ProcessRank {
        ProcessRank {
            pid: self.pid,
            rank: self.rank,
        }
    }

    /// A slot whose process had ended before it could be inspected.
    pub fn unknown(pid: i32, slot: u32) -> Metered {
        Metered {
            is_known: false,
            is_foreign: true,
            ..Metered::new(pid, None, slot)
        }
    }

    /// A process that could be inspected but not watched.
    pub fn refused(pid: i32, rank: Option<u32>, slot: u32) -> Metered {
        Metered {
            is_known: false,
            ..Metered::new(pid, rank, slot)
        }
    }

    /// The boundaries of the main thread's iterations since the previous use of this function, and the time up
    /// to which all are known: `until_ns` if all calls that ended until then were read.
    pub fn take_boundaries(&mut self, until_ns: u64) -> (Vec<IterationBoundary>, u64) {
        let boundary = |thread, time_ns, side| IterationBoundary {
            slot: self.slot,
            is_rank: self.rank.is_some(),
            thread,
            time_ns,
            side,
        };
        let open = self.sequence.open_iteration().filter(|_| !self.ended);
        let mut boundaries = Vec::new();
        for TimedIteration { ended, teams } in self.ended_iterations.drain(..) {
            let (begin_ns, end_ns) = (ended.range.start, ended.range.end);
            let current = open.map(|open| open.of);
            // An earlier loop is rarely seen here: it was left since the last use of this function.
            let of = current.filter(|of| of.ordinal == ended.loop_number);
            let of = of.unwrap_or(LoopSeen {
                ordinal: ended.loop_number,
                length_ns: end_ns - begin_ns,
            });
            boundaries.push(boundary(ended.thread, begin_ns, BoundarySide::Begin(of)));
            boundaries.push(boundary(
                ended.thread,
                end_ns,
                BoundarySide::End { begin_ns, teams },
            ));
        }
        boundaries
            .extend(open.map(|open| boundary(open.thread, open.begin_ns, BoundarySide::Begin(open.of))));
        let known_ns = open.map_or(until_ns, |open| until_ns.min(open.last_end_ns));
        (boundaries, known_ns)
    }

    pub fn is_watched(&self) -> bool {
        self.is_known && !self.ended
    }

    /// Whether it has not run between the last two readings. The kernel may report the CPU time of a running
    /// process late.
    pub fn is_still(&self) -> bool {
        let has_hit = self.counted.1;
        self.ended || (self.slept && !has_hit)
    }

    pub fn first(&self) -> Option<&Reading> {
        self.first.as_ref()
    }

    /// The reading with which rates begin.
    pub fn oldest(&self) -> Option<&Reading> {
        self.readings.front()
    }

    pub fn last(&self) -> Option<&Reading> {
        self.readings.back()
    }

    /// The counters as they were read last.
    pub fn counted(&self) -> &[Totals] {
        &self.counted.0
    }

    /// Takes the current counters of the kernel side; `None` if they have not changed since the last read.
    /// Returns whether they have. While they have not, the kernel side's data about the process's threads
    /// does not change either.
    pub fn count(&mut self, more: Option<Vec<Totals>>) -> bool {
        self.counted.1 = more.is_some();
        if let Some(totals) = more {
            self.counted.0 = totals.into();
        }
        self.counted.1
    }

    /// Makes a reading from the current counters.
    pub fn read(&mut self, inputs: &Inputs<'_>) {
        self.has_run |= inputs.has_run.unwrap_or(true);
        self.slept = inputs.has_run == Some(false);
        let has_moved = self.counted.1;
        let mut reading = Reading {
            at_ns: inputs.now_ns,
            counters: inputs.counters,
            cpus: inputs.cpus,
            ..Reading::default()
        };
        self.read_threads(&mut reading, inputs);
        // The last known counters of a process remain its totals.
        reading.counters = reading
            .counters
            .or_else(|| self.last().and_then(|last| last.counters));
        self.estimate_totals(&mut reading, inputs);
        // The cheap conditions first: this is computed for every process at every reading.
        reading.is_mpi_unknown = inputs.may_be_in_mpi
            && reading.callers == 0
            && has_mpi(inputs.probes)
            && mpi_hits(&reading, inputs.probes) == 0;
        if reading.is_mpi_unknown {
            self.mpi_from = Some(reading.clone());
        }
        reading.mpi_ns = reading.mpi_ns.max(self.last().map_or(0, |last| last.mpi_ns));
        let waited_before = self.last().and_then(|last| last.mpi_waited_ns);
        reading.mpi_waited_ns = reading
            .mpi_waited_ns
            .map(|ns| ns.max(waited_before.unwrap_or_default()));
        self.unwatched.mark(reading.moment(), &reading.counted);
        if has_moved || !reading.open.is_empty() || self.unwatched.has_gaps() {
            keep_growing(&mut self.shown_ns, &reading);
        }
        if !self.ended {
            self.regions
                .read(&reading, inputs.probes, inputs.regions_since_ns);
            let (first, main) = (self.pid.unsigned_abs(), self.sequence.main_thread());
            let before = self.readings.back();
            self.ended_iterations = self.regions.take_ended(first, main, before, &reading);
            self.load.add(&reading);
        }
        reading.losses = self.regions.losses();
        reading.serial_fraction = self.regions.serial_fraction();
        let first_ns = self.first.as_ref().map_or(reading.at_ns, |first| first.at_ns);
        let time_ns = reading.at_ns - first_ns + inputs.left_ns;
        reading.visit = self
            .regions
            .visit()
            .map(|visit| (visit, visit.loss_ns / time_ns.max(1) as f64));
        self.read_rests(&reading, inputs.probes);
        self.first.get_or_insert_with(|| reading.clone());
        self.read_pace(&mut reading, inputs.probes);
        // After the last reading /proc reports nothing about an ended process, so later time does not count.
        if self.ended && self.readings.len() > 1 {
            return;
        }
        self.readings.push_back(reading);
        // Keep one reading older than the period, to compute differences.
        while self.readings.len() > 2
            && inputs.now_ns.saturating_sub(self.readings[1].at_ns) >= RATE_PERIOD.as_nanos() as u64
        {
            self.readings.pop_front();
        }
    }

    /// Reads time inside MPI, and calls that have not returned. A call that was open when its function was
    /// detached is ignored, because its end is unknown.
    fn read_threads(&mut self, reading: &mut Reading, inputs: &Inputs<'_>) {
        let now_ns = reading.at_ns;
        let last_ns = self.last().map_or(now_ns, |last| last.at_ns);
        let mut unseen_ns = 0;
        let (mut inside_ns, mut waited_ns) = (self.retired_ns, self.retired_waited_ns);
        for (key, thread) in inputs.threads {
            inside_ns += thread.closed_ns;
            waited_ns += thread.waited_ns;
            // Since the last reading, in a call that was under way when its probes were armed.
            unseen_ns += thread.left_unseen_ns.saturating_sub(last_ns);
            let is_caller = thread.closed_ns > 0 || thread.inside > 0 || thread.left_unseen_ns > 0;
            reading.callers += u64::from(is_caller);
            reading.probed += 1;
            if self.ended || !thread_lives(inputs, *key, thread) {
                reading.left_open.extend(outermost(thread));
                continue;
            }
            let open = thread.frames.iter().take(thread.depth as usize);
            let open: Vec<&Frame> = open.filter(|frame| !(inputs.is_stale)(frame)).collect();
            let is_inside = open.iter().any(|frame| frame.entered_ns == thread.open_since_ns);
            if thread.open_since_ns != 0 && is_inside {
                inside_ns += now_ns.saturating_sub(thread.open_since_ns);
                waited_ns += waited_in_open_call(inputs, *key, thread);
            }
            let open = open.iter().filter(|frame| frame.outermost != 0);
            reading
                .open
                .extend(open.map(|frame| (frame.probe, now_ns.saturating_sub(frame.entered_ns))));
        }
        let unseen_waited_ns = self.waited_of(unseen_ns, now_ns, inputs);
        self.retired_ns += unseen_ns;
        self.retired_waited_ns += unseen_waited_ns;
        reading.seen_ns = (inside_ns + unseen_ns, waited_ns + unseen_waited_ns);
    }

    /// The part of a time since the last reading that was spent waiting for a CPU: as much of it as of all the time
    /// since then.
    fn waited_of(&self, time_ns: u64, now_ns: u64, inputs: &Inputs<'_>) -> u64 {
        let Some(last) = self.last().filter(|_| time_ns > 0) else {
            return 0;
        };
        let runqueue = last.counters.zip(inputs.counters);
        let waited_ns = runqueue.map_or(0, |(from, to)| to.runqueue_ns.saturating_sub(from.runqueue_ns));
        let passed_ns = now_ns.saturating_sub(last.at_ns).max(1);
        let waited_ns = u128::from(waited_ns) * u128::from(time_ns) / u128::from(passed_ns);
        time_ns.min(u64::try_from(waited_ns).unwrap_or(u64::MAX))
    }

    /// Totals are the counted values plus an extrapolation for the gaps between sampling windows.
    fn estimate_totals(&self, reading: &mut Reading, inputs: &Inputs<'_>) {
        reading.counted = Arc::clone(&self.counted.0);
        // The gap of an ended process ends with it.
        let last = self.last().filter(|_| self.ended);
        let at = last.unwrap_or(reading).moment();
        let is_of_mpi = |index: usize| inputs.probes.get(index).is_some_and(|probe| probe.mpi.is_some());
        let (more_ns, more_waited_ns) = match self.unwatched.has_gaps() {
            true => self.unwatched.inside_ns(at, &reading.counted, is_of_mpi),
            false => (0, 0),
        };
        reading.totals = match self.unwatched.has_gaps() {
            true => self.unwatched.estimated(at, &reading.counted).into(),
            false => Arc::clone(&reading.counted),
        };
        let (inside_ns, waited_ns) = reading.seen_ns;
        reading.gaps_ns = self.unwatched.gaps_ns(at);
        // No thread was inside MPI for longer than the gaps.
        let more_ns = more_ns.min(reading.callers.max(1) * reading.gaps_ns);
        reading.mpi_ns = inside_ns + more_ns;
        reading.mpi_waited_ns = inputs
            .has_waits
            .then_some(waited_ns + more_waited_ns.min(more_ns));
    }

    /// Updates how long functions were not watched, by their state at the last reading: there is a reading at
    /// each change.
    fn read_rests(&mut self, reading: &Reading, probes: &[Probe]) {
        let before_ns = self.last().map_or(reading.at_ns, |last| last.at_ns);
        let passed_ns = reading.at_ns.saturating_sub(before_ns);
        self.rested.resize(probes.len(), UnwatchedTime::default());
        for (index, (rested, probe)) in self.rested.iter_mut().zip(probes).enumerate() {
            if rested.is_resting {
                let calls = |reading: &Reading| counted_calls((index, probe), reading);
                rested.ns += passed_ns;
                rested.calls += calls(reading).saturating_sub(self.readings.back().map_or(0, calls));
            }
            rested.is_resting = probe.is_resting;
        }
    }

    /// The later of `first` and the reading from which its time inside MPI is measured.
    pub(super) fn mpi_since<'a>(&'a self, first: Option<&'a Reading>) -> Option<&'a Reading> {
        [first, self.mpi_from.as_ref()]
            .into_iter()
            .flatten()
            .max_by_key(|reading| reading.at_ns)
    }

    /// Computes the recent pace of iterations and useful share.
    fn read_pace(&self, reading: &mut Reading, probes: &[Probe]) {
        let current = self.sequence.current();
        reading.iteration_ns = current.and_then(Iterations::recent_ns);
        if !has_mpi(probes) {
            return;
        }
        let overall = current.filter(|_| !self.unwatched.has_gaps());
        reading.useful = match overall.and_then(Iterations::recent_useful) {
            None => self
                .mpi_since(self.readings.front())
                .and_then(|first| outside_mpi(first, reading)),
            useful => useful,
        };
    }

    /// Takes over the totals of an ended thread's record, so that the record can be removed.
    pub fn retire(&mut self, key: u64, thread: &Thread, system: &dyn Threads) -> bool {
        let is_gone = self.ended || !system.lives(thread_number(key), false);
        if is_gone {
            self.take_over(thread);
            let mut last = self.readings.back_mut();
            for probe in outermost(thread) {
                *self.never_returned.entry(probe).or_default() += 1;
                // The last reading contains it already; do not count it twice.
                let read = last.as_mut().map(|last| &mut last.left_open);
                if let Some(read) = read
                    && let Some(index) = read.iter().position(|other| *other == probe)
                {
                    read.swap_remove(index);
                }
            }
        }
        is_gone
    }

    /// Takes over the totals of a record, so that it can be removed.
    pub fn take_over(&mut self, thread: &Thread) {
        self.retired_ns += thread.closed_ns;
        self.retired_waited_ns += thread.waited_ns;
    }
}

/// A thread that was cancelled inside a call leaves its frame open for ever.
fn thread_lives(inputs: &Inputs<'_>, key: u64, thread: &Thread) -> bool {
    thread.depth == 0 || (inputs.system).lives(thread_number(key), inputs.counters.is_some())
}

/// How long a thread has waited for a CPU since it entered its open call; 0 if unknown.
fn waited_in_open_call(inputs: &Inputs<'_>, key: u64, thread: &Thread) -> u64 {
    let now = inputs.system.waited_ns(thread_number(key));
    now.map_or(0, |now| now.saturating_sub(thread.waited_before_ns))
}

/// Takes over a reading's times where they are greater than those before.
pub(super) fn keep_growing(shown_ns: &mut Vec<u64>, reading: &Reading) {
    let probes = reading.totals.len().max(shown_ns.len());
    shown_ns.resize(probes, 0);
    for (shown, probe) in shown_ns.iter_mut().zip(0..) {
        *shown = (*shown).max(reading.time_ns(probe));
    }
}

/// The thread number from a key of the kernel side's table.
fn thread_number(key: u64) -> i32 {
    key as u32 as i32
}

/// The probes of the timed open calls of a thread.
fn outermost(thread: &Thread) -> impl Iterator<Item = u32> + '_ {
    let open = thread.frames.iter().take(thread.depth as usize);
    open.filter(|frame| frame.outermost != 0).map(|frame| frame.probe)
}
