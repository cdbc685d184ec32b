//! The rule file: YAML to a tree, the tree to a [`RuleFile`] whose formulas are parsed and whose names are not yet
//! resolved.

mod keys;
mod lower;
mod schema;
pub(crate) mod template;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeMap;

use crate::diag::{Diagnostic, Span, did_you_mean, has_errors};
use crate::lang::ast::Expr;
use crate::lang::text::Text;
pub use schema::schema;
use template::Template;

/// A rule as written: well-formed, every formula read; nothing is known yet of its names and types.
#[derive(Clone, Debug)]
pub struct RuleFile {
    pub(crate) name: Text,
    pub(crate) about: String,
    pub(crate) source: Option<String>,
    pub(crate) assumptions: Vec<String>,
    pub(crate) corrections: Vec<String>,
    /// Names of the program that may be bound to others, each with what it is.
    pub(crate) names: Vec<(Text, String)>,
    /// What they are bound to.
    pub(crate) bindings: BTreeMap<String, String>,
    pub(crate) parameters: Vec<Named>,
    /// What parameters mean, where the rule says so.
    pub(crate) meanings: BTreeMap<String, String>,
    pub(crate) roles: Vec<Named>,
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

/// A metric, and the window it says it lives in.
#[derive(Clone, Debug)]
pub(crate) struct MetricEntry {
    pub(crate) named: Named,
    /// The `n` of `T(n)`.
    pub(crate) parameter: Option<Text>,
    pub(crate) window: Option<Text>,
}

/// Where a probe sits in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// At its entry.
    Entry,
    /// At its return.
    Return,
    /// From entry to return: gives durations.
    Span,
}

#[derive(Clone, Debug)]
pub(crate) struct ProbeEntry {
    pub(crate) name: Text,
    pub(crate) role: Text,
    pub(crate) site: Site,
    pub(crate) function: Text,
}

/// Pairs of the hits of two probes.
#[derive(Clone, Debug)]
pub(crate) struct JoinEntry {
    pub(crate) name: Text,
    pub(crate) of: (Text, Text),
    /// Parts that are equal in both.
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
    pub(crate) from: Option<Text>,
    pub(crate) to: Option<Text>,
    pub(crate) key: Option<KeyEntry>,
    /// For each role the condition on each of its processes.
    pub(crate) complete: Vec<Named>,
    pub(crate) timeout: Option<Expr>,
    pub(crate) skip: Option<Expr>,
    pub(crate) discard: Option<Expr>,
    pub(crate) straddle: Option<Text>,
}

/// Which capture says to which instance of a window a hit belongs.
#[derive(Clone, Debug)]
pub(crate) enum KeyEntry {
    /// The capture of this name, wherever there is one.
    Same(Text),
    /// For each probe the name of its capture.
    Each(Vec<(Text, Text)>),
}

#[derive(Clone, Debug)]
pub(crate) struct TuneEntry {
    /// The dash's entry as a whole, for what is missing in it.
    pub(crate) span: Span,
    pub(crate) set: Option<Text>,
    pub(crate) role: Option<Text>,
    pub(crate) value: Option<Expr>,
    pub(crate) when: Option<Expr>,
    /// In force as long as this holds; instead of `when`.
    pub(crate) while_holds: Option<Expr>,
    pub(crate) initial: Option<Expr>,
    pub(crate) expect: Option<Expr>,
    pub(crate) stale: Option<Expr>,
    pub(crate) after: Option<Text>,
    pub(crate) at: Option<(Site, Text)>,
    pub(crate) together: Option<Text>,
    pub(crate) independent: Option<Expr>,
    pub(crate) holds_for: Option<Expr>,
    pub(crate) every: Option<Text>,
    pub(crate) range: Option<Expr>,
    pub(crate) guard: Option<GuardEntry>,
    pub(crate) cooldown: Option<Expr>,
    pub(crate) finding: Option<Template>,
    pub(crate) next_start: Option<Template>,
}

#[derive(Clone, Debug)]
pub(crate) struct GuardEntry {
    pub(crate) span: Span,
    pub(crate) maximize: bool,
    pub(crate) objective: Expr,
    pub(crate) over: Option<Expr>,
    pub(crate) margin: Option<Expr>,
}

impl RuleFile {
    /// Reads the text of a rule file.
    ///
    /// # Errors
    /// Everything found wrong with its YAML, its keys and the form of its formulas, in the order of the file.
    pub fn parse(source: &str) -> Result<RuleFile, Vec<Diagnostic>> {
        let (tree, mut wrong) = yaml::read(source);
        let file = tree.and_then(|tree| lower::lower(&tree, &mut wrong));
        wrong.sort_by_key(|d| d.labels.first().map_or(0, |(span, _)| span.start));
        match file {
            Some(file) if !has_errors(&wrong) => Ok(file),
            _ => Err(wrong),
        }
    }

    /// The same rule for a program that calls things otherwise: `bindings` takes names that the rule declares under
    /// `names` to those of the program.
    ///
    /// # Errors
    /// For every binding of a name the rule does not declare.
    pub fn bind(mut self, bindings: &BTreeMap<String, String>) -> Result<RuleFile, Vec<Diagnostic>> {
        let declared = || self.names.iter().map(|(name, _)| name.raw.as_str());
        let mut wrong = Vec::new();
        for name in bindings
            .keys()
            .filter(|name| !declared().any(|known| known == *name))
        {
            let near = did_you_mean(name, declared());
            let message = format!("the rule declares no name `{name}` to bind");
            wrong.push(
                Diagnostic::error("E0130", message)
                    .at(self.name.span, "")
                    .help_if(near),
            );
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        self.bindings.extend(bindings.clone());
        Ok(self)
    }

    /// The names of the program the rule may be bound by, each with what it is.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names
            .iter()
            .map(|(name, what)| (name.raw.as_str(), what.as_str()))
    }

    /// What the program calls `name`.
    pub(crate) fn bound(&self, name: &str) -> String {
        self.bindings.get(name).map_or(name, String::as_str).to_string()
    }

    /// The rule's name, as in `rule: openmpi-busy-wait`.
    pub fn name(&self) -> &str {
        &self.name.raw
    }
}
