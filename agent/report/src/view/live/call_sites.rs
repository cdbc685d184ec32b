//! The tab of the call sites: the lines of the program that call MPI, and the time they take.

use profile::format::{count, duration};
use profile::{CallSiteView, FunctionTotals, Snapshot, SourcePlace, Steps};
use ratatui::{
    style::Color,
    text::{Line, Span},
};

use super::{
    bars::Glyphs,
    page::{Content, plain, short_percent, title},
};
use crate::view::{pace, parts};

/// Columns of the bar.
const BAR: usize = 8;
/// Columns of a function's name.
const NAME: usize = 16;

pub(super) fn content(snapshot: &Snapshot, columns: usize, glyphs: Glyphs) -> Content {
    let sequence = &snapshot.sequence;
    if sequence.call_sites.is_empty() {
        let none = match &snapshot.job.mpi {
            Some(_) => " no call site is known yet",
            None => " not measured: the program has no MPI, and no parallel region has ended yet",
        };
        return Content {
            head: vec![plain(none.to_owned())],
            ..Content::default()
        };
    }
    let what = match sequence.steps {
        Steps::MpiCalls => "function",
        Steps::Regions => "region",
    };
    let head = title(format!(
        " {what:<NAME$} {:>8} {:>9}  {:<w$} called from",
        "calls",
        "mean",
        "share of time",
        w = BAR + 8,
    ));
    let rows = sequence.call_sites.iter();
    let unseen = pace::unseen(sequence);
    let functions = snapshot.functions();
    let of_part = pace::of_part(snapshot, &functions);
    let of_part = (!of_part.is_empty()).then(|| plain(format!(" {}", of_part.trim())));
    Content {
        head: of_part.into_iter().chain([head]).collect(),
        rows: rows
            .map(|site| row(snapshot, &functions, site, columns, glyphs))
            .chain(unseen.map(plain))
            .collect(),
        ..Content::default()
    }
}

/// A call site. Its share refers to the time of all processes in which its calls were watched.
pub(super) fn row(
    snapshot: &Snapshot,
    functions: &[FunctionTotals],
    site: &CallSiteView,
    columns: usize,
    glyphs: Glyphs,
) -> Line<'static> {
    let part = parts::of_site(snapshot, functions, &site.function);
    let is_of_mpi = snapshot.sequence.steps == Steps::MpiCalls;
    let share = site.time_ns as f64 / snapshot.watched_ns(is_of_mpi) / part;
    let function: String = site.function.chars().take(NAME).collect();
    let mean = duration(site.time_ns as f64 / site.calls.max(1) as f64);
    let room = columns.saturating_sub(NAME + BAR + 31);
    let place: String = place(&site.place).chars().take(room).collect();
    Line::from(vec![
        Span::raw(format!(
            " {function:<NAME$} {:>8} {mean:>9}  ",
            count(site.calls as f64)
        )),
        Span::styled(glyphs.bar(share, BAR), Color::Blue),
        Span::raw(format!(" {:>7} {place}", short_percent(share))),
    ])
}

/// The line comes first, because a narrow terminal cuts the end.
fn place(place: &SourcePlace) -> String {
    let line = match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{}:{line} ", file.rsplit('/').next().unwrap_or(file)),
        _ => String::new(),
    };
    let function = place.function.as_deref().or(place.module.as_deref());
    line + function.unwrap_or("?").split('(').next().unwrap_or_default()
}
