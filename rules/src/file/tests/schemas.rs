//! What tests of schemas share.

use serde_json::{Map, Value};
use syntax::yaml::{self, Tree, YamlNode};

/// The file as an editor reads it, with all scalars plain.
pub(crate) fn as_json(tree: &Tree) -> Value {
    match &tree.node {
        YamlNode::Mapping(entries) => entries
            .iter()
            .map(|(key, value)| (key.raw.clone(), as_json(value)))
            .collect::<Map<_, _>>()
            .into(),
        YamlNode::Sequence(items) => items.iter().map(as_json).collect(),
        YamlNode::Scalar(text) => match (text.raw.parse::<f64>(), text.raw.parse::<bool>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(switch)) => switch.into(),
            _ => text.raw.clone().into(),
        },
        _ => Value::Null,
    }
}

/// Whether a schema accepts a file.
pub(crate) fn accepted(schema: &str, source: &str) -> Result<(), String> {
    let (tree, wrong) = yaml::read(source, None);
    assert_eq!(wrong, []);
    let mut compiler = boon::Compiler::new();
    compiler.enable_format_assertions();
    let schema: Value = serde_json::from_str(schema).unwrap();
    compiler.add_resource("file.json", schema).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile("file.json", &mut schemas).unwrap();
    let instance = as_json(&tree.unwrap());
    schemas
        .validate(&instance, index)
        .map_err(|wrong| wrong.to_string())
}

/// Compares a file with its expected content, or writes the file if requested.
#[expect(clippy::disallowed_methods, reason = "a test may look at the documents")]
pub(crate) fn kept(name: &str, should: impl FnOnce(&str) -> String) {
    let file = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    let is = std::fs::read_to_string(&file).unwrap_or_default();
    let should = should(&is);
    if std::env::var_os("TUNEAGENT_UPDATE").is_some() {
        std::fs::write(file, should).unwrap();
    } else {
        let help = "is not what the table of keys makes: TUNEAGENT_UPDATE=1 cargo test -p tuneagent-rules";
        assert_eq!(is, should, "{name} {help}");
    }
}
