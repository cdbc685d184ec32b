//! Where the user is: tab, place in it, order, the chosen rule. Pure: keys go in, wishes come out.

use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::{
    control::Mode,
    snapshot::{Rates, Snapshot},
};

/// Looks that the curves of the overview go back.
const HISTORY_MAX: usize = 240;

/// What a key asks of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is to end, for this reason.
    End(&'static str),
    /// A rule is to do more or less from now on.
    Switch {
        /// The rule.
        rule: String,
        /// Its new mode.
        mode: Mode,
    },
}

/// The tabs, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Overview,
    Ranks,
    Functions,
    Rules,
    Changes,
    Messages,
    Matrix,
}

impl Tab {
    pub(super) const ALL: [Tab; 7] = [
        Tab::Overview,
        Tab::Ranks,
        Tab::Functions,
        Tab::Rules,
        Tab::Changes,
        Tab::Messages,
        Tab::Matrix,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Ranks => "Ranks",
            Tab::Functions => "Functions",
            Tab::Rules => "Rules",
            Tab::Changes => "Changes",
            Tab::Messages => "Messages",
            Tab::Matrix => "Matrix",
        }
    }

    /// By what its rows can be ordered; the first is how it begins.
    pub(super) fn orders(self) -> &'static [&'static str] {
        match self {
            Tab::Ranks => &["rank", "time in MPI", "time waiting for a CPU"],
            Tab::Functions => &["share of the time", "calls", "mean", "name"],
            Tab::Matrix => &["bytes", "messages"],
            _ => &[],
        }
    }

    fn index(self) -> usize {
        Tab::ALL.iter().position(|tab| *tab == self).unwrap_or_default()
    }
}

/// How the time of the job was spent, at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) mpi: Option<f64>,
    pub(super) cpu: f64,
    pub(super) runqueue: f64,
}

impl Look {
    fn of(snapshot: &Snapshot) -> Option<Look> {
        let rates: Vec<Rates> = snapshot.running().filter_map(|process| process.rates).collect();
        if rates.is_empty() {
            return None;
        }
        let mean = |of: fn(&Rates) -> f64| rates.iter().map(of).sum::<f64>() / rates.len() as f64;
        let mpi: Option<f64> = rates.iter().map(|rates| rates.mpi).sum();
        Some(Look {
            mpi: mpi.map(|mpi| mpi / rates.len() as f64),
            cpu: mean(|rates| rates.cpu),
            runqueue: mean(|rates| rates.runqueue),
        })
    }
}

/// Everything that the view remembers between two pictures.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tab: Tab,
    /// Rows above the first one that is shown, by tab. The page takes back what goes beyond the end.
    pub(super) scroll: [usize; Tab::ALL.len()],
    order: [usize; Tab::ALL.len()],
    /// The chosen rule, by its place in the list.
    pub(super) chosen: usize,
    /// Rows that the page shows at once.
    pub(super) rows: usize,
    /// What the session said to the last wish.
    pub(super) answer: Option<String>,
    pub(super) looks: VecDeque<Look>,
}

impl State {
    /// Takes note of a new snapshot.
    pub(super) fn look(&mut self, snapshot: &Snapshot) {
        if let Some(look) = Look::of(snapshot) {
            self.looks.push_back(look);
        }
        if self.looks.len() > HISTORY_MAX {
            self.looks.pop_front();
        }
        self.chosen = self.chosen.min(rule_names(snapshot).len().saturating_sub(1));
    }

    pub(super) fn scroll(&mut self) -> &mut usize {
        &mut self.scroll[self.tab.index()]
    }

    /// What the rows of a tab are ordered by.
    pub(super) fn order(&self, tab: Tab) -> usize {
        self.order[tab.index()]
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent, snapshot: &Snapshot) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.answer = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Some(Wish::End("Ctrl-C")),
            KeyCode::Char(_) if control => {}
            KeyCode::Char('q') => return Some(Wish::End("ended by the user")),
            KeyCode::Char(digit @ '1'..='9') => {
                let index = digit as usize - '1' as usize;
                self.tab = Tab::ALL.get(index).copied().unwrap_or(self.tab);
            }
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.turn(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.turn(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.step(true, snapshot),
            KeyCode::Up | KeyCode::Char('k') => self.step(false, snapshot),
            KeyCode::PageDown | KeyCode::Char(' ') => *self.scroll() += self.rows.max(1),
            KeyCode::PageUp => *self.scroll() = self.scroll().saturating_sub(self.rows.max(1)),
            KeyCode::Home | KeyCode::Char('g') => *self.scroll() = 0,
            KeyCode::End | KeyCode::Char('G') => *self.scroll() = usize::MAX / 2,
            KeyCode::Char('s') => self.reorder(),
            KeyCode::Char('o') => return self.switch(Mode::Off, snapshot),
            KeyCode::Char('a') => return self.switch(Mode::Advising, snapshot),
            KeyCode::Char('p') => return self.switch(Mode::Applying, snapshot),
            _ => {}
        }
        None
    }

    fn turn(&mut self, by: usize) {
        self.tab = Tab::ALL[(self.tab.index() + by) % Tab::ALL.len()];
    }

    fn step(&mut self, down: bool, snapshot: &Snapshot) {
        if self.tab == Tab::Rules {
            let last = rule_names(snapshot).len().saturating_sub(1);
            self.chosen = match down {
                true => (self.chosen + 1).min(last),
                false => self.chosen.saturating_sub(1),
            };
            *self.scroll() = 0;
            return;
        }
        let scroll = self.scroll();
        *scroll = if down {
            *scroll + 1
        } else {
            scroll.saturating_sub(1)
        };
    }

    fn reorder(&mut self) {
        let index = self.tab.index();
        let orders = self.tab.orders().len();
        if orders > 0 {
            self.order[index] = (self.order[index] + 1) % orders;
            self.scroll[index] = 0;
        }
    }

    fn switch(&self, mode: Mode, snapshot: &Snapshot) -> Option<Wish> {
        let names = rule_names(snapshot);
        let rule = names.get(self.chosen).filter(|_| self.tab == Tab::Rules)?;
        Some(Wish::Switch {
            rule: (*rule).to_owned(),
            mode,
        })
    }
}

/// The rules, each once, in the order in which they were loaded.
pub(super) fn rule_names(snapshot: &Snapshot) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for rule in &snapshot.rules {
        if !names.contains(&rule.name.as_str()) {
            names.push(&rule.name);
        }
    }
    names
}
