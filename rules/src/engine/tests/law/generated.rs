//! Random rules as text, composed of windows, folds and tunes of every kind.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::formulas::{chosen, fold, metric};
use super::windows::{Drawn, any_windows, folded_by_nodes};

const PROBES: &str = "\
rule: law
about: whatever
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin: {role: master, entry: b}
  end: {role: master, return: e}
  batch: {role: master, return: n}
  send: {role: master, span: s}
  reply: {role: master, return: r}
  compute: {role: worker, span: c}
  enter: {role: worker, entry: i}
  leave: {role: worker, return: o}
capture:
  begin.number: iteration
  begin.workers: nw
  end.number: last
  batch.id: batch_id
  batch.chunks: chunks
  send.bytes: arg(0) * 1B
  send.number: current
  send.tasks: tasks
  send.to: dest
  send.batch: batch_id
  reply.from: from
  compute.number: current
  compute.work: work
  compute.batch: batch_id
  enter.number: current
  leave.number: current
";

/// The keys of pairs. Without pairs, more hits need no order.
fn join() -> impl Strategy<Value = Option<String>> {
    let by = select(vec![
        "send.to = compute.process",
        "send.to = compute.process, send.number = compute.number",
        "send.to = compute.process, send.batch = compute.batch",
    ]);
    let join = by.prop_map(|by| format!("join:\n  chunk: {{of: [send, compute], by: [{by}]}}\n"));
    prop::option::weighted(0.45, join)
}

/// The metrics of every window, to which other formulas refer.
fn basics(window: &Drawn) -> String {
    let name = window.name;
    // Uses other probes than the conditions on the enclosing window, so that the order of those probes' hits
    // matters for the conditions alone.
    let worked = if window.works { "compute" } else { "reply" };
    let sent = if window.text.contains("tasks over") {
        "batch"
    } else {
        "send"
    };
    let busy = if window.works {
        "compute.duration"
    } else {
        "send.duration"
    };
    let line = |what: &str, formula: &str| metric(&format!("{what}_{name}"), name, formula);
    [
        line("n", &format!("count({worked})")),
        line("k", &format!("count({sent})")),
        line("busy", &format!("sum({busy}) by process")),
        line("pace", &format!("count({worked}) / {name}.duration")),
    ]
    .concat()
}

/// A tune in the window `NAME`; its target names the feature that it tests.
const TUNES: &[&str] = &[
    "set: chunk, role: worker, every: NAME, value: n_NAME, when: n_NAME >= 2, for: FOR, stale: 1, expect: n_NAME + 1, finding: '{n_NAME} in {NAME.duration}', guard: {AIM: pace_NAME, over: FOR, undo_if_worse_by: 5%}",
    "set: at_hit, role: master, every: send, value: count(send), stale: FOR",
    "set: at_hit, role: master, every: compute, value: sum(compute.duration) / 1ms, when: count(compute) > FOR, stale: 1",
    "set: bare, role: worker, every: NAME, value: n_NAME, stale: FOR, initial: 5",
    "set: bare, role: master, every: NAME, value: k_NAME, range: value > 3, stale: FOR",
    "set: of_each, role: worker, every: NAME, value: busy_NAME / 1ms, when: busy_NAME > 100ms, for: FOR, stale: FOR",
    "set: of_each, role: worker, every: NAME, value: 1, when: busy_NAME > 200ms, for: FOR, stale: 2, guard: {AIM: pace_NAME, over: 1, undo_if_worse_by: 5%}, independent: true",
    "set: while, role: worker, every: NAME, value: n_NAME, while: n_NAME > 3, for: FOR, stale: FOR",
    "finding: '{k_NAME} of {NAME.index}', every: NAME, when: n_NAME > k_NAME, for: FOR",
];

type Wanted = (Index, Index, u32, &'static str);

fn tunes(wanted: &[Wanted], windows: &[Drawn]) -> String {
    let mut out = "tune:\n".to_string();
    for (number, (which, window, hold, aim)) in wanted.iter().enumerate() {
        let window = window.get(windows);
        let text = which.get(TUNES);
        // With timed windows, the order of closing two windows is not determined, nor is the tune on trial.
        let text = match windows.iter().any(Drawn::is_timed) && !text.contains("independent") {
            true => text.replace(", guard:", ", independent: true, guard:"),
            false => (*text).to_string(),
        };
        let text = text
            .replace("NAME", window.name)
            .replace("FOR", &hold.to_string())
            .replace("AIM", aim)
            // Each target has one tune.
            .replace(", role", &format!("{number}, role"));
        out.push_str(&format!("  - {{{text}}}\n"));
    }
    out
}

/// A complete rule; not every rule passes the check.
pub(super) fn any_rule() -> impl Strategy<Value = String> {
    let folds = prop::collection::vec((fold(), any::<Index>(), 0usize..4), 1..4);
    let choices = prop::collection::vec((any::<Index>(), any::<Index>()), 6..14);
    let aim = select(vec!["minimize", "maximize"]);
    let wanted = prop::collection::vec((any::<Index>(), any::<Index>(), 1u32..3, aim), 1..4);
    let windows = prop_oneof![8 => any_windows(), 1 => folded_by_nodes()];
    (windows, join(), folds, choices, wanted).prop_map(|(windows, join, folds, choices, wanted)| {
        let join = join.filter(|_| windows.len() > 1);
        let joined = join.is_some();
        let mut text = format!("{PROBES}{}windows:\n", join.unwrap_or_default());
        for window in &windows {
            let of_pairs = ["chunk: send.number", "chunk: send.batch", "count(chunk)"];
            let of_hits = ["compute: number", "compute: batch", "count(compute)"];
            let mut line = window.text.clone();
            if !joined {
                for (pairs, hits) in of_pairs.into_iter().zip(of_hits) {
                    line = line.replace(pairs, hits);
                }
            }
            text.push_str(&format!("  {}: {line}\n", window.name));
        }
        text.push_str("metrics:\n");
        windows.iter().for_each(|window| text.push_str(&basics(window)));
        for (number, ((formula, table), home, past)) in folds.iter().enumerate() {
            let home = home.get(&windows).name;
            if !joined && formula.contains("chunk") {
                continue;
            }
            text.push_str(&metric(&format!("m{number}"), home, formula));
            let back = match (past, table) {
                (1, false) => format!("count(m{number} over 3)"),
                (2, false) => format!("last(m{number} over 2)"),
                (3, _) => format!("m{number}[-1]"),
                _ => continue,
            };
            text.push_str(&metric(&format!("p{number}"), home, &back));
        }
        text.push_str(&chosen(&choices, &windows, joined));
        text.push_str(&tunes(&wanted, &windows));
        text
    })
}
