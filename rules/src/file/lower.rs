//! Lowers the tree of the file to a [`RuleFile`]: checks keys and shapes, parses formulas, and reports as
//! many errors as possible. [`super::sections`] and [`super::tunes`] have the entries of the sections.

use std::collections::BTreeMap;

use syntax::diag::Diagnostic;
use syntax::fields::{Fields, Wrong, is_rule_name, sentence, text};
use syntax::text::Text;
use syntax::yaml::{Tree, YamlNode};

use super::keys;
use super::sections::{capture, declared, join, metric, named, probe, role, window};
use super::tunes::tunes;
use super::{Bindings, CaptureEntry, MetricEntry, Named, RuleFile};

fn priority(value: &Tree, wrong: Wrong<'_>) -> Option<i64> {
    let text = text(value, wrong)?;
    let number = text.raw.trim().parse::<i32>().ok();
    if number.is_none() {
        let message = format!("`{}` is not a priority: expected an integer", text.raw.trim());
        wrong.push(Diagnostic::wrong("E0145", text.span, message));
    }
    number.map(i64::from)
}

pub(crate) fn lower(tree: &Tree, wrong: Wrong<'_>) -> Option<RuleFile> {
    let fields = Fields::of(tree, &keys::RULE, wrong)?;
    let name = fields.required_text("rule", tree.span, wrong);
    let about = fields.required_text("about", tree.span, wrong);
    let source = fields.sentence("source", wrong);
    let gained = fields.sentence("gained", wrong);
    let must_be_named = fields.sentence("must_be_named", wrong);
    let results = fields.sentence("results", wrong);
    let priority = fields.get("priority").and_then(|value| priority(value, wrong));
    let uses = fields.texts("use", wrong);
    let names = fields.section("names", wrong, declared);
    let assumptions = fields.sentences("assumptions", wrong);
    let corrections = fields.sentences("corrections", wrong);
    let (parameters, meanings) = parameters_of(&fields, wrong);
    let roles = fields.section("roles", wrong, role);
    let probes = fields.section("probes", wrong, probe);
    let captures = captures_of(&fields, wrong);
    let joins = fields.section("join", wrong, join);
    let windows = fields.section("windows", wrong, window);
    let metrics = metrics_of(&fields, wrong);
    let tunes = fields
        .get("tune")
        .map(|value| tunes(value, wrong))
        .unwrap_or_default();
    let name = name?;
    if !is_rule_name(&name.raw) {
        let message = "a rule's name has small letters, digits and single dashes between them";
        wrong.push(Diagnostic::wrong("E0113", name.span, message).help("for example `openmpi-busy-wait`"));
    }
    Some(RuleFile {
        name,
        instance: None,
        about: sentence(&about?),
        source,
        gained,
        must_be_named,
        results,
        priority: priority.unwrap_or_default(),
        uses,
        assumptions,
        corrections,
        names,
        bindings: BTreeMap::new(),
        parameters,
        meanings,
        roles,
        probes,
        captures,
        joins,
        windows,
        metrics,
        tunes,
    })
}

/// Whether a file has the keys of a bindings file and none that a rule requires.
pub(super) fn is_bindings(tree: &Tree) -> bool {
    let YamlNode::Mapping(entries) = &tree.node else {
        return false;
    };
    let has = |name: &str| entries.iter().any(|(key, _)| key.raw == name);
    has("for") && !has("rule")
}

pub(super) fn bindings(tree: &Tree, wrong: Wrong<'_>) -> Option<Bindings> {
    let fields = Fields::of(tree, &keys::BINDINGS, wrong)?;
    let rule = fields.text("for", wrong)?;
    let names = fields.section("names", wrong, declared);
    if names.is_empty() {
        fields.required("names", tree.span, wrong);
    }
    let names = names
        .into_iter()
        .map(|(name, bound)| (name.raw, bound.trim().to_string()));
    Some(Bindings {
        rule: rule.raw,
        names: names.collect(),
    })
}

fn parameter(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<(Named, Option<Text>)> {
    if !matches!(tree.node, YamlNode::Mapping(_)) {
        return Some((named(name, tree, wrong)?, None));
    }
    let fields = Fields::of(tree, &keys::PARAMETER, wrong)?;
    let about = fields.required_text("about", name.span, wrong);
    fields.required("value", name.span, wrong)?;
    let expr = fields.formula("value", wrong)?;
    let name = name.clone();
    Some((Named { name, expr }, about))
}

fn parameters_of(fields: &Fields<'_>, wrong: Wrong<'_>) -> (Vec<Named>, BTreeMap<String, String>) {
    let found = fields.section("parameters", wrong, parameter);
    let meaning = |(named, about): &(Named, Option<Text>)| {
        Some((named.name.raw.clone(), about.as_ref().map(sentence)?))
    };
    let meanings = found.iter().filter_map(meaning).collect();
    (found.into_iter().map(|(named, _)| named).collect(), meanings)
}

fn metrics_of(fields: &Fields<'_>, wrong: Wrong<'_>) -> Vec<MetricEntry> {
    let entries = fields.entries_of("metrics", wrong).into_iter();
    entries
        .filter_map(|(name, value)| metric(name, value, wrong))
        .collect()
}

fn captures_of(fields: &Fields<'_>, wrong: Wrong<'_>) -> Vec<CaptureEntry> {
    let entries = fields.entries_of("capture", wrong).into_iter();
    entries
        .filter_map(|(name, value)| capture(name, value, wrong))
        .collect()
}
