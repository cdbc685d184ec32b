//! The possible effects of rules on a program, for announcements and preparations.

use std::collections::BTreeSet;

use job::Member;
use plan::{Mode, ValueType};
use rules::PlannedVariable;

use super::RuleBook;

impl RuleBook {
    /// Whether some rule's changes take effect only at a place in the program.
    pub(crate) fn waits_for_places(&self) -> bool {
        self.engine.rules().any(|(_, rule, _)| rule.waits_for_places())
    }

    /// What a rule would do to these processes, a sentence each, and its gain elsewhere; empty if it only
    /// reports. Effects on roles that no process has are left out.
    pub(crate) fn effects(&self, name: &str, members: &[Member]) -> Vec<String> {
        let Some((_, rule, _)) = self.engine.rules().find(|(_, rule, _)| rule.name() == name) else {
            return Vec::new();
        };
        let facts: Vec<_> = members.iter().map(|member| self.facts_of(member)).collect();
        let roles: Vec<&str> = facts.iter().flat_map(|facts| rule.roles_of(facts)).collect();
        let changes = rule.plan().effects.iter().filter(|effect| effect.is_change);
        let in_program = changes.filter_map(|effect| {
            let has_role = |role: &&&str| effect.role.as_deref() == Some(**role);
            match roles.iter().filter(has_role).count() {
                0 => None,
                processes => Some(effect.on(processes)),
            }
        });
        let mut effects: Vec<String> = in_program.collect();
        // Several tunes may make the same call.
        effects.dedup();
        let gained = rule.gained().filter(|_| !effects.is_empty());
        let gained = gained.map(|gained| format!("measured elsewhere: {gained}"));
        effects.into_iter().chain(gained).collect()
    }

    /// The variables of which a rule would write every copy.
    pub(crate) fn written_everywhere(&self, name: &str) -> Vec<String> {
        let rule = self.engine.rules().find(|(_, rule, _)| rule.name() == name);
        let variables = rule.map_or(&[][..], |(_, rule, _)| &rule.plan().variables);
        let everywhere = variables.iter().filter(|variable| variable.everywhere);
        everywhere.map(|variable| variable.name.clone()).collect()
    }

    /// The variables that applying rules would write in a process, each with whether all of its copies are
    /// written.
    pub(crate) fn may_write(&self, member: &Member) -> BTreeSet<(String, bool)> {
        let written = self.written_by(member, |mode| mode == Mode::Applying);
        written
            .into_iter()
            .map(|variable| (variable.name, variable.everywhere))
            .collect()
    }

    /// The variables that any rule would write in a process or advises to write. Each has a name, and a type if a
    /// rule states it.
    pub(crate) fn would_write(&self, member: &Member) -> Vec<(String, Option<ValueType>)> {
        let written = self.written_by(member, |mode| mode != Mode::Off).into_iter();
        written
            .map(|variable| (variable.name, variable.value_type))
            .collect()
    }

    fn written_by(&self, member: &Member, of: impl Fn(Mode) -> bool) -> Vec<PlannedVariable> {
        let facts = self.facts_of(member);
        let rules = self.engine.rules().filter(|(_, _, mode)| of(*mode));
        let written = rules.flat_map(|(_, rule, _)| {
            let roles = rule.roles_of(&facts);
            let variables = rule.plan().variables.iter();
            variables.filter(move |variable| roles.contains(&variable.role.as_str()))
        });
        written.cloned().collect()
    }
}
