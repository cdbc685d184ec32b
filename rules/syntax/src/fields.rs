//! The fields of a mapping: checks keys and shapes, parses formulas, and reports as many errors as possible.

use crate::ast::Expr;
use crate::diag::{Diagnostic, Span, did_you_mean, has_errors};
use crate::keys::KeyTable;
use crate::lexer::WORDS;
use crate::parser::parse;
use crate::template::{FormulaText, parse_template};
use crate::text::Text;
use crate::yaml::{self, Tree, YamlNode, is_switch};

/// Maximum number of entries in a section, because dependencies are traversed several times.
pub const ENTRIES_MAX: usize = 256;

pub type Wrong<'a> = &'a mut Vec<Diagnostic>;

/// The entries of a mapping that have known keys.
pub struct Fields<'a> {
    pub entries: Vec<(&'a Text, &'a Tree)>,
    keys: &'a KeyTable,
}

impl<'a> Fields<'a> {
    pub fn of(tree: &'a Tree, keys: &'a KeyTable, wrong: Wrong<'_>) -> Option<Fields<'a>> {
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

    pub fn get(&self, name: &str) -> Option<&'a Tree> {
        self.entries
            .iter()
            .find(|(key, _)| key.raw == name)
            .map(|(_, value)| *value)
    }

    pub fn required(&self, name: &str, place: Span, wrong: Wrong<'_>) -> Option<&'a Tree> {
        let found = self.get(name);
        if found.is_none() {
            let message = format!("{} must have `{name}`", self.keys.place);
            wrong.push(Diagnostic::wrong("E0111", place, message));
        }
        found
    }

    pub fn section<T>(
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

    pub fn texts(&self, name: &str, wrong: Wrong<'_>) -> Vec<Text> {
        let found = self.get(name).map(|value| texts(value, wrong));
        found.unwrap_or_default()
    }

    pub fn sentence(&self, name: &str, wrong: Wrong<'_>) -> Option<String> {
        self.text(name, wrong).as_ref().map(sentence)
    }

    pub fn sentences(&self, name: &str, wrong: Wrong<'_>) -> Vec<String> {
        self.texts(name, wrong).iter().map(sentence).collect()
    }

    pub fn entries_of(&self, name: &str, wrong: Wrong<'_>) -> Vec<(&'a Text, &'a Tree)> {
        let found = self.get(name);
        let entries = found.map(|tree| entries(tree, &format!("`{name}`"), ENTRIES_MAX, wrong));
        entries.unwrap_or_default()
    }

    pub fn formula(&self, name: &str, wrong: Wrong<'_>) -> Option<Expr> {
        self.get(name).and_then(|value| formula(value, wrong))
    }

    pub fn text(&self, name: &str, wrong: Wrong<'_>) -> Option<Text> {
        self.get(name).and_then(|value| text(value, wrong))
    }

    pub fn required_text(&self, name: &str, place: Span, wrong: Wrong<'_>) -> Option<Text> {
        let found = self.required(name, place, wrong);
        found.and_then(|value| text(value, wrong))
    }

    pub fn template(&self, name: &str, wrong: Wrong<'_>) -> Option<FormulaText> {
        self.text(name, wrong).map(|text| parse_template(&text, wrong))
    }
}

fn unknown_key(key: &Text, keys: &KeyTable) -> Diagnostic {
    let name = &key.raw;
    let help = did_you_mean(name, keys.names());
    Diagnostic::wrong("E0110", key.span, format!("{} has no `{name}`", keys.place))
        .help(help.unwrap_or_else(|| format!("it may have {}", keys.names().join(", "))))
}

pub fn wrong_shape(tree: &Tree, place: &str, wanted: &str, wrong: Wrong<'_>) {
    if !matches!(tree.node, YamlNode::Broken) {
        let message = format!("{place} must be {wanted}, this is {}", tree.what());
        wrong.push(Diagnostic::wrong("E0112", tree.span, message));
    }
}

pub fn mapping<'a>(tree: &'a Tree, place: &str, wrong: Wrong<'_>) -> Option<Vec<(&'a Text, &'a Tree)>> {
    match &tree.node {
        YamlNode::Mapping(entries) => Some(entries.iter().map(|(key, value)| (key, value)).collect()),
        _ => {
            wrong_shape(tree, place, "a mapping (`key: value` lines)", wrong);
            None
        }
    }
}

/// The entries of a mapping; an error if there are more than `most`.
pub fn entries<'a>(tree: &'a Tree, place: &str, most: usize, wrong: Wrong<'_>) -> Vec<(&'a Text, &'a Tree)> {
    let entries = mapping(tree, place, wrong).unwrap_or_default();
    if entries.len() > most {
        wrong.push(too_many(place, most, entries.len(), tree.span));
        return Vec::new();
    }
    entries
}

pub fn too_many(place: &str, most: usize, entries: usize, span: Span) -> Diagnostic {
    let message = format!("{place} may have at most {most} entries, here are {entries}");
    Diagnostic::wrong("E0123", span, message)
}

/// A text for people, without the end of its last line.
pub fn sentence(text: &Text) -> String {
    text.raw.trim_end().to_string()
}

pub fn text(tree: &Tree, wrong: Wrong<'_>) -> Option<Text> {
    match &tree.node {
        YamlNode::Scalar(text) => Some(text.clone()),
        _ => {
            wrong_shape(tree, "this value", "a text", wrong);
            None
        }
    }
}

pub fn formula(tree: &Tree, wrong: Wrong<'_>) -> Option<Expr> {
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
pub fn check_name(name: &Text, wrong: Wrong<'_>) -> bool {
    let raw = name.raw.as_str();
    if is_name(raw) {
        return true;
    }
    let message = format!("`{raw}` cannot be a name");
    let help = "a name has letters, digits and `_`, begins with a letter, and is not a word of the formulas";
    wrong.push(Diagnostic::wrong("E0113", name.span, message).help(help));
    false
}

/// Lower-case letters and digits, with single dashes in between.
pub fn is_rule_name(name: &str) -> bool {
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.split('-')
        .all(|word| !word.is_empty() && word.chars().all(is_small))
}

pub fn texts(tree: &Tree, wrong: Wrong<'_>) -> Vec<Text> {
    match &tree.node {
        YamlNode::Sequence(items) if items.len() <= ENTRIES_MAX => {
            items.iter().filter_map(|item| text(item, wrong)).collect()
        }
        _ => {
            wrong_shape(tree, "this value", "a short list", wrong);
            Vec::new()
        }
    }
}

/// Maximum number of diagnostics for one file: each is displayed with its line, which takes a pass through
/// the file.
const DIAGNOSTICS_MAX: usize = 100;

/// Parses a file. If `place` is given, all spans are set to it.
pub fn read<T>(
    source: &str,
    place: Option<Span>,
    lower: impl Fn(&yaml::Tree, &mut Vec<Diagnostic>) -> Option<T>,
) -> Result<T, Vec<Diagnostic>> {
    let (tree, mut wrong) = yaml::read(source, place);
    let file = tree.and_then(|tree| lower(&tree, &mut wrong));
    wrong.sort_by_key(|d| d.labels.first().map_or(0, |(span, _)| span.start));
    if wrong.len() > DIAGNOSTICS_MAX {
        let message = format!("{} more are not listed", wrong.len() - DIAGNOSTICS_MAX);
        wrong.truncate(DIAGNOSTICS_MAX);
        wrong.push(Diagnostic::error("E0123", message));
    }
    match file {
        Some(file) if !has_errors(&wrong) => Ok(file),
        _ => Err(wrong),
    }
}
