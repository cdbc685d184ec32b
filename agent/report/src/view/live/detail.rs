//! The details that `Enter` opens: a function by rank and call site, a rank by function.

use profile::format::{bytes, duration};
use profile::{FunctionTotals, ProcessView, Snapshot};
use ratatui::{
    style::Color,
    text::{Line, Span},
};

use super::{
    bars::Glyphs,
    call_sites,
    page::{Content, plain, short_percent, title},
    ranks,
};
use crate::view::{parts::Accuracy, screen::estimated};

/// Columns of the first column and of the bar, if there is room.
const NAME: usize = 24;
const BAR: usize = 16;
const BAR_MIN: usize = 3;
/// With this width the heading fits over bar and share.
const BAR_WITH_TITLE: usize = 5;
/// Columns of the numbers and of the blanks between them.
const NUMBERS: usize = 43;

/// Columns of the first column and of the bar. The share follows the bar and must not be cut.
fn widths(columns: usize) -> (usize, usize) {
    let bar = columns.saturating_sub(NUMBERS + NAME).clamp(BAR_MIN, BAR);
    (columns.saturating_sub(NUMBERS + bar).min(NAME), bar)
}

/// A function: its totals, each rank's part, and its call sites.
pub(super) fn function(snapshot: &Snapshot, name: &str, columns: usize, glyphs: Glyphs) -> Content {
    let functions = snapshot.functions();
    let Some(all) = functions.iter().find(|function| function.name == name) else {
        return Content::rows(vec![plain(format!(" {name} is no longer called"))]);
    };
    let sites = snapshot.sequence.call_sites.iter();
    let sites: Vec<_> = sites.filter(|site| site.function == name).collect();
    let mut rows = Vec::new();
    if !sites.is_empty() {
        rows.push(title(" called from (calls, mean, share of time)".to_owned()));
        rows.extend(
            sites
                .into_iter()
                .map(|site| call_sites::row(snapshot, &functions, site, columns, glyphs)),
        );
    }
    let first = if snapshot.job.mpi.is_some() { "rank" } else { "pid" };
    let widths = widths(columns);
    rows.push(title(header(first, widths)));
    let of = |process: &ProcessView| {
        let mine = process.functions.iter().find(|function| function.name == name)?;
        Some(row(
            &ranks::name(process),
            mine,
            process.watched_ns_of(mine),
            (widths, glyphs),
        ))
    };
    rows.extend(snapshot.processes.iter().filter_map(of));
    Content {
        head: vec![title(format!(" {name}: {}", totals(all)))],
        rows,
        ..Content::default()
    }
}

/// A rank: its machine, and its functions, those with the most time first.
pub(super) fn rank(snapshot: &Snapshot, key: &str, columns: usize, glyphs: Glyphs) -> Content {
    let is_it = |process: &&ProcessView| ranks::key(process) == key;
    let Some(process) = snapshot.processes.iter().find(is_it) else {
        return Content::rows(vec![plain(format!(" process {key} is no longer watched"))]);
    };
    let mut functions: Vec<&FunctionTotals> = process.functions.iter().collect();
    functions.sort_by_key(|function| std::cmp::Reverse((function.time_ns, function.calls)));
    let widths = widths(columns);
    let rows = functions.iter().map(|function| {
        row(
            &function.name,
            function,
            process.watched_ns_of(function),
            (widths, glyphs),
        )
    });
    let who = match process.rank {
        Some(rank) => format!(" rank {rank}, process {key}"),
        None => format!(" process {key}"),
    };
    let host = process
        .host
        .as_ref()
        .map_or_else(String::new, |host| format!(" on {host}"));
    let state = if process.ended { ", ended" } else { "" };
    let memory = process.counters.as_ref();
    let memory = memory.map_or_else(String::new, |counters| {
        format!(", memory {}", bytes(counters.resident_bytes as f64))
    });
    Content {
        head: vec![
            title(format!("{who}{host}{state}{memory}")),
            title(header("function", widths)),
        ],
        rows: rows.collect(),
        ..Content::default()
    }
}

fn header(first: &str, (name, bar): (usize, usize)) -> String {
    let share = if bar < BAR_WITH_TITLE {
        "share"
    } else {
        "share of time"
    };
    format!(
        " {first:<name$} {:>11} {:>9} {:>9}  {share}",
        "all calls", "mean", "all time"
    )
}

fn row(
    name: &str,
    function: &FunctionTotals,
    watched_ns: u64,
    ((columns, bar), glyphs): ((usize, usize), Glyphs),
) -> Line<'static> {
    let none = || "-".to_owned();
    let share = function
        .time_ns
        .filter(|_| watched_ns > 0)
        .map(|time| time as f64 / watched_ns as f64);
    let name: String = name.chars().take(columns).collect();
    let estimated = |number| estimated(function.estimate.is_some(), number);
    let mean = function.mean_of_returned_ns();
    let time = function.time_ns;
    let percent = share.map(|share| estimated(short_percent(share)));
    Line::from(vec![
        Span::raw(format!(
            " {name:<columns$} {:>11} {:>9} {:>9}  ",
            Accuracy::of(function.estimate, function.calls).narrow_cell(function.calls as f64),
            mean.map_or_else(none, |mean| estimated(duration(mean))),
            time.map_or_else(none, |ns| estimated(duration(ns as f64))),
        )),
        Span::styled(glyphs.bar(share.unwrap_or_default(), bar), Color::Blue),
        Span::raw(format!(" {:>7}", percent.unwrap_or_else(none))),
    ])
}

fn totals(function: &FunctionTotals) -> String {
    let estimated = |number| estimated(function.estimate.is_some(), number);
    let accuracy = Accuracy::of(function.estimate, function.calls);
    let calls = accuracy.calls(function.calls);
    let mean = function.mean_of_returned_ns();
    let mean = mean.map_or_else(String::new, |mean| {
        format!(", mean {}", estimated(duration(mean)))
    });
    let kind = function.bytes_kind.unwrap_or_default();
    let all = function.bytes.map_or_else(String::new, |all| {
        format!(", {} {kind}", accuracy.bytes(all as f64))
    });
    format!("{calls}{mean}{all}")
}

#[cfg(test)]
mod tests {
    use profile::cost::Estimate;

    use super::*;

    #[test]
    fn every_number_of_a_sampled_function_is_marked_as_estimated() {
        let counted = FunctionTotals {
            calls: 1200,
            time_ns: Some(2_400_000_000),
            returned: 1200,
            returned_ns: 2_400_000_000,
            bytes: Some(3 << 20),
            bytes_kind: Some("sent"),
            ..FunctionTotals::default()
        };
        let sampled = FunctionTotals {
            estimate: Some(Estimate {
                from: 1_200,
                to: Some(1_250),
                ..Estimate::default()
            }),
            ..counted.clone()
        };
        assert_eq!(totals(&counted), "1 200 calls, mean 2 ms, 3 MiB sent");
        assert_eq!(totals(&sampled), "~1 200 calls, mean ~2 ms, ~3 MiB sent");
        let row = row("rank 0", &sampled, 10_000_000_000, ((8, 4), Glyphs::Plain));
        let numbers: Vec<&str> = (row.spans.iter())
            .flat_map(|span| span.content.split("  "))
            .map(str::trim)
            .filter(|text| text.starts_with(|c: char| c == '~' || c.is_ascii_digit()))
            .collect();
        assert_eq!(numbers, ["~1 200", "~2 ms", "~2.4 s", "~24 %"]);
    }
}
