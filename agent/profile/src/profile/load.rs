//! How a process spent its time over the run: parts of about equal length. When there are too many, adjacent
//! parts are merged in pairs. Reads nothing itself.

use std::time::Duration;

use super::Reading;
use crate::snapshot::LoadView;

/// Maximum number of parts.
const PARTS: usize = 64;

/// Minimum length of a part before any are merged, in nanoseconds.
const LENGTH_NS: u64 = 1_000_000_000;

/// Totals at the end of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PartEnd {
    at_ns: u64,
    mpi_ns: u64,
    is_mpi_unknown: bool,
    /// Time on a CPU and time waiting for one; `None` if /proc did not report it.
    cpu_ns: Option<(u64, u64)>,
}

impl PartEnd {
    fn of(reading: &Reading) -> PartEnd {
        PartEnd {
            at_ns: reading.at_ns,
            mpi_ns: reading.mpi_ns,
            is_mpi_unknown: reading.is_mpi_unknown,
            cpu_ns: reading
                .counters
                .map(|counters| (counters.cpu_ns, counters.runqueue_ns)),
        }
    }
}

/// The parts of one process.
#[derive(Debug)]
pub(super) struct LoadParts {
    /// The begin of the first part, then the end of each.
    marks: Vec<PartEnd>,
    length_ns: u64,
}

impl Default for LoadParts {
    fn default() -> LoadParts {
        LoadParts {
            marks: Vec::new(),
            length_ns: LENGTH_NS,
        }
    }
}

impl LoadParts {
    /// Adds a reading; the times of readings only grow.
    pub(super) fn add(&mut self, reading: &Reading) {
        self.enter(PartEnd::of(reading));
    }

    fn enter(&mut self, mark: PartEnd) {
        let is_within = |last: &PartEnd| mark.at_ns.saturating_sub(last.at_ns) < self.length_ns;
        if self.marks.last().is_some_and(is_within) {
            return;
        }
        self.marks.push(mark);
        // Including the part that has not ended.
        if self.marks.len() > PARTS {
            self.marks = self.marks.iter().copied().step_by(2).collect();
            self.length_ns *= 2;
        }
    }

    /// The parts up to the last reading, by the time since all probes were armed.
    pub(super) fn view(&self, last: &Reading, armed_ns: u64, has_mpi: bool) -> Vec<LoadView> {
        self.parts(PartEnd::of(last), armed_ns, has_mpi)
    }

    fn parts(&self, last: PartEnd, armed_ns: u64, has_mpi: bool) -> Vec<LoadView> {
        let goes_on = self.marks.last().is_some_and(|end| last.at_ns > end.at_ns);
        let ends = self.marks.iter().copied().chain(goes_on.then_some(last));
        let begins = self.marks.iter();
        let part = |(from, to): (&PartEnd, PartEnd)| {
            let length = to.at_ns.saturating_sub(from.at_ns).max(1) as f64;
            let share = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / length;
            let cpu = from.cpu_ns.zip(to.cpu_ns);
            let knows_mpi = has_mpi && !to.is_mpi_unknown;
            LoadView {
                until: Duration::from_nanos(to.at_ns.saturating_sub(armed_ns)),
                mpi: knows_mpi.then(|| share(from.mpi_ns, to.mpi_ns)),
                cpu: cpu.map(|(from, to)| share(from.0, to.0)),
                runqueue: cpu.map(|(from, to)| share(from.1, to.1)),
            }
        };
        begins.zip(ends.skip(1)).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_ns: u64, mpi_ns: u64, cpu_ns: u64) -> PartEnd {
        PartEnd {
            at_ns,
            mpi_ns,
            is_mpi_unknown: false,
            cpu_ns: Some((cpu_ns, at_ns - cpu_ns)),
        }
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
        let unread = PartEnd { cpu_ns: None, ..last };
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
}
