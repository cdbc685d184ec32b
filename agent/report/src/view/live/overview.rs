//! The first tab: how the time is spent now and was spent before, the functions with the most time, findings.

use profile::format::percent;
use profile::{Rates, Snapshot};
use ratatui::text::Line;

use super::{
    bars::Glyphs,
    page::{Content, plain, titled, wrapped},
    state::State,
};
use crate::view::screen;

/// Findings come before functions. If both do not fit, each finding has only its first lines here, and the
/// rest in the tab of the rules. If that does not fit either, the curves are left out.
pub(super) fn content(
    snapshot: &Snapshot,
    state: &State,
    (columns, height): (u16, u16),
    glyphs: Glyphs,
) -> Content {
    let (columns, height) = (usize::from(columns), usize::from(height));
    let curves = curves(snapshot, state, columns, glyphs);
    let overall = rows(screen::screen(snapshot), curves.clone(), columns);
    if overall.len() <= height {
        return Content::rows(overall);
    }
    // Functions are more important than curves.
    if snapshot.findings.is_empty() {
        return Content::rows(rows(screen::screen(snapshot), Vec::new(), columns));
    }
    let brief = rows(screen::brief(snapshot), curves, columns);
    Content::rows(match brief.len() <= height {
        true => brief,
        false => rows(screen::brief(snapshot), Vec::new(), columns),
    })
}

fn rows(blocks: Vec<Vec<String>>, curves: Vec<Line<'static>>, columns: usize) -> Vec<Line<'static>> {
    let mut blocks = blocks.iter();
    let summary = blocks.next().into_iter().flatten();
    let summary = summary.flat_map(|text| wrapped("    ", text, columns));
    let mut rows: Vec<Line<'static>> = summary.collect();
    if !curves.is_empty() {
        rows.push(Line::default());
    }
    rows.extend(curves);
    for block in blocks {
        rows.push(Line::default());
        rows.extend(titled(block, columns));
    }
    rows
}

/// Shares of the ranks' time. For a program without MPI, whose processes may have many threads, CPUs in use
/// relative to their maximum.
fn curves(snapshot: &Snapshot, state: &State, columns: usize, glyphs: Glyphs) -> Vec<Line<'static>> {
    let Some(last) = state.looks.back() else {
        return Vec::new();
    };
    type ShareOf = fn(&Rates) -> Option<f64>;
    let rows: [(&str, ShareOf); 3] = [
        ("inside MPI", |look| look.mpi),
        ("on a CPU", |look| Some(look.cpu)),
        ("waiting for a CPU", |look| Some(look.runqueue)),
    ];
    let is_in_cpus = snapshot.job.mpi.is_none();
    let most = state
        .looks
        .iter()
        .map(|look| look.cpu.max(look.runqueue))
        .fold(1.0, f64::max);
    let most = if is_in_cpus { most } else { 1.0 };
    let processes = snapshot
        .running()
        .filter(|process| process.rates.is_some())
        .count();
    let row = |(name, of): (&str, ShareOf)| {
        let now = of(last)?;
        let values: Vec<f64> = state
            .looks
            .iter()
            .filter_map(of)
            .map(|value| value / most)
            .collect();
        let curve = glyphs.curve(&values, columns.saturating_sub(30));
        let now = match is_in_cpus {
            true => format!("{:.1}", now * processes as f64),
            false => percent(now),
        };
        Some(plain(format!(" {name:<18} {now:>6}  {curve}")))
    };
    rows.into_iter().filter_map(row).collect()
}
