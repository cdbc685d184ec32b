//! The tab of the functions: all functions, recently and since the start.

use profile::format::duration;
use profile::{FunctionTotals, Snapshot};
use ratatui::{
    style::Color,
    text::{Line, Span},
};

use super::{
    bars::Glyphs,
    page::{Content, plain, short_percent, title},
    state::{State, Tab},
};
use crate::view::{durations, parts::Accuracy, screen::estimated};

/// Columns of everything except the name and the bar.
const FIXED: usize = 53;
/// With this many columns there is room for bytes too.
const WIDE: usize = 110;
const MORE: usize = 21;
const NAME_MIN: usize = 16;
const NAME_MAX: usize = 32;

/// What the mark of estimated numbers means. Between two windows only the CPU time of the program is known.
const SAMPLED: &str =
    " ~ estimated from sampling windows: mean and share are those of the last windows until the next one";

pub(super) fn content(snapshot: &Snapshot, state: &State, columns: usize, glyphs: Glyphs) -> Content {
    let is_wide = columns >= WIDE;
    let fixed = if is_wide { FIXED + MORE } else { FIXED };
    let mut functions = snapshot.functions();
    match state.order(Tab::Functions) {
        1 => functions.sort_by(|a, b| b.calls_per_s.total_cmp(&a.calls_per_s)),
        2 => functions.sort_by(|a, b| b.mean_ns.unwrap_or(-1.0).total_cmp(&a.mean_ns.unwrap_or(-1.0))),
        3 => functions.sort_by(|a, b| a.name.cmp(&b.name)),
        _ => {}
    }
    if state.is_reversed(Tab::Functions) {
        functions.reverse();
    }
    let longest = functions
        .iter()
        .map(|function| function.name.chars().count())
        .max();
    let name = longest.unwrap_or_default().clamp(NAME_MIN, NAME_MAX);
    let bar = columns.saturating_sub(fixed + name).clamp(4, 40);
    let mut head = format!(
        " {:<name$} {:>9} {:>9}  {:<w$} {:>11} {:>9}",
        "function",
        "calls/s",
        "mean",
        "share of the time",
        "all calls",
        "all time",
        w = bar + 8,
    );
    if is_wide {
        head += &format!(" {:>12}", "all bytes");
    }
    let mut head = vec![title(head)];
    if functions.iter().any(|function| function.estimate.is_some()) {
        head.insert(0, plain(SAMPLED.to_owned()));
    }
    let running = snapshot.running().count().max(1) as f64;
    let row = |function: &FunctionTotals| row(function, name, bar, running, is_wide, glyphs);
    let bars = durations::lines(snapshot).into_iter().map(Line::from);
    Content {
        head,
        rows: functions.iter().map(row).chain(bars).collect(),
        keys: functions.iter().map(|function| function.name.clone()).collect(),
    }
}

fn row(
    function: &FunctionTotals,
    name: usize,
    bar: usize,
    running: f64,
    is_wide: bool,
    glyphs: Glyphs,
) -> Line<'static> {
    let none = || "-".to_owned();
    let accuracy = Accuracy::of(function.estimate, function.calls);
    let estimated = |number| estimated(function.estimate.is_some(), number);
    let share = function.time_ns.map(|_| function.share / running);
    let percent = share.map(|share| estimated(short_percent(share)));
    let short: String = function.name.chars().take(name).collect();
    let mut spans = vec![
        Span::raw(format!(
            " {short:<name$} {:>9} {:>9}  ",
            match function.is_resting {
                true => none(),
                false => accuracy.narrow_cell(function.calls_per_s),
            },
            (function.mean_ns).map_or_else(none, |mean| estimated(duration(mean))),
        )),
        Span::styled(glyphs.bar(share.unwrap_or_default(), bar), Color::Blue),
        Span::raw(format!(
            " {:>7} {:>11} {:>9}",
            percent.unwrap_or_else(none),
            accuracy.narrow_cell(function.calls as f64),
            (function.time_ns).map_or_else(none, |ns| estimated(duration(ns as f64))),
        )),
    ];
    if is_wide {
        let all = (function.bytes).map_or_else(none, |all| accuracy.bytes(all as f64));
        let kind = function.bytes_kind.unwrap_or_default();
        spans.push(Span::raw(format!(" {all:>12} {kind}")));
    }
    Line::from(spans)
}
