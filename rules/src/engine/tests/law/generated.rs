//! Rules as text, put together at random from what the language has: windows of every kind, folds of every kind.

use proptest::prelude::*;
use proptest::sample::select;

const PROBES: &str = "\
rule: law
about: whatever
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin: {role: master, entry: b}
  end: {role: master, return: e}
  send: {role: master, span: s}
  reply: {role: master, return: r}
  compute: {role: worker, span: c}
  enter: {role: worker, entry: i}
  leave: {role: worker, return: o}
capture:
  begin.number: iteration
  begin.workers: nw
  end.number: last
  send.bytes: arg(0) * 1B
  send.number: current
  send.tasks: tasks
  send.to: to
  reply.from: from
  compute.number: current
  compute.work: work
  enter.number: current
  leave.number: current
";

/// How a window is written, and whether its instances have one border each or one in each worker.
fn window() -> impl Strategy<Value = String> {
    let keys = select(vec![
        "key: number",
        "key: number",
        "key: {begin: number, end: number, compute: number}",
        "key: {begin: number, end: number, compute: number}",
        "key: {begin: number, end: number, send: number}",
        "",
    ]);
    let shared = (select(vec!["from: begin, to: end", "from: begin"]), keys);
    let borders = prop_oneof![
        4 => shared.prop_map(|(borders, key)| [borders, key].map(String::from).to_vec()),
        1 => Just(vec!["from: enter, to: leave".to_string(), "key: number".to_string()]),
    ];
    let more = select(vec![
        "",
        "",
        "",
        "skip: 1",
        "straddle: drop",
        "discard: any(send.bytes > 4KB)",
        "discard: max(compute.duration) > 350ms",
        "complete: {worker: count(compute) >= 1}",
    ]);
    (borders, more).prop_map(|(mut parts, more)| {
        parts.push(more.to_string());
        parts.retain(|part| !part.is_empty());
        format!("{{{}}}", parts.join(", "))
    })
}

/// A formula over the hits of one probe, and whether it is a table.
fn fold() -> impl Strategy<Value = (String, bool)> {
    let of = select(vec![
        ("compute", "compute.duration"),
        ("compute", "compute.work"),
        ("compute", "compute.work * 3 + 0.1"),
        ("compute", "compute.duration / (compute.work + 1)"),
        ("send", "send.bytes"),
        ("send", "send.duration"),
        ("send", "send.time"),
        ("reply", "reply.from"),
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
            _ => "compute.work",
        };
        match by {
            None => (formula, false),
            Some(0) => (format!("{formula} by process"), true),
            Some(_) => (format!("{formula} by {key}"), true),
        }
    })
}

/// A whole rule; not every one of them checks.
pub(super) fn any_rule() -> impl Strategy<Value = String> {
    let metrics = prop::collection::vec((fold(), prop::bool::weighted(0.2), 0usize..4), 1..5);
    let tune = (1u32..3, 1u32..3, select(vec!["minimize", "maximize"]));
    (window(), prop::option::weighted(0.3, window()), metrics, tune).prop_map(|(first, second, metrics, tune)| {
        let mut text = format!("{PROBES}windows:\n  one: {first}\n");
        let two = second.map(|second| format!("  two: {second}\n"));
        text.extend(two.clone());
        text.push_str("metrics:\n  pace: {in: one, value: count(compute) / one.duration}\n");
        for (number, ((formula, table), other, past)) in metrics.iter().enumerate() {
            let home = if *other && two.is_some() { "two" } else { "one" };
            text.push_str(&format!("  m{number}: {{in: {home}, value: \"{formula}\"}}\n"));
            let back = match (past, table) {
                (1, false) => format!("count(m{number} over 3)"),
                (2, false) => format!("last(m{number} over 2)"),
                (3, _) => format!("m{number}[-1]"),
                _ => continue,
            };
            text.push_str(&format!("  p{number}: {{in: {home}, value: \"{back}\"}}\n"));
        }
        let (hold, over, aim) = tune;
        text.push_str(&format!(
            "tune:\n  - set: chunk\n    role: worker\n    every: one\n    value: count(compute)\n    when: count(compute) >= 2\n    for: {hold}\n    finding: \"{{count(compute)}} in {{one.duration}}\"\n    guard: {{{aim}: pace, over: {over}, undo_if_worse_by: 5%}}\n"
        ));
        text
    })
}
