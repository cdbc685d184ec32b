//! Composes the screen: the job, the tabs, the rows of the chosen tab, the keys.

use profile::Snapshot;
use profile::format::{self, percent, plural};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::{
    bars::Glyphs,
    call_sites, detail, functions, help,
    log::Log,
    matrix, overview, ranks, rules,
    state::{State, Tab},
};
use crate::view::{history, screen};

/// The content of a tab: fixed lines, and rows that scroll below them.
#[derive(Default)]
pub(super) struct Content {
    pub(super) head: Vec<Line<'static>>,
    pub(super) rows: Vec<Line<'static>>,
    /// Keys that identify the first rows, if rows can be chosen.
    pub(super) keys: Vec<String>,
}

impl Content {
    pub(super) fn rows(rows: Vec<Line<'static>>) -> Content {
        Content {
            rows,
            ..Content::default()
        }
    }

    /// Removes the rows that do not contain a text, ignoring case.
    fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        let is_kept = |row: &Line<'_>| row.to_string().to_lowercase().contains(&text);
        let kept: Vec<bool> = self.rows.iter().map(is_kept).collect();
        let mut of_rows = kept.iter();
        self.rows.retain(|_| of_rows.next() == Some(&true));
        let mut of_keys = kept.iter();
        self.keys.retain(|_| of_keys.next() == Some(&true));
    }
}

/// A share in at most seven columns.
pub(super) fn short_percent(share: f64) -> String {
    if share > 0.0 && share < 0.000_1 {
        return "<0.01 %".to_owned();
    }
    percent(share)
}

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

/// Splits a text into lines; all but the first begin with `indent`. Keeps blanks that align columns.
pub(super) fn wrapped(indent: &str, text: &str, columns: usize) -> Vec<Line<'static>> {
    let lines = format::wrapped(indent, text, columns);
    lines.into_iter().map(plain).collect()
}

/// Minimum columns and lines of a readable screen.
const SIZE_MIN: (u16, u16) = (40, 8);

pub(super) fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, state: &mut State, log: &Log, glyphs: Glyphs) {
    let area = frame.area();
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        let (columns, rows) = SIZE_MIN;
        let text = format!("too small: {columns} columns and {rows} lines are needed (q ends, or --plain)");
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let has_ranks = snapshot.job.mpi.is_some();
    let answer = state.answer.as_ref();
    let answer = answer.map(|answer| wrapped(" ", &format!(" {answer}"), usize::from(area.width)));
    let lines = [
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(answer.as_ref().map_or(1, Vec::len) as u16),
    ];
    let [top, tabs, body, keys] = Layout::vertical(lines).areas(frame.area());
    frame.render_widget(Paragraph::new(first_line(snapshot, usize::from(top.width))), top);
    frame.render_widget(
        Paragraph::new(tab_line(state, has_ranks, usize::from(tabs.width))),
        tabs,
    );
    if state.is_help {
        frame.render_widget(Paragraph::new(help::lines(state.tab)), body);
        frame.render_widget(Paragraph::new(plain(" any key: back ".to_owned())), keys);
        return;
    }
    let columns = usize::from(body.width);
    let mut content = match (state.tab, &state.detail) {
        (Tab::Ranks, Some(pid)) => detail::rank(snapshot, pid, columns, glyphs),
        (Tab::Functions, Some(name)) => detail::function(snapshot, name, columns, glyphs),
        (Tab::Overview, _) => overview::content(snapshot, state, body.as_size().into(), glyphs),
        (Tab::Ranks, None) => ranks::content(snapshot, state, columns, glyphs),
        (Tab::Functions, None) => functions::content(snapshot, state, columns, glyphs),
        (Tab::CallSites, _) => call_sites::content(snapshot, columns, glyphs),
        (Tab::Rules, _) => rules::content(snapshot, state, body.as_size().into()),
        (Tab::Changes, _) => changes(snapshot, columns),
        (Tab::Log, _) => said(log, columns),
        (Tab::Matrix, _) => matrix::content(snapshot, state, columns, glyphs),
    };
    if state.detail.is_none() && !state.filter.is_empty() {
        content.filter(&state.filter);
    }
    let is_cut = scrolled(frame, body, content, state);
    let last = match answer {
        Some(answer) => Paragraph::new(answer).style(Style::new().fg(Color::Yellow)),
        None if state.is_typing => Paragraph::new(typing_line(state)),
        None => Paragraph::new(key_line(state, has_ranks, is_cut, usize::from(area.width))),
    };
    frame.render_widget(last, keys);
}

/// The job, the time for which it is watched, and whether this session may change it or has changed it.
fn first_line(snapshot: &Snapshot, columns: usize) -> Line<'static> {
    let is_changed = snapshot.changes.iter().any(|change| change.outcome.is_in_force());
    let badge = match (snapshot.may_write(), is_changed) {
        (true, _) => " may write ",
        // The rules that made them were switched off: they stay until the session ends.
        (false, true) => " changes in force ",
        (false, false) => " only watches ",
    };
    let elapsed = format!("  {} ", format::time(snapshot.elapsed));
    let room = columns.saturating_sub(badge.len() + elapsed.chars().count());
    let job = screen::header_within(snapshot, room);
    let colour = if snapshot.may_write() || is_changed {
        Color::Yellow
    } else {
        Color::Green
    };
    Line::from(vec![
        Span::styled(format!("{job:<room$}"), Modifier::BOLD),
        Span::raw(elapsed),
        Span::styled(badge, Style::new().fg(colour).add_modifier(Modifier::REVERSED)),
    ])
}

/// The tabs by number and name. If not all names fit, tabs have only numbers, and the chosen one also its
/// name.
fn tab_line(state: &State, has_ranks: bool, columns: usize) -> Line<'static> {
    let name_of = |tab: Tab| match tab {
        Tab::Ranks if !has_ranks => "Procs",
        tab => tab.name(),
    };
    let names = Tab::ALL.iter().map(|tab| name_of(*tab).len() + 3);
    let has_room = names.sum::<usize>() <= columns;
    let mut spans = Vec::new();
    for (number, tab) in (1..).zip(Tab::ALL) {
        let is_chosen = tab == state.tab;
        let style = match is_chosen {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let name = match is_chosen || has_room {
            true => format!(" {number} {}", name_of(tab)),
            false => format!(" {number}"),
        };
        spans.push(Span::styled(name, style));
    }
    Line::from(spans)
}

fn typing_line(state: &State) -> Line<'static> {
    plain(format!(
        " /{}_   Enter keeps it, Esc shows all rows",
        state.filter
    ))
    .style(Style::new().fg(Color::Yellow))
}

/// Draws the rows from the scroll position on, and the number of rows below. Returns whether there are more
/// rows than fit.
fn scrolled(frame: &mut Frame<'_>, area: Rect, content: Content, state: &mut State) -> bool {
    let height = usize::from(area.height);
    let head = content.head.len().min(height);
    let rows = height - head;
    let most = content.rows.len().saturating_sub(rows);
    // One row shows the number of rows below, so a page is one row shorter.
    state.rows = rows.saturating_sub(usize::from(most > 0));
    state.show(content.keys);
    let chosen = (!state.keys.is_empty()).then(|| state.chosen(state.tab));
    let page = state.rows.max(1);
    let scroll = state.scroll();
    if let Some(chosen) = chosen {
        // If no rows are below the last row, it is visible.
        let is_at_end = chosen + 1 >= content.rows.len();
        let least = (chosen + 1).saturating_sub(page + usize::from(is_at_end && most > 0));
        *scroll = (*scroll).clamp(least.min(chosen), chosen);
    }
    *scroll = (*scroll).min(most);
    let scroll = *scroll;
    let below = (scroll < most && rows > 1).then(|| content.rows.len() - scroll - (rows - 1));
    let shown = rows - usize::from(below.is_some());
    let lines = content.rows.into_iter().enumerate().skip(scroll).take(shown);
    let shown = lines.map(|(index, line)| match chosen == Some(index) {
        true => line.patch_style(Modifier::REVERSED),
        false => line,
    });
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

fn key_line(state: &State, has_ranks: bool, is_cut: bool, columns: usize) -> Line<'static> {
    let mut keys = vec![("?", "help".to_owned())];
    let scroll = ("PgUp PgDn", "scroll".to_owned());
    if state.detail.is_some() {
        keys.extend(is_cut.then_some(scroll));
        keys.push(("Esc", "back".to_owned()));
        return key_spans(keys);
    }
    match state.tab {
        Tab::Rules => {
            keys.push(("Up Down", "choose".to_owned()));
            keys.push(("o", "off".to_owned()));
            keys.push(("a", "advise".to_owned()));
            keys.push(("p", "apply".to_owned()));
            keys.extend(is_cut.then_some(scroll));
        }
        tab => {
            if tab.has_details() && !state.keys.is_empty() {
                keys.push(("Up Down Enter", "details".to_owned()));
            } else if is_cut {
                keys.push(("Up Down PgUp PgDn", "scroll".to_owned()));
            }
            if tab.is_filtered() {
                let filter = match state.filter.as_str() {
                    "" => "filter".to_owned(),
                    text => format!("filter: {text} (Esc: all)"),
                };
                keys.push(("/", filter));
            }
            if let Some(order) = tab.orders().get(state.order(tab)) {
                let order = match (tab, *order) {
                    (Tab::Matrix, order) => format!("bytes or messages (now {order})"),
                    (_, "rank") if !has_ranks => "sorted by pid".to_owned(),
                    (_, order) => format!("sorted by {order}"),
                };
                keys.push(("s", order));
            }
        }
    }
    keys.push(("q", "quit".to_owned()));
    // The key to quit must be visible; the help has the others.
    let width = |keys: &[(&str, String)]| -> usize {
        let of = keys.iter().map(|(key, does)| key.len() + does.len() + 3);
        of.sum()
    };
    while width(&keys) > columns && keys.len() > 2 {
        keys.remove(keys.len() - 2);
    }
    key_spans(keys)
}

fn key_spans(keys: Vec<(&'static str, String)>) -> Line<'static> {
    let mut spans = Vec::new();
    for (key, does) in keys {
        spans.push(Span::raw(" "));
        spans.push(Span::styled(key, Modifier::BOLD));
        spans.push(Span::raw(format!(" {does} ")));
    }
    Line::from(spans)
}

fn changes(snapshot: &Snapshot, columns: usize) -> Content {
    let blocks = history::blocks(snapshot);
    Content::rows(match blocks.len() {
        0 => vec![plain(" nothing was changed".to_owned())],
        _ => blocks
            .iter()
            .rev()
            .flatten()
            .flat_map(|text| wrapped("               ", text, columns))
            .collect(),
    })
}

/// The messages that were issued while the view is shown, the newest first.
fn said(log: &Log, columns: usize) -> Content {
    let line = |(elapsed, text): (Option<std::time::Duration>, String)| {
        let elapsed = elapsed.map_or_else(String::new, format::time);
        // Keep the line breaks of a text.
        let texts: Vec<String> = text.lines().map(str::to_owned).collect();
        let first = texts.first().map(|first| format!(" {elapsed:>9}  {first}"));
        let rest = texts
            .into_iter()
            .skip(1)
            .map(|text| format!("            {}", text.trim_start()));
        first.into_iter().chain(rest)
    };
    let mut rows: Vec<Line<'static>> = log
        .all()
        .rev()
        .flat_map(line)
        .flat_map(|text| wrapped("              ", &text, columns))
        .collect();
    if rows.is_empty() {
        rows.push(plain(" no messages yet".to_owned()));
    }
    Content::rows(rows)
}
