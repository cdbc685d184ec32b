//! Roles, and the probes in their processes.

use syntax::diag::{Diagnostic, Span};
use syntax::text::Text;

use super::infer::FormulaPosition;
use super::{Checker, optional};
use crate::file::{ProbeEntry, RoleEntry};
use crate::rule::{CheckedProbe, Role};
use crate::target::{SETS, Site, Target};
use crate::term::{Term, Typed};
use crate::types::Type;
use crate::value::Scalar;

/// The role of a rule without roles: every process of the job.
pub(super) const EVERYBODY: &str = "process";

impl Role {
    pub(super) fn everybody() -> Role {
        Role {
            name: EVERYBODY.to_string(),
            conditions: vec![Typed::new(
                Type::BOOLEAN,
                Span::default(),
                Term::Constant(Scalar::Boolean(true)),
            )],
            least: 0,
            most: None,
        }
    }
}

impl Checker<'_> {
    pub(super) fn role(&mut self, entry: &RoleEntry) -> Option<Role> {
        let condition = match &entry.expr {
            Some(expr) => self.infer(FormulaPosition::Role).infer_boolean(expr)?,
            None => return Some(Role::everybody()),
        };
        Some(Role {
            name: entry.name.raw.clone(),
            conditions: vec![condition],
            least: entry.least,
            most: entry.most,
        })
    }

    pub(super) fn role_named(&mut self, name: &Text) -> Option<usize> {
        if let Some(&role) = self.names.roles.get(&name.raw) {
            return Some(role);
        }
        let near = syntax::diag::names_help(&name.raw, self.names.roles.keys().map(String::as_str));
        let message = format!("there is no role `{}`", name.raw);
        self.report(Diagnostic::wrong("E0130", name.span, message).help_if(near))
    }

    /// The default role: the only one.
    pub(super) fn only_role(&mut self, place: Span, what: &str, which: &str) -> Option<usize> {
        if self.file.roles.len() <= 1 {
            return Some(0);
        }
        let message = format!("{what} must have `role`");
        let help = format!("{which}; a rule with one role needs not say it");
        self.report(Diagnostic::wrong("E0111", place, message).help(help))
    }

    pub(super) fn probe(&mut self, entry: &ProbeEntry, roles: &mut Vec<Role>) -> Option<CheckedProbe> {
        let role = match &entry.role {
            Some(name) => self.role_named(name),
            None if entry.implied => Some(any_of(roles)),
            None => self.only_role(entry.name.span, "a probe", "in which processes it sits"),
        };
        let target = match entry.is_mark {
            true => self.mark(&entry.function),
            false => self.target(&entry.function),
        };
        if target == Some(Target::LoopIteration) && entry.site != Site::Span && !entry.implied {
            let message = "an iteration of the detected loop is observed when it has ended";
            let wrong = Diagnostic::wrong("E0134", entry.function.span, message);
            return self.report(wrong.help("declare it with `span: loop.iteration`"));
        }
        let to = optional(entry.to.as_ref(), |to| self.end_of_span(entry, to))?;
        Some(CheckedProbe {
            name: entry.name.raw.clone(),
            role: role?,
            site: entry.site,
            target: target?,
            to,
            reads: Vec::new(),
            captures: Vec::new(),
        })
    }

    /// A function, a pattern, or a set.
    pub(super) fn target(&mut self, text: &Text) -> Option<Target> {
        let bound = self.file.bound(&text.raw);
        if bound.is_empty() || bound.contains(char::is_whitespace) {
            return self.refuse("E0113", text.span, "this cannot be the name of a function");
        }
        let found = Target::named(&bound);
        if found.is_none() {
            let message = format!("there is no set of functions `{bound}`");
            let help = format!("the sets are {}", SETS.join(", "));
            return self.report(Diagnostic::wrong("E0130", text.span, message).help(help));
        }
        found
    }

    fn mark(&mut self, text: &Text) -> Option<Target> {
        let bound = self.file.bound(&text.raw);
        let found = Target::mark(&bound).filter(|_| !bound.contains(char::is_whitespace));
        if found.is_none() {
            let message = format!("`{bound}` cannot be the name of a mark");
            let wrong = Diagnostic::wrong("E0113", text.span, message);
            return self.report(wrong.help("a mark is named with its provider: `mark: app:step`"));
        }
        found
    }

    fn end_of_span(&mut self, entry: &ProbeEntry, to: &Text) -> Option<Target> {
        let ends = [self.target(&entry.function)?, self.target(to)?];
        if ends.iter().all(|end| end.function().is_some()) {
            let [_, to] = ends;
            return Some(to);
        }
        let message = "a span between functions goes from one function to one other";
        let help = "a pattern or a set of functions has a span of its own: `span: solve_*`";
        self.report(Diagnostic::wrong("E0134", to.span, message).help(help))
    }

    pub(super) fn probe_named(&mut self, name: &Text) -> Option<usize> {
        let probes = self.file.probes.iter().filter(|probe| !probe.implied);
        let names: Vec<&str> = probes.map(|probe| probe.name.raw.as_str()).collect();
        if let Some(place) = names.iter().position(|known| *known == name.raw) {
            return Some(place);
        }
        let near = syntax::diag::names_help(&name.raw, names);
        let wrong = Diagnostic::error("E0130", format!("there is no probe `{}`", name.raw));
        self.report(wrong.at(name.span, "").help_if(near))
    }
}

/// A role for the processes that have any of the roles.
fn any_of(roles: &mut Vec<Role>) -> usize {
    if roles.len() <= 1 {
        return 0;
    }
    let names: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
    let all = Role {
        name: names.join(" or "),
        conditions: roles.iter().flat_map(|role| role.conditions.clone()).collect(),
        least: 0,
        most: None,
    };
    roles.push(all);
    roles.len() - 1
}
