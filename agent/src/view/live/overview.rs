//! The tab that is seen first: where the time goes now and went before, the functions that take most, findings.

use ratatui::text::Line;

use super::{
    bars::Glyphs,
    page::{Content, plain, titled, wrapped},
    state::{Look, State},
};
use crate::{format::percent, snapshot::Snapshot, view::screen};

pub(super) fn content(snapshot: &Snapshot, state: &State, columns: usize, glyphs: Glyphs) -> Content {
    let text = screen::screen(snapshot);
    let mut blocks = text
        .split(|line| line.is_empty())
        .filter(|block| !block.is_empty());
    let summary = blocks.next().unwrap_or_default();
    let summary = summary.iter().flat_map(|text| wrapped("    ", text, columns));
    let mut rows: Vec<Line<'static>> = summary.collect();
    rows.push(Line::default());
    rows.extend(curves(state, columns, glyphs));
    for block in blocks {
        rows.push(Line::default());
        rows.extend(titled(block, columns));
    }
    Content {
        head: Vec::new(),
        rows,
    }
}

fn curves(state: &State, columns: usize, glyphs: Glyphs) -> Vec<Line<'static>> {
    let Some(last) = state.looks.back() else {
        return Vec::new();
    };
    type Of = fn(&Look) -> Option<f64>;
    let rows: [(&str, Of); 3] = [
        ("inside MPI", |look| look.mpi),
        ("on a CPU", |look| Some(look.cpu)),
        ("waiting for a CPU", |look| Some(look.runqueue)),
    ];
    let row = |(name, of): (&str, Of)| {
        let now = of(last)?;
        let values: Vec<f64> = state.looks.iter().filter_map(of).collect();
        let curve = glyphs.curve(&values, columns.saturating_sub(30));
        Some(plain(format!(" {name:<18} {:>6}  {curve}", percent(now))))
    };
    rows.into_iter().filter_map(row).collect()
}
