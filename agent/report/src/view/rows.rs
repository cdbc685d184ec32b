//! The table of functions: calls, mean duration, share of the time.

use profile::format::{count, duration, percent, plural};
use profile::mpi;

use super::parts::{Accuracy, WATCHED_FULLY};
use super::screen::estimated;

const FUNCTIONS_SHOWN: usize = 8;
/// Columns of a function's name.
const NAME_MIN: usize = 20;
const NAME_MAX: usize = 40;
/// A row with its bar fits into 80 columns.
const BAR_COLUMNS: f64 = 27.0;
/// Columns of the numbers of calls at least.
const CALLS_MIN: usize = 9;

/// A function with its numbers.
#[derive(Default)]
pub(super) struct Row {
    pub(super) name: String,
    /// `None` if calls are not counted now.
    pub(super) calls: Option<f64>,
    /// The part of the time that `calls` covers; `None` if it need not be shown.
    pub(super) counted: Option<f64>,
    pub(super) accuracy: Accuracy,
    pub(super) mean_ns: Option<f64>,
    pub(super) share: Option<f64>,
    /// Calls that did not return, if that must be shown.
    pub(super) unreturned: u64,
    /// Calls that have not returned yet, if much of the time is theirs.
    pub(super) under_way: u64,
}

impl Row {
    fn calls_text(&self) -> String {
        let calls = self.calls.map(|calls| self.accuracy.cell(calls));
        calls.unwrap_or_else(|| "-".to_owned())
    }
}

/// A table of the first rows. Long names widen it, so that all lines have the same columns.
pub(super) fn rows(calls: &str, all: impl ExactSizeIterator<Item = Row>) -> Vec<String> {
    let rest = all.len().saturating_sub(FUNCTIONS_SHOWN);
    let shown: Vec<Row> = all.take(FUNCTIONS_SHOWN).collect();
    let longest = shown.iter().map(|row| row.name.chars().count()).max();
    let name = longest.unwrap_or_default().clamp(NAME_MIN, NAME_MAX);
    let numbers = shown.iter().map(|row| row.calls_text().chars().count());
    let width = numbers.fold(CALLS_MIN, usize::max);
    let mut lines = vec![format!(
        " {:<name$} {calls:>width$}  {:>8}   share of the time",
        "function", "mean"
    )];
    lines.extend(shown.iter().map(|row| line(row, (name, width))));
    if rest > 0 {
        lines.push(format!(" and {}", plural(rest, "more function")));
    }
    // Of MPI calls the first line says it: a program that waits in them is not slowed down.
    let unbounded = shown
        .iter()
        .filter(|row| matches!(row.accuracy, Accuracy::Unbounded(_)));
    let unbounded = unbounded.filter(|row| mpi::find(&row.name).is_none());
    let unbounded: Vec<&str> = unbounded.map(|row| row.name.as_str()).collect();
    if !unbounded.is_empty() {
        lines.push(format!(
            " ≥ of {}: a lower bound: probes slow down the sampled time; at other times calls are shorter and more frequent",
            unbounded.join(", ")
        ));
    }
    lines
}

fn line(row: &Row, (columns, width): (usize, usize)) -> String {
    let bar = row
        .share
        .map_or(0.0, |share| (share * BAR_COLUMNS).round().clamp(0.0, BAR_COLUMNS));
    let unreturned = match row.unreturned {
        0 => String::new(),
        calls => format!(
            "  {} not seen",
            plural(usize::try_from(calls).unwrap_or(usize::MAX), "return")
        ),
    };
    let under_way = match row.under_way {
        0 => String::new(),
        calls => format!("  {} of them under way", count(calls as f64)),
    };
    let counted = match row.counted {
        None => String::new(),
        Some(part) if part < WATCHED_FULLY => format!("  counted {} of the time", percent(part)),
        // Nearly all of it, which is still not each call.
        Some(part) => format!("  not counted {} of the time", percent(1.0 - part)),
    };
    let estimated = |number| estimated(row.accuracy != Accuracy::Exact, number);
    let mean = row.mean_ns.map(|mean| estimated(duration(mean)));
    let share = row.share.map(|share| estimated(percent(share)));
    let name: String = row.name.chars().take(columns).collect();
    let line = format!(
        " {name:<columns$} {:>width$}  {:>8}   {:>6}  {}{unreturned}{under_way}{counted}",
        row.calls_text(),
        mean.unwrap_or_else(|| "-".to_owned()),
        share.unwrap_or_else(|| "-".to_owned()),
        "#".repeat(bar as usize),
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_of_all_the_time_has_the_part_behind_it() {
        let end = |counted| {
            let row = Row {
                name: "f".into(),
                counted,
                ..Row::default()
            };
            rows("calls", [row].into_iter()).swap_remove(1)
        };
        assert!(end(Some(0.25)).ends_with("  counted 25 % of the time"));
        assert!(end(Some(0.9994)).ends_with("  not counted 0.06 % of the time"));
        assert!(!end(None).contains("counted"));
    }

    #[test]
    fn a_long_name_widens_the_table_and_a_very_long_one_is_cut() {
        let row = |name: &str| Row {
            name: name.into(),
            calls: Some(4_896.0),
            ..Row::default()
        };
        let long = "x".repeat(50);
        let names = ["LAMMPS_NS::PairLJCut::compute", "MPI_Wait"].map(row);
        let lines = rows("calls", names.into_iter());
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
        let at = |line: &str, part: &str| line.find(part).map(|at| at + part.len());
        assert_eq!(at(&lines[1], "4 896"), at(&lines[2], "4 896"));
        assert_eq!(at(&lines[0], "calls"), at(&lines[2], "4 896"));
        assert!(rows("calls", [row(&long)].into_iter())[1].starts_with(&format!(" {} ", "x".repeat(40))));
    }
}
