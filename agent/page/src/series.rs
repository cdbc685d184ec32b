//! Series of the charts. The run is divided into equal parts; each part has its measured value, or none.

use std::time::Duration;

use profile::{IterationView, LoadView, PaceView, ProcessView, Snapshot, TimeBucket, TimeParts};
use report::view;

use crate::model::{PacePart, RankRow, TimeBand, TimeChart, Timeline, TimelineMark};

/// Number of parts of the run in the heat map: twice as many as a process has.
const PARTS: usize = 128;
/// Maximum number of rows in the heat map of ranks over time.
const RANKS_MAX: usize = 512;

pub(crate) fn timeline(snapshot: &Snapshot, marks: Vec<TimelineMark>) -> Timeline {
    let end_s = snapshot.elapsed.as_secs_f64();
    let has_mpi = snapshot.job.mpi.is_some();
    let (quantity, of): (_, fn(&LoadView) -> Option<f64>) = match has_mpi {
        true => ("inside MPI", |part| part.mpi),
        false => ("on a CPU", |part| part.cpu),
    };
    let loads = snapshot
        .processes
        .iter()
        .filter(|process| !process.load.is_empty());
    let rows = loads.clone().take(RANKS_MAX).map(|process| RankRow {
        name: process.name("process"),
        cells: resampled(process, end_s, of),
    });
    Timeline {
        end_s,
        pace: snapshot.sequence.iteration.as_ref().map(pace).unwrap_or_default(),
        time: time(snapshot),
        quantity,
        ranks: rows.collect(),
        ranks_omitted: loads.count().saturating_sub(RANKS_MAX),
        marks,
    }
}

pub(crate) fn name(rank: Option<u32>, pid: i32) -> String {
    match rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {pid}"),
    }
}

fn pace(iteration: &IterationView) -> Vec<PacePart> {
    let part = |part: &PaceView| {
        let length = Duration::from_nanos((part.mean_ns * part.count as f64) as u64);
        PacePart {
            from_s: part.until.saturating_sub(length).as_secs_f64(),
            until_s: part.until.as_secs_f64(),
            count: part.count,
            mean_s: part.mean_ns / 1e9,
            least_s: part.least_ns / 1e9,
            most_s: part.most_ns / 1e9,
        }
    };
    iteration.parts.iter().map(part).collect()
}

/// The value of a process in the middle of each part of the run.
fn resampled(process: &ProcessView, end_s: f64, of: fn(&LoadView) -> Option<f64>) -> Vec<Option<f64>> {
    // The first load begins when the process was first watched, not at the begin of the session.
    let last_s = process.load.last().map_or(0.0, |part| part.until.as_secs_f64());
    let first_s = last_s - process.watched_ns as f64 / 1e9;
    let middle = |part: usize| (part as f64 + 0.5) * end_s / PARTS as f64;
    let mut loads = process.load.iter().peekable();
    let mut at = |time_s: f64| {
        while loads.next_if(|part| part.until.as_secs_f64() < time_s).is_some() {}
        let share = of(loads.peek().filter(|_| time_s >= first_s)?)?;
        // More digits are noise, and most of the page's data.
        Some((share * 1e3).round() / 1e3)
    };
    (0..PARTS).map(|part| at(middle(part))).collect()
}

/// A part of the time: its name, the state of the threads, where they were, and its nanoseconds.
type Band = (&'static str, &'static str, &'static str, fn(&TimeParts) -> u64);

/// From the bottom of the chart to its top.
const BANDS: [Band; 9] = [
    ("computing", "cpu", "out", |parts| parts.on_cpu.outside_ns),
    ("on a CPU, inside MPI or not", "cpu", "unknown", |parts| {
        parts.on_cpu.unknown_ns
    }),
    ("on a CPU inside MPI", "cpu", "in", |parts| parts.on_cpu.inside_ns),
    ("waiting for a CPU inside MPI", "wait", "in", |parts| {
        parts.ready.inside_ns
    }),
    (
        "waiting for a CPU, inside MPI or not",
        "wait",
        "unknown",
        |parts| parts.ready.unknown_ns,
    ),
    ("waiting for a CPU outside MPI", "wait", "out", |parts| {
        parts.ready.outside_ns
    }),
    ("asleep inside MPI", "rest", "in", |parts| parts.asleep.inside_ns),
    ("asleep, inside MPI or not", "rest", "unknown", |parts| {
        parts.asleep.unknown_ns
    }),
    ("asleep outside MPI", "rest", "out", |parts| {
        parts.asleep.outside_ns
    }),
];

/// Of a program without MPI.
const BANDS_WITHOUT_MPI: [Band; 3] = [
    ("on a CPU", "cpu", "out", |parts| parts.on_cpu.all_ns()),
    ("waiting for a CPU", "wait", "out", |parts| parts.ready.all_ns()),
    ("asleep", "rest", "out", |parts| parts.asleep.all_ns()),
];

fn time(snapshot: &Snapshot) -> TimeChart {
    let buckets = &snapshot.time.buckets;
    let bands = match snapshot.job.mpi {
        Some(_) => &BANDS[..],
        None => &BANDS_WITHOUT_MPI,
    };
    let rows: Vec<_> = buckets.iter().map(|bucket| shares(bucket, bands)).collect();
    let mark = view::mpi_mark(snapshot);
    let band = |(number, (name, state, place, of)): (usize, &Band)| {
        let occurs = buckets.iter().any(|bucket| of(&bucket.parts) > 0);
        occurs.then(|| TimeBand {
            name: format!("{mark}{name}"),
            state,
            place,
            shares: rows
                .iter()
                .map(|row| row.as_ref().map(|row| row[number]))
                .collect(),
        })
    };
    TimeChart {
        from_s: buckets.first().map_or(0.0, |bucket| bucket.from.as_secs_f64()),
        until_s: buckets.iter().map(|bucket| bucket.until.as_secs_f64()).collect(),
        bands: bands.iter().enumerate().filter_map(band).collect(),
    }
}

/// The share of each band, such that they add up to 1 although each has four digits; `None` if nothing was
/// measured.
fn shares(bucket: &TimeBucket, bands: &[Band]) -> Option<Vec<f64>> {
    let all_ns = bucket.parts.all_ns();
    let mut sum_ns = 0;
    let mut below = 0.0;
    let mut share = |(_, _, _, of): &Band| {
        sum_ns += of(&bucket.parts);
        let upto = (sum_ns as f64 / all_ns as f64 * 1e4).round();
        let share = (upto - below) / 1e4;
        below = upto;
        share
    };
    (all_ns > 0).then(|| bands.iter().map(&mut share).collect())
}

#[cfg(test)]
mod tests {
    use profile::TimeByMpi;

    use super::*;

    fn process(watched_s: f64, parts: &[(f64, Option<f64>)]) -> ProcessView {
        let load = |(until, mpi): &(f64, Option<f64>)| LoadView {
            until: Duration::from_secs_f64(*until),
            mpi: *mpi,
            ..LoadView::default()
        };
        ProcessView {
            watched_ns: (watched_s * 1e9) as u64,
            load: parts.iter().map(load).collect(),
            ..ProcessView::default()
        }
    }

    #[test]
    fn a_part_of_the_run_has_the_value_that_was_measured_in_it_or_none() {
        // Watched from 2 s on, not measured from 4 s to 6 s.
        let parts = [(4.0, Some(0.5)), (6.0, None), (8.0, Some(0.1))];
        let cells = resampled(&process(6.0, &parts), 10.0, |part| part.mpi);
        let at = |time_s: f64| cells[(time_s / 10.0 * PARTS as f64) as usize];
        assert_eq!(
            [1.0, 3.0, 5.0, 7.0, 9.0].map(at),
            [None, Some(0.5), None, Some(0.1), None]
        );
    }

    #[test]
    fn all_bands_add_up_and_a_gap_has_none() {
        let part = |outside_ns, inside_ns, unknown_ns| TimeByMpi {
            outside_ns,
            inside_ns,
            unknown_ns,
        };
        let parts = TimeParts {
            on_cpu: part(1, 1, 1),
            ready: part(3, 0, 0),
            asleep: part(0, 1, 0),
        };
        let bucket = |until_s, parts| TimeBucket {
            from: Duration::from_secs(until_s - 1),
            until: Duration::from_secs(until_s),
            parts,
        };
        let mut snapshot = Snapshot::default();
        snapshot.time.buckets = vec![
            bucket(1, parts),
            bucket(2, TimeParts::default()),
            bucket(3, parts),
        ];
        for (mpi, names) in [
            (None, vec!["on a CPU", "waiting for a CPU", "asleep"]),
            (
                Some(("MPICH".to_owned(), None)),
                vec![
                    "computing",
                    "on a CPU, inside MPI or not",
                    "on a CPU inside MPI",
                    "waiting for a CPU outside MPI",
                    "asleep inside MPI",
                ],
            ),
        ] {
            snapshot.job.mpi = mpi;
            let chart = time(&snapshot);
            assert_eq!(
                chart
                    .bands
                    .iter()
                    .map(|band| band.name.as_str())
                    .collect::<Vec<_>>(),
                names
            );
            assert_eq!(
                (chart.from_s, chart.until_s.as_slice()),
                (0.0, &[1.0, 2.0, 3.0][..])
            );
            let sums = [0, 1, 2].map(|bucket| {
                chart
                    .bands
                    .iter()
                    .map(|band| band.shares[bucket])
                    .sum::<Option<f64>>()
            });
            assert!(sums[1].is_none(), "{sums:?}");
            for sum in [sums[0], sums[2]] {
                assert!(sum.is_some_and(|sum| (sum - 1.0).abs() < 1e-9), "{sums:?}");
            }
        }
    }
}
