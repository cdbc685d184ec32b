//! Contract files: YAML to a [`Contract`], with all errors at their places.

mod conditions;
mod deploy;
mod ends;
mod graph;
mod require;

use std::collections::BTreeMap;

use syntax::diag::{Diagnostic, Span, names_help};
use syntax::fields::read;
use syntax::fields::{Fields, Wrong, check_name, formula, is_rule_name, text, wrong_shape};
use syntax::text::Text;
use syntax::unit::Dimension;
use syntax::yaml::{Tree, YamlNode};

use super::exact::{Constant, Exact, constant, to_f64};
use super::keys;
use super::model::Contract;
use super::system::System;

/// Maximum number of entries in a section.
const ENTRIES_MAX: usize = 2048;
/// Maximum depth of contracts in contracts.
const PARTS_DEEP_MAX: usize = 3;

const RATE: Dimension = Dimension { time: -1, bytes: 0 };

impl Contract {
    /// Parses the text of a contract file.
    ///
    /// # Errors
    /// All errors in its YAML, keys, names, units and ends of streams, in the order of the file.
    pub fn parse(source: &str) -> Result<Contract, Vec<Diagnostic>> {
        read(source, None, |tree, wrong| contract(tree, None, 0, wrong))
    }
}

/// A contract, or the one called `part` of a module.
fn contract(tree: &Tree, part: Option<&Text>, depth: usize, wrong: Wrong<'_>) -> Option<Contract> {
    let before = wrong.len();
    let fields = Fields::of(tree, &keys::CONTRACT, wrong)?;
    let name = match part {
        Some(name) => name.clone(),
        None => fields.required_text("contract", tree.span, wrong)?,
    };
    if part.is_none() && !is_rule_name(&name.raw) {
        let message = "a contract's name has small letters, digits and single dashes between them";
        wrong.push(Diagnostic::wrong("E0113", name.span, message));
    }
    for key in ["streams", "modules"] {
        fields.required(key, tree.span, wrong);
    }
    // For readers of the file; here only its form is checked.
    fields.text("about", wrong);
    let mut out = Contract {
        name: name.raw.clone(),
        span: name.span,
        ..Contract::default()
    };
    for (name, tree) in section(&fields, "contracts", wrong) {
        if depth >= PARTS_DEEP_MAX {
            let message = format!("contracts may nest {PARTS_DEEP_MAX} deep");
            wrong.push(Diagnostic::wrong("E0123", name.span, message));
            return None;
        }
        out.parts.extend(contract(tree, Some(name), depth + 1, wrong));
    }
    let mut reader = ContractReader {
        parameters: BTreeMap::new(),
        streams: section(&fields, "streams", wrong),
        modules: section(&fields, "modules", wrong),
        works: section(&fields, "work", wrong),
        machines: section(&fields, "machines", wrong),
        is_part: part.is_some(),
        wrong,
    };
    reader.parameters(&fields);
    reader.distinct();
    reader.deployment(&fields, &mut out);
    reader.graph(&mut out);
    reader.adaptations(&fields, &mut out);
    reader.requirements(&fields, &mut out);
    if reader.wrong.len() > before {
        return None;
    }
    reader.ends(&out);
    reader.measurable(&out);
    if reader.wrong.len() > before {
        return None;
    }
    reader.required_features(&out, &System::of(&out));
    (reader.wrong.len() == before).then_some(out)
}

type Section<'a> = Vec<(&'a Text, &'a Tree)>;

/// The entries of a section with proper names.
fn section<'a>(fields: &Fields<'a>, name: &str, wrong: Wrong<'_>) -> Section<'a> {
    let Some(tree) = fields.get(name) else {
        return Vec::new();
    };
    entries(tree, &format!("`{name}`"), wrong)
}

fn entries<'a>(tree: &'a Tree, place: &str, wrong: Wrong<'_>) -> Section<'a> {
    let entries = syntax::fields::entries(tree, place, ENTRIES_MAX, wrong).into_iter();
    let proper = entries.filter(|(name, _)| check_name(name, wrong));
    proper.collect()
}

/// What the entries of a contract refer to, and the errors so far.
struct ContractReader<'a, 'w> {
    parameters: BTreeMap<String, Constant>,
    streams: Section<'a>,
    modules: Section<'a>,
    works: Section<'a>,
    machines: Section<'a>,
    /// Streams may lack an end: they are interfaces of the component.
    is_part: bool,
    wrong: Wrong<'w>,
}

impl<'a> ContractReader<'a, '_> {
    fn parameters(&mut self, fields: &Fields<'a>) {
        for (name, tree) in section(fields, "parameters", self.wrong) {
            if let Some(value) = self.constant(tree) {
                self.parameters.insert(name.raw.clone(), value);
            }
        }
    }

    /// A stream and a module must differ in name, since requirements name both.
    fn distinct(&mut self) {
        let modules: BTreeMap<&str, Span> = self
            .modules
            .iter()
            .map(|(name, _)| (name.raw.as_str(), name.span))
            .collect();
        for (name, _) in &self.streams {
            if let Some(module) = modules.get(name.raw.as_str()) {
                let message = format!("`{}` is a stream and a module", name.raw);
                let wrong = Diagnostic::error("E0107", message).at(name.span, "the stream");
                self.wrong
                    .push(wrong.at(*module, "the module").help("give one another name"));
            }
        }
    }

    fn push(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.wrong.push(Diagnostic::wrong(code, span, message));
    }

    /// The index of a name in a section; `what` is its kind in messages.
    fn index(&mut self, section: fn(&Self) -> &Section<'a>, what: &str, name: &Text) -> Option<usize> {
        let entries = section(self);
        let found = entries.iter().position(|(known, _)| known.raw == name.raw);
        if found.is_none() {
            let near = names_help(&name.raw, entries.iter().map(|(known, _)| known.raw.as_str()));
            let message = format!("there is no {what} `{}`", name.raw);
            self.wrong
                .push(Diagnostic::wrong("E0174", name.span, message).help_if(near));
        }
        found
    }

    fn stream(&mut self, name: &Text) -> Option<usize> {
        self.index(|it| &it.streams, "stream", name)
    }

    fn module(&mut self, name: &Text) -> Option<usize> {
        self.index(|it| &it.modules, "module", name)
    }

    fn constant(&mut self, tree: &Tree) -> Option<Constant> {
        let expr = formula(tree, self.wrong)?;
        let found = constant(&expr, &|name| self.parameters.get(name).copied());
        found.map_err(|wrong| self.wrong.push(wrong)).ok()
    }

    /// A constant of this dimension that is not negative; `what` names it in messages.
    fn exact(&mut self, tree: &Tree, dimension: Dimension, what: &str) -> Option<Exact> {
        let found = self.constant(tree)?;
        if found.dimension != dimension {
            let message = format!("{what} is {dimension}, this is {}", found.dimension);
            let help = match dimension {
                Dimension::BYTES => {
                    "write the unit: `54B` or `432bit`; MB and Mbit are 10^6, MiB and Mibit 2^20"
                }
                RATE => "a rate is a number per time: `1/s`, `1 / 12s`",
                Dimension::NONE => "leave out the unit",
                _ => "write the unit: `100Mbit/s`, `12.5MB/s`, `2s`",
            };
            self.wrong
                .push(Diagnostic::wrong("E0173", tree.span, message).help(help));
            return None;
        }
        if found.value < Exact::from_integer(0) {
            self.push("E0172", tree.span, format!("{what} cannot be negative"));
            return None;
        }
        Some(found.value)
    }

    fn positive(&mut self, tree: &Tree, dimension: Dimension, what: &str) -> Option<f64> {
        let value = self.exact(tree, dimension, what)?;
        if value == Exact::from_integer(0) {
            self.push("E0172", tree.span, format!("{what} cannot be 0"));
            return None;
        }
        Some(to_f64(value))
    }

    /// A positive integer, such as a number of machines.
    fn count(&mut self, tree: &Tree, what: &str) -> Option<u32> {
        let value = self.exact(tree, Dimension::NONE, what)?;
        let number = value
            .is_integer()
            .then(|| u32::try_from(value.to_integer()).ok())
            .flatten();
        let number = number.filter(|number| (1..=1_000_000).contains(number));
        if number.is_none() {
            self.push(
                "E0172",
                tree.span,
                format!("{what} is an integer from 1 to 1 000 000"),
            );
        }
        number
    }

    /// The names at this key, if it is there.
    fn names_of(&mut self, fields: &Fields<'_>, key: &str) -> Vec<Text> {
        fields.get(key).map(|value| self.names(value)).unwrap_or_default()
    }

    /// A list of names, or one.
    fn names(&mut self, tree: &Tree) -> Vec<Text> {
        match &tree.node {
            YamlNode::Sequence(items) if items.len() <= ENTRIES_MAX => {
                items.iter().filter_map(|item| text(item, self.wrong)).collect()
            }
            YamlNode::Scalar(name) => vec![name.clone()],
            _ => {
                wrong_shape(tree, "this value", "a name or a short list of names", self.wrong);
                Vec::new()
            }
        }
    }
}
