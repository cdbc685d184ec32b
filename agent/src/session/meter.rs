//! Reads what the kernel side and /proc have counted, and turns two readings into rates.

mod estimates;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use abi::{Frame, Thread, Totals};

use super::{
    load::Load,
    probes::{Probe, Probes},
    regions::{Watched, has_bodies},
    sampling::Sampled,
};
use crate::{
    calls::{Iterations, Sequence},
    cost::{Moment, Unwatched},
    evidence::{Counters, Sampler},
    kernel::KernelError,
    snapshot::{FunctionTotals, LoadView, ProcessView, Rates},
    trace::Whose,
};

/// Rates speak of about this much time.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// What one process had counted at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// By probe, as they are told: what was counted, and what is told of gaps in which a function was not watched.
    pub totals: Arc<[Totals]>,
    /// Of them, what was counted. Where that was nothing it is that of the reading before.
    pub counted: Arc<[Totals]>,
    /// Time of calls that are still open, by probe.
    pub open: Vec<(u32, u64)>,
    /// Calls that were open in threads that have ended, by probe.
    left_open: Vec<u32>,
    /// Time inside MPI, open calls included.
    pub mpi_ns: u64,
    /// Of it, time ready to run but waiting for a CPU, open calls included; none where the kernel does not tell.
    pub mpi_waited_ns: Option<u64>,
    /// Both as far as they were seen.
    pub(super) seen_ns: (u64, u64),
    /// Threads that have called MPI.
    pub(super) callers: u64,
    /// `None` when /proc no longer shows the process.
    pub counters: Option<Counters>,
    /// CPUs that the process may use.
    pub cpus: Option<f64>,
    /// Share of the time outside MPI of late.
    pub useful: Option<f64>,
    /// The mean time of an iteration of late, in nanoseconds.
    pub iteration_ns: Option<f64>,
}

/// One process, read again and again.
#[derive(Debug)]
pub struct Metered {
    /// Its number.
    pub pid: i32,
    /// Its rank.
    pub rank: Option<u32>,
    /// Its slot on the kernel side.
    pub slot: u32,
    /// It has ended.
    pub ended: bool,
    /// It was looked into while it ran, and can be watched: rules have no other.
    pub is_known: bool,
    /// Its calls, one after the other.
    pub sequence: Sequence,
    /// Its parallel regions.
    pub regions: Watched,
    /// What is told of functions while they are not watched.
    pub(super) unwatched: Unwatched,
    sampler: Option<Sampler>,
    /// It has used CPU time since it was looked whether it runs another program, as of the last reading.
    pub(super) has_run: bool,
    /// What the kernel side has counted, by probe, and whether it was more than at the look before.
    counted: (Arc<[Totals]>, bool),
    first: Option<Reading>,
    readings: VecDeque<Reading>,
    load: Load,
    /// Time inside MPI of threads whose records were taken out.
    retired_ns: u64,
    /// Of it, waiting for a CPU.
    retired_waited_ns: u64,
    /// Calls that were open in those threads when they ended, by probe: nobody returns from them any more.
    never_returned: BTreeMap<u32, u64>,
    /// Time by probe as it is shown. It never shrinks: a call that ends between two looks is seen as open and as closed, once.
    shown_ns: Vec<u64>,
}

impl Metered {
    /// A process in a slot. Where /proc does not let itself be read, only probes count.
    pub fn new(pid: i32, rank: Option<u32>, slot: u32) -> Metered {
        Metered {
            pid,
            rank,
            slot,
            ended: false,
            is_known: true,
            sequence: Sequence::default(),
            regions: Watched::default(),
            unwatched: Unwatched::default(),
            sampler: Sampler::open(pid).ok(),
            has_run: false,
            counted: (Arc::default(), false),
            first: None,
            readings: VecDeque::new(),
            load: Load::default(),
            retired_ns: 0,
            retired_waited_ns: 0,
            never_returned: BTreeMap::new(),
            shown_ns: Vec::new(),
        }
    }

    /// Whose its spans are in a trace.
    pub fn whose(&self) -> Whose {
        Whose {
            pid: self.pid,
            rank: self.rank,
        }
    }

    /// A slot whose process had ended before it could be looked into.
    pub fn unknown(pid: i32, slot: u32) -> Metered {
        Metered {
            is_known: false,
            sampler: None,
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

    /// Probes may be put on it.
    pub(super) fn is_watched(&self) -> bool {
        self.is_known && !self.ended
    }

    /// It has not run between the last two readings. Of who goes on running the kernel may tell late.
    pub(super) fn is_still(&self) -> bool {
        let has_hit = self.counted.1;
        let sampler = self.sampler.as_ref().filter(|_| !has_hit);
        self.ended || sampler.is_some_and(|sampler| !sampler.has_run())
    }

    /// The oldest reading of all.
    pub(super) fn first(&self) -> Option<&Reading> {
        self.first.as_ref()
    }

    /// The oldest that rates are taken from.
    pub(super) fn oldest(&self) -> Option<&Reading> {
        self.readings.front()
    }

    /// The newest reading.
    pub fn last(&self) -> Option<&Reading> {
        self.readings.back()
    }

    /// Looks at what the kernel side has counted by now; true where that is more than at the last look. Until it is, nothing that the
    /// kernel side has of the process's threads changes either.
    pub fn count(&mut self, probes: &Probes) -> Result<bool, KernelError> {
        let kernel = probes.kernel();
        let more = kernel.map(|kernel| kernel.totals_unless(self.slot, &self.counted.0));
        let more = more.transpose()?.flatten();
        self.counted.1 = more.is_some();
        if let Some(totals) = more {
            self.counted.0 = totals.into();
        }
        Ok(self.counted.1)
    }

    /// Takes a reading now of what was just counted. `threads` are its own in the kernel side's table; `regions_since_ns` says since when parallel
    /// regions are probed, `sampled` which functions are watched in windows, `cpus` how many the process may use.
    pub(super) fn read(
        &mut self,
        probes: &Probes,
        threads: &[(u64, Thread)],
        (regions_since_ns, sampled): (Option<u64>, &Sampled),
        cpus: Option<f64>,
        now_ns: u64,
    ) {
        let counters = match &mut self.sampler {
            Some(sampler) if !self.ended => sampler.sample().ok(),
            _ => None,
        };
        self.has_run |= self.sampler.as_ref().is_none_or(Sampler::has_run);
        let has_moved = self.counted.1;
        let mut reading = Reading {
            at_ns: now_ns,
            counters,
            cpus,
            ..Reading::default()
        };
        self.read_threads(&mut reading, threads, sampled);
        // What was last seen of a process stays its total.
        reading.counters = reading
            .counters
            .or_else(|| self.last().and_then(|last| last.counters));
        self.tell(&mut reading, probes);
        reading.mpi_ns = reading.mpi_ns.max(self.last().map_or(0, |last| last.mpi_ns));
        let waited_before = self.last().and_then(|last| last.mpi_waited_ns);
        reading.mpi_waited_ns = reading
            .mpi_waited_ns
            .map(|ns| ns.max(waited_before.unwrap_or_default()));
        if has_moved || !reading.open.is_empty() || self.unwatched.has_gaps() {
            keep_growing(&mut self.shown_ns, &reading);
        }
        if !self.ended {
            self.regions.read(&reading, probes.list(), regions_since_ns);
            self.load.add(&reading);
        }
        self.first.get_or_insert_with(|| reading.clone());
        self.read_pace(&mut reading, probes.list());
        // What a process did after its last reading is not known of /proc: the time it did not live does not count.
        if self.ended && self.readings.len() > 1 {
            return;
        }
        self.readings.push_back(reading);
        // One reading older than the period is kept, to take the difference to.
        while self.readings.len() > 2
            && now_ns.saturating_sub(self.readings[1].at_ns) >= RATE_PERIOD.as_nanos() as u64
        {
            self.readings.pop_front();
        }
    }

    /// Time inside MPI, and calls that have not returned. Of one that was under way when its function was no longer watched nothing is known.
    fn read_threads(&self, reading: &mut Reading, threads: &[(u64, Thread)], sampled: &Sampled) {
        let now_ns = reading.at_ns;
        let (mut inside_ns, mut waited_ns) = (self.retired_ns, self.retired_waited_ns);
        for (key, thread) in threads {
            inside_ns += thread.closed_ns;
            waited_ns += thread.waited_ns;
            reading.callers += u64::from(thread.closed_ns > 0 || thread.inside > 0);
            if self.ended || !self.thread_lives(*key, thread, reading.counters.is_some()) {
                reading.left_open.extend(outermost(thread));
                continue;
            }
            let open = thread.frames.iter().take(thread.depth as usize);
            let open: Vec<&Frame> = open.filter(|frame| !sampled.is_stale(frame)).collect();
            let is_inside = open.iter().any(|frame| frame.entered_ns == thread.open_since_ns);
            if thread.open_since_ns != 0 && is_inside {
                inside_ns += now_ns.saturating_sub(thread.open_since_ns);
                waited_ns += self.waited_in_open_call(*key, thread);
            }
            let open = open.iter().filter(|frame| frame.outermost != 0);
            reading
                .open
                .extend(open.map(|frame| (frame.probe, now_ns.saturating_sub(frame.entered_ns))));
        }
        reading.seen_ns = (inside_ns, waited_ns);
    }

    /// How long a thread has waited for a CPU since it entered the call that it is in; 0 where that is not known.
    fn waited_in_open_call(&self, key: u64, thread: &Thread) -> u64 {
        let sampler = self.sampler.as_ref();
        let now = sampler.and_then(|sampler| sampler.waited_ns(thread_number(key)));
        now.map_or(0, |now| now.saturating_sub(thread.waited_before_ns))
    }

    /// What was counted, and what is told of the time in which it was not.
    fn tell(&self, reading: &mut Reading, probes: &Probes) {
        reading.counted = Arc::clone(&self.counted.0);
        // Of a process that has ended no gap goes on.
        let last = self.last().filter(|_| self.ended);
        let at = last.unwrap_or(reading).moment();
        let (more_ns, more_waited_ns) = match self.unwatched.has_gaps() {
            true => self.unwatched.inside_ns(at, &reading.counted),
            false => (0, 0),
        };
        reading.totals = match self.unwatched.has_gaps() {
            true => self.unwatched.told(at, &reading.counted).into(),
            false => Arc::clone(&reading.counted),
        };
        let (inside_ns, waited_ns) = reading.seen_ns;
        reading.mpi_ns = inside_ns + more_ns;
        reading.mpi_waited_ns = probes
            .kernel()
            .filter(|kernel| kernel.tells_waits())
            .map(|_| waited_ns + more_waited_ns);
    }

    /// How fast and how usefully it went of late.
    fn read_pace(&self, reading: &mut Reading, probes: &[Probe]) {
        let current = self.sequence.current();
        reading.iteration_ns = current.and_then(Iterations::recent_ns);
        if !has_mpi(probes) {
            return;
        }
        let whole = current.filter(|_| !self.unwatched.has_gaps());
        reading.useful = match whole.and_then(Iterations::useful_of_late) {
            None => self
                .readings
                .front()
                .and_then(|first| outside_mpi(first, reading)),
            useful => useful,
        };
    }

    /// Takes over what the record of an ended thread says, so that the record can go.
    pub fn retire(&mut self, key: u64, thread: &Thread) -> bool {
        let is_gone = self.ended
            || self
                .sampler
                .as_ref()
                .is_some_and(|sampler| !sampler.has_thread(key as u32 as i32));
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

    /// A thread that was cancelled inside a call leaves its frame open for ever. Where threads were just sampled, those are all.
    fn thread_lives(&self, key: u64, thread: &Thread, is_sampled: bool) -> bool {
        let number = thread_number(key);
        let lives = |sampler: &Sampler| match is_sampled {
            true => sampler.saw_thread(number),
            false => sampler.has_thread(number),
        };
        thread.depth == 0 || self.sampler.as_ref().is_none_or(lives)
    }

    /// The process as it is shown; messages by size are read for it.
    pub fn view(&self, armed: &Probes) -> ProcessView {
        let probes = armed.list();
        let (Some(last), Some(first)) = (self.readings.back(), self.readings.front()) else {
            return ProcessView {
                pid: self.pid,
                rank: self.rank,
                ended: self.ended,
                ..ProcessView::default()
            };
        };
        // Nothing happens any more in a process that has ended: its rates are those between its last reading and itself.
        let since = if self.ended { last } else { first };
        let shown = probes.iter().enumerate().filter(|(_, probe)| !probe.is_quiet);
        let functions = shown.filter_map(|(index, probe)| {
            let shown = self.shown_ns.get(index).copied().unwrap_or_default();
            let never_returned = self.never_returned.get(&(index as u32)).copied();
            let left_open = last.left_open.iter().filter(|probe| **probe == index as u32);
            let never_returned = never_returned.unwrap_or_default() + left_open.count() as u64;
            let mut function = function((index, probe), since, last, shown, never_returned)?;
            function.estimate = self.estimate(index, last);
            if let (Some(kernel), Some(rows)) = (armed.kernel(), probe.rows_of_sizes()) {
                function.sizes = kernel.histogram(self.slot, rows).unwrap_or_default();
            }
            Some(function)
        });
        ProcessView {
            pid: self.pid,
            rank: self.rank,
            ended: self.ended,
            host: None,
            watched_ns: self
                .first
                .as_ref()
                .map_or(0, |first| last.at_ns.saturating_sub(first.at_ns)),
            functions: functions.collect(),
            counters: last.counters,
            mpi_ns: has_mpi(probes).then_some(last.mpi_ns),
            mpi_waited_ns: last.mpi_waited_ns.filter(|_| has_mpi(probes)),
            useful: self
                .iterations()
                .and_then(Iterations::useful)
                .filter(|_| has_mpi(probes)),
            regions: self.regions.view(has_bodies(probes)),
            rates: rates(probes, first, last).filter(|_| !self.ended),
            whole: self.first.as_ref().and_then(|first| rates(probes, first, last)),
            load: Vec::new(),
        }
    }

    /// How it spent its time over the run.
    pub(super) fn load(&self, probes: &[Probe], armed_ns: u64) -> Vec<LoadView> {
        let last = self.readings.back();
        last.map_or_else(Vec::new, |last| self.load.view(last, armed_ns, has_mpi(probes)))
    }

    /// Its iterations, where the time inside MPI is known of all of them.
    pub(super) fn iterations(&self) -> Option<&Iterations> {
        self.sequence.iterations().filter(|_| !self.unwatched.has_gaps())
    }

    /// The share of its time that a rank is outside MPI since the probes were armed, and whether it is of whole iterations.
    pub fn useful(&self) -> Option<(f64, bool)> {
        let whole = self.iterations().and_then(Iterations::useful);
        let of_all = || outside_mpi(self.first.as_ref()?, self.last()?);
        whole
            .map(|useful| (useful, true))
            .or_else(|| Some((of_all()?, false)))
    }

    /// The same of late; none of a process that has ended.
    pub fn useful_of_late(&self) -> Option<(f64, bool)> {
        let useful = self.last()?.useful.filter(|_| !self.ended)?;
        let current = self.sequence.current().filter(|_| !self.unwatched.has_gaps());
        let is_whole = current.and_then(Iterations::useful_of_late).is_some();
        Some((useful, is_whole))
    }

    /// Calls of functions that are asked again and again, which are in no sequence.
    pub fn polling_calls(&self, probes: &[Probe]) -> u64 {
        let totals = self.last().map_or(&[][..], |last| &last.totals);
        let polling = of_mpi(probes, totals).filter(|(probe, _)| {
            let function = probe.mpi;
            function.is_some_and(|function| function.is_asked_again())
        });
        polling.map(|(_, totals)| totals.calls).sum()
    }

    /// Length of the period that the rates speak of.
    pub fn period(&self) -> Duration {
        let ends = self.readings.front().zip(self.readings.back());
        Duration::from_nanos(ends.map_or(0, |(first, last)| last.at_ns - first.at_ns))
    }
}

impl Reading {
    /// When it was taken; where /proc does not tell CPU time, the time stands for it.
    pub(super) fn moment(&self) -> Moment {
        Moment {
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

    /// Outermost calls of MPI functions.
    pub fn mpi_calls(&self, probes: &[Probe]) -> u64 {
        of_mpi(probes, &self.totals).map(|(_, totals)| totals.calls).sum()
    }

    /// Bytes handed to MPI for sending.
    pub fn mpi_bytes_sent(&self, probes: &[Probe]) -> u64 {
        let sent = of_mpi(probes, &self.totals)
            .filter(|(probe, _)| probe.bytes_kind() == Some(crate::mpi::BytesKind::Sent));
        sent.map(|(_, totals)| totals.bytes).sum()
    }
}

fn of_mpi<'a>(probes: &'a [Probe], totals: &'a [Totals]) -> impl Iterator<Item = (&'a Probe, &'a Totals)> {
    probes.iter().zip(totals).filter(|(probe, _)| probe.mpi.is_some())
}

/// Takes a reading over where it says more than the ones before.
fn keep_growing(shown_ns: &mut Vec<u64>, reading: &Reading) {
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

fn function(
    (index, probe): (usize, &Probe),
    first: &Reading,
    last: &Reading,
    shown_ns: u64,
    never_returned: u64,
) -> Option<FunctionTotals> {
    let totals = last.totals.get(index)?;
    if totals.calls + totals.nested == 0 {
        return None;
    }
    let earlier = first.totals.get(index).copied().unwrap_or_default();
    let elapsed = last.at_ns.saturating_sub(first.at_ns) as f64;
    let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
    let is_timed = probe.is_timed() && !probe.is_only_counted;
    let time_ns = |of: &Reading| {
        if probe.is_only_counted {
            0
        } else {
            of.time_ns(index as u32)
        }
    };
    // What a library calls within itself has no time of its own.
    let has_returned = totals.timed > 0 || totals.calls == 0;
    let closed = totals.timed - earlier.timed.min(totals.timed);
    let closed_ns = totals.time_ns.saturating_sub(earlier.time_ns) as f64;
    Some(FunctionTotals {
        name: probe.name.clone(),
        calls: totals.calls,
        nested: totals.nested,
        time_ns: is_timed.then_some(shown_ns).filter(|ns| *ns > 0 || has_returned),
        bytes: probe.bytes_kind().map(|_| totals.bytes),
        bytes_kind: probe.bytes_kind().map(|kind| kind.name()),
        bytes_unknown: totals.bytes_unknown,
        sizes: Vec::new(),
        estimate: None,
        untimed: totals.too_deep + totals.unpaired + never_returned,
        unreturned: (totals.unpaired + never_returned).min(totals.calls),
        calls_per_s: per(
            (totals.calls - earlier.calls.min(totals.calls)) as f64 * 1e9,
            elapsed,
        ),
        share: per(time_ns(last).saturating_sub(time_ns(first)) as f64, elapsed),
        mean_ns: (closed > 0 && !probe.is_only_counted).then(|| closed_ns / closed as f64),
        durations: None,
    })
}

/// The share of the time between two readings that was not inside MPI; none where several threads were, whose times add up to more.
fn outside_mpi(first: &Reading, last: &Reading) -> Option<f64> {
    let elapsed = last
        .at_ns
        .checked_sub(first.at_ns)
        .filter(|elapsed| *elapsed > 0)?;
    let mpi = last.mpi_ns.checked_sub(first.mpi_ns)?;
    (mpi <= elapsed).then(|| 1.0 - mpi as f64 / elapsed as f64)
}

/// Whether functions of MPI are probed at all: else nothing is known of it, which is not the same as nothing done.
pub fn has_mpi(probes: &[Probe]) -> bool {
    probes.iter().any(|probe| probe.mpi.is_some())
}

fn rates(probes: &[Probe], first: &Reading, last: &Reading) -> Option<Rates> {
    let elapsed = last
        .at_ns
        .checked_sub(first.at_ns)
        .filter(|elapsed| *elapsed > 0)? as f64;
    let (before, now) = (first.counters?, last.counters?);
    let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
    Some(Rates {
        mpi: has_mpi(probes).then(|| share(last.mpi_ns, first.mpi_ns)),
        mpi_waiting: last
            .mpi_waited_ns
            .zip(first.mpi_waited_ns)
            .filter(|_| has_mpi(probes))
            // A wait within a call that was open at the first reading is told when the call ends, whole.
            .map(|(waited, before)| share(waited, before).min(share(last.mpi_ns, first.mpi_ns))),
        cpu: share(now.cpu_ns, before.cpu_ns),
        runqueue: share(now.runqueue_ns, before.runqueue_ns),
        calls_per_s: share(last.mpi_calls(probes), first.mpi_calls(probes)) * 1e9,
        sent_per_s: share(last.mpi_bytes_sent(probes), first.mpi_bytes_sent(probes)) * 1e9,
        switches_per_s: share(now.switches_involuntary, before.switches_involuntary) * 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_which_none_returned_have_no_time_instead_of_none_at_all() {
        let probe = Probe {
            name: "MPI_Send".to_owned(),
            mpi: None,
            spec: abi::ProbeSpec {
                flags: abi::SpecFlags::SPAN,
                ..abi::ProbeSpec::default()
            },
            captures: Vec::new(),
            symbols: std::collections::BTreeSet::new(),
            mark: None,
            wanted: Vec::new(),
            is_quiet: false,
            is_only_counted: false,
            is_sampled: false,
            is_off: false,
        };
        for (calls, timed, shown_ns, expected) in [
            (863, 0, 0, None),
            (863, 1, 40, Some(40)),
            // One is still under way.
            (863, 0, 40, Some(40)),
            (0, 0, 0, Some(0)),
        ] {
            let reading = Reading {
                totals: Arc::new([Totals {
                    calls,
                    timed,
                    nested: 1,
                    unpaired: (calls - timed) / 2,
                    ..Totals::default()
                }]),
                ..Reading::default()
            };
            // The others were open when their threads ended.
            let never_returned = calls - timed - (calls - timed) / 2;
            let totals = function(
                (0, &probe),
                &Reading::default(),
                &reading,
                shown_ns,
                never_returned,
            );
            let totals = totals.expect("it was called");
            assert_eq!((totals.time_ns, totals.unreturned), (expected, calls - timed));
        }
    }

    #[test]
    fn a_call_that_ends_between_two_looks_never_makes_a_counter_shrink() {
        let reading = |closed_ns, open: &[(u32, u64)]| Reading {
            totals: Arc::new([
                Totals::default(),
                Totals {
                    time_ns: closed_ns,
                    ..Totals::default()
                },
            ]),
            open: open.to_vec(),
            ..Reading::default()
        };
        let mut shown = Vec::new();
        // Open for 10, then seen both as open and as closed, then closed, then longer.
        for (closed, open, expected) in [
            (0, &[(1, 10)][..], 10),
            (12, &[(1, 11)], 23),
            (12, &[], 23),
            (40, &[], 40),
        ] {
            keep_growing(&mut shown, &reading(closed, open));
            assert_eq!(shown, [0, expected]);
        }
    }
}
