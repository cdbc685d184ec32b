//! Formulas of generated rules. The prefix of a metric's name is its feature, so that the number of values of
//! each feature can be counted.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::windows::Drawn;

/// A metric: its feature and its formula. `NAME` is its window, `OUTER` the enclosing window, `INNER` the
/// inner one.
type Formula = (&'static str, &'static str);

/// Formulas over hits for a window of any kind.
const OF_HITS: &[Formula] = &[
    ("run", "count(send over run)"),
    ("run", "sum(compute.work over run) by process"),
    ("run", "max(compute.duration over run)"),
    ("carried", "mean(n_NAME over run)"),
    ("carried", "max(k_NAME over run)"),
    ("ewma", "ewma(n_NAME, 40%)"),
    ("ewma", "ewma(sum(compute.duration), 0.3)"),
    ("keyed_ewma", "ewma(n_NAME, 0.5 by k_NAME over run)"),
    ("newest", "mean(compute.duration over 5 compute)"),
    ("newest", "sum(send.tasks over 7 sends)"),
    ("newest", "stddev(compute.work over 9 compute)"),
    ("newest", "sum(compute.work over 12 compute) by process"),
    ("kept", "sum(compute.work * n_NAME)"),
    ("kept", "sum(send.bytes where send.time > mean(send.time))"),
    ("before", "n_NAME[-1]"),
    ("before", "sum(busy_NAME[-1])"),
    ("last", "mean(n_NAME over 3)"),
    ("row", "busy_NAME[2]"),
    ("text", "count(compute where compute.host == \"host1\")"),
];

const OF_PAIRS: &[Formula] = &[
    ("pairs", "count(chunk)"),
    ("pairs", "sum(chunk.compute.duration) by process"),
    ("pairs", "mean(chunk.compute.time - chunk.send.time)"),
    (
        "pairs",
        "sum(chunk.send.tasks / chunk.compute.duration) by chunk.send.to",
    ),
    ("pairs", "max(chunk.compute.duration)"),
    ("newest_pairs", "mean(chunk.compute.duration over 4 chunks)"),
    ("kept_pairs", "sum(chunk.compute.work * k_NAME)"),
    ("run_pairs", "count(chunk over run)"),
];

const OF_INNER: &[Formula] = &[
    ("inside", "count(INNER)"),
    ("inside", "sum(n_INNER)"),
    ("inside", "max(k_INNER)"),
    ("inside", "last(n_INNER)"),
    ("inside_pace", "mean(pace_INNER)"),
];

const OF_OUTER: &[Formula] = &[
    ("so_far", "sum(send.tasks over OUTER)"),
    ("so_far", "count(compute over OUTER)"),
    ("so_far", "max(compute.duration over OUTER)"),
    ("so_far", "sum(compute.work over OUTER) by process"),
    ("so_far", "last(send.to over OUTER)"),
    ("so_far", "sum(send.tasks over OUTER) - sum(send.tasks)"),
    ("outer_index", "OUTER.index"),
    ("outer_before", "n_OUTER[-1]"),
    ("outer_before", "sum(busy_OUTER[-1])"),
];

const OF_TIMES: &[Formula] = &[
    ("measure", "sum(cpu.time)"),
    ("measure", "max(threads)"),
    ("measure", "mean(mpi.time / cpu.time)"),
];

const OF_TICKS: &[Formula] = &[
    ("calls", "sum(mpi.time where call == \"MPI_Send\")"),
    (
        "calls",
        "sum(mpi.calls where call in [\"MPI_Send\", \"MPI_Recv\"]) by process",
    ),
    ("totals", "sum(compute.duration) by process"),
    ("totals", "mean(send.duration)"),
    ("timed_hits", "max(compute.duration)"),
    ("timed_hits", "sum(compute.work)"),
    ("timed_hits", "quantile(send.bytes, 50%) by send.to"),
];

const AT_BOUNDARIES: &[Formula] = &[
    (
        "at_border",
        "sum(cpu.time at one.end) - sum(cpu.time at one.begin)",
    ),
    ("at_border", "max(memory.resident at one.begin)"),
];

/// The choice of a metric and a window.
pub(super) type Choice = (Index, Index);

fn kinds(window: &Drawn, has_inner: bool, joined: bool) -> Vec<&'static [Formula]> {
    // Formulas for nested windows apply to few windows, so they are more frequent there.
    let mut kinds = vec![OF_HITS, OF_HITS, OF_HITS, OF_TIMES];
    if joined {
        kinds.extend([OF_PAIRS, OF_PAIRS]);
    }
    if window.is_timed() {
        kinds.extend([OF_TICKS, OF_TICKS, OF_TICKS]);
        kinds.extend(joined.then_some([OF_PAIRS; 4]).into_iter().flatten());
    } else {
        kinds.extend((window.name == "one").then_some(AT_BOUNDARIES));
    }
    if window.within.is_some() {
        kinds.extend([OF_OUTER, OF_OUTER, OF_OUTER]);
    }
    if has_inner {
        kinds.extend([OF_INNER, OF_INNER]);
    }
    kinds
}

/// The chosen metrics, one line of the file each, including those of pairs if there are any.
pub(super) fn chosen(choices: &[Choice], windows: &[Drawn], joined: bool) -> String {
    let mut out = String::new();
    for (number, (window, which)) in choices.iter().enumerate() {
        let window = window.get(windows);
        let inner = windows.iter().find(|inner| inner.within == Some(window.name));
        let kinds = kinds(window, inner.is_some(), joined);
        let index = which.index(kinds.len() * 64);
        let formulas = kinds[index / 64];
        let (word, formula) = formulas[index % 64 % formulas.len()];
        let formula = formula
            .replace("NAME", window.name)
            .replace("OUTER", window.within.unwrap_or_default())
            .replace("INNER", inner.map_or("", |inner| inner.name));
        out.push_str(&metric(&format!("{word}{number}"), window.name, &formula));
    }
    out
}

pub(super) fn metric(name: &str, window: &str, formula: &str) -> String {
    format!("  {name}: {{in: {window}, value: '{formula}'}}\n")
}

/// A formula over the hits of one probe, and whether it is a table.
pub(super) fn fold() -> impl Strategy<Value = (String, bool)> {
    let of = select(vec![
        ("compute", "compute.duration"),
        ("compute", "compute.work"),
        ("compute", "compute.work * 3 + 0.1"),
        ("compute", "compute.duration / (compute.work + 1)"),
        ("send", "send.bytes"),
        ("send", "send.duration"),
        ("send", "send.time"),
        ("reply", "reply.from"),
        ("chunk", "chunk.compute.duration"),
        ("chunk", "chunk.send.tasks"),
    ]);
    let reduction = select(vec![
        "sum", "sum", "mean", "stddev", "min", "max", "first", "last", "only", "count", "quantile", "any",
        "all", "slope", "product",
    ]);
    let filter = select(vec![None, None, None, Some(0), Some(1), Some(1)]);
    let by = select(vec![None, None, Some(0), Some(1)]);
    (of, reduction, filter, by).prop_map(|((probe, of), reduction, filter, by)| {
        let chosen = [
            format!("{probe}.time > mean({probe}.time)"),
            format!("{probe}.time > 1200ms"),
        ];
        let chosen = filter.map_or(String::new(), |which: usize| format!(" where {}", chosen[which]));
        let formula = match reduction {
            "count" => format!("count({probe}{chosen})"),
            "quantile" => format!("quantile({of}{chosen}, 70%)"),
            "any" | "all" => format!("{reduction}({probe}.time > 1900ms{chosen})"),
            "slope" => format!("slope({of}{chosen}, {probe}.time)"),
            "product" => format!("product({probe}.time / 1s{chosen})"),
            _ => format!("{reduction}({of}{chosen})"),
        };
        let key = match probe {
            "send" => "send.to",
            "reply" => "reply.from",
            "chunk" => "chunk.send.to",
            _ => "compute.work",
        };
        match by {
            None => (formula, false),
            Some(0) => (format!("{formula} by process"), true),
            Some(_) => (format!("{formula} by {key}"), true),
        }
    })
}
