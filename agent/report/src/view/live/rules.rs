//! The tab of the rules: the list, and the details of the chosen rule.

use plan::Mode;
use profile::format::{plural, time};
use profile::{RuleView, Snapshot};
use ratatui::{
    style::Modifier,
    text::{Line, Span},
};

use super::{
    page::{Content, plain, title, wrapped},
    state::{State, Tab, rule_names},
};
use crate::view::{findings, history};

/// Minimum number of listed rules; the list takes half of the rows if that is more.
const LISTED_MIN: usize = 8;

pub(super) fn content(snapshot: &Snapshot, state: &State, (columns, rows): (u16, u16)) -> Content {
    let columns = usize::from(columns);
    let names = rule_names(snapshot);
    if names.is_empty() {
        return Content::rows(vec![plain(" no rule is loaded".to_owned())]);
    }
    let mut head = vec![title(format!(" {:<28} {:<10} state", "rule", "mode"))];
    // The chosen rule stays visible.
    let listed = LISTED_MIN.max(usize::from(rows / 2));
    let first = (state.chosen(Tab::Rules) + 1).saturating_sub(listed);
    for (index, name) in names.iter().enumerate().skip(first).take(listed) {
        head.push(list_line(
            snapshot,
            name,
            index == state.chosen(Tab::Rules),
            columns,
        ));
    }
    head.push(match names.len().saturating_sub(first + listed) {
        0 => Line::default(),
        below => plain(format!(" and {}: Down", plural(below, "more rule"))).style(Modifier::DIM),
    });
    let chosen = names.get(state.chosen(Tab::Rules)).copied().unwrap_or_default();
    Content {
        head,
        rows: details(snapshot, chosen, columns),
        ..Content::default()
    }
}

fn tunes<'a>(snapshot: &'a Snapshot, name: &'a str) -> impl Iterator<Item = &'a RuleView> {
    snapshot.rules.iter().filter(move |rule| rule.name == name)
}

fn list_line(snapshot: &Snapshot, name: &str, is_chosen: bool, columns: usize) -> Line<'static> {
    let mode = tunes(snapshot, name)
        .next()
        .map(|rule| rule.mode)
        .unwrap_or_default();
    let found = snapshot.findings.iter().find(|finding| finding.rule == name);
    let state = match found {
        Some(finding) => match (finding.repaired, mode == Mode::Off) {
            (true, true) => "repaired before".to_owned(),
            (true, false) => "finding, repaired".to_owned(),
            (false, true) => "finding before".to_owned(),
            (false, false) => "finding".to_owned(),
        },
        None => findings::state(tunes(snapshot, name))
            .unwrap_or_default()
            .to_owned(),
    };
    let text = format!(" {name:<28} {mode:<10} {state}");
    let text = cut(text, columns);
    if !is_chosen {
        return plain(text);
    }
    Line::from(Span::raw(format!("{text:<columns$}"))).style(Modifier::REVERSED)
}

/// Cuts a text; the details have all of it.
fn cut(text: String, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text;
    }
    let first = text.chars().take(columns.saturating_sub(3));
    first.chain("...".chars()).take(columns).collect()
}

fn details(snapshot: &Snapshot, name: &str, columns: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(format!(" {name}"))];
    let mut texts: Vec<String> = Vec::new();
    for finding in snapshot.findings.iter().filter(|finding| finding.rule == name) {
        texts.extend(findings::block(finding, &[]).into_iter().skip(1));
        texts.push(format!("    found  after {}", time(finding.at)));
        let first = finding.text.lines().next().unwrap_or_default();
        lines.extend(wrapped("    ", &format!("    {first}"), columns));
    }
    texts.extend(findings::state(tunes(snapshot, name)).map(|state| format!("    state  {state}")));
    let values = snapshot.rule_values.iter().filter(|value| value.rule == name);
    texts.extend(values.map(|value| format!("    value  {} = {}", value.metric, value.text)));
    lines.extend(
        texts
            .iter()
            .flat_map(|text| wrapped("           ", text, columns)),
    );
    let changes = history::of_rule(snapshot, name);
    if !changes.is_empty() {
        lines.push(Line::default());
        lines.extend(
            changes
                .iter()
                .flat_map(|text| wrapped("               ", text, columns)),
        );
    }
    lines
}
