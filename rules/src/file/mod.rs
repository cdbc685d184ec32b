//! The rule file: YAML to a tree, and the tree to a [`RuleFile`] whose formulas are parsed and whose names
//! are unresolved.

pub(crate) mod keys;
pub(crate) mod lower;
pub(crate) mod schema;
mod sections;
#[cfg(test)]
pub(crate) mod tests;
mod tunes;
pub(crate) mod used;

use std::collections::BTreeMap;

use ::plan::{Keyword, Moment};
use syntax::ast::Expr;
use syntax::diag::{Diagnostic, Span, names_help};
use syntax::fields::read;
use syntax::template::{self, FormulaText};
use syntax::text::Text;

use crate::target::Site;

pub use schema::schema;

/// A rule as written: well-formed, with all formulas parsed; names and types are unchecked.
#[derive(Clone, Debug)]
pub struct RuleFile {
    pub(crate) name: Text,
    /// The name of this instance, if the rule runs several times.
    pub(crate) instance: Option<String>,
    pub(crate) about: String,
    pub(crate) source: Option<String>,
    /// The measured speed-up of a program by the rule.
    pub(crate) gained: Option<String>,
    /// Why the rule acts only if it is named.
    pub(crate) must_be_named: Option<String>,
    /// The effect of the rule's changes on the results of the program.
    pub(crate) results: Option<String>,
    pub(crate) priority: i64,
    /// The rules whose definitions it uses; empty once they are included.
    pub(crate) uses: Vec<Text>,
    pub(crate) assumptions: Vec<String>,
    pub(crate) corrections: Vec<String>,
    /// Names of the program that may be bound to others, each with a description.
    pub(crate) names: Vec<(Text, String)>,
    pub(crate) bindings: BTreeMap<String, String>,
    pub(crate) parameters: Vec<Named>,
    /// Descriptions of parameters, if the rule has them.
    pub(crate) meanings: BTreeMap<String, String>,
    pub(crate) roles: Vec<RoleEntry>,
    pub(crate) probes: Vec<ProbeEntry>,
    pub(crate) captures: Vec<CaptureEntry>,
    pub(crate) joins: Vec<JoinEntry>,
    pub(crate) windows: Vec<WindowEntry>,
    pub(crate) metrics: Vec<MetricEntry>,
    pub(crate) tunes: Vec<TuneEntry>,
}

/// `name: formula`.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: Text,
    pub(crate) expr: Expr,
}

/// A role, with the number of processes it requires.
#[derive(Clone, Debug)]
pub(crate) struct RoleEntry {
    pub(crate) name: Text,
    /// `None` selects every process.
    pub(crate) expr: Option<Expr>,
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
}

/// A metric, with its stated window.
#[derive(Clone, Debug)]
pub(crate) struct MetricEntry {
    pub(crate) named: Named,
    /// The `n` of `T(n)`.
    pub(crate) parameter: Option<Text>,
    pub(crate) window: Option<Text>,
}

#[derive(Clone, Debug)]
pub(crate) struct ProbeEntry {
    pub(crate) name: Text,
    /// `None` stands for the only role.
    pub(crate) role: Option<Text>,
    pub(crate) site: Site,
    /// `function` is a mark, as `provider:name`.
    pub(crate) is_mark: bool,
    pub(crate) function: Text,
    /// Where a span between two functions ends.
    pub(crate) to: Option<Text>,
    /// It is not written in the file, but required by something in it.
    pub(crate) implied: bool,
}

/// Pairs of the hits of two probes.
#[derive(Clone, Debug)]
pub(crate) struct JoinEntry {
    pub(crate) name: Text,
    pub(crate) of: (Text, Text),
    /// Fields that are equal in both hits.
    pub(crate) by: Vec<(Text, Text)>,
}

/// `probe.field: formula`.
#[derive(Clone, Debug)]
pub(crate) struct CaptureEntry {
    pub(crate) probe: Text,
    pub(crate) field: Text,
    pub(crate) expr: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct WindowEntry {
    pub(crate) name: Text,
    pub(crate) every: Option<Expr>,
    /// The instances are the iterations of the detected loop.
    pub(crate) detect: Option<Text>,
    pub(crate) from: Vec<Text>,
    pub(crate) to: Option<Text>,
    pub(crate) within: Option<Text>,
    pub(crate) until: Option<Expr>,
    pub(crate) key: Option<KeyEntry>,
    /// For each role, the condition on each of its processes.
    pub(crate) complete: Vec<Named>,
    pub(crate) timeout: Option<Expr>,
    pub(crate) skip: Option<Expr>,
    pub(crate) discard: Option<Expr>,
    pub(crate) straddle: Option<Text>,
}

/// The capture that determines the instance of a window to which a hit belongs.
#[derive(Clone, Debug)]
pub(crate) enum KeyEntry {
    /// The capture of this name, of every probe that has it.
    Same(Text),
    /// For each probe, the name of its capture.
    Each(Vec<(Text, Text)>),
}

#[derive(Clone, Debug)]
pub(crate) struct TuneEntry {
    /// The complete list entry, for errors about missing keys.
    pub(crate) span: Span,
    /// Its action; without one, the tune only advises.
    pub(crate) action: Option<ActionEntry>,
    pub(crate) inverse: Option<InverseEntry>,
    pub(crate) was: Option<Expr>,
    pub(crate) because: Option<Text>,
    pub(crate) remains: Option<Text>,
    pub(crate) with: Option<Text>,
    pub(crate) inside: Option<Text>,
    pub(crate) place: Option<Text>,
    pub(crate) role: Option<Text>,
    pub(crate) value: Option<Expr>,
    pub(crate) when: Option<Expr>,
    /// Condition during which the change is in force; replaces `when`.
    pub(crate) while_holds: Option<Expr>,
    pub(crate) initial: Option<Expr>,
    pub(crate) expect: Option<Expr>,
    pub(crate) stale: Option<Expr>,
    pub(crate) after: Option<Text>,
    pub(crate) at: Option<SyncEntry>,
    pub(crate) together: Option<Text>,
    pub(crate) independent: Option<Expr>,
    pub(crate) holds_for: Option<Expr>,
    pub(crate) every: Option<Text>,
    pub(crate) range: Option<Expr>,
    pub(crate) guard: Option<GuardEntry>,
    pub(crate) cooldown: Option<Expr>,
    pub(crate) finding: Option<FormulaText>,
    pub(crate) next_start: Option<FormulaText>,
}

impl TuneEntry {
    /// Every formula of the tune that is evaluated in its window.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        let mut out: Vec<&Expr> = Vec::new();
        out.extend(self.action.iter().filter_map(|action| action.call.as_ref()));
        out.extend(self.inverse.iter().filter_map(|inverse| inverse.call.as_ref()));
        out.extend(&self.was);
        out.extend(
            [
                &self.value,
                &self.when,
                &self.while_holds,
                &self.expect,
                &self.range,
            ]
            .into_iter()
            .flatten(),
        );
        if let Some(guard) = &self.guard {
            out.extend(std::iter::once(&guard.objective).chain(&guard.was));
        }
        for template in [&self.finding, &self.next_start].into_iter().flatten() {
            out.extend(template.parts.iter().filter_map(|part| match part {
                template::Part::Formula { expr, .. } => Some(expr),
                template::Part::Literal(_) => None,
            }));
        }
        out
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ActionEntry {
    pub(crate) keyword: Keyword,
    pub(crate) target: Text,
    /// The target as a formula, if it is a function with arguments.
    pub(crate) call: Option<Expr>,
}

/// The inverse of a call.
#[derive(Clone, Debug)]
pub(crate) struct InverseEntry {
    pub(crate) text: Text,
    /// `None` stands for `none`.
    pub(crate) call: Option<Expr>,
}

/// The sync point at which each process takes a change.
#[derive(Clone, Debug)]
pub(crate) struct SyncEntry {
    pub(crate) moment: Moment,
    pub(crate) function: Text,
}

#[derive(Clone, Debug)]
pub(crate) struct GuardEntry {
    pub(crate) span: Span,
    pub(crate) maximize: bool,
    pub(crate) objective: Expr,
    pub(crate) over: Option<Expr>,
    pub(crate) margin: Option<Expr>,
    pub(crate) was: Option<Expr>,
    pub(crate) retry: Option<Expr>,
    pub(crate) keep: Option<Text>,
}

impl RuleFile {
    /// Parses the text of a rule file.
    ///
    /// # Errors
    /// All errors in its YAML, its keys and the form of its formulas, in the order of the file.
    pub fn parse(source: &str) -> Result<RuleFile, Vec<Diagnostic>> {
        read(source, None, |tree, wrong| {
            if lower::is_bindings(tree) {
                let message = "this file binds names and holds no rule";
                let wrong_one = Diagnostic::wrong("E0111", tree.span, message);
                wrong.push(wrong_one.help("give it with `--bind`"));
                return None;
            }
            lower::lower(tree, wrong)
        })
    }

    /// The rule under a name of its own, so that it can run several times with different parameters:
    /// `rule@left`.
    ///
    /// # Errors
    /// If the name contains more than lower-case letters, digits and single dashes.
    pub fn instance(mut self, name: &str) -> Result<RuleFile, Vec<Diagnostic>> {
        if syntax::fields::is_rule_name(name) {
            self.instance = Some(name.to_string());
            return Ok(self);
        }
        let message = format!("`{name}` cannot be the name of an instance of the rule");
        let wrong = Diagnostic::wrong("E0113", self.name.span, message);
        Err(vec![
            wrong.help("small letters, digits and single dashes: `rule@left`"),
        ])
    }

    /// The rule for a program with other names: `bindings` maps names that the rule declares under `names` to
    /// those of the program.
    ///
    /// # Errors
    /// For every binding of a name that the rule does not declare.
    pub fn bind(mut self, bindings: &BTreeMap<String, String>) -> Result<RuleFile, Vec<Diagnostic>> {
        let declared = || self.names.iter().map(|(name, _)| name.raw.as_str());
        let mut wrong = Vec::new();
        for name in bindings
            .keys()
            .filter(|name| !declared().any(|known| known == *name))
        {
            let near = names_help(name, declared());
            let message = format!("the rule declares no name `{name}` to bind");
            wrong.push(Diagnostic::wrong("E0130", self.name.span, message).help_if(near));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        self.bindings.extend(bindings.clone());
        Ok(self)
    }

    /// The names of the program that may be bound, each with its description.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names
            .iter()
            .map(|(name, what)| (name.raw.as_str(), what.as_str()))
    }

    /// The program's name for `name`.
    pub(crate) fn bound(&self, name: &str) -> String {
        self.bindings.get(name).map_or(name, String::as_str).to_string()
    }

    /// The rule's name, as in `rule: openmpi-busy-wait`, followed by that of its instance if it has one.
    pub fn name(&self) -> String {
        match &self.instance {
            None => self.name.raw.clone(),
            Some(instance) => format!("{}@{instance}", self.name.raw),
        }
    }
}

/// A program's names for the names of a rule: a file with `for` and `names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bindings {
    pub rule: String,
    /// Maps names that the rule declares to those of the program.
    pub names: BTreeMap<String, String>,
}

impl Bindings {
    /// Whether a text is a bindings file rather than a rule.
    pub fn is_bindings(source: &str) -> bool {
        syntax::yaml::read(source, None)
            .0
            .is_some_and(|tree| lower::is_bindings(&tree))
    }

    /// Parses the text of a bindings file.
    ///
    /// # Errors
    /// All errors, in the order of the file.
    pub fn parse(source: &str) -> Result<Bindings, Vec<Diagnostic>> {
        read(source, None, lower::bindings)
    }
}
