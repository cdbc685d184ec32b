//! Series of the charts. The run is divided into equal parts; each part has its measured value, or none.

use std::time::Duration;

use profile::{IterationView, LoadView, PaceView, ProcessView, Snapshot};

use crate::model::{PacePart, RankRow, SharePart, Timeline, TimelineMark};

/// Number of parts of the run.
const PARTS: usize = 240;
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
        name: name(process.rank, process.pid),
        cells: resampled(process, end_s, of),
    });
    Timeline {
        end_s,
        pace: snapshot.sequence.iteration.as_ref().map(pace).unwrap_or_default(),
        shares: shares(snapshot, end_s),
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
    let at = |time_s: f64| {
        let part = process
            .load
            .iter()
            .find(|part| part.until.as_secs_f64() >= time_s);
        of(part.filter(|_| time_s >= first_s)?)
    };
    (0..PARTS).map(|part| at(middle(part))).collect()
}

fn shares(snapshot: &Snapshot, end_s: f64) -> Vec<SharePart> {
    let rows = |of| -> Vec<Vec<Option<f64>>> {
        let processes = snapshot
            .processes
            .iter()
            .filter(|process| !process.load.is_empty());
        processes.map(|process| resampled(process, end_s, of)).collect()
    };
    let (cpu, waiting) = (rows(|part| part.cpu), rows(|part| part.runqueue));
    let mean = |rows: &[Vec<Option<f64>>], part: usize| {
        let values: Vec<f64> = rows.iter().filter_map(|row| row[part]).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let width = end_s / PARTS as f64;
    let part = |part: usize| {
        Some(SharePart {
            from_s: part as f64 * width,
            until_s: (part + 1) as f64 * width,
            cpu: mean(&cpu, part)?,
            waiting: mean(&waiting, part)?,
        })
    };
    (0..PARTS).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
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
}
