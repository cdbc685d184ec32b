//! Findings: what a rule has found is said, with the command by which it would act and what it would do then. Does nothing about it.

use std::{collections::BTreeSet, time::Duration};

use super::{Session, orders::file_name};
use crate::{clock::monotonic_ns, discover::Member, snapshot::FindingView};

/// What is said of changes that a session without probes would make.
const UNJUDGED: &str = "without probes no guard judges it, and it is reverted when that session ends";

/// And of those that a session which may write does not make.
const UNNAMED: &str =
    "this session does not apply it: rules that change code or load libraries must be named";

impl Session {
    /// Where the copies are that a rule would write, for each variable that has several in a process.
    fn copies_in(&self, rule: &str) -> Vec<String> {
        let copies = |variable: String| {
            let of = |member: &Member| member.copies_at_start(&variable);
            let paths: BTreeSet<String> = self.job.members.iter().flat_map(of).collect();
            let files: Vec<&str> = paths.iter().map(|path| file_name(path)).collect();
            (files.len() > 1).then(|| format!("{variable} is in {}", files.join(" and in ")))
        };
        let variables = self.rules.written_everywhere(rule).into_iter();
        variables.filter_map(copies).collect()
    }

    pub(super) fn found(&mut self, rule: String, text: String, next_start: Option<String>, is_new: bool) {
        // Several tunes of a rule have one finding.
        if is_new && !self.changes.findings.is_open(&rule) {
            let indented = text.trim_end().replace('\n', "\n    ");
            self.painter.say(&format!("finding  {rule}   {indented}"));
            self.mark(plan::MarkKind::Finding, &rule, &text);
        }
        let mut effects = self.rules.effects(&rule);
        effects.extend(self.copies_in(&rule));
        let must_name = self.rules.never_applying().contains(&rule);
        // One that has to be named does not act in a session that applies the others either.
        let advises = !self.options.applies || must_name;
        let now = (advises && !effects.is_empty()).then(|| self.how_it_would_act(&rule, must_name, effects));
        self.changes.findings.open(FindingView {
            rule,
            at: Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns)),
            text,
            now,
            next_start,
            repaired: false,
        });
    }

    /// The command with which a rule would act, and what it would do then.
    fn how_it_would_act(&self, rule: &str, must_name: bool, effects: Vec<String>) -> String {
        let attach = self.applying(rule, must_name);
        // Who has no probes now has what it takes for the rules that do without, and nothing of theirs could be kept.
        let (command, unjudged) = match self.probes.kernel() {
            Some(_) => (crate::hint::as_root(&format!("{attach} --keep")), None),
            None => (crate::hint::as_we_are(&attach), Some(UNJUDGED.to_owned())),
        };
        let unnamed = self.options.applies.then(|| UNNAMED.to_owned());
        let lines = std::iter::once(command).chain(effects);
        lines
            .chain(unjudged)
            .chain(unnamed)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn applying(&self, rule: &str, must_name: bool) -> String {
        let named = if must_name {
            format!("={rule}")
        } else {
            String::new()
        };
        format!("attach {} --apply{named}", self.options.typed)
    }

    /// Of repairs that were put back at the end, with what command they stay.
    pub(super) fn say_how_repairs_stay(&mut self) {
        let must_be_named = self.rules.never_applying();
        for rule in self.changes.repairs_ended() {
            let attach = self.applying(&rule, must_be_named.contains(&rule));
            let command = crate::hint::as_root(&format!("{attach} --keep"));
            self.changes.findings.stays_with(&rule, command);
        }
    }
}
