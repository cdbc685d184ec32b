//! Markdown tables with aligned columns, for files and terminals, and charts of their columns.

use std::fmt;

use super::chart::{Line, Panel};
use super::stats::Spread;

/// A cell of a table: a text, or figures that can be drawn.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    Figures(Spread),
}

macro_rules! into_cell {
    ($($from:ty: |$value:ident| $cell:expr;)*) => { $(impl From<$from> for Cell {
        fn from($value: $from) -> Cell {
            $cell
        }
    })* };
}

into_cell! {
    String: |text| Cell::Text(text);
    &str: |text| Cell::Text(text.to_owned());
    usize: |count| Cell::Text(count.to_string());
    u64: |count| Cell::Text(count.to_string());
    f64: |value| Cell::Figures(Spread::exactly(value));
    Spread: |spread| Cell::Figures(spread);
}

/// `None` becomes an empty cell.
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::Text(String::new()), T::into)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Figures(spread) => spread.fmt(f),
        }
    }
}

/// A row of cells of different types.
macro_rules! cells {
    ($($cell:expr),+ $(,)?) => {
        [$($crate::measure::table::Cell::from($cell)),+]
    };
}
pub(crate) use cells;

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Chart of the columns with these heads, over the numbers in the first column; over row numbers if it
    /// has none.
    pub(crate) fn panel(&self, title: &str, unit: &str, columns: &[&str]) -> Panel {
        let number = |row: &Vec<Cell>| row.first().and_then(|cell| cell.to_string().parse::<f64>().ok());
        let is_numbered = self.rows.iter().any(|row| number(row).is_some());
        let line = |name: &&str| {
            let column = self.head.iter().position(|head| head == name);
            let point = |(place, row): (usize, &Vec<Cell>)| match row.get(column?)? {
                Cell::Figures(spread) if is_numbered => Some((number(row)?, *spread)),
                Cell::Figures(spread) => Some((place as f64 + 1.0, *spread)),
                Cell::Text(_) => None,
            };
            Line {
                name: (*name).to_owned(),
                points: self.rows.iter().enumerate().filter_map(point).collect(),
            }
        };
        let across = self.head.first().map_or("", String::as_str);
        Panel::new((title, across, unit), columns.iter().map(line))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::to_string).collect());
        let rows: Vec<Vec<String>> = std::iter::once(self.head.clone()).chain(rows).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![3; columns];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for (number, row) in rows.iter().enumerate() {
            f.write_str("|")?;
            for (column, width) in widths.iter().enumerate() {
                write!(f, " {:<width$} |", row.get(column).map_or("", String::as_str))?;
            }
            f.write_str("\n")?;
            if number == 0 {
                let lines: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
                writeln!(f, "|{}|", lines.join("|"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_short_rows_are_filled_up() {
        let mut table = Table::new(["workers", "s"]);
        table.row(["1", "13.40 µs"]);
        table.row(["tuned"]);
        let expected = "\
| workers | s        |
|---------|----------|
| 1       | 13.40 µs |
| tuned   |          |
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_picture_has_the_figures_of_its_columns_and_leaves_out_what_is_none() {
        let mut table = Table::new(["workers", "s", "thesis, s"]);
        table.row(cells![2_usize, 4.5, Some(462.0)]);
        table.row(cells![25_usize, 1.5, None::<f64>]);
        table.row(cells!["tuned", 3.0]);
        let panel = table.panel("here", "s", &["s", "thesis, s"]);
        let at = |line: &Line| {
            line.points
                .iter()
                .map(|(x, y)| (*x, y.median))
                .collect::<Vec<_>>()
        };
        assert_eq!(panel.across, "workers");
        assert_eq!(at(&panel.lines[0]), [(2.0, 4.5), (25.0, 1.5)]);
        assert_eq!(at(&panel.lines[1]), [(2.0, 462.0)]);
    }
}
