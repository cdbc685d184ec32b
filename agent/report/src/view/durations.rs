//! Durations of calls of functions that were requested by name, as text: number, mean, ranks, a bar for each
//! power of two.

use std::collections::BTreeSet;

use profile::format::{count, duration, plural};
use profile::{FunctionTotals, Histogram, ProcessView, Snapshot};

use super::parts::Accuracy;

/// Columns of the longest bar.
const BAR_COLUMNS: f64 = 40.0;

/// Maximum number of functions shown; the report has all.
const FUNCTIONS_SHOWN: usize = 8;

/// A few lines for each function.
pub(super) fn lines(snapshot: &Snapshot) -> Vec<String> {
    let requested = snapshot.processes.iter().flat_map(|process| &process.functions);
    let requested = requested.filter(|function| function.durations.is_some());
    let names: BTreeSet<&str> = requested.map(|function| function.name.as_str()).collect();
    let all = snapshot.functions();
    let mut lines = Vec::new();
    for function in names
        .iter()
        .filter_map(|name| all.iter().find(|function| function.name == *name))
        .take(FUNCTIONS_SHOWN)
    {
        lines.push(String::new());
        lines.push(format!(
            " {}: {}{}",
            function.name,
            totals(function),
            by_rank(snapshot, &function.name)
        ));
        lines.extend(bars(function));
    }
    let rest = names.len().saturating_sub(FUNCTIONS_SHOWN);
    if rest > 0 {
        lines.push(format!(
            " and {}; the report has all",
            plural(rest, "more function")
        ));
    }
    lines
}

fn totals(function: &FunctionTotals) -> String {
    let calls = Accuracy::of(function.estimate, function.calls).calls(function.calls);
    let mean = function
        .mean_of_returned_ns()
        .map(|mean| format!(", mean {}", duration(mean)));
    format!("{calls}{}", mean.unwrap_or_default())
}

/// The ranks with the shortest and the longest mean.
fn by_rank(snapshot: &Snapshot, name: &str) -> String {
    let of = |process: &ProcessView| {
        let function = process.functions.iter().find(|function| function.name == name)?;
        Some((function.mean_of_returned_ns()?, process.name("pid")))
    };
    let mut means: Vec<_> = snapshot.processes.iter().filter_map(of).collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    match means.as_slice() {
        [least, .., most] => format!(
            ", from {} ({}) to {} ({})",
            duration(least.0),
            least.1,
            duration(most.0),
            most.1
        ),
        _ => String::new(),
    }
}

fn bars(function: &FunctionTotals) -> Vec<String> {
    let Some(histogram) = &function.durations else {
        return Vec::new();
    };
    let most = histogram
        .buckets()
        .map(|(_, calls)| calls)
        .max()
        .unwrap_or_default()
        .max(1);
    let bar = |(from_ns, calls): (u64, u64)| {
        let columns = (calls as f64 / most as f64 * BAR_COLUMNS).ceil() as usize;
        // Each bucket ends at twice its begin.
        let bounds = [from_ns, 2 * from_ns.max(1)].map(|ns| duration(ns as f64));
        let line = format!(
            " {:>18} {:>12}  {}",
            bounds.join(" to "),
            count(calls as f64),
            "#".repeat(columns)
        );
        line.trim_end().to_owned()
    };
    let mut lines: Vec<String> = histogram.buckets().map(bar).collect();
    lines.extend(not_in_it(function, histogram));
    lines
}

/// Notes that calls without a return are not in the bars.
fn not_in_it(function: &FunctionTotals, histogram: &Histogram) -> Option<String> {
    let missing = function.calls.saturating_sub(histogram.calls());
    // The current call of each rank has no duration yet, so a small part is ignored.
    (missing > function.calls / 100).then(|| {
        format!(
            "   ({} of the calls are in these bars)",
            count(histogram.calls() as f64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(rank: u32, calls: u64, length_ns: u64, seen: u64) -> ProcessView {
        // Every second call took twice as long.
        let [short, long] = [length_ns, 2 * length_ns].map(abi::Durations::bucket);
        let mut durations = vec![0; long + 1];
        durations[short] += seen.div_ceil(2);
        durations[long] += seen / 2;
        ProcessView {
            pid: 100 + rank as i32,
            rank: Some(rank),
            functions: vec![FunctionTotals {
                name: "step".into(),
                calls,
                time_ns: Some(calls * length_ns * 3 / 2),
                returned: calls,
                returned_ns: calls * length_ns * 3 / 2,
                durations: Some(Histogram::of(durations)),
                ..FunctionTotals::default()
            }],
            ..ProcessView::default()
        }
    }

    #[test]
    fn a_function_is_shown_with_its_mean_its_ranks_and_bars() {
        let snapshot = Snapshot {
            processes: vec![
                process(0, 1000, 1_000_000, 1000),
                process(1, 4000, 2_000_000, 500),
            ],
            ..Snapshot::default()
        };
        insta::assert_snapshot!(lines(&snapshot).join("\n"), @"

         step: 5 000 calls, mean 2.7 ms, from 1.5 ms (rank 0) to 3 ms (rank 1)
          524 us to 1.05 ms          500  ###########################
          1.05 ms to 2.1 ms          750  ########################################
          2.1 ms to 4.19 ms          250  ##############
           (1 500 of the calls are in these bars)
        ");
    }

    #[test]
    fn functions_that_were_not_requested_are_not_shown() {
        let mut snapshot = Snapshot {
            processes: vec![process(0, 10, 1_000, 10)],
            ..Snapshot::default()
        };
        snapshot.processes[0].functions[0].durations = None;
        assert!(lines(&snapshot).is_empty());
    }
}
