//! Lowers the tree of the file to a [`RuleFile`]: checks keys and shapes, parses formulas, and reports as
//! many errors as possible. [`super::sections`] and [`super::tunes`] have the entries of the sections.

use std::collections::BTreeMap;

use super::keys::{self, Keys};
use super::sections::{capture, declared, join, metric, named, probe, role, texts, window};
use super::template::{Template, parse_template};
use super::tunes::tunes;
use super::yaml::{Tree, YamlNode, is_switch};
use super::{Bindings, CaptureEntry, MetricEntry, Named, RuleFile};
use crate::diag::{Diagnostic, Span, did_you_mean};
use crate::lang::ast::Expr;
use crate::lang::lexer::WORDS;
use crate::lang::parser::parse;
use crate::lang::text::Text;

/// Maximum number of entries in a section, because dependencies are traversed several times.
pub(super) const ENTRIES_MAX: usize = 256;

pub(crate) type Wrong<'a> = &'a mut Vec<Diagnostic>;

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
    let (parameters, meanings) = fields.parameters(wrong);
    let roles = fields.section("roles", wrong, role);
    let probes = fields.section("probes", wrong, probe);
    let captures = fields.captures(wrong);
    let joins = fields.section("join", wrong, join);
    let windows = fields.section("windows", wrong, window);
    let metrics = fields.metrics(wrong);
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

/// Lower-case letters and digits, with single dashes in between.
pub(crate) fn is_rule_name(name: &str) -> bool {
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.split('-')
        .all(|word| !word.is_empty() && word.chars().all(is_small))
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

/// The entries of a mapping that have known keys.
pub(crate) struct Fields<'a> {
    pub(crate) entries: Vec<(&'a Text, &'a Tree)>,
    keys: &'a Keys,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(tree: &'a Tree, keys: &'a Keys, wrong: Wrong<'_>) -> Option<Fields<'a>> {
        let entries = mapping(tree, keys.place, wrong)?;
        let mut known = Vec::new();
        for (key, value) in entries {
            if keys.known.iter().any(|known| known.name == key.raw) {
                known.push((key, value));
            } else {
                wrong.push(unknown_key(key, keys));
            }
        }
        Some(Fields { entries: known, keys })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Tree> {
        self.entries
            .iter()
            .find(|(key, _)| key.raw == name)
            .map(|(_, value)| *value)
    }

    pub(crate) fn required(&self, name: &str, place: Span, wrong: Wrong<'_>) -> Option<&'a Tree> {
        let found = self.get(name);
        if found.is_none() {
            let message = format!("{} must have `{name}`", self.keys.place);
            wrong.push(Diagnostic::wrong("E0111", place, message));
        }
        found
    }

    fn section<T>(
        &self,
        name: &str,
        wrong: Wrong<'_>,
        read: fn(&Text, &Tree, Wrong<'_>) -> Option<T>,
    ) -> Vec<T> {
        let checked = |(key, value): (&Text, &Tree), wrong: Wrong<'_>| -> Option<T> {
            let named = check_name(key, wrong);
            read(key, value, wrong).filter(|_| named)
        };
        let entries = self.entries_of(name, wrong).into_iter();
        entries.filter_map(|entry| checked(entry, wrong)).collect()
    }

    fn texts(&self, name: &str, wrong: Wrong<'_>) -> Vec<Text> {
        let found = self.get(name).map(|value| texts(value, wrong));
        found.unwrap_or_default()
    }

    fn sentence(&self, name: &str, wrong: Wrong<'_>) -> Option<String> {
        self.text(name, wrong).as_ref().map(sentence)
    }

    fn sentences(&self, name: &str, wrong: Wrong<'_>) -> Vec<String> {
        self.texts(name, wrong).iter().map(sentence).collect()
    }

    fn parameters(&self, wrong: Wrong<'_>) -> (Vec<Named>, BTreeMap<String, String>) {
        let found = self.section("parameters", wrong, parameter);
        let meaning = |(named, about): &(Named, Option<Text>)| {
            Some((named.name.raw.clone(), about.as_ref().map(sentence)?))
        };
        let meanings = found.iter().filter_map(meaning).collect();
        (found.into_iter().map(|(named, _)| named).collect(), meanings)
    }

    fn metrics(&self, wrong: Wrong<'_>) -> Vec<MetricEntry> {
        let entries = self.entries_of("metrics", wrong).into_iter();
        entries
            .filter_map(|(name, value)| metric(name, value, wrong))
            .collect()
    }

    fn captures(&self, wrong: Wrong<'_>) -> Vec<CaptureEntry> {
        let entries = self.entries_of("capture", wrong).into_iter();
        entries
            .filter_map(|(name, value)| capture(name, value, wrong))
            .collect()
    }

    fn entries_of(&self, name: &str, wrong: Wrong<'_>) -> Vec<(&'a Text, &'a Tree)> {
        let found = self.get(name);
        let entries = found.map(|tree| entries(tree, &format!("`{name}`"), ENTRIES_MAX, wrong));
        entries.unwrap_or_default()
    }

    pub(crate) fn formula(&self, name: &str, wrong: Wrong<'_>) -> Option<Expr> {
        self.get(name).and_then(|value| formula(value, wrong))
    }

    pub(crate) fn text(&self, name: &str, wrong: Wrong<'_>) -> Option<Text> {
        self.get(name).and_then(|value| text(value, wrong))
    }

    pub(crate) fn required_text(&self, name: &str, place: Span, wrong: Wrong<'_>) -> Option<Text> {
        let found = self.required(name, place, wrong);
        found.and_then(|value| text(value, wrong))
    }

    pub(super) fn template(&self, name: &str, wrong: Wrong<'_>) -> Option<Template> {
        self.text(name, wrong).map(|text| parse_template(&text, wrong))
    }
}

fn unknown_key(key: &Text, keys: &Keys) -> Diagnostic {
    let name = &key.raw;
    let help = did_you_mean(name, keys.names());
    Diagnostic::wrong("E0110", key.span, format!("{} has no `{name}`", keys.place))
        .help(help.unwrap_or_else(|| format!("it may have {}", keys.names().join(", "))))
}

pub(crate) fn wrong_shape(tree: &Tree, place: &str, wanted: &str, wrong: Wrong<'_>) {
    if !matches!(tree.node, YamlNode::Broken) {
        let message = format!("{place} must be {wanted}, this is {}", tree.what());
        wrong.push(Diagnostic::wrong("E0112", tree.span, message));
    }
}

pub(crate) fn mapping<'a>(
    tree: &'a Tree,
    place: &str,
    wrong: Wrong<'_>,
) -> Option<Vec<(&'a Text, &'a Tree)>> {
    match &tree.node {
        YamlNode::Mapping(entries) => Some(entries.iter().map(|(key, value)| (key, value)).collect()),
        _ => {
            wrong_shape(tree, place, "a mapping (`key: value` lines)", wrong);
            None
        }
    }
}

/// The entries of a mapping; an error if there are more than `most`.
pub(crate) fn entries<'a>(
    tree: &'a Tree,
    place: &str,
    most: usize,
    wrong: Wrong<'_>,
) -> Vec<(&'a Text, &'a Tree)> {
    let entries = mapping(tree, place, wrong).unwrap_or_default();
    if entries.len() > most {
        wrong.push(too_many(place, most, entries.len(), tree.span));
        return Vec::new();
    }
    entries
}

pub(super) fn too_many(place: &str, most: usize, entries: usize, span: Span) -> Diagnostic {
    let message = format!("{place} may have at most {most} entries, here are {entries}");
    Diagnostic::wrong("E0123", span, message)
}

/// A text for people, without the end of its last line.
fn sentence(text: &Text) -> String {
    text.raw.trim_end().to_string()
}

pub(crate) fn text(tree: &Tree, wrong: Wrong<'_>) -> Option<Text> {
    match &tree.node {
        YamlNode::Scalar(text) => Some(text.clone()),
        _ => {
            wrong_shape(tree, "this value", "a text", wrong);
            None
        }
    }
}

pub(crate) fn formula(tree: &Tree, wrong: Wrong<'_>) -> Option<Expr> {
    let YamlNode::Scalar(text) = &tree.node else {
        wrong_shape(tree, "this value", "a formula", wrong);
        return None;
    };
    parse(text).map_err(|diagnostic| wrong.push(diagnostic)).ok()
}

/// Whether a text is a word that is no keyword of the grammar.
fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_alphanumeric() || c == '_') && !WORDS.contains(&text)
}

/// Whether a text can be written as a name without quotes: `yes` is a boolean to some readers of YAML.
pub fn is_plain_name(text: &str) -> bool {
    is_name(text) && !is_switch(text)
}

/// Names are used in formulas: a single word that is no keyword of the grammar.
pub(crate) fn check_name(name: &Text, wrong: Wrong<'_>) -> bool {
    let raw = name.raw.as_str();
    if is_name(raw) {
        return true;
    }
    let message = format!("`{raw}` cannot be a name");
    let help = "a name has letters, digits and `_`, begins with a letter, and is not a word of the formulas";
    wrong.push(Diagnostic::wrong("E0113", name.span, message).help(help));
    false
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
