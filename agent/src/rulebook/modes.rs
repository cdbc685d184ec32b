//! What a rule may do, switched while a session runs.

use rules::Mode;

use super::{Act, RuleBook};
use crate::control;

impl RuleBook {
    /// Switches a rule: the mode before, and what follows from leaving it. None when there is no such rule.
    pub fn switch(&mut self, name: &str, mode: control::Mode) -> Option<(&'static str, Vec<Act>)> {
        let mut rules = self.engine.rules();
        let (id, before) = rules.find_map(|(id, rule, mode)| (rule.name() == name).then_some((id, mode)))?;
        drop(rules);
        let outputs = self.engine.set_mode(id, engine_mode(mode));
        self.applying.retain(|applying| applying != name);
        if mode == control::Mode::Applying {
            self.applying.push(name.to_owned());
        }
        let acts = outputs.into_iter().map(|output| self.act(output)).collect();
        Some((word(before), acts))
    }
}

fn engine_mode(mode: control::Mode) -> Mode {
    match mode {
        control::Mode::Off => Mode::Off,
        control::Mode::Advising => Mode::Advising,
        control::Mode::Applying => Mode::Applying,
    }
}

/// The word for a mode.
pub(super) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Advising => "advising",
        Mode::Applying => "applying",
    }
}
