//! The tab of the matrix: a row for each sender, a column for each receiver; darker cells have more traffic.
//! If there is not enough room, ranks are grouped into blocks.

use profile::format::{bytes, count, percent, plural};
use profile::{MatrixView, Messages, Snapshot};
use ratatui::{
    style::Color,
    text::{Line, Span},
};

use super::{
    bars::Glyphs,
    page::{Content, plain, title},
    state::{State, Tab},
};
use crate::view::pairs;

/// Maximum number of rows and columns.
const CELLS_MAX: usize = 64;
/// Columns of the name of a row, including the blank after it.
const NAME: usize = 10;

/// The matrix in cells.
struct Heat {
    /// Ranks per row or column.
    block: usize,
    cells: Vec<Vec<f64>>,
}

pub(super) fn content(snapshot: &Snapshot, state: &State, columns: usize, glyphs: Glyphs) -> Content {
    let by_count = state.order(Tab::Matrix) == 1;
    let Some(matrix) = snapshot.matrix.as_ref().filter(|matrix| !matrix.sent.is_empty()) else {
        return Content {
            head: vec![plain(nothing(snapshot).to_owned())],
            ..Content::default()
        };
    };
    let of = |messages: Messages| if by_count { messages.count } else { messages.bytes } as f64;
    let heat = Heat::of(matrix, ranks(snapshot, matrix), columns, of);
    let most = heat.cells.iter().flatten().copied().fold(0.0, f64::max);
    let width = if (NAME + 2 * heat.cells.len()) < columns {
        2
    } else {
        1
    };
    let scale = heat.cells.iter().zip(0..).map(|(row, number)| {
        let cells: String = row
            .iter()
            .map(|cell| glyphs.shade(*cell / most).repeat(width))
            .collect();
        let all: f64 = row.iter().sum();
        let all = if by_count { count(all) } else { bytes(all) };
        let name = format!(" {:>w$} ", heat.name(number), w = NAME - 2);
        let room = columns.saturating_sub(NAME + width * row.len());
        let sum = if room > 11 {
            format!(" {all:>10}")
        } else {
            String::new()
        };
        Line::from(vec![
            Span::raw(name),
            Span::styled(cells, Color::Blue),
            Span::raw(sum),
        ])
    });
    let amount = |cell: f64| match by_count {
        true => count(cell.floor()),
        false => bytes(cell),
    };
    let bounds = [64.0, 16.0, 4.0, 1.0].map(|part| amount(most / part));
    let shades = (1..5).map(|level| glyphs.shade(Glyphs::SHADES[level]));
    let shades: Vec<String> = shades
        .zip(bounds)
        .map(|(shade, bound)| format!("{shade} {bound}"))
        .collect();
    let what = if by_count { "messages" } else { "bytes" };
    let legend = format!(" {what} of a pair, up to: {}", shades.join("  "));
    Content {
        head: vec![
            plain(reported(matrix, &pairs::sampled(snapshot))),
            plain(legend),
            title(format!(
                " {:>w$} to rank 0, 1, ...{}",
                "from",
                heat.folded(),
                w = NAME - 2
            )),
        ],
        rows: scale.collect(),
        ..Content::default()
    }
}

/// Why there is no matrix.
fn nothing(snapshot: &Snapshot) -> &'static str {
    match (&snapshot.matrix, &snapshot.job.mpi) {
        (_, None) => " not measured: the program has no MPI",
        (Some(_), Some(_)) => " no rank has sent another one a message yet",
        (None, Some(_)) => " not measured: MPI is not probed, or several programs are looked at together",
    }
}

fn reported(matrix: &MatrixView, sampled: &str) -> String {
    let all = matrix.sent_to_all();
    let unstated = match matrix.unresolved_sent.count {
        0 => String::new(),
        some => format!("; {} to unknown ranks", percent(some as f64 / all.count as f64)),
    };
    format!(
        " {} sent{sampled}, {}, mean {}{unstated}",
        plural(all.count as usize, "message"),
        bytes(all.bytes as f64),
        bytes(all.bytes as f64 / all.count.max(1) as f64),
    )
}

/// The number of ranks: at least one more than the greatest rank.
fn ranks(snapshot: &Snapshot, matrix: &MatrixView) -> usize {
    let ends = matrix.sent.iter().flat_map(|pair| [pair.from, pair.to]);
    let greatest = ends.max().map_or(0, |rank| rank as usize + 1);
    greatest.max(snapshot.job.size.unwrap_or_default())
}

impl Heat {
    fn of(matrix: &MatrixView, ranks: usize, columns: usize, of: impl Fn(Messages) -> f64) -> Heat {
        let room = columns.saturating_sub(NAME).clamp(1, CELLS_MAX);
        let block = ranks.div_ceil(room).max(1);
        let size = ranks.div_ceil(block);
        let mut cells = vec![vec![0.0; size]; size];
        for pair in &matrix.sent {
            let row = cells.get_mut(pair.from as usize / block);
            if let Some(cell) = row.and_then(|row| row.get_mut(pair.to as usize / block)) {
                *cell += of(pair.of);
            }
        }
        Heat { block, cells }
    }

    fn name(&self, row: usize) -> String {
        let first = row * self.block;
        match self.block {
            1 => first.to_string(),
            block => format!("{first}-{}", first + block - 1),
        }
    }

    fn folded(&self) -> String {
        match self.block {
            1 => String::new(),
            block => format!(" (each cell {block} ranks by {block})"),
        }
    }
}
