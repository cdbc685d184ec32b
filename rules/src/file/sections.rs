//! The entries of the sections of a rule other than tunes: roles, probes, captures, joins, windows, metrics.

use syntax::diag::Diagnostic;
use syntax::fields::{Fields, Wrong, check_name, formula, mapping, text, texts};
use syntax::lexer::WORDS;
use syntax::text::Text;
use syntax::yaml::{Tree, YamlNode};

use super::keys;
use super::{
    CaptureEntry, JoinEntry, KeyEntry, MetricEntry, Named, ProbeEntry, RoleEntry, Site, WindowEntry,
};

pub(super) fn named(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<Named> {
    if let YamlNode::Mapping(_) = tree.node {
        let message = "this value has no keys of its own";
        let wrong_one = Diagnostic::wrong("E0112", name.span, message);
        wrong.push(wrong_one.help("write `name: formula`"));
        return None;
    }
    Some(Named {
        name: name.clone(),
        expr: formula(tree, wrong)?,
    })
}

pub(super) fn declared(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<(Text, String)> {
    Some((name.clone(), text(tree, wrong)?.raw))
}

/// `worker: rank > 0`, or with the number of processes: `worker: {if: rank > 0, count: 1..25}`.
pub(super) fn role(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<RoleEntry> {
    let everybody = RoleEntry {
        name: name.clone(),
        expr: None,
        least: 0,
        most: None,
    };
    if !matches!(tree.node, YamlNode::Mapping(_)) {
        return Some(RoleEntry {
            expr: Some(formula(tree, wrong)?),
            ..everybody
        });
    }
    let fields = Fields::of(tree, &keys::ROLE, wrong)?;
    fields.required("if", name.span, wrong)?;
    let expr = Some(fields.formula("if", wrong)?);
    let Some(count) = fields.text("count", wrong) else {
        return Some(RoleEntry { expr, ..everybody });
    };
    let Some((least, most)) = range_of(&count.raw) else {
        let message = "`count` is how many processes must have the role";
        let help = "`count: 1..25`, `count: 2..` for two and more, `count: 4` for just four";
        wrong.push(Diagnostic::wrong("E0145", count.span, message).help(help));
        return None;
    };
    Some(RoleEntry {
        expr,
        least,
        most,
        ..everybody
    })
}

fn range_of(text: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let Some((least, most)) = text.split_once("..") else {
        let just = number(text)?;
        return Some((just, Some(just)));
    };
    let least = if least.trim().is_empty() {
        0
    } else {
        number(least)?
    };
    let most = match most.trim().is_empty() {
        true => None,
        false => Some(number(most)?),
    };
    most.is_none_or(|most| least <= most && most > 0)
        .then_some((least, most))
}

pub(super) fn probe(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<ProbeEntry> {
    let fields = Fields::of(tree, &keys::PROBE, wrong)?;
    let sites = [
        ("entry", Site::Entry),
        ("return", Site::Return),
        ("span", Site::Span),
        ("mark", Site::Entry),
    ];
    let given: Vec<_> = sites
        .iter()
        .filter_map(|(key, site)| Some((*site, fields.get(key)?)))
        .collect();
    let [(site, function)] = given.as_slice() else {
        let message = "a probe must have one of `entry`, `return`, `span` and `mark`";
        wrong
            .push(Diagnostic::error("E0111", message).at(name.span, format!("this one has {}", given.len())));
        return None;
    };
    let (function, to) = match &function.node {
        YamlNode::Sequence(_) if *site == Site::Span => match texts(function, wrong).as_slice() {
            [first, second] => (first.clone(), Some(second.clone())),
            _ => {
                let message = "a span between functions has two: where it begins and where it ends";
                let help = "`span: [f, g]` is from the entry of f to the return of g in one thread";
                wrong.push(Diagnostic::wrong("E0112", function.span, message).help(help));
                return None;
            }
        },
        _ => (text(function, wrong)?, None),
    };
    Some(ProbeEntry {
        name: name.clone(),
        role: fields.text("role", wrong),
        site: *site,
        is_mark: fields.get("mark").is_some(),
        function,
        to,
        implied: false,
    })
}

pub(super) fn capture(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<CaptureEntry> {
    let Some(dot) = name.raw.find('.') else {
        let message = format!("`{}` does not say at which probe it is captured", name.raw);
        let help = format!("write `probe.{}: …`", name.raw);
        wrong.push(Diagnostic::wrong("E0113", name.span, message).help(help));
        return None;
    };
    let (probe, field) = (name.part(0, dot), name.part(dot + 1, name.raw.len()));
    // After its dot a keyword of the grammar is unambiguous: `send.to`.
    let named =
        check_name(&probe, wrong) & (WORDS.contains(&field.raw.as_str()) || check_name(&field, wrong));
    let expr = formula(tree, wrong)?;
    named.then_some(CaptureEntry { probe, field, expr })
}

pub(super) fn join(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<JoinEntry> {
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
            wrong.push(Diagnostic::wrong("E0149", name.span, message));
            return None;
        }
    };
    let mut pairs = Vec::new();
    for text in by {
        let Some((left, right)) = text.raw.split_once('=') else {
            let message = "a pair is written `send.to = compute.process`";
            wrong.push(Diagnostic::wrong("E0149", text.span, message));
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

fn one_or_more(tree: &Tree, wrong: Wrong<'_>) -> Vec<Text> {
    match &tree.node {
        YamlNode::Sequence(_) => texts(tree, wrong),
        _ => text(tree, wrong).into_iter().collect(),
    }
}

pub(super) fn window(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<WindowEntry> {
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
        detect: fields.text("detect", wrong),
        from: fields
            .get("from")
            .map(|value| one_or_more(value, wrong))
            .unwrap_or_default(),
        within: fields.text("within", wrong),
        until: fields.formula("until", wrong),
        to: fields.text("to", wrong),
        key: fields.get("key").and_then(|value| key(value, wrong)),
        complete,
        timeout: fields.formula("timeout", wrong),
        skip: fields.formula("skip", wrong),
        discard: fields.formula("discard", wrong),
        straddle: fields.text("straddle", wrong),
    };
    if let Some(detect) = &entry.detect {
        only_of_loop(&fields, detect, wrong);
    }
    (wrong.len() == before).then_some(entry)
}

/// Refuses what `detect` cannot mean, and keys that would state other boundaries.
fn only_of_loop(fields: &Fields<'_>, detect: &Text, wrong: Wrong<'_>) {
    if detect.raw != "period" {
        let message = "`detect` is `period`: an instance is an iteration of the detected loop";
        wrong.push(Diagnostic::wrong("E0145", detect.span, message));
    }
    let stated =
        |(key, _): &&(&Text, &Tree)| ["every", "from", "to", "until", "key"].contains(&key.raw.as_str());
    for (key, _) in fields.entries.iter().filter(stated) {
        let message = format!(
            "the detected loop determines where this window begins and ends; `{}` cannot",
            key.raw
        );
        wrong.push(Diagnostic::wrong("E0148", key.span, message));
    }
}

fn key(tree: &Tree, wrong: Wrong<'_>) -> Option<KeyEntry> {
    let YamlNode::Mapping(entries) = &tree.node else {
        return text(tree, wrong).map(KeyEntry::Same);
    };
    let entries = entries.iter();
    let each = entries.filter_map(|(probe, value)| Some((probe.clone(), text(value, wrong)?)));
    Some(KeyEntry::Each(each.collect()))
}

pub(super) fn metric(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<MetricEntry> {
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

/// Splits `T(n)` into `T` and `n`; anything else is a name, possibly an invalid one.
fn name_and_parameter(name: &Text) -> (Text, Option<Text>) {
    match (name.raw.find('('), name.raw.strip_suffix(')')) {
        (Some(open), Some(before)) => (name.part(0, open), Some(name.part(open + 1, before.len()))),
        _ => (name.clone(), None),
    }
}

fn metric_value(name: &Text, tree: &Tree, wrong: Wrong<'_>) -> Option<(Named, Option<Text>)> {
    if !matches!(tree.node, YamlNode::Mapping(_)) {
        return Some((named(name, tree, wrong)?, None));
    }
    let fields = Fields::of(tree, &keys::METRIC, wrong)?;
    let window = fields.required_text("in", name.span, wrong);
    fields.required("value", name.span, wrong)?;
    let expr = fields.formula("value", wrong)?;
    let name = name.clone();
    Some((Named { name, expr }, Some(window?)))
}
