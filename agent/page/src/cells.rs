//! Table cells: each has a text to show and a number to sort by.

use profile::format::percent;

use crate::model::{Cell, Column, Table};

/// Maximum number of rows in a table, to bound the size of the page.
const ROWS_MAX: usize = 768;

/// The titles of the columns are separated by `|`; that of a column of numbers begins with `#`.
pub(crate) fn table(
    id: &'static str,
    title: &'static str,
    columns: &'static str,
    rows: impl ExactSizeIterator<Item = Vec<Cell>>,
) -> Table {
    let column = |text: &'static str| {
        let title = text.trim_start_matches('#');
        Column {
            title,
            is_number: title != text,
        }
    };
    Table {
        id,
        title,
        columns: columns.split(" | ").map(column).collect(),
        omitted: rows.len().saturating_sub(ROWS_MAX),
        rows: rows.take(ROWS_MAX).collect(),
    }
}

pub(crate) fn text(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        ..Cell::default()
    }
}

/// A cell with a formatted number; "-" if it was not measured.
pub(crate) fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Cell {
    Cell {
        text: value.map_or_else(|| "-".to_owned(), show),
        number: value,
        bar: None,
    }
}

pub(crate) fn share(value: Option<f64>) -> Cell {
    Cell {
        bar: value,
        ..number(value, percent)
    }
}

impl Cell {
    /// With a mark before its text, unless there is no number.
    pub(crate) fn marked(mut self, mark: &str) -> Cell {
        if self.number.is_some() {
            self.text.insert_str(0, mark);
        }
        self
    }
}
