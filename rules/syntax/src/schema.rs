//! The JSON Schema (draft 2020-12) of a file, generated from the table of its keys, for editors and other tools.
//!
//! It covers the form of a file, but not formulas, names and units: what it refuses is wrong, what it accepts
//! must still be checked.

use crate::json::{Json, Object, object};
use crate::keys::{KeyTable, NameForm, Shape};

/// Approximates a name in formulas; the check decides what is a letter.
const WORD: &str = r"[^\s.()\[\]0-9-][^\s.()\[\]-]*";

/// The schema of the keys of a file, with definitions that it refers to.
pub fn document(mut schema: Object, definitions: Object, title: &str) -> String {
    schema.extend(object([
        ("$schema", "https://json-schema.org/draft/2020-12/schema".into()),
        ("title", title.into()),
        ("$defs", definitions.into()),
    ]));
    Json::from(schema).to_string()
}

pub fn mapping(keys: &'static KeyTable, definitions: &mut Object) -> Object {
    let mut properties = Object::new();
    let mut beside = Object::new();
    for key in keys.known {
        let mut property = shape(&key.shape, definitions);
        property.insert("description".into(), key.doc.into());
        properties.insert(key.name.into(), property.into());
        if !key.beside.is_empty() {
            beside.insert(key.name.into(), key.beside.iter().copied().collect());
        }
    }
    let required = keys.known.iter().filter(|key| key.required).map(|key| key.name);
    let mut schema = object([
        ("type", "object".into()),
        ("properties", properties.into()),
        ("required", required.collect()),
        ("additionalProperties", false.into()),
    ]);
    if !beside.is_empty() {
        schema.insert("dependentRequired".into(), beside.into());
    }
    let choices = keys.one_of.iter().map(|choice| {
        let one = choice
            .iter()
            .map(|name| object([("required", [*name].into_iter().collect())]));
        object([("oneOf", one.collect())])
    });
    if !keys.one_of.is_empty() {
        schema.insert("allOf".into(), choices.collect());
    }
    schema
}

fn shape(shape_of: &'static Shape, definitions: &mut Object) -> Object {
    match shape_of {
        Shape::Text | Shape::Template => plain(definitions, "text", "words for people"),
        Shape::Name => plain(definitions, "name", "what the rule calls something"),
        Shape::Symbol => plain(definitions, "symbol", "what the program calls something"),
        Shape::Formula => plain(
            definitions,
            "formula",
            "a formula, a number with its unit among them",
        ),
        // An editor reads `true` as a boolean, while rules use it as a word.
        Shape::Words(words) => {
            let switches = words
                .iter()
                .filter_map(|word| word.parse::<bool>().ok())
                .map(Json::from);
            let words = words.iter().map(|word| Json::from(*word));
            object([("enum", words.chain(switches).collect())])
        }
        Shape::Mapping(keys) => {
            let place = keys.place.trim_start_matches("a ").trim_start_matches("an ");
            let name = place.trim_matches('`');
            if !definitions.contains_key(name) {
                let definition = mapping(keys, definitions);
                definitions.insert(name.into(), definition.into());
            }
            reference(name)
        }
        Shape::Entries(names, of) => object([
            ("type", "object".into()),
            (
                "propertyNames",
                object([("pattern", pattern(*names).as_str().into())]).into(),
            ),
            ("additionalProperties", shape(of, definitions).into()),
        ]),
        Shape::List(of) => object([("type", "array".into()), ("items", shape(of, definitions).into())]),
        Shape::Either(shapes) => {
            let any = shapes.iter().map(|one| shape(one, definitions));
            object([("anyOf", any.collect())])
        }
    }
}

/// A scalar: an editor reads one that resembles a number or a boolean as such.
fn plain(definitions: &mut Object, name: &str, what: &str) -> Object {
    let types = ["string", "number", "boolean"].into_iter().collect();
    let definition = object([("type", types), ("description", what.into())]);
    definitions.insert(name.into(), definition.into());
    reference(name)
}

pub fn reference(name: &str) -> Object {
    object([("$ref", format!("#/$defs/{name}").as_str().into())])
}

fn pattern(names: NameForm) -> String {
    match names {
        NameForm::Plain => format!("^{WORD}$"),
        NameForm::Captured => format!(r"^{WORD}\.{WORD}$"),
        NameForm::Metric => format!(r"^{WORD}(\({WORD}\))?$"),
        NameForm::PlainOrEnd => format!(r"^{WORD}(\.{WORD})?$"),
    }
}
