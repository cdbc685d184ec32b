//! Reads what the kernel side and /proc have counted, and turns two readings into rates.

use std::{collections::VecDeque, time::Duration};

use abi::{Thread, Totals};

use super::probes::{Probe, Probes};
use crate::{
    evidence::{Counters, Sampler, available},
    kernel::KernelError,
    snapshot::{FunctionTotals, ProcessView, Rates},
};

/// Rates speak of about this much time.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// Affinities and quotas seldom change, and asking takes a dozen files.
const CPUS_PERIOD: Duration = Duration::from_secs(2);

/// What one process had counted at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// By probe.
    pub totals: Vec<Totals>,
    /// Time of calls that are still open, by probe.
    pub open: Vec<(u32, u64)>,
    /// Time inside MPI, open calls included.
    pub mpi_ns: u64,
    /// `None` when /proc no longer shows the process.
    pub counters: Option<Counters>,
    /// CPUs that the process may use; looked up again every few seconds.
    pub cpus: Option<f64>,
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
    sampler: Option<Sampler>,
    /// When they were looked up, and how many.
    cpus: Option<(u64, f64)>,
    first: Option<Reading>,
    readings: VecDeque<Reading>,
    /// Time inside MPI of threads whose records were taken out.
    retired_ns: u64,
}

impl Metered {
    /// A process in a slot. Where /proc does not let itself be read, only probes count.
    pub fn new(pid: i32, rank: Option<u32>, slot: u32) -> Metered {
        Metered {
            pid,
            rank,
            slot,
            ended: false,
            sampler: Sampler::open(pid).ok(),
            cpus: None,
            first: None,
            readings: VecDeque::new(),
            retired_ns: 0,
        }
    }

    /// The newest reading.
    pub fn last(&self) -> Option<&Reading> {
        self.readings.back()
    }

    /// Reads the counters now. `threads` is the kernel side's table, read just before.
    pub fn read(
        &mut self,
        probes: &Probes,
        threads: &[(u64, Thread)],
        now_ns: u64,
    ) -> Result<(), KernelError> {
        let totals = probes.kernel().map(|kernel| kernel.totals(self.slot));
        let totals = totals.transpose()?.unwrap_or_default();
        let mut reading = Reading {
            at_ns: now_ns,
            totals,
            mpi_ns: self.retired_ns,
            ..Reading::default()
        };
        for (key, thread) in threads.iter().filter(|(_, thread)| thread.process == self.slot) {
            reading.mpi_ns += thread.closed_ns;
            if self.ended || !self.thread_lives(*key, thread) {
                continue;
            }
            if thread.open_since_ns != 0 {
                reading.mpi_ns += now_ns.saturating_sub(thread.open_since_ns);
            }
            let open = thread
                .frames
                .iter()
                .take(thread.depth as usize)
                .filter(|frame| frame.outermost != 0);
            reading
                .open
                .extend(open.map(|frame| (frame.probe, now_ns.saturating_sub(frame.entered_ns))));
        }
        reading.counters = match &mut self.sampler {
            Some(sampler) if !self.ended => sampler.sample().ok(),
            _ => None,
        };
        if self
            .cpus
            .is_none_or(|(at, _)| now_ns.saturating_sub(at) >= CPUS_PERIOD.as_nanos() as u64)
        {
            self.cpus = available(&[self.pid]).map(|share| (now_ns, share.cpus()));
        }
        reading.cpus = self.cpus.map(|(_, cpus)| cpus);
        // What was last seen of a process stays its total.
        reading.counters = reading
            .counters
            .or_else(|| self.last().and_then(|last| last.counters));
        self.first.get_or_insert_with(|| reading.clone());
        // What a process did after its last reading is not known of /proc: the time it did not live does not count.
        if self.ended && self.readings.len() > 1 {
            return Ok(());
        }
        self.readings.push_back(reading);
        // One reading older than the period is kept, to take the difference to.
        while self.readings.len() > 2
            && now_ns.saturating_sub(self.readings[1].at_ns) >= RATE_PERIOD.as_nanos() as u64
        {
            self.readings.pop_front();
        }
        Ok(())
    }

    /// Takes over what the record of an ended thread says, so that the record can go.
    pub fn retire(&mut self, key: u64, thread: &Thread) -> bool {
        let is_gone = self.ended
            || self
                .sampler
                .as_ref()
                .is_some_and(|sampler| !sampler.has_thread(key as u32 as i32));
        if is_gone {
            self.retired_ns += thread.closed_ns;
        }
        is_gone
    }

    /// A thread that was cancelled inside a call leaves its frame open for ever.
    fn thread_lives(&self, key: u64, thread: &Thread) -> bool {
        thread.depth == 0
            || self
                .sampler
                .as_ref()
                .is_none_or(|sampler| sampler.has_thread(key as u32 as i32))
    }

    /// The process as it is shown.
    pub fn view(&self, probes: &[Probe]) -> ProcessView {
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
        let functions = probes
            .iter()
            .enumerate()
            .filter_map(|(index, probe)| function(index, probe, since, last));
        ProcessView {
            pid: self.pid,
            rank: self.rank,
            ended: self.ended,
            functions: functions.collect(),
            counters: last.counters,
            mpi_ns: has_mpi(probes).then_some(last.mpi_ns),
            rates: rates(probes, first, last).filter(|_| !self.ended),
            whole: self.first.as_ref().and_then(|first| rates(probes, first, last)),
        }
    }

    /// Length of the period that the rates speak of.
    pub fn period(&self) -> Duration {
        let ends = self.readings.front().zip(self.readings.back());
        Duration::from_nanos(ends.map_or(0, |(first, last)| last.at_ns - first.at_ns))
    }
}

impl Reading {
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

fn function(index: usize, probe: &Probe, first: &Reading, last: &Reading) -> Option<FunctionTotals> {
    let totals = last.totals.get(index)?;
    if totals.calls + totals.nested == 0 {
        return None;
    }
    let earlier = first.totals.get(index).copied().unwrap_or_default();
    let elapsed = last.at_ns.saturating_sub(first.at_ns) as f64;
    let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
    let time_ns = last.time_ns(index as u32);
    let closed = totals.timed - earlier.timed.min(totals.timed);
    let closed_ns = totals.time_ns.saturating_sub(earlier.time_ns) as f64;
    Some(FunctionTotals {
        name: probe.name.clone(),
        calls: totals.calls,
        nested: totals.nested,
        time_ns: probe.is_timed().then_some(time_ns),
        bytes: probe.bytes_kind().map(|_| totals.bytes),
        bytes_kind: probe.bytes_kind().map(|kind| kind.name()),
        bytes_unknown: totals.bytes_unknown,
        untimed: totals.too_deep + totals.unpaired,
        calls_per_s: per(
            (totals.calls - earlier.calls.min(totals.calls)) as f64 * 1e9,
            elapsed,
        ),
        share: per(
            time_ns.saturating_sub(first.time_ns(index as u32)) as f64,
            elapsed,
        ),
        mean_ns: (closed > 0).then(|| closed_ns / closed as f64),
    })
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
        cpu: share(now.cpu_ns, before.cpu_ns),
        runqueue: share(now.runqueue_ns, before.runqueue_ns),
        calls_per_s: share(last.mpi_calls(probes), first.mpi_calls(probes)) * 1e9,
        sent_per_s: share(last.mpi_bytes_sent(probes), first.mpi_bytes_sent(probes)) * 1e9,
        switches_per_s: share(now.switches_involuntary, before.switches_involuntary) * 1e9,
    })
}
