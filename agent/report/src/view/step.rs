//! The lines on a step of the detected loop, and of the one before it.

use std::time::Duration;

use profile::format::{count, duration, percent, plural, time, times};
use profile::{IterationView, LeftLoop, Snapshot};

use super::parts;

/// Minimum change of the pace over the run that is mentioned.
const CHANGE_SHOWN: f64 = 0.05;
/// From this factor on the factor is shown, because 99 and 100 % shorter look alike.
const FACTOR_SHOWN: f64 = 2.0;

/// If the first and the last quarter of the iterations differ by more, their mean is the time of none of them.
const FACTOR_OF_ONE_LOOP: f64 = 100.0;

/// The time of an iteration, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum StepTime {
    Recent(f64),
    /// Of all iterations that were seen.
    Mean(f64),
    /// On both sides of the change that the guard kept.
    Around {
        before_ns: f64,
        after_ns: f64,
    },
}

/// The MPI calls or parallel regions of an iteration, in words. Polls, such as MPI_Iprobe, are not among them.
pub fn calls_each(calls: f64, snapshot: &Snapshot) -> String {
    let noun = snapshot.sequence.steps.noun();
    let mut called = snapshot
        .functions()
        .into_iter()
        .filter(|function| function.calls > 0);
    let polls = match called.any(|function| parts::is_polling(&function.name)) {
        true => " besides polls",
        false => "",
    };
    match calls.round() {
        1.0 => format!("1 {noun} each{polls}"),
        calls => format!("{} {noun}s each{polls}", count(calls)),
    }
}

/// Where a span of time lies relative to the changes, as a suffix.
pub(super) type BesideChanges<'a> = &'a dyn Fn((Duration, Duration)) -> &'static str;

pub(super) fn step_line(
    iteration: &IterationView,
    time: StepTime,
    snapshot: &Snapshot,
    until: Option<String>,
    is_sampled: bool,
    probes: Option<(f64, &str)>,
    beside: BesideChanges<'_>,
) -> String {
    let sequence = &snapshot.sequence;
    let calls = calls_each(iteration.calls, snapshot);
    // The times before and after a change of ours say more than those of the quarters.
    let is_around = matches!(time, StepTime::Around { .. });
    let change = iteration.change.filter(|_| !is_around);
    let is_no_step = change.is_some_and(|change| change.max(1.0 / change) > FACTOR_OF_ONE_LOOP);
    let change = change.filter(|_| !is_no_step).map_or_else(String::new, quarters);
    let over = if iteration.is_over {
        "; the loop has ended"
    } else {
        ""
    };
    let seen = match (is_sampled, sequence.unseen) {
        (true, _) => " in sampling windows",
        (false, 0) => "",
        (false, _) => " seen",
    };
    let has_ranks = snapshot.processes.len() > 1;
    let of = iteration.rank.filter(|_| has_ranks);
    let of = of.map_or_else(String::new, |rank| format!(" of rank {rank}"));
    let is_over = iteration.is_over || until.is_some();
    let takes = if is_over { "took" } else { "takes" };
    let about = if is_sampled { "~" } else { "" };
    let time = match time {
        StepTime::Recent(ns) => format!("{takes} {about}{}", duration(ns)),
        StepTime::Mean(ns) => {
            let beside = iteration.span().map_or("", beside);
            match beside == parts::STRADDLES {
                true => "has no mean time, as tuneagent changed the program meanwhile".to_owned(),
                false => format!("{takes} {about}{} on average{beside}", duration(ns)),
            }
        }
        StepTime::Around { before_ns, after_ns } => {
            let (before, after) = (duration(before_ns), duration(after_ns));
            format!("{takes} {about}{after} after the last change, {about}{before} before the first")
        }
    };
    let until = until.unwrap_or_default();
    let what = match is_no_step {
        true => format!(
            "the steps of the detected loop differ by more than {FACTOR_OF_ONE_LOOP} times, so they are no steps of the program"
        ),
        false => format!("one step of the detected loop {time}"),
    };
    let probes = probes.map_or_else(String::new, |(share, mark)| {
        format!("; probes take {mark}{} of a watched step", percent(share))
    });
    format!(
        " {what}   ({}{of}{seen}{until}, {calls}{over}{change}{probes})",
        plural(usize::try_from(iteration.count).unwrap_or(usize::MAX), "step"),
    )
}

/// How the last quarter of the iterations differs from the first, by the ratio of their times.
fn quarters(change: f64) -> String {
    match change {
        _ if change >= FACTOR_SHOWN => {
            format!("; last quarter {} times the first", times(change))
        }
        _ if change * FACTOR_SHOWN <= 1.0 => {
            format!("; first quarter {} times the last", times(1.0 / change))
        }
        _ if change >= 1.0 + CHANGE_SHOWN => {
            format!("; last quarter {} longer than the first", percent(change - 1.0))
        }
        _ if change <= 1.0 - CHANGE_SHOWN => {
            format!("; last quarter {} shorter than the first", percent(1.0 - change))
        }
        _ => String::new(),
    }
}

/// The loop before the last one, in the form of the line above it: other calls are in its steps, so the times of
/// a step of both say nothing about the pace.
pub(super) fn left_loop(left: &LeftLoop, snapshot: &Snapshot, beside: &str) -> String {
    let pace = left.pace;
    format!(
        " before it, from {} to {}, one step of another loop took {} on average{beside}   ({}, {})",
        time(left.from),
        time(pace.until),
        duration(pace.mean_ns),
        plural(usize::try_from(pace.count).unwrap_or(usize::MAX), "step"),
        calls_each(left.calls, snapshot),
    )
}

#[cfg(test)]
mod tests {
    use profile::{FunctionTotals, ProcessView, Steps};

    use super::*;

    #[test]
    fn one_call_or_region_of_an_iteration_is_in_the_singular() {
        let calls_of = |function: &str, steps| {
            let called = FunctionTotals {
                name: function.to_owned(),
                calls: 240,
                ..FunctionTotals::default()
            };
            let process = ProcessView {
                functions: vec![called],
                ..ProcessView::default()
            };
            let mut snapshot = Snapshot {
                processes: vec![process],
                ..Snapshot::default()
            };
            snapshot.sequence.steps = steps;
            snapshot
        };
        let regions = calls_of("GOMP_parallel", Steps::Regions);
        assert_eq!(calls_each(1.0, &regions), "1 parallel region each");
        let calls = calls_of("MPI_Send", Steps::MpiCalls);
        assert_eq!(calls_each(7.0, &calls), "7 MPI calls each");
        let calls = calls_of("MPI_Iprobe", Steps::MpiCalls);
        assert_eq!(calls_each(2.0, &calls), "2 MPI calls each besides polls");
    }
}
