//! A table as Markdown with its columns aligned, for files and terminals alike.

use std::fmt;

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = || std::iter::once(&self.head).chain(&self.rows);
        let columns = rows().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![3; columns];
        for row in rows() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for (number, row) in rows().enumerate() {
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
}
