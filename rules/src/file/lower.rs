//! The tree of the file to a [`RuleFile`]: known keys, right shapes, formulas read. As many errors as there are.

use std::collections::BTreeMap;

use super::keys::{self, Keys};
use super::template::{Template, parse_template};
use super::yaml::{Node, Tree};
use super::{
    CaptureEntry, GuardEntry, JoinEntry, KeyEntry, MetricEntry, Named, ProbeEntry, RuleFile, Site, TuneEntry,
    WindowEntry,
};
use crate::diag::{Diagnostic, Span, did_you_mean};
use crate::lang::ast::Expr;
use crate::lang::lexer::WORDS;
use crate::lang::parser::parse;
use crate::lang::text::Text;

/// How many entries a section may have: what depends on each other is walked more than once.
const MOST_ENTRIES: usize = 256;

type Wrong<'a> = &'a mut Vec<Diagnostic>;

pub(crate) fn lower(tree: &Tree, wrong: Wrong<'_>) -> Option<RuleFile> {
    let fields = Fields::of(tree, &keys::RULE, wrong)?;
    let name = fields
        .required("rule", tree.span, wrong)
        .and_then(|value| text(value, wrong));
    let about = fields
        .required("about", tree.span, wrong)
        .and_then(|value| text(value, wrong));
    let source = fields.get("source").and_then(|value| text(value, wrong));
    let names = fields.section("names", wrong, declared);
    let assumptions = fields.sentences("assumptions", wrong);
    let corrections = fields.sentences("corrections", wrong);
    let (parameters, meanings) = fields.parameters(wrong);
    let roles = fields.section("roles", wrong, named);
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
    if !name
        .raw
        .split('-')
        .all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
    {
        let message = "a rule's name has small letters, digits and single dashes between them";
        wrong.push(
            Diagnostic::error("E0113", message)
                .at(name.span, "")
                .help("for example `openmpi-busy-wait`"),
        );
    }
    let about = about?.raw.trim_end().to_string();
    let source = source.map(|text| text.raw.trim_end().to_string());
    Some(RuleFile {
        name,
        about,
        source,
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

/// The entries of a mapping whose keys are known.
struct Fields<'a> {
    entries: Vec<(&'a Text, &'a Tree)>,
    keys: &'a Keys,
}

impl<'a> Fields<'a> {
    fn of(tree: &'a Tree, keys: &'a Keys, wrong: Wrong<'_>) -> Option<Fields<'a>> {
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

    fn get(&self, name: &str) -> Option<&'a Tree> {
        self.entries
            .iter()
            .find(|(key, _)| key.raw == name)
            .map(|(_, value)| *value)
    }

    fn required(&self, name: &str, place: Span, wrong: Wrong<'_>) -> Option<&'a Tree> {
        let found = self.get(name);
        if found.is_none() {
            let message = format!("{} must have `{name}`", self.keys.place);
            wrong.push(Diagnostic::error("E0111", message).at(place, ""));
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

    fn sentences(&self, name: &str, wrong: Wrong<'_>) -> Vec<String> {
        let found = self
            .get(name)
            .map(|value| texts(value, wrong))
            .unwrap_or_default();
        found
            .into_iter()
            .map(|text| text.raw.trim_end().to_string())
            .collect()
    }

    fn parameters(&self, wrong: Wrong<'_>) -> (Vec<Named>, BTreeMap<String, String>) {
        let found = self.section("parameters", wrong, parameter);
        let meaning = |(named, about): &(Named, Option<Text>)| {
            let about = about.as_ref()?.raw.trim_end().to_string();
            Some((named.name.raw.clone(), about))
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
        let Some(tree) = self.get(name) else {
            return Vec::new();
        };
        let entries = mapping(tree, &format!("`{name}`"), wrong).unwrap_or_default();
        if entries.len() > MOST_ENTRIES {
            let message = format!(
                "`{name}` may have at most {MOST_ENTRIES} entries, here are {}",
                entries.len()
            );
            wrong.push(Diagnostic::error("E0123", message).at(tree.span, ""));
            return Vec::new();
        }
        entries
    }

    fn formula(&self, name: &str, wrong: Wrong<'_>) -> Option<Expr> {
        self.get(name).and_then(|value| formula(value, wrong))
    }

    fn text(&self, name: &str, wrong: Wrong<'_>) -> Option<Text> {
        self.get(name).and_then(|value| text(value, wrong))
    }

    fn template(&self, name: &str, wrong: Wrong<'_>) -> Option<Template> {
        self.text(name, wrong).map(|text| parse_template(&text, wrong))
    }
}

fn unknown_key(key: &Text, keys: &Keys) -> Diagnostic {
    let name = &key.raw;
    if keys.later.contains(&name.as_str()) {
        return Diagnostic::error(
            "E0105",
            format!("`{name}` in {} is not in this version", keys.place),
        )
        .at(key.span, "")
        .help(format!("this version has {}", keys.names().join(", ")));
    }
    let help = did_you_mean(name, keys.names());
    Diagnostic::error("E0110", format!("{} has no `{name}`", keys.place))
        .at(key.span, "")
        .help(help.unwrap_or_else(|| format!("it may have {}", keys.names().join(", "))))
}

fn wrong_shape(tree: &Tree, place: &str, wanted: &str, wrong: Wrong<'_>) {
    if !matches!(tree.node, Node::Broken) {
        let message = format!("{place} must be {wanted}, this is {}", tree.what());
        wrong.push(Diagnostic::error("E0112", message).at(tree.span, ""));
    }
}

fn mapping<'a>(tree: &'a Tree, place: &str, wrong: Wrong<'_>) -> Option<Vec<(&'a Text, &'a Tree)>> {
    match &tree.node {
        Node::Mapping(entries) => Some(entries.iter().map(|(key, value)| (key, value)).collect()),
        _ => {
            wrong_shape(tree, place, "a mapping (`key: value` lines)", wrong);
            None
        }
    }
}

fn text(tree: &Tree, wrong: Wrong<'_>) -> Option<Text> {
    match &tree.node {
        Node::Scalar(text) => Some(text.clone()),
        _ => {
            wrong_shape(tree, "this value", "a text", wrong);
            None
        }
    }
}

fn formula(tree: &Tree, wrong: Wrong<'_>) -> Option<Expr> {
    let text = match &tree.node {
        Node::Scalar(text) => text,
        _ => {
            wrong_shape(tree, "this value", "a formula", wrong);
            return None;
        }
    };
    parse(text).map_err(|diagnostic| wrong.push(diagnostic)).ok()
}

/// Names are used in formulas: one word, and none of the grammar's.
fn check_name(name: &Text, wrong: Wrong<'_>) -> bool {
    let raw = name.raw.as_str();
    let starts = raw.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let word = starts && raw.chars().all(|c| c.is_alphanumeric() || c == '_');
    if word && !WORDS.contains(&raw) {
        return true;
    }
    let message = format!("`{raw}` cannot be a name");
    let help = "a name has letters, digits and `_`, begins with a letter, and is not a word of the formulas";
    wrong.push(Diagnostic::error("E0113", message).at(name.span, "").help(help));
    false
}

fn named(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<Named> {
    if let Node::Mapping(_) = tree.node {
        let message = "a value with keys of its own is not in this version";
        wrong.push(
            Diagnostic::error("E0105", message)
                .at(name.span, "")
                .help("write `name: formula`"),
        );
        return None;
    }
    Some(Named {
        name: name.clone(),
        expr: formula(tree, wrong)?,
    })
}

fn parameter(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<(Named, Option<Text>)> {
    if !matches!(tree.node, Node::Mapping(_)) {
        return Some((named(name, tree, wrong)?, None));
    }
    let fields = Fields::of(tree, &keys::PARAMETER, wrong)?;
    let about = fields
        .required("about", name.span, wrong)
        .and_then(|value| text(value, wrong));
    fields.required("value", name.span, wrong)?;
    let expr = fields.formula("value", wrong)?;
    let name = name.clone();
    Some((Named { name, expr }, about))
}

fn declared(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<(Text, String)> {
    Some((name.clone(), text(tree, wrong)?.raw))
}

fn probe(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<ProbeEntry> {
    let fields = Fields::of(tree, &keys::PROBE, wrong)?;
    let role = fields
        .required("role", name.span, wrong)
        .and_then(|value| text(value, wrong));
    let sites = [
        ("entry", Site::Entry),
        ("return", Site::Return),
        ("span", Site::Span),
    ];
    let given: Vec<_> = sites
        .iter()
        .filter_map(|(key, site)| Some((*site, fields.get(key)?)))
        .collect();
    let [(site, function)] = given.as_slice() else {
        let message = "a probe must have one of `entry`, `return` and `span`";
        wrong
            .push(Diagnostic::error("E0111", message).at(name.span, format!("this one has {}", given.len())));
        return None;
    };
    if let Node::Sequence(_) = function.node {
        let message = "a span between two functions is not in this version";
        wrong.push(Diagnostic::error("E0105", message).at(function.span, ""));
        return None;
    }
    Some(ProbeEntry {
        name: name.clone(),
        role: role?,
        site: *site,
        function: text(function, wrong)?,
    })
}

fn capture(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<CaptureEntry> {
    let Some(dot) = name.raw.find('.') else {
        let message = format!("`{}` does not say at which probe it is captured", name.raw);
        let help = format!("write `probe.{}: …`", name.raw);
        wrong.push(Diagnostic::error("E0113", message).at(name.span, "").help(help));
        return None;
    };
    let (probe, field) = (name.part(0, dot), name.part(dot + 1, name.raw.len()));
    // Behind its dot a word of the grammar is no danger: `send.to`.
    let named =
        check_name(&probe, wrong) & (WORDS.contains(&field.raw.as_str()) || check_name(&field, wrong));
    let expr = formula(tree, wrong)?;
    named.then_some(CaptureEntry { probe, field, expr })
}

fn join(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<JoinEntry> {
    let fields = Fields::of(tree, &keys::JOIN, wrong)?;
    let of = fields
        .required("of", name.span, wrong)
        .map(|value| texts(value, wrong));
    let by = fields
        .required("by", name.span, wrong)
        .map(|value| texts(value, wrong))?;
    let of = match of?.as_slice() {
        [first, second] => (first.clone(), second.clone()),
        _ => {
            let message = "a join is of two probes: the first, and the second that it causes";
            wrong.push(Diagnostic::error("E0149", message).at(name.span, ""));
            return None;
        }
    };
    let mut pairs = Vec::new();
    for text in by {
        let Some((left, right)) = text.raw.split_once('=') else {
            let message = "a pair is written `send.to = compute.process`";
            wrong.push(Diagnostic::error("E0149", message).at(text.span, ""));
            return None;
        };
        let start = left.len() + 1 + (right.len() - right.trim_start().len());
        let right = text.part(start, start + right.trim().len());
        pairs.push((text.part(0, left.trim_end().len()), right));
    }
    Some(JoinEntry {
        name: name.clone(),
        of,
        by: pairs,
    })
}

fn texts(tree: &Tree, wrong: Wrong<'_>) -> Vec<Text> {
    match &tree.node {
        Node::Sequence(items) if items.len() <= MOST_ENTRIES => {
            items.iter().filter_map(|item| text(item, wrong)).collect()
        }
        _ => {
            wrong_shape(tree, "this value", "a short list", wrong);
            Vec::new()
        }
    }
}

fn window(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<WindowEntry> {
    let before = wrong.len();
    let fields = Fields::of(tree, &keys::WINDOW, wrong)?;
    let complete = match fields.get("complete") {
        Some(value) => mapping(value, "`complete`", wrong).unwrap_or_default(),
        None => Vec::new(),
    };
    let complete = complete
        .into_iter()
        .filter_map(|(role, value)| named(role, value, wrong))
        .collect();
    let entry = WindowEntry {
        name: name.clone(),
        every: fields.formula("every", wrong),
        from: fields.text("from", wrong),
        to: fields.text("to", wrong),
        key: fields.get("key").and_then(|value| key(value, wrong)),
        complete,
        timeout: fields.formula("timeout", wrong),
        skip: fields.formula("skip", wrong),
        discard: fields.formula("discard", wrong),
        straddle: fields.text("straddle", wrong),
    };
    if wrong.len() > before {
        return None;
    }
    Some(entry)
}

fn key(tree: &Tree, wrong: Wrong<'_>) -> Option<KeyEntry> {
    let Node::Mapping(entries) = &tree.node else {
        return text(tree, wrong).map(KeyEntry::Same);
    };
    let entries = entries.iter();
    let each = entries.filter_map(|(probe, value)| Some((probe.clone(), text(value, wrong)?)));
    Some(KeyEntry::Each(each.collect()))
}

fn metric(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<MetricEntry> {
    let (name, parameter) = name_and_parameter(name);
    let mut proper = check_name(&name, wrong);
    if let Some(parameter) = &parameter {
        proper &= check_name(parameter, wrong);
    }
    let (named, window) = metric_value(&name, tree, wrong)?;
    proper.then_some(MetricEntry {
        named,
        parameter,
        window,
    })
}

/// `T(n)` is `T` and `n`; anything else is a name, or none.
fn name_and_parameter(name: &Text) -> (Text, Option<Text>) {
    match (name.raw.find('('), name.raw.strip_suffix(')')) {
        (Some(open), Some(before)) => (name.part(0, open), Some(name.part(open + 1, before.len()))),
        _ => (name.clone(), None),
    }
}

fn metric_value(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<(Named, Option<Text>)> {
    if !matches!(tree.node, Node::Mapping(_)) {
        return Some((named(name, tree, wrong)?, None));
    }
    let fields = Fields::of(tree, &keys::METRIC, wrong)?;
    let window = fields
        .required("in", name.span, wrong)
        .and_then(|value| text(value, wrong));
    fields.required("value", name.span, wrong)?;
    let expr = fields.formula("value", wrong)?;
    let name = name.clone();
    Some((Named { name, expr }, Some(window?)))
}

fn tunes(tree: &Tree, wrong: Wrong<'_>) -> Vec<TuneEntry> {
    match &tree.node {
        Node::Sequence(items) if items.len() > MOST_ENTRIES => {
            let message = format!(
                "`tune` may have at most {MOST_ENTRIES} entries, here are {}",
                items.len()
            );
            wrong.push(Diagnostic::error("E0123", message).at(tree.span, ""));
            Vec::new()
        }
        Node::Sequence(items) => items.iter().filter_map(|item| tune(item, wrong)).collect(),
        _ => {
            wrong_shape(tree, "`tune`", "a list (`- set: …`)", wrong);
            Vec::new()
        }
    }
}

fn tune(tree: &Tree, wrong: Wrong<'_>) -> Option<TuneEntry> {
    let fields = Fields::of(tree, &keys::TUNE, wrong)?;
    let span = fields.entries.first().map_or(tree.span, |(key, _)| key.span);
    Some(TuneEntry {
        span,
        set: fields.text("set", wrong),
        role: fields.text("role", wrong),
        value: fields.formula("value", wrong),
        when: fields.formula("when", wrong),
        while_holds: fields.formula("while", wrong),
        initial: fields.formula("initial", wrong),
        expect: fields.formula("expect", wrong),
        stale: fields.formula("stale", wrong),
        after: fields.text("after", wrong),
        at: fields.get("at").and_then(|value| sync_point(value, span, wrong)),
        together: fields.text("together", wrong),
        independent: fields.formula("independent", wrong),
        holds_for: fields.formula("for", wrong),
        every: fields.text("every", wrong),
        range: fields.formula("range", wrong),
        guard: fields.get("guard").and_then(|value| guard(value, span, wrong)),
        cooldown: fields.formula("cooldown", wrong),
        finding: fields.template("finding", wrong),
        next_start: fields.template("next_start", wrong),
    })
}

fn sync_point(tree: &Tree, place: Span, wrong: Wrong<'_>) -> Option<(Site, Text)> {
    let fields = Fields::of(tree, &keys::SYNC, wrong)?;
    match (fields.text("entry", wrong), fields.text("return", wrong)) {
        (Some(function), None) => Some((Site::Entry, function)),
        (None, Some(function)) => Some((Site::Return, function)),
        _ => {
            let message = "`at` must have one of `entry` and `return`";
            wrong.push(Diagnostic::error("E0111", message).at(place, ""));
            None
        }
    }
}

fn guard(tree: &Tree, place: Span, wrong: Wrong<'_>) -> Option<GuardEntry> {
    let fields = Fields::of(tree, &keys::GUARD, wrong)?;
    let span = fields.entries.first().map_or(place, |(key, _)| key.span);
    let maximize = fields.get("maximize");
    let objective = match (maximize, fields.get("minimize")) {
        (Some(of), None) | (None, Some(of)) => formula(of, wrong)?,
        _ => {
            let message = "a guard must have one of `maximize` and `minimize`";
            wrong.push(Diagnostic::error("E0111", message).at(span, ""));
            return None;
        }
    };
    let over = fields.formula("over", wrong);
    let margin = fields.formula("undo_if_worse_by", wrong);
    Some(GuardEntry {
        span,
        maximize: maximize.is_some(),
        objective,
        over,
        margin,
    })
}
