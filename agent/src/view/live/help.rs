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
    ("/", "only rows with a text (not in every view)"),
    ("s  r", "another order of ranks and functions; reversed"),
    ("o  a  p", "in Rules: it is off, it advises, it applies"),
    ("?", "this list"),
    ("q  Ctrl-C", "end; changes are put back, unless --keep"),
    ("", "The program goes on in any case."),
];

/// What each view answers.
const VIEWS: [(Tab, &str); 8] = [
    (Tab::Overview, "where does the time go, what was found"),
    (Tab::Ranks, "which rank is slow, which one waits"),
    (Tab::Functions, "which calls take the time"),
    (Tab::CallSites, "which line of the program calls them"),
    (Tab::Rules, "what does each rule see, and do"),
    (Tab::Changes, "what was changed, what came of it"),
    (Tab::Log, "what was said, and when"),
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
