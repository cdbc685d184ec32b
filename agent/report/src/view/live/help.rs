//! The list of keys.

use ratatui::{
    style::Modifier,
    text::{Line, Span},
};

use super::{page::title, state::Tab};

const KEYS: [(&str, &str); 9] = [
    ("1-8  Tab  Left Right", "another view"),
    ("Up Down  PgUp PgDn  Home End", "choose a row, or scroll"),
    ("Enter  Esc", "details of a rank or a function, and back"),
    ("/", "filter rows by a text (not in every view)"),
    ("s  r", "sort ranks and functions; reverse the order"),
    ("o  a  p", "in Rules: off, advise, apply"),
    ("?", "this list"),
    ("q  Ctrl-C", "end; changes are reverted, unless --keep"),
    ("", "The program continues in any case."),
];

/// The question that each view answers.
const VIEWS: [(Tab, &str); 8] = [
    (Tab::Overview, "where the time goes, findings"),
    (Tab::Ranks, "which rank is slow, which one waits"),
    (Tab::Functions, "which calls take the time"),
    (Tab::CallSites, "which line of the program calls them"),
    (Tab::Rules, "what each rule measures and does"),
    (Tab::Changes, "changes and their verdicts"),
    (Tab::Log, "messages, with their time"),
    (Tab::Matrix, "which rank sends how much to which"),
];

pub(super) fn lines(shown: Tab) -> Vec<Line<'static>> {
    let views = VIEWS.iter().map(|(tab, answers)| {
        let style = match *tab == shown {
            true => Modifier::BOLD,
            false => Modifier::empty(),
        };
        Line::from(Span::styled(format!("   {:<12}{answers}", tab.name()), style))
    });
    let keys = KEYS
        .iter()
        .map(|(keys, does)| Line::from(format!("   {keys:<30}{does}")));
    let keys = std::iter::once(title(" Keys".to_owned())).chain(keys);
    keys.chain([title(" Views".to_owned())]).chain(views).collect()
}
