//! The state of the user interface: tab, scroll position, order, the chosen rule. Pure: handles keys and
//! returns requests.

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use plan::Mode;
use profile::{Rates, Snapshot};

use crate::view::cpus;

/// Number of samples that the curves of the overview show.
const HISTORY_MAX: usize = 240;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// The session should end, for this reason.
    End(&'static str),
    /// The mode of a rule should change.
    Switch { rule: String, mode: Mode },
}

plan::words! {
    /// The tabs, in their order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) enum Tab {
        #[default]
        Overview = "Overview",
        Ranks = "Ranks",
        Functions = "Functions",
        CallSites = "Call sites",
        Rules = "Rules",
        Changes = "Changes",
        Log = "Log",
        Matrix = "Matrix",
    }
}

impl Tab {
    /// The orders of its rows; the first is the default.
    pub(super) fn orders(self) -> &'static [&'static str] {
        match self {
            Tab::Ranks => &["rank", "time in MPI", "time waiting for a CPU"],
            Tab::Functions => &["share of the time", "calls", "mean", "name"],
            Tab::Matrix => &["bytes", "messages"],
            _ => &[],
        }
    }

    /// Whether `Enter` opens a row.
    pub(super) fn has_details(self) -> bool {
        matches!(self, Tab::Ranks | Tab::Functions)
    }

    /// Whether `/` filters rows.
    pub(super) fn is_filtered(self) -> bool {
        matches!(self, Tab::Ranks | Tab::Functions | Tab::CallSites | Tab::Log)
    }

    fn index(self) -> usize {
        Tab::ALL.iter().position(|tab| *tab == self).unwrap_or_default()
    }
}

/// How the job spent its time, at one snapshot: the means over its processes.
fn mean_rates(snapshot: &Snapshot) -> Option<Rates> {
    let rates: Vec<Rates> = snapshot.running().filter_map(|process| process.rates).collect();
    if rates.is_empty() {
        return None;
    }
    let mean = |of: fn(&Rates) -> f64| rates.iter().map(of).sum::<f64>() / rates.len() as f64;
    let mpi: Option<f64> = rates.iter().map(|rates| rates.mpi).sum();
    let (cpu, runqueue) = (mean(|rates| rates.cpu), mean(|rates| rates.runqueue));
    Some(Rates {
        mpi: mpi.map(|mpi| mpi / rates.len() as f64),
        cpu,
        // The line above the curves shows the same number.
        runqueue: match snapshot.job.mpi {
            Some(_) => cpus::waited(cpu, runqueue),
            None => runqueue,
        },
        ..Rates::default()
    })
}

/// The state that the view keeps between two drawings.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tab: Tab,
    /// Rows above the first visible one, by tab. The page limits them to the number of rows.
    pub(super) scroll: [usize; Tab::ALL.len()],
    order: [usize; Tab::ALL.len()],
    is_reversed: [bool; Tab::ALL.len()],
    /// The chosen row, by tab.
    chosen: [usize; Tab::ALL.len()],
    /// Keys of the rows that the page shows, in order: function names or process ids. Empty for a tab whose
    /// rows cannot be chosen.
    pub(super) keys: Vec<String>,
    /// Number of rows that the page shows at once.
    pub(super) rows: usize,
    /// The key of the row whose details are shown.
    pub(super) detail: Option<String>,
    /// Rows that do not contain this text are hidden.
    pub(super) filter: String,
    /// Keys are input of the filter.
    pub(super) is_typing: bool,
    pub(super) is_help: bool,
    /// The session's answer to the last request.
    pub(super) answer: Option<String>,
    pub(super) looks: VecDeque<Rates>,
}

impl State {
    /// Takes a sample of a new snapshot.
    pub(super) fn look(&mut self, snapshot: &Snapshot) {
        self.looks.extend(mean_rates(snapshot));
        if self.looks.len() > HISTORY_MAX {
            self.looks.pop_front();
        }
        let rules = &mut self.chosen[Tab::Rules.index()];
        *rules = (*rules).min(rule_names(snapshot).len().saturating_sub(1));
    }

    pub(super) fn scroll(&mut self) -> &mut usize {
        &mut self.scroll[self.tab.index()]
    }

    /// The index of a tab's order in [`Tab::orders`].
    pub(super) fn order(&self, tab: Tab) -> usize {
        self.order[tab.index()]
    }

    pub(super) fn is_reversed(&self, tab: Tab) -> bool {
        self.is_reversed[tab.index()]
    }

    pub(super) fn chosen(&self, tab: Tab) -> usize {
        self.chosen[tab.index()]
    }

    /// Stores the keys of the rows that are shown.
    pub(super) fn show(&mut self, keys: Vec<String>) {
        if self.tab != Tab::Rules && self.detail.is_none() {
            let chosen = &mut self.chosen[self.tab.index()];
            *chosen = (*chosen).min(keys.len().saturating_sub(1));
        }
        self.keys = keys;
    }

    pub(super) fn press(&mut self, key: KeyEvent, snapshot: &Snapshot) -> Option<UserRequest> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.answer = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Some(UserRequest::End("Ctrl-C")),
            KeyCode::Char(_) if control => {}
            // Any key except those that end the session only closes the help.
            code if self.is_help && code != KeyCode::Char('q') => self.is_help = false,
            code if self.is_typing => self.type_filter(code),
            KeyCode::Char('q') => return Some(UserRequest::End("ended by the user")),
            KeyCode::Char('?') | KeyCode::F(1) => self.is_help = true,
            KeyCode::Char('/') if self.tab.is_filtered() => {
                self.filter.clear();
                self.is_typing = true;
                self.detail = None;
            }
            KeyCode::Enter if self.tab.has_details() && self.detail.is_none() => self.open(),
            KeyCode::Esc | KeyCode::Backspace => self.close(),
            KeyCode::Char('o') => return self.switch(Mode::Off, snapshot),
            KeyCode::Char('a') => return self.switch(Mode::Advising, snapshot),
            KeyCode::Char('p') => return self.switch(Mode::Applying, snapshot),
            code => self.go(code, snapshot),
        }
        None
    }

    /// Keys that change what is shown.
    fn go(&mut self, code: KeyCode, snapshot: &Snapshot) {
        let page = self.rows.max(1);
        match code {
            KeyCode::Char(digit @ '1'..='9') => {
                let index = digit as usize - '1' as usize;
                self.turn_to(Tab::ALL.get(index).copied().unwrap_or(self.tab));
            }
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.turn(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.turn(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1, snapshot),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1, snapshot),
            KeyCode::PageDown | KeyCode::Char(' ') => self.page(page as isize),
            KeyCode::PageUp => self.page(-(page as isize)),
            KeyCode::Home | KeyCode::Char('g') => self.page(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.page(isize::MAX / 2),
            KeyCode::Char('s') => self.reorder(),
            KeyCode::Char('r') if !self.tab.orders().is_empty() => {
                let index = self.tab.index();
                self.is_reversed[index] = !self.is_reversed[index];
            }
            _ => {}
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter => self.is_typing = false,
            _ => {}
        }
    }

    fn open(&mut self) {
        self.detail = self.keys.get(self.chosen(self.tab)).cloned();
        *self.scroll() = 0;
    }

    /// Goes one step back: closes the details first, then the filter.
    fn close(&mut self) {
        if self.detail.take().is_none() {
            self.filter.clear();
        }
        *self.scroll() = 0;
    }

    fn turn(&mut self, by: usize) {
        self.turn_to(Tab::ALL[(self.tab.index() + by) % Tab::ALL.len()]);
    }

    fn turn_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.keys.clear();
        self.detail = None;
        self.filter.clear();
    }

    /// Up and Down choose a row if rows can be chosen, and scroll otherwise.
    fn step(&mut self, by: isize, snapshot: &Snapshot) {
        if self.tab == Tab::Rules {
            self.choose(by, rule_names(snapshot).len());
            *self.scroll() = 0;
            return;
        }
        self.page(by);
    }

    fn page(&mut self, by: isize) {
        if self.detail.is_none() && !self.keys.is_empty() {
            return self.choose(by, self.keys.len());
        }
        let scroll = self.scroll();
        *scroll = scroll.saturating_add_signed(by);
    }

    fn choose(&mut self, by: isize, number: usize) {
        let chosen = &mut self.chosen[self.tab.index()];
        *chosen = chosen.saturating_add_signed(by).min(number.saturating_sub(1));
    }

    fn reorder(&mut self) {
        let index = self.tab.index();
        let orders = self.tab.orders().len();
        if orders > 0 {
            self.order[index] = (self.order[index] + 1) % orders;
            self.scroll[index] = 0;
            self.chosen[index] = 0;
        }
    }

    fn switch(&self, mode: Mode, snapshot: &Snapshot) -> Option<UserRequest> {
        let names = rule_names(snapshot);
        let rule = names
            .get(self.chosen(Tab::Rules))
            .filter(|_| self.tab == Tab::Rules)?;
        Some(UserRequest::Switch {
            rule: (*rule).to_owned(),
            mode,
        })
    }
}

/// The names of the rules, in the order in which they were loaded.
pub(super) fn rule_names(snapshot: &Snapshot) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for rule in &snapshot.rules {
        if !names.contains(&rule.name.as_str()) {
            names.push(&rule.name);
        }
    }
    names
}
