//! How each process, and all of them together, spent their time over the run. Reads nothing itself.

use std::time::Duration;

use super::{Metered, Profile, Reading, thinned::Thinned};
use crate::snapshot::{LoadView, TimeBucket, TimeParts};

/// Maximum number of parts of a process.
const PARTS: usize = 64;

/// Maximum number of buckets of all processes together.
const BUCKETS_MAX: usize = 1024;

/// A moment, by CLOCK_MONOTONIC, and the totals of a process then.
pub(super) type TimedEnd = (u64, PartEnd);

/// Totals of a process at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PartEnd {
    mpi_ns: u64,
    /// The part of `mpi_ns` that waited for a CPU; `None` if the kernel does not report it.
    mpi_waited_ns: Option<u64>,
    is_mpi_unknown: bool,
    /// Time on a CPU and time waiting for one; `None` if /proc did not report it.
    cpu_ns: Option<(u64, u64)>,
}

impl PartEnd {
    fn of(reading: &Reading) -> TimedEnd {
        let end = PartEnd {
            mpi_ns: reading.mpi_ns,
            mpi_waited_ns: reading.mpi_waited_ns,
            is_mpi_unknown: reading.is_mpi_unknown,
            cpu_ns: reading
                .counters
                .map(|counters| (counters.cpu_ns, counters.runqueue_ns)),
        };
        (reading.at_ns, end)
    }
}

/// The parts of one process.
#[derive(Debug, Default)]
pub(super) struct LoadParts(Thinned<PartEnd, PARTS>);

impl LoadParts {
    /// Adds a reading; the times of readings only grow.
    pub(super) fn add(&mut self, reading: &Reading) {
        self.enter(PartEnd::of(reading));
    }

    fn enter(&mut self, (at_ns, end): TimedEnd) {
        self.0.add(at_ns, end);
    }

    /// The parts up to the last reading, by the time since all probes were armed.
    pub(super) fn view(&self, last: &Reading, armed_ns: u64, has_mpi: bool) -> Vec<LoadView> {
        self.parts(PartEnd::of(last), armed_ns, has_mpi)
    }

    fn parts(&self, last: TimedEnd, armed_ns: u64, has_mpi: bool) -> Vec<LoadView> {
        let part = |((from_ns, from), (to_ns, to)): (TimedEnd, TimedEnd)| {
            let length = to_ns.saturating_sub(from_ns).max(1) as f64;
            let share = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / length;
            let cpu = from.cpu_ns.zip(to.cpu_ns);
            let knows_mpi = has_mpi && !to.is_mpi_unknown;
            LoadView {
                until: Duration::from_nanos(to_ns.saturating_sub(armed_ns)),
                mpi: knows_mpi.then(|| share(from.mpi_ns, to.mpi_ns)),
                cpu: cpu.map(|(from, to)| share(from.0, to.0)),
                runqueue: cpu.map(|(from, to)| share(from.1, to.1)),
            }
        };
        self.0.buckets(last).map(part).collect()
    }
}

/// The parts of the time of all processes together, as sums up to moments of the run.
#[derive(Debug, Default)]
pub(super) struct TimeSeries {
    sum: TimeParts,
    sums: Thinned<TimeParts, BUCKETS_MAX>,
}

impl Profile {
    /// Adds the time since the last use of this function. It is used after each reading.
    pub fn add_time(&mut self, has_mpi: bool) {
        if !self.time.sums.is_due(self.read_ns) {
            return;
        }
        for process in &mut self.processes {
            if let Some((parts, end)) = process.newer_time(has_mpi) {
                self.time.sum += parts;
                process.added = Some(end);
            }
        }
        self.time.sums.add(self.read_ns, self.time.sum);
    }

    /// The sum of the time of all processes, up to the last reading.
    pub fn time(&self, has_mpi: bool) -> TimeParts {
        let mut total = self.time.sum;
        let newer = self
            .processes
            .iter()
            .filter_map(|process| process.newer_time(has_mpi));
        newer.for_each(|(parts, _)| total += parts);
        total
    }

    /// The same in buckets of the run, by the time since all probes were armed.
    pub fn time_buckets(&self, armed_ns: u64, has_mpi: bool) -> Vec<TimeBucket> {
        let since_armed = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(armed_ns));
        let bucket = |(from, until): ((u64, TimeParts), (u64, TimeParts))| TimeBucket {
            from: since_armed(from.0),
            until: since_armed(until.0),
            parts: until.1 - from.1,
        };
        let newest = (self.read_ns, self.time(has_mpi));
        self.time.sums.buckets(newest).map(bucket).collect()
    }
}

impl Metered {
    /// The parts of its time that the series of all processes does not have yet, and the moment up to which they
    /// are; `None` if there are none, or if its time on CPUs is unknown. The first reading only begins them.
    fn newer_time(&self, has_mpi: bool) -> Option<(TimeParts, TimedEnd)> {
        let (to_ns, to) = PartEnd::of(self.last()?);
        let (from_ns, from) = self.added.or_else(|| self.first().map(PartEnd::of))?;
        let ((cpu_from, ready_from), (cpu_to, ready_to)) = from.cpu_ns.zip(to.cpu_ns)?;
        let elapsed_ns = to_ns.checked_sub(from_ns).filter(|elapsed| *elapsed > 0)?;
        let cpu = (
            cpu_to.saturating_sub(cpu_from),
            ready_to.saturating_sub(ready_from),
        );
        let knows_mpi = has_mpi && !from.is_mpi_unknown && !to.is_mpi_unknown;
        // The first reading of a process does not have its threads.
        let waited_from = from.mpi_waited_ns.or_else(|| (from.mpi_ns == 0).then_some(0));
        let waited = waited_from.zip(to.mpi_waited_ns);
        let mpi = (
            to.mpi_ns.saturating_sub(from.mpi_ns),
            waited.map(|(from, to)| to.saturating_sub(from)),
        );
        Some((
            TimeParts::of(elapsed_ns, cpu, knows_mpi.then_some(mpi)),
            (to_ns, to),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Inputs, tests::probe, thinned::LENGTH_NS},
        *,
    };
    use crate::{calls::Iterations, os_metrics::Counters};

    fn mark(at_ns: u64, mpi_ns: u64, cpu_ns: u64) -> TimedEnd {
        let end = PartEnd {
            mpi_ns,
            cpu_ns: Some((cpu_ns, at_ns - cpu_ns)),
            ..PartEnd::default()
        };
        (at_ns, end)
    }

    #[test]
    fn each_part_has_the_shares_of_its_own_time_and_the_last_goes_to_the_last_reading() {
        let mut load = LoadParts::default();
        let second = LENGTH_NS;
        load.enter(mark(0, 0, 0));
        load.enter(mark(second / 2, second / 2, 0));
        load.enter(mark(second, second, 0));
        let last = mark(second + second / 2, second, second / 2);
        let parts = load.parts(last, 0, true);
        let shares: Vec<_> = parts
            .iter()
            .map(|part| (part.until.as_secs_f64(), part.mpi, part.cpu, part.runqueue))
            .collect();
        assert_eq!(
            shares,
            [
                (1.0, Some(1.0), Some(0.0), Some(1.0)),
                (1.5, Some(0.0), Some(1.0), Some(0.0))
            ]
        );
        // Unmeasured values are `None`.
        let unread = (
            last.0,
            PartEnd {
                cpu_ns: None,
                ..last.1
            },
        );
        let parts = load.parts(unread, 0, false);
        assert_eq!((parts[1].mpi, parts[1].cpu), (None, None));
        assert_eq!(LoadParts::default().parts(last, 0, true), []);
    }

    #[test]
    fn however_long_a_run_is_there_are_at_most_64_parts_that_cover_all_of_it() {
        let mut load = LoadParts::default();
        let reading = LENGTH_NS / 2;
        for number in 0..100_000 {
            // Half of the time is in MPI, in alternate readings.
            load.enter(mark(number * reading, number / 2 * reading, 0));
            let last = mark(number * reading, number / 2 * reading, 0);
            let parts = load.parts(last, 0, true);
            assert!(parts.len() <= PARTS, "{number}: {}", parts.len());
            let end = parts.last().map_or(Duration::ZERO, |part| part.until);
            assert_eq!(end, Duration::from_nanos(number * reading), "{number}");
        }
        let last = mark(99_999 * reading, 49_999 * reading, 0);
        let parts = load.parts(last, 0, true);
        assert!(parts.len() >= PARTS / 2, "{}", parts.len());
        let all = &parts[..parts.len() - 1];
        assert!(all.iter().all(|part| part.mpi == Some(0.5)), "{all:?}");
    }

    /// Reads a process that computes, and is inside MPI without a CPU, for half of the time each.
    fn read(process: &mut Metered, at_ns: u64) {
        let thread = abi::Thread {
            closed_ns: at_ns / 2,
            waited_ns: at_ns / 2,
            ..abi::Thread::default()
        };
        let counters = Counters {
            cpu_ns: at_ns / 2,
            runqueue_ns: at_ns / 2,
            ..Counters::default()
        };
        process.read(&Inputs {
            counters: Some(counters),
            threads: &[(1, thread)],
            has_waits: true,
            probes: &[probe("MPI_Send")],
            ..Inputs::at(at_ns)
        });
    }

    #[test]
    fn the_time_of_all_processes_is_each_ones_own_and_nothing_while_none_is_measured() {
        // Process 0 ends after 10 s; process 1 runs from 20 s to 30 s.
        let mut profile = Profile {
            processes: vec![Metered::new(100, Some(0), 0), Metered::new(101, Some(1), 1)],
            ..Profile::default()
        };
        for at_ns in (0..=60).map(|half| half * LENGTH_NS / 2) {
            profile.read_ns = at_ns;
            for (slot, lives) in [(0, 0..=20), (1, 40..=60)] {
                if lives.contains(&(at_ns * 2 / LENGTH_NS)) {
                    read(&mut profile.processes[slot], at_ns);
                }
            }
            profile.add_time(true);
        }
        let half = 10 * LENGTH_NS;
        let total = profile.time(true);
        assert_eq!(
            (total.on_cpu.outside_ns, total.ready.inside_ns, total.all_ns()),
            (half, half, 2 * half)
        );
        let buckets = profile.time_buckets(0, true);
        assert_eq!(buckets.len(), 30);
        for bucket in &buckets {
            let is_gap = bucket.from.as_secs() >= 10 && bucket.until.as_secs() <= 20;
            let all_ns = if is_gap { 0 } else { LENGTH_NS };
            assert_eq!(bucket.parts.all_ns(), all_ns, "{bucket:?}");
        }
        // Without probes of MPI its part is unknown.
        let mut unknown = Profile {
            processes: profile.processes,
            ..Profile::default()
        };
        unknown
            .processes
            .iter_mut()
            .for_each(|process| process.added = None);
        let total = unknown.time(false);
        assert_eq!(
            (total.on_cpu.unknown_ns, total.ready.unknown_ns, total.all_ns()),
            (half, half, 2 * half)
        );
    }

    #[test]
    fn the_series_of_the_largest_job_take_at_most_16_mib() {
        let of_a_process = Thinned::<PartEnd, PARTS>::BYTES_MAX + Iterations::PARTS_BYTES_MAX;
        let of_all = Thinned::<TimeParts, BUCKETS_MAX>::BYTES_MAX;
        let bytes = abi::PROCESSES_MAX as usize * of_a_process + of_all;
        assert!(bytes <= 16 << 20, "{bytes}");
    }
}
