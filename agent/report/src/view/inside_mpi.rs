//! The share of the time inside MPI.

use profile::format::{percent, plural};
use profile::{Rates, Snapshot};

use super::parts;

/// Smaller shares of the time are shown as less than this.
const POINTS_SHOWN: f64 = 0.001;

/// The mean share of the time inside MPI over the ranks of which it is known, and the part of the session that it
/// covers; `None` if MPI is not probed.
pub(super) fn line(snapshot: &Snapshot, rates: &[Rates], is_overall: bool) -> Option<String> {
    let known: Vec<f64> = rates.iter().filter_map(|rates| rates.mpi).collect();
    let is_unknown = snapshot.processes.iter().any(|process| process.is_mpi_unknown);
    let number = known.len() as f64;
    if known.is_empty() {
        let text = "inside MPI unknown: no MPI call of these ranks began or ended";
        return is_unknown.then(|| format!("{:23}{text}", ""));
    }
    if known.len() < rates.len() && !is_unknown {
        return None;
    }
    let about = parts::mpi_mark(snapshot);
    // The rest of the time inside MPI is waiting for other ranks, and the work of the calls.
    let waiting = rates.iter().filter(|rates| rates.mpi.is_some());
    let waiting: Option<f64> = waiting.map(|rates| rates.mpi_waiting).sum();
    let waiting = waiting.map_or_else(String::new, |waiting| {
        let points = match waiting / number {
            part if part > 0.0 && part < POINTS_SHOWN => "<0.1".to_owned(),
            part => format!("{about}{}", percent(part).trim_end_matches(" %")),
        };
        format!(" ({points} points of it waiting for a CPU)")
    });
    let part = snapshot.watched_ns(true) / snapshot.watched_ns(false).max(1.0);
    let of = match rates.len() - known.len() {
        0 if is_overall && part < parts::WATCHED_FULLY => {
            format!("   (of {} of the time: before, no call was seen)", percent(part))
        }
        0 => String::new(),
        unknown => format!("   (unknown of {}: no call seen)", plural(unknown, "rank")),
    };
    let mpi = known.iter().sum::<f64>() / number;
    let (inside, outside) = (percent(mpi), percent((1.0 - mpi).max(0.0)));
    Some(format!(
        "{:23}inside MPI {about}{inside}{waiting}   outside {about}{outside}{of}",
        ""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::screen::{closing, summary, tests::snapshot};

    #[test]
    fn ranks_of_which_no_mpi_call_was_seen_are_not_outside_mpi() {
        let mut snapshot = snapshot(2);
        let inside = |snapshot: &Snapshot| {
            let lines = summary(snapshot);
            lines.iter().find(|line| line.contains("inside MPI")).cloned()
        };
        let mut hide = |number: usize| {
            let process = &mut snapshot.processes[number];
            process.is_mpi_unknown = true;
            let rates = process.rates.as_mut().unwrap();
            (rates.mpi, rates.mpi_waiting) = (None, None);
            inside(&snapshot).unwrap()
        };
        insta::assert_snapshot!([hide(1), hide(0)].join("\n"), @"
        inside MPI 98 % (65 points of it waiting for a CPU)   outside 1.9 %   (unknown of 1 rank: no call seen)
        inside MPI unknown: no MPI call of these ranks began or ended
        ");
    }

    #[test]
    fn shares_of_mpi_are_of_the_time_in_which_calls_were_seen() {
        let mut snapshot = snapshot(2);
        for process in &mut snapshot.processes {
            process.overall = process.rates;
            let elapsed_ns = snapshot.elapsed.as_nanos() as u64;
            process.mpi_unknown_ns = elapsed_ns * 3 / 4;
            process.functions[0].time_ns = Some(elapsed_ns / 8);
        }
        let lines = closing(&snapshot, false);
        let shown = |part: &str| lines.iter().find(|line| line.contains(part)).unwrap().trim();
        insta::assert_snapshot!([shown("inside MPI"), shown("MPI_Wait")].join("\n"), @"
        inside MPI 98 % (65 points of it waiting for a CPU)   outside 1.9 %   (of 25 % of the time: before, no call was seen)
        MPI_Wait                 1 600         -     50 %  ##############
        ");
    }
}
