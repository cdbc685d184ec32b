//! Values computed from readings: totals, rates, shares, and their estimates.

use std::{ops::Range, time::Duration};

use abi::Totals;

use super::{Metered, Reading, regions::has_bodies};
use crate::{
    calls::Iterations,
    cost::Estimate,
    probe::Probe,
    snapshot::{FunctionTotals, LoadView, ProcessView, Rates},
};

impl Metered {
    /// The process for display; `counts` reads rows of a histogram of the kernel side.
    pub fn view(&self, probes: &[Probe], counts: impl Fn(Range<u32>) -> Option<Vec<u64>>) -> ProcessView {
        let (Some(last), Some(first)) = (self.readings.back(), self.readings.front()) else {
            return ProcessView {
                pid: self.pid,
                rank: self.rank,
                ended: self.ended,
                ..ProcessView::default()
            };
        };
        let begun_ns = self.first.as_ref().map_or(last.at_ns, |first| first.at_ns);
        let all_ns = last.at_ns.saturating_sub(begun_ns);
        // An ended process does nothing any more: its rates are those between its last reading and itself,
        // which are 0.
        let since = if self.ended { last } else { first };
        let shown = probes.iter().enumerate().filter(|(_, probe)| !probe.is_quiet);
        let functions = shown.filter_map(|(index, probe)| {
            let shown = self.shown_ns.get(index).copied().unwrap_or_default();
            let never_returned = self.never_returned.get(&(index as u32)).copied();
            let left_open = last.left_open.iter().filter(|probe| **probe == index as u32);
            let never_returned = never_returned.unwrap_or_default() + left_open.count() as u64;
            let mut function = function((index, probe), since, last, shown, never_returned)?;
            let rested = self.rested.get(index).copied().unwrap_or_default();
            function.estimate = self.estimate(index, last).filter(|_| rested.ns == 0);
            if rested.ns > 0 {
                function.counted = Some(1.0 - rested.ns as f64 / all_ns.max(rested.ns) as f64);
                // Only calls from the time in which it was counted.
                function.calls = counted_calls((index, probe), last).saturating_sub(rested.calls);
            }
            function.is_resting = rested.is_resting;
            function.sizes = probe.rows_of_sizes().and_then(&counts).unwrap_or_default();
            Some(function)
        });
        let knows_mpi = has_mpi(probes) && !last.is_mpi_unknown;
        ProcessView {
            pid: self.pid,
            rank: self.rank,
            ended: self.ended,
            watched_ns: all_ns,
            functions: functions.collect(),
            counters: last.counters,
            counters_before: self.before,
            mpi_ns: knows_mpi.then_some(last.mpi_ns),
            mpi_waited_ns: last.mpi_waited_ns.filter(|_| knows_mpi),
            mpi_unknown_ns: match (last.is_mpi_unknown, &self.mpi_from) {
                (true, _) => all_ns,
                (false, from) => from
                    .as_ref()
                    .map_or(0, |from| from.at_ns.saturating_sub(begun_ns)),
            },
            is_mpi_unknown: last.is_mpi_unknown,
            useful: self
                .iterations()
                .and_then(Iterations::useful)
                .filter(|_| has_mpi(probes)),
            recent_useful: self.recent_useful(),
            regions: (self.regions).view(
                has_bodies(probes),
                self.first.as_ref().map_or(0, |first| first.at_ns),
            ),
            rates: self.rates(probes, first, last).filter(|_| !self.ended),
            overall: (self.first.as_ref()).and_then(|first| self.rates(probes, first, last)),
            ..ProcessView::default()
        }
    }

    /// How it spent its time over the run.
    pub fn load(&self, probes: &[Probe], armed_ns: u64) -> Vec<LoadView> {
        let last = self.readings.back();
        last.map_or_else(Vec::new, |last| self.load.view(last, armed_ns, has_mpi(probes)))
    }

    /// Its iterations; `None` if the time inside MPI is estimated for some of them.
    pub fn iterations(&self) -> Option<&Iterations> {
        self.sequence.iterations().filter(|_| !self.unwatched.has_gaps())
    }

    /// The share of a rank's time outside MPI since the probes were armed, and whether it covers complete
    /// iterations.
    pub fn useful(&self) -> Option<(f64, bool)> {
        let overall = self.iterations().and_then(Iterations::useful);
        let of_all = || outside_mpi(self.mpi_since(self.first.as_ref())?, self.last()?);
        overall
            .map(|useful| (useful, true))
            .or_else(|| Some((of_all()?, false)))
    }

    /// The recent share of time outside MPI, and whether it covers complete iterations; `None` if the process
    /// has ended.
    pub fn recent_useful(&self) -> Option<(f64, bool)> {
        let useful = self.last()?.useful.filter(|_| !self.ended)?;
        let current = self.sequence.current().filter(|_| !self.unwatched.has_gaps());
        let is_complete = current.and_then(Iterations::recent_useful).is_some();
        Some((useful, is_complete))
    }

    /// Calls of polling functions, which are not part of sequences.
    pub fn polling_calls(&self, probes: &[Probe]) -> u64 {
        let totals = self.last().map_or(&[][..], |last| &last.totals);
        let polling = of_mpi(probes, totals).filter(|(probe, _)| {
            let function = probe.mpi;
            function.is_some_and(|function| function.is_polling())
        });
        polling.map(|(_, totals)| totals.calls).sum()
    }

    /// The period over which rates are computed.
    pub fn period(&self) -> Duration {
        let ends = self.readings.front().zip(self.readings.back());
        Duration::from_nanos(ends.map_or(0, |(first, last)| last.at_ns - first.at_ns))
    }

    /// The uncertainty of a function's calls at a reading; `None` if all were counted.
    fn estimate(&self, probe: usize, at: &Reading) -> Option<Estimate> {
        let first_ns = self.first.as_ref().map_or(at.at_ns, |first| first.at_ns);
        let of_ns = at.at_ns.saturating_sub(first_ns);
        self.unwatched
            .estimate(probe as u32, at.moment(), of_ns, &at.counted)
    }

    /// The functions whose calls are estimated.
    pub fn estimates(&self) -> impl Iterator<Item = (usize, Estimate)> + '_ {
        let last = self.last().filter(|_| self.unwatched.has_gaps()).into_iter();
        last.flat_map(|last| {
            let of = |probe| Some((probe, self.estimate(probe, last)?));
            (0..last.counted.len()).filter_map(of)
        })
    }

    /// The part of the time since the first reading in which every function was watched.
    pub fn watched_part(&self) -> f64 {
        let ends = self.first.as_ref().zip(self.last());
        let of = |(first, last): (&Reading, &Reading)| {
            Some(1.0 - last.gaps_ns.saturating_sub(first.gaps_ns) as f64 / elapsed_ns(first, last)?)
        };
        ends.and_then(of).unwrap_or(1.0)
    }

    /// Shares of the time between two readings; those of MPI begin when its time inside MPI was first known.
    fn rates(&self, probes: &[Probe], first: &Reading, last: &Reading) -> Option<Rates> {
        let (before, now) = (first.counters?, last.counters?);
        let elapsed = elapsed_ns(first, last)?;
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
        let of_mpi = self.mpi_since(Some(first)).filter(|_| has_mpi(probes));
        let of_mpi = of_mpi.and_then(|since| mpi_shares(since, last));
        Some(Rates {
            mpi: of_mpi.map(|(mpi, _)| mpi),
            mpi_waiting: of_mpi.and_then(|(_, waiting)| waiting),
            cpu: share(now.cpu_ns, before.cpu_ns),
            runqueue: share(now.runqueue_ns, before.runqueue_ns),
            calls_per_s: share(mpi_calls(last, probes), mpi_calls(first, probes)) * 1e9,
            sent_per_s: share(mpi_bytes_sent(last, probes), mpi_bytes_sent(first, probes)) * 1e9,
            switches_per_s: share(now.switches_involuntary, before.switches_involuntary) * 1e9,
            sampled: (last.gaps_ns > 0).then(|| 1.0 - share(last.gaps_ns, first.gaps_ns)),
        })
    }
}

/// Outermost calls of MPI functions.
fn mpi_calls(reading: &Reading, probes: &[Probe]) -> u64 {
    of_mpi(probes, &reading.totals)
        .map(|(_, totals)| totals.calls)
        .sum()
}

/// Calls of MPI functions, nested ones included.
pub(super) fn mpi_hits(reading: &Reading, probes: &[Probe]) -> u64 {
    of_mpi(probes, &reading.counted)
        .map(|(_, totals)| totals.calls + totals.nested)
        .sum()
}

/// Bytes passed to MPI for sending.
fn mpi_bytes_sent(reading: &Reading, probes: &[Probe]) -> u64 {
    let sent = of_mpi(probes, &reading.totals)
        .filter(|(probe, _)| probe.bytes_kind() == Some(crate::mpi::BytesKind::Sent));
    sent.map(|(_, totals)| totals.bytes).sum()
}

fn of_mpi<'a>(probes: &'a [Probe], totals: &'a [Totals]) -> impl Iterator<Item = (&'a Probe, &'a Totals)> {
    probes.iter().zip(totals).filter(|(probe, _)| probe.mpi.is_some())
}

/// Calls made by the program. In a GPU library only calls from outside the library are timed.
fn calls_of_program(probe: &Probe, totals: &Totals) -> u64 {
    if probe.is_gpu() {
        totals.timed
    } else {
        totals.calls
    }
}

/// Calls by the program that were counted until a reading.
pub(super) fn counted_calls((index, probe): (usize, &Probe), reading: &Reading) -> u64 {
    let totals = reading.counted.get(index);
    totals.map_or(0, |totals| calls_of_program(probe, totals))
}

pub(super) fn function(
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
    // Calls that a library makes within itself have no time of their own. One that is open has; it may never return.
    let open: Vec<u64> = (last.open.iter().filter(|(probe, _)| *probe as usize == index))
        .map(|(_, ns)| *ns)
        .collect();
    let has_time = totals.timed > 0 || totals.calls == 0 || !open.is_empty();
    let closed = totals.timed - earlier.timed.min(totals.timed);
    let closed_ns = totals.time_ns.saturating_sub(earlier.time_ns) as f64;
    let calls = |totals: &Totals| calls_of_program(probe, totals);
    Some(FunctionTotals {
        name: probe.name.clone(),
        calls: calls(totals),
        nested: totals.nested + totals.calls - calls(totals),
        time_ns: is_timed.then_some(shown_ns).filter(|_| has_time),
        returned: if is_timed { totals.timed } else { 0 },
        returned_ns: if is_timed { totals.time_ns } else { 0 },
        under_way: if is_timed { open.len() as u64 } else { 0 },
        under_way_ns: if is_timed { open.iter().sum() } else { 0 },
        bytes: probe.bytes_kind().map(|_| totals.bytes),
        bytes_kind: probe.bytes_kind().map(|kind| kind.name()),
        bytes_unknown: totals.bytes_unknown,
        untimed: totals.too_deep + totals.unpaired + never_returned,
        unreturned: (totals.unpaired + never_returned).min(totals.calls),
        calls_per_s: per(
            (calls(totals) - calls(&earlier).min(calls(totals))) as f64 * 1e9,
            elapsed,
        ),
        share: per(time_ns(last).saturating_sub(time_ns(first)) as f64, elapsed),
        mean_ns: (closed > 0 && !probe.is_only_counted).then(|| closed_ns / closed as f64),
        ..FunctionTotals::default()
    })
}

/// The share of the time between two readings that was outside MPI; `None` if several threads called MPI,
/// because their times add up to more than the elapsed time.
pub(super) fn outside_mpi(first: &Reading, last: &Reading) -> Option<f64> {
    let elapsed = elapsed_ns(first, last)?;
    let mpi = last.mpi_ns.checked_sub(first.mpi_ns)? as f64;
    (mpi <= elapsed).then(|| 1.0 - mpi / elapsed)
}

/// Whether MPI functions are probed. If not, the amount of MPI is unknown rather than zero.
pub fn has_mpi(probes: &[Probe]) -> bool {
    probes.iter().any(|probe| probe.mpi.is_some())
}

/// The share of the time between two readings that was inside MPI, and the part of it that waited for a CPU.
pub(super) fn mpi_shares(first: &Reading, last: &Reading) -> Option<(f64, Option<f64>)> {
    let elapsed = elapsed_ns(first, last)?;
    let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
    let inside = share(last.mpi_ns, first.mpi_ns);
    // An estimate that became greater between the readings is of the time before the first, too.
    let inside = match last.gaps_ns {
        0 => inside,
        _ => inside.min(last.callers.max(1) as f64),
    };
    let waited = last.mpi_waited_ns.zip(first.mpi_waited_ns);
    // A wait within a call that was open at the first reading is reported in full when the call ends.
    let waiting = waited.map(|(waited, before)| share(waited, before).min(inside));
    Some((inside, waiting))
}

/// The time between two readings in nanoseconds; `None` if there is none.
fn elapsed_ns(first: &Reading, last: &Reading) -> Option<f64> {
    let elapsed = last.at_ns.checked_sub(first.at_ns)?;
    (elapsed > 0).then_some(elapsed as f64)
}
