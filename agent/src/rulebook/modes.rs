//! Switches the modes of rules while a session runs.

use plan::Mode;
use profile::format::suggestion;
use rules::{CheckedRule, Time};
use session::requests::NotSwitched;

use super::permissions::why_not;
use super::{Act, RuleBook};
use crate::exit::Failure;

impl RuleBook {
    /// Switches a rule; returns the previous mode, and the acts that follow from leaving it.
    pub(crate) fn switch(
        &mut self,
        name: &str,
        mode: Mode,
        now_ns: u64,
    ) -> Result<(&'static str, Vec<Act>), NotSwitched> {
        let found = self.engine.rules().find(|(_, rule, _)| rule.name() == name);
        let (id, rule, before) = found.ok_or(NotSwitched::NoSuchRule)?;
        self.permissions.switch(rule, mode)?;
        let before = shown(before, rule).name();
        self.warm_up.forget();
        let outputs = self.engine.set_mode(id, mode);
        if let Some(recorder) = &mut self.recorder {
            recorder.ruled(Time(now_ns), name, mode.name());
        }
        let acts = outputs
            .into_iter()
            .filter_map(|output| self.act(output))
            .collect();
        Ok((before, acts))
    }

    /// The message for a rule that does not exist.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let names = self.engine.rules().map(|(_, rule, _)| rule.name().to_owned());
        let near = suggestion(names, name);
        format!("this session has no rule {name}{near} (all of them: tuneagent session list)")
    }

    /// For a session that reverts everything at its end, which cannot have rules that make calls without an
    /// inverse: it is an error if `--apply` named one of them, and the others only advise. Returns a sentence
    /// for each of these.
    pub(crate) fn revert_everything_at_exit(&mut self) -> Result<Vec<String>, Failure> {
        let rules = self.engine.rules().map(|(_, rule, _)| rule);
        self.permissions.revert_everything(rules)
    }

    /// The reason if a rule makes calls without an inverse, which this session does not allow.
    pub(crate) fn refuses_calls_of(&self, rule: &CheckedRule) -> Option<String> {
        self.permissions.forbids_calls_of(rule).then(|| why_not(rule))
    }

    /// Whether a rule may act now.
    pub(crate) fn applies(&self, name: &str) -> bool {
        self.permissions.applies(name)
    }

    /// Whether a rule applies only if it is named.
    pub(crate) fn must_be_named(&self, name: &str) -> bool {
        let mut rules = self.engine.rules().map(|(_, rule, _)| rule);
        rules.any(|rule| rule.name() == name && rule.must_be_named())
    }

    /// What a user should know before naming a rule that must be named.
    pub(crate) fn risk(&self, name: &str) -> Option<&str> {
        let mut rules = self.engine.rules().map(|(_, rule, _)| rule);
        rules.find(|rule| rule.name() == name)?.risk()
    }

    /// Whether a rule that may act has something to do.
    pub(crate) fn may_change(&self) -> bool {
        let mut rules = self.engine.rules().map(|(_, rule, _)| rule);
        rules.any(|rule| self.applies(rule.name()) && rule.acts())
    }

    /// A note on each rule that `--apply` names and that changes nothing.
    pub(crate) fn only_reporting(&self) -> Vec<String> {
        let rules = self.engine.rules().map(|(_, rule, _)| rule);
        let named = rules.filter(|rule| self.permissions.is_named(rule.name()));
        named
            .filter(|rule| !rule.acts())
            .map(|rule| format!("{} only reports: --apply has no effect on it", rule.name()))
            .collect()
    }

    /// Rules that must be named but were not named by `--apply`: they never apply.
    pub(crate) fn never_applying(&self) -> Vec<String> {
        let rules = self.engine.rules().map(|(_, rule, _)| rule);
        let unnamed = rules.filter(|rule| rule.must_be_named() && !self.permissions.is_named(rule.name()));
        unnamed.map(|rule| rule.name().to_owned()).collect()
    }
}

/// The mode as it is shown: a rule without actions never applies.
pub(super) fn shown(mode: Mode, rule: &CheckedRule) -> Mode {
    match mode {
        Mode::Applying if !rule.acts() => Mode::Advising,
        mode => mode,
    }
}

/// In a recording, the mode of a rule that was added.
pub(super) const ADDED: &str = "added";
/// In a recording, the mode of a rule that was removed.
pub(super) const REMOVED: &str = "removed";

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
    fn a_rule_whose_calls_stay_acts_only_where_changes_may_stay() {
        let book = |tune: &str, apply: &[&str]| {
            let source = format!(
                "rule: a\nabout: b\nwindows:\n  w: {{every: 1s}}\nmetrics:\n  used: sum(cpu.time) / w.duration\ntune:\n  - {tune}\n    when: used >= 0\n"
            );
            let rule = rules::CheckedRule::from_source(&source).expect("the rule is right");
            let apply: Vec<String> = apply.iter().map(|&name| name.to_owned()).collect();
            RuleBook::of(vec![rule], Some(&apply)).unwrap_or_else(|_| panic!("{source} is loaded"))
        };
        let stays = "call: f(1)";
        let text = "its call f() has no `inverse` and cannot be reverted at the end of the session; such rules act with --keep";
        let mut kept = book(stays, &[]);
        assert!(kept.applies("a"));
        assert!(kept.switch("a", Mode::Applying, 1).is_ok());
        let mut unnamed = book(stays, &[]);
        assert_eq!(
            unnamed.revert_everything_at_exit().unwrap(),
            [format!("a only advises: {text}")]
        );
        assert!(!unnamed.applies("a"));
        let switched = unnamed.switch("a", Mode::Applying, 1).map(|_| ());
        assert_eq!(switched, Err(NotSwitched::Stays));
        let named = book(stays, &["a"]).revert_everything_at_exit().unwrap_err();
        assert_eq!(named.error.message, format!("--apply=a: {text}"));
        for taken_back in [
            "call: f(1)\n    inverse: f(0)",
            "call: f(1)\n    inverse: none\n    because: c",
        ] {
            let mut book = book(taken_back, &["a"]);
            assert_eq!(book.revert_everything_at_exit().unwrap(), [""; 0], "{taken_back}");
            assert!(book.applies("a"), "{taken_back}");
        }
    }

    #[test]
    fn a_rule_that_can_change_nothing_is_listed_as_advising() {
        let set = "set: knob\n    value: 20\n    ";
        for (action, mode) in [(set, Mode::Applying), ("", Mode::Advising)] {
            let source = format!(
                "rule: a\nabout: b\nwindows:\n  w: {{every: 1s}}\ntune:\n  - {action}when: w.duration > 0s\n    finding: c\n"
            );
            let rule = rules::CheckedRule::from_source(&source).expect("the rule is right");
            let mut book =
                RuleBook::of(vec![rule], Some(&[])).unwrap_or_else(|_| panic!("{source} is loaded"));
            assert!(book.switch("a", Mode::Applying, 1).is_ok());
            assert_eq!(book.views()[0].mode, mode, "{source}");
            let before = book.switch("a", Mode::Off, 2).map(|(before, _)| before);
            assert_eq!(before, Ok(mode.name()), "{source}");
        }
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
            assert_eq!(book.applies("a"), from_the_start, "{tune}, {apply:?}");
            assert_eq!(
                book.never_applying().is_empty(),
                can_be_switched,
                "{tune}, {apply:?}"
            );
            let switched = book.switch("a", Mode::Applying, 1).map(|_| ());
            let expected = if can_be_switched {
                Ok(())
            } else {
                Err(NotSwitched::NotNamed)
            };
            assert_eq!(switched, expected, "{tune}, {apply:?}");
            assert!(book.switch("a", Mode::Off, 1).is_ok(), "{tune}, {apply:?}");
        }
    }
}
