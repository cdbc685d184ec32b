//! One process: what was counted in it, reading by reading. Reads nothing: a reading is handed in as
//! [`Inputs`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use abi::{Frame, Thread, Totals};

use super::{
    Reading,
    load::Load,
    regions::WatchedRegions,
    view::{counted_calls, has_mpi, outside_mpi},
};
use crate::{
    calls::{Iterations, Sequence},
    cost::Unwatched,
    os_metrics::Counters,
    probe::Probe,
};

/// Rates speak of about this much time.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// Whose calls or spans these are.
#[derive(Clone, Copy, Debug)]
pub struct ProcessRank {
    pub pid: i32,
    pub rank: Option<u32>,
}

/// What the operating system knows of the threads of a process.
pub trait Threads {
    /// Whether a thread runs; `is_sampled` says that all threads were just looked at.
    fn lives(&self, thread: i32, is_sampled: bool) -> bool;

    /// How long a thread was ready to run but waited for a CPU, in nanoseconds; none where that is not known.
    fn waited_ns(&self, thread: i32) -> Option<u64>;
}

/// Where nothing can be learnt of threads, each is taken for running.
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

/// What a reading of one process is made of, beside what was counted in it.
pub struct Inputs<'a> {
    pub now_ns: u64,
    /// None if /proc does not report them.
    pub counters: Option<Counters>,
    /// Whether it has used CPU time since the last reading; none where that is not known.
    pub has_run: Option<bool>,
    /// Its threads in the operating system.
    pub system: &'a dyn Threads,
    /// Its threads in the kernel side's table.
    pub threads: &'a [(u64, Thread)],
    /// Whether a frame was left by a call whose function was detached meanwhile, so that its end was not
    /// seen.
    pub is_stale: &'a dyn Fn(&Frame) -> bool,
    /// The kernel side measures how long threads wait for CPUs.
    pub has_waits: bool,
    /// CPUs that it may use.
    pub cpus: Option<f64>,
    pub probes: &'a [Probe],
    /// Since when parallel regions are probed.
    pub regions_since_ns: Option<u64>,
}

/// When a probe was not watched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rested {
    /// For so many nanoseconds until the last reading.
    pub(super) ns: u64,
    /// It is not watched now.
    pub(super) rests: bool,
    /// Calls that were counted then, while its links were still being closed: they are not of the time in
    /// which it was watched.
    pub(super) calls: u64,
}

/// One process, read again and again.
#[derive(Debug, Default)]
pub struct Metered {
    pub pid: i32,
    pub rank: Option<u32>,
    pub slot: u32,
    pub ended: bool,
    /// It was looked into while it ran, and can be watched: rules have no other.
    pub is_known: bool,
    /// Its calls, one after the other.
    pub sequence: Sequence,
    pub regions: WatchedRegions,
    /// /proc has nothing of it, or is not to be read.
    pub is_foreign: bool,
    /// It has used CPU time since it was looked whether it runs another program, as of the last reading.
    pub has_run: bool,
    /// What is estimated of functions while they are not watched.
    pub(super) unwatched: Unwatched,
    /// By probe, when it was not watched.
    pub(super) rested: Vec<Rested>,
    /// It has used no CPU time between the last two readings.
    slept: bool,
    /// What the kernel side has counted, by probe, and whether it was more than at the look before.
    counted: (Arc<[Totals]>, bool),
    pub(super) first: Option<Reading>,
    pub(super) readings: VecDeque<Reading>,
    pub(super) load: Load,
    /// Time inside MPI of threads whose records were taken out.
    retired_ns: u64,
    /// Of it, waiting for a CPU.
    retired_waited_ns: u64,
    /// Calls that were open in those threads when they ended, by probe: they never return.
    pub(super) never_returned: BTreeMap<u32, u64>,
    /// Time by probe as it is shown. It never shrinks: a call that ends between two looks is seen as open and
    /// as closed, once.
    pub(super) shown_ns: Vec<u64>,
}

impl Inputs<'_> {
    /// Nothing is known but the time.
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
            regions_since_ns: None,
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

    /// Whose its spans are in a trace.
    pub fn whose(&self) -> ProcessRank {
        ProcessRank {
            pid: self.pid,
            rank: self.rank,
        }
    }

    /// A slot whose process had ended before it could be looked into.
    pub fn unknown(pid: i32, slot: u32) -> Metered {
        Metered {
            is_known: false,
            is_foreign: true,
            ..Metered::new(pid, None, slot)
        }
    }

    /// One that could be looked into and not be watched.
    pub fn refused(pid: i32, rank: Option<u32>, slot: u32) -> Metered {
        Metered {
            is_known: false,
            ..Metered::new(pid, rank, slot)
        }
    }

    pub fn is_watched(&self) -> bool {
        self.is_known && !self.ended
    }

    /// It has not run between the last two readings. The kernel may report a process that goes on running
    /// late.
    pub fn is_still(&self) -> bool {
        let has_hit = self.counted.1;
        self.ended || (self.slept && !has_hit)
    }

    /// The oldest reading of all.
    pub fn first(&self) -> Option<&Reading> {
        self.first.as_ref()
    }

    /// The oldest that rates are taken from.
    pub fn oldest(&self) -> Option<&Reading> {
        self.readings.front()
    }

    pub fn last(&self) -> Option<&Reading> {
        self.readings.back()
    }

    /// What was counted when that was last looked at.
    pub fn counted(&self) -> &[Totals] {
        &self.counted.0
    }

    /// Takes what the kernel side has counted by now, none where that is no more than at the last look; true
    /// where it is more. Until it is, nothing that the kernel side has of the process's threads changes
    /// either.
    pub fn count(&mut self, more: Option<Vec<Totals>>) -> bool {
        self.counted.1 = more.is_some();
        if let Some(totals) = more {
            self.counted.0 = totals.into();
        }
        self.counted.1
    }

    /// Takes a reading of what was just counted.
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
        // What was last seen of a process stays its total.
        reading.counters = reading
            .counters
            .or_else(|| self.last().and_then(|last| last.counters));
        self.estimate_totals(&mut reading, inputs.has_waits);
        reading.mpi_ns = reading.mpi_ns.max(self.last().map_or(0, |last| last.mpi_ns));
        let waited_before = self.last().and_then(|last| last.mpi_waited_ns);
        reading.mpi_waited_ns = reading
            .mpi_waited_ns
            .map(|ns| ns.max(waited_before.unwrap_or_default()));
        if has_moved || !reading.open.is_empty() || self.unwatched.has_gaps() {
            keep_growing(&mut self.shown_ns, &reading);
        }
        if !self.ended {
            self.regions
                .read(&reading, inputs.probes, inputs.regions_since_ns);
            self.load.add(&reading);
        }
        self.read_rests(&reading, inputs.probes);
        self.first.get_or_insert_with(|| reading.clone());
        self.read_pace(&mut reading, inputs.probes);
        // What a process did after its last reading is not known of /proc: the time it did not live does not
        // count.
        if self.ended && self.readings.len() > 1 {
            return;
        }
        self.readings.push_back(reading);
        // One reading older than the period is kept, to take the difference to.
        while self.readings.len() > 2
            && inputs.now_ns.saturating_sub(self.readings[1].at_ns) >= RATE_PERIOD.as_nanos() as u64
        {
            self.readings.pop_front();
        }
    }

    /// Time inside MPI, and calls that have not returned. Of one that was under way when its function was no
    /// longer watched nothing is known.
    fn read_threads(&self, reading: &mut Reading, inputs: &Inputs<'_>) {
        let now_ns = reading.at_ns;
        let (mut inside_ns, mut waited_ns) = (self.retired_ns, self.retired_waited_ns);
        for (key, thread) in inputs.threads {
            inside_ns += thread.closed_ns;
            waited_ns += thread.waited_ns;
            reading.callers += u64::from(thread.closed_ns > 0 || thread.inside > 0);
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
        reading.seen_ns = (inside_ns, waited_ns);
    }

    /// Totals are what was counted, and an extrapolation for the gaps between sampling windows.
    fn estimate_totals(&self, reading: &mut Reading, has_waits: bool) {
        reading.counted = Arc::clone(&self.counted.0);
        // Of a process that has ended no gap goes on.
        let last = self.last().filter(|_| self.ended);
        let at = last.unwrap_or(reading).moment();
        let (more_ns, more_waited_ns) = match self.unwatched.has_gaps() {
            true => self.unwatched.inside_ns(at, &reading.counted),
            false => (0, 0),
        };
        reading.totals = match self.unwatched.has_gaps() {
            true => self.unwatched.estimated(at, &reading.counted).into(),
            false => Arc::clone(&reading.counted),
        };
        let (inside_ns, waited_ns) = reading.seen_ns;
        reading.mpi_ns = inside_ns + more_ns;
        reading.mpi_waited_ns = has_waits.then_some(waited_ns + more_waited_ns);
    }

    /// For how long functions were not watched, by what was so at the last reading: when that changes there is one.
    fn read_rests(&mut self, reading: &Reading, probes: &[Probe]) {
        let before_ns = self.last().map_or(reading.at_ns, |last| last.at_ns);
        let passed_ns = reading.at_ns.saturating_sub(before_ns);
        self.rested.resize(probes.len(), Rested::default());
        for (index, (rested, probe)) in self.rested.iter_mut().zip(probes).enumerate() {
            if rested.rests {
                let calls = |reading: &Reading| counted_calls((index, probe), reading);
                rested.ns += passed_ns;
                rested.calls += calls(reading).saturating_sub(self.readings.back().map_or(0, calls));
            }
            rested.rests = probe.is_resting;
        }
    }

    /// How fast and how usefully it went of late.
    fn read_pace(&self, reading: &mut Reading, probes: &[Probe]) {
        let current = self.sequence.current();
        reading.iteration_ns = current.and_then(Iterations::recent_ns);
        if !has_mpi(probes) {
            return;
        }
        let overall = current.filter(|_| !self.unwatched.has_gaps());
        reading.useful = match overall.and_then(Iterations::useful_of_late) {
            None => self
                .readings
                .front()
                .and_then(|first| outside_mpi(first, reading)),
            useful => useful,
        };
    }

    /// Takes over what the record of an ended thread says, so that the record can go.
    pub fn retire(&mut self, key: u64, thread: &Thread, system: &dyn Threads) -> bool {
        let is_gone = self.ended || !system.lives(thread_number(key), false);
        if is_gone {
            self.take_over(thread);
            let mut last = self.readings.back_mut();
            for probe in outermost(thread) {
                *self.never_returned.entry(probe).or_default() += 1;
                // It has been read, and is counted once.
                let read = last.as_mut().map(|last| &mut last.left_open);
                if let Some(read) = read
                    && let Some(place) = read.iter().position(|other| *other == probe)
                {
                    read.swap_remove(place);
                }
            }
        }
        is_gone
    }

    /// Takes over what a record says, so that it can go.
    pub fn take_over(&mut self, thread: &Thread) {
        self.retired_ns += thread.closed_ns;
        self.retired_waited_ns += thread.waited_ns;
    }
}

/// A thread that was cancelled inside a call leaves its frame open for ever.
fn thread_lives(inputs: &Inputs<'_>, key: u64, thread: &Thread) -> bool {
    thread.depth == 0 || (inputs.system).lives(thread_number(key), inputs.counters.is_some())
}

/// How long a thread has waited for a CPU since it entered the call that it is in; 0 where that is not known.
fn waited_in_open_call(inputs: &Inputs<'_>, key: u64, thread: &Thread) -> u64 {
    let now = inputs.system.waited_ns(thread_number(key));
    now.map_or(0, |now| now.saturating_sub(thread.waited_before_ns))
}

/// Takes a reading over where it says more than the ones before.
pub(super) fn keep_growing(shown_ns: &mut Vec<u64>, reading: &Reading) {
    let probes = reading.totals.len().max(shown_ns.len());
    shown_ns.resize(probes, 0);
    for (shown, probe) in shown_ns.iter_mut().zip(0..) {
        *shown = (*shown).max(reading.time_ns(probe));
    }
}

/// The thread of an entry of the kernel side's table.
fn thread_number(key: u64) -> i32 {
    key as u32 as i32
}

/// The probes of the open calls of a thread that are timed.
fn outermost(thread: &Thread) -> impl Iterator<Item = u32> + '_ {
    let open = thread.frames.iter().take(thread.depth as usize);
    open.filter(|frame| frame.outermost != 0).map(|frame| frame.probe)
}
