//! Markdown tables with aligned columns, for files and terminals.

use std::fmt;

use super::stats::{Spread, figure};

/// The text of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell(String);

macro_rules! into_cell {
    ($($from:ty: |$value:ident| $cell:expr;)*) => { $(impl From<$from> for Cell {
        fn from($value: $from) -> Cell {
            $cell
        }
    })* };
}

into_cell! {
    String: |text| Cell(text);
    &str: |text| Cell(text.to_owned());
    usize: |count| Cell(count.to_string());
    u64: |count| Cell(count.to_string());
    f64: |value| Cell(figure(value));
    Spread: |spread| Cell(spread.to_string());
}

/// `None` becomes an empty cell.
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell(String::new()), T::into)
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
    head: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<T: Into<Cell>>(head: impl IntoIterator<Item = T>) -> Table {
        Table {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<T: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Vec<Cell>> = std::iter::once(&self.head).chain(&self.rows).collect();
        let columns = rows.iter().map(|row| row.len()).max().unwrap_or_default();
        let mut widths = vec![3; columns];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row.iter()) {
                *width = cell.0.chars().count().max(*width);
            }
        }
        for (number, row) in rows.iter().enumerate() {
            f.write_str("|")?;
            for (column, width) in widths.iter().enumerate() {
                write!(f, " {:<width$} |", row.get(column).map_or("", |cell| &cell.0))?;
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
    fn columns_are_as_wide_as_their_widest_cell_and_missing_cells_are_empty() {
        let mut table = Table::new(["workers", "s"]);
        table.row(["1", "13.40 µs"]);
        table.row(["tuned"]);
        table.row(cells![2_usize, Some(462.0)]);
        table.row(cells![25_usize, None::<f64>]);
        let expected = "\
| workers | s        |
|---------|----------|
| 1       | 13.40 µs |
| tuned   |          |
| 2       | 462      |
| 25      |          |
";
        assert_eq!(table.to_string(), expected);
    }
}
