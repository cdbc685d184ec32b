//! What was measured, as tables, as figures and as a picture. Measures and judges nothing.

use serde_json::{Value, json};

use super::super::idle::Rest;
use super::{Rated, WAYS};
use crate::experiment::chart::{Line, Panel, Picture};
use crate::experiment::stats::{Spread, figure};
use crate::experiment::table::Table;

/// Shares of a core in percent.
fn percent(cpu: &[f64]) -> Option<Spread> {
    let values: Vec<f64> = cpu.iter().map(|cpu| 100.0 * cpu).collect();
    Spread::of(&values)
}

pub(super) fn of_rates(rated: &[Rated]) -> Table {
    let mut table = Table::new([
        "calls/s asked",
        "with",
        "hits/s",
        "agent, % of a core",
        "bytes an iteration",
        "lost",
    ]);
    for row in rated {
        table.row([
            row.asked.to_string(),
            row.how.to_owned(),
            figure(2.0 * row.calls_per_s),
            percent(&row.cpu).map_or_else(String::new, |spread| spread.to_string()),
            figure(row.bytes_per_iteration),
            row.lost.to_string(),
        ]);
    }
    table
}

pub(super) fn of_counts(what: &str, rows: &[(usize, Rest)]) -> Table {
    let mut table = Table::new([what, "agent, % of a core", "wakings/s", "reads/s", "MiB"]);
    for (count, rest) in rows {
        table.row(std::iter::once(count.to_string()).chain(rest.cells()));
    }
    table
}

pub(super) fn figures(rated: &[Rated], probes: &[(usize, Rest)], processes: &[(usize, Rest)]) -> Value {
    let rates = rated.iter().map(|row| {
        json!({
            "with": row.how,
            "calls_per_s_asked": row.asked,
            "hits_per_s": 2.0 * row.calls_per_s,
            "agent_cpu": row.cpu,
            "bytes_per_iteration": row.bytes_per_iteration,
            "lost": row.lost,
        })
    });
    let counted = |rows: &[(usize, Rest)]| -> Value {
        let rows = rows.iter();
        rows.map(|(count, rest)| json!({"count": count, "rest": rest.as_json()}))
            .collect()
    };
    json!({
        "rates": rates.collect::<Vec<Value>>(),
        "probes": counted(probes),
        "processes": counted(processes),
    })
}

pub(super) fn picture(rated: &[Rated], probes: &[(usize, Rest)], processes: &[(usize, Rest)]) -> Picture {
    let of_rates = |how: &str| {
        let rows = rated.iter().filter(|row| row.how == how);
        let points = rows.filter_map(|row| Some((2.0 * row.calls_per_s / 1e3, percent(&row.cpu)?)));
        Line {
            name: how.to_owned(),
            points: points.collect(),
        }
    };
    let of_counts = |name: &str, rows: &[(usize, Rest)]| {
        let points = rows
            .iter()
            .filter_map(|(count, rest)| Some((*count as f64, percent(&rest.cpu)?)));
        Line {
            name: name.to_owned(),
            points: points.collect(),
        }
    };
    let panel = |title: &str, across: &str, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        across: across.to_owned(),
        up: "agent, % of a core".to_owned(),
        lines,
        levels: Vec::new(),
    };
    let rates = WAYS.map(of_rates).into();
    Picture {
        title: "What the agent takes".to_owned(),
        panels: vec![
            panel("hits", "1000 hits/s", rates),
            panel("probes at rest", "probes", vec![of_counts("agent", probes)]),
            panel("ranks at rest", "ranks", vec![of_counts("agent", processes)]),
        ],
    }
}
