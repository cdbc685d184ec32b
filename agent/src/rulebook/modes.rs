//! What a rule may do, switched while a session runs.

use rules::{Mode, Time};

use super::{Act, RuleBook, sources};
use crate::control;

/// Why a rule is not switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSwitched {
    /// There is none of this name.
    NoSuchRule,
    /// It changes code or loads libraries, and `--apply` did not name it.
    NotNamed,
}

impl RuleBook {
    /// Switches a rule: the mode before, and what follows from leaving it.
    pub fn switch(
        &mut self,
        name: &str,
        mode: control::Mode,
        now_ns: u64,
    ) -> Result<(&'static str, Vec<Act>), NotSwitched> {
        let found = self.engine.rules().find(|(_, rule, _)| rule.name() == name);
        let (id, rule, before) = found.ok_or(NotSwitched::NoSuchRule)?;
        let is_named = self.named.iter().any(|named| named == name);
        if mode == control::Mode::Applying && sources::changes_code(rule) && !is_named {
            return Err(NotSwitched::NotNamed);
        }
        self.rehearsal.forget();
        let outputs = self.engine.set_mode(id, engine_mode(mode));
        if let Some(recorder) = &mut self.recorder {
            recorder.ruled(Time(now_ns), name, mode.name());
        }
        self.applying.retain(|applying| applying != name);
        if mode == control::Mode::Applying {
            self.applying.push(name.to_owned());
        }
        let acts = outputs.into_iter().map(|output| self.act(output)).collect();
        Ok((word(before), acts))
    }

    /// Rules that would change code or load libraries and that `--apply` did not name: they never apply.
    pub fn never_applying(&self) -> Vec<String> {
        let rules = self.engine.rules().map(|(_, rule, _)| rule);
        let unnamed = rules
            .filter(|rule| sources::changes_code(rule) && !self.named.iter().any(|name| name == rule.name()));
        unnamed.map(|rule| rule.name().to_owned()).collect()
    }
}

pub(super) fn engine_mode(mode: control::Mode) -> Mode {
    match mode {
        control::Mode::Off => Mode::Off,
        control::Mode::Advising => Mode::Advising,
        control::Mode::Applying => Mode::Applying,
    }
}

/// In a recording, the mode of a rule that was not there before.
pub(super) const ADDED: &str = "added";
/// And that of a rule that was removed.
pub(super) const REMOVED: &str = "removed";

/// The mode that a recording has a word for.
pub(super) fn recorded(word: &str) -> Option<control::Mode> {
    let modes = [
        control::Mode::Off,
        control::Mode::Advising,
        control::Mode::Applying,
    ];
    modes.into_iter().find(|mode| mode.name() == word)
}

/// The word for a mode.
pub(super) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Advising => "advising",
        Mode::Applying => "applying",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(tune: &str, apply: Option<&[&str]>) -> RuleBook {
        let source = format!(
            "rule: a\nabout: b\nwindows:\n  w: {{every: 1s}}\nmetrics:\n  used: sum(cpu.time) / w.duration\ntune:\n  - {tune}\n    \
             when: used >= 0\n    for: 2\n    guard: {{maximize: used, over: 2, undo_if_worse_by: 90%}}\n    finding: c\n"
        );
        let rule = rules::CheckedRule::from_source(&source).expect("the rule is right");
        let apply: Option<Vec<String>> =
            apply.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        RuleBook::of(vec![rule], apply.as_deref()).unwrap_or_else(|_| panic!("{source} is loaded"))
    }

    #[test]
    fn a_rule_that_changes_code_applies_only_if_apply_named_it() {
        let set = "set: knob\n    value: 20";
        let load = "load: libtuned.so";
        for (tune, apply, from_the_start, can_be_switched) in [
            (set, None, false, true),
            (set, Some(&[][..]), true, true),
            (load, None, false, false),
            (load, Some(&[][..]), false, false),
            (load, Some(&["a"][..]), true, true),
        ] {
            let mut book = book(tune, apply);
            assert_eq!(!book.applying.is_empty(), from_the_start, "{tune}, {apply:?}");
            assert_eq!(
                book.never_applying().is_empty(),
                can_be_switched,
                "{tune}, {apply:?}"
            );
            let switched = book.switch("a", control::Mode::Applying, 1).map(|_| ());
            let expected = if can_be_switched {
                Ok(())
            } else {
                Err(NotSwitched::NotNamed)
            };
            assert_eq!(switched, expected, "{tune}, {apply:?}");
            assert!(
                book.switch("a", control::Mode::Off, 1).is_ok(),
                "{tune}, {apply:?}"
            );
        }
    }
}
