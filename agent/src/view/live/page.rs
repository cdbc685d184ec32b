//! Puts a picture together: the job, the tabs, the rows of the chosen one, the keys.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    bars::Glyphs,
    functions, matrix,
    messages::Messages,
    overview, ranks, rules,
    state::{State, Tab},
};
use crate::{
    format::{self, percent, plural},
    snapshot::Snapshot,
    view::{history, screen},
};

/// What a tab shows: lines that stay, and rows that are scrolled below them.
pub(super) struct Content {
    pub(super) head: Vec<Line<'static>>,
    pub(super) rows: Vec<Line<'static>>,
}

/// A share in at most seven columns.
pub(super) fn short_percent(share: f64) -> String {
    if share > 0.0 && share < 0.000_1 {
        return "<0.01 %".to_owned();
    }
    percent(share)
}

/// A line of text.
pub(super) fn plain(text: String) -> Line<'static> {
    Line::from(text)
}

/// The line above a table or a block.
pub(super) fn title(text: String) -> Line<'static> {
    plain(text).style(Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD))
}

/// A block whose first line is its title.
pub(super) fn titled(block: &[String], columns: usize) -> Vec<Line<'static>> {
    let Some((first, rest)) = block.split_first() else {
        return Vec::new();
    };
    let rest = rest.iter().flat_map(|text| wrapped("           ", text, columns));
    std::iter::once(title(first.clone())).chain(rest).collect()
}

/// A text in as many lines as it needs; all but the first begin with `indent`. Blanks that line columns up stay.
pub(super) fn wrapped(indent: &str, text: &str, columns: usize) -> Vec<Line<'static>> {
    let lines = format::wrapped(indent, text, columns);
    lines.into_iter().map(plain).collect()
}

/// Draws everything.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    snapshot: &Snapshot,
    state: &mut State,
    messages: &Messages,
    glyphs: Glyphs,
) {
    let lines = [
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [top, tabs, body, keys] = Layout::vertical(lines).areas(frame.area());
    let job = screen::header_within(snapshot, usize::from(top.width));
    let job = plain(job).style(Modifier::BOLD);
    frame.render_widget(Paragraph::new(job), top);
    frame.render_widget(Paragraph::new(tab_line(state)), tabs);
    let columns = usize::from(body.width);
    let content = match state.tab {
        Tab::Overview => overview::content(snapshot, state, columns, glyphs),
        Tab::Ranks => ranks::content(snapshot, state, columns, glyphs),
        Tab::Functions => functions::content(snapshot, state, columns, glyphs),
        Tab::Rules => rules::content(snapshot, state, columns),
        Tab::Changes => changes(snapshot, columns),
        Tab::Messages => said(messages, columns),
        Tab::Matrix => matrix::content(snapshot, state, columns, glyphs),
    };
    let is_cut = scrolled(frame, body, content, state);
    let line = match &state.answer {
        Some(answer) => plain(format!(" {answer}")).style(Style::new().fg(Color::Yellow)),
        None => key_line(state, is_cut),
    };
    frame.render_widget(Paragraph::new(line), keys);
}

fn tab_line(state: &State) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (number, tab) in (1..).zip(Tab::ALL) {
        let style = if tab == state.tab {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        spans.push(Span::styled(format!(" {number} {} ", tab.name()), style));
    }
    Line::from(spans)
}

/// The rows from where the user is, and how many are below; whether there are more than fit.
fn scrolled(frame: &mut Frame<'_>, area: Rect, content: Content, state: &mut State) -> bool {
    let height = usize::from(area.height);
    let head = content.head.len().min(height);
    let rows = height - head;
    let most = content.rows.len().saturating_sub(rows);
    // No page passes over the row in the place of which it is said how many are below.
    state.rows = rows.saturating_sub(usize::from(most > 0));
    let scroll = state.scroll();
    *scroll = (*scroll).min(most);
    let scroll = *scroll;
    let below = (scroll < most && rows > 1).then(|| content.rows.len() - scroll - (rows - 1));
    let shown = rows - usize::from(below.is_some());
    let shown = content.rows.into_iter().skip(scroll).take(shown);
    let below = below.map(|below| below_line(below, state.tab));
    let head = content.head.into_iter().take(head);
    let lines: Vec<Line<'static>> = head.chain(shown).chain(below).collect();
    frame.render_widget(Paragraph::new(lines), area);
    most > 0
}

fn below_line(below: usize, tab: Tab) -> Line<'static> {
    let key = if tab == Tab::Rules { "PgDn" } else { "Down" };
    plain(format!(" and {}: {key}", plural(below, "more line"))).style(Modifier::DIM)
}

fn key_line(state: &State, is_cut: bool) -> Line<'static> {
    let mut keys = vec![("1-7", "view".to_owned())];
    match state.tab {
        Tab::Rules => {
            keys.push(("Up Down", "choose".to_owned()));
            keys.push(("o", "off".to_owned()));
            keys.push(("a", "advise".to_owned()));
            keys.push(("p", "apply".to_owned()));
            if is_cut {
                keys.push(("PgUp PgDn", "scroll".to_owned()));
            }
        }
        tab => {
            if is_cut {
                keys.push(("Up Down PgUp PgDn", "scroll".to_owned()));
            }
            if let Some(order) = tab.orders().get(state.order(tab)) {
                let by = if tab == Tab::Matrix { "shows" } else { "sorted by" };
                keys.push(("s", format!("{by} {order}")));
            }
        }
    }
    keys.push(("q", "quit".to_owned()));
    let mut spans = Vec::new();
    for (key, does) in keys {
        spans.push(Span::raw(" "));
        spans.push(Span::styled(key, Modifier::BOLD));
        spans.push(Span::raw(format!(" {does} ")));
    }
    Line::from(spans)
}

/// The newest first.
fn changes(snapshot: &Snapshot, columns: usize) -> Content {
    let blocks = history::blocks(snapshot);
    let rows: Vec<Line<'static>> = match blocks.len() {
        0 => vec![plain(" nothing was changed".to_owned())],
        _ => blocks
            .iter()
            .rev()
            .flatten()
            .flat_map(|text| wrapped("               ", text, columns))
            .collect(),
    };
    Content {
        head: Vec::new(),
        rows,
    }
}

/// What was said while the view was up, the newest first.
fn said(messages: &Messages, columns: usize) -> Content {
    let newest_first = messages.all().rev();
    let mut rows: Vec<Line<'static>> = newest_first
        .flat_map(|text| wrapped("   ", &format!(" {text}"), columns))
        .collect();
    if rows.is_empty() {
        rows.push(plain(" nothing was said yet".to_owned()));
    }
    Content {
        head: Vec::new(),
        rows,
    }
}
