//! Generates the JSON Schema (draft 2020-12) of the page's data from its types and their comments.

use std::fs;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{Snapshot, page, session};
use crate::{PageModel, SCHEMA};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/page.schema.json");

fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<PageModel>();
    schema.insert("title".into(), "The data of a page of tuneagent".into());
    let mut schema = schema.to_value();
    schema["properties"]["schema"] = serde_json::json!({"const": SCHEMA});
    schema
}

#[test]
fn the_committed_schema_is_generated_from_the_types() {
    let generated = format!("{:#}\n", schema());
    if std::env::var_os("TUNEAGENT_UPDATE").is_some() {
        fs::write(FILE, generated).unwrap();
        return;
    }
    let committed = fs::read_to_string(FILE).unwrap_or_default();
    assert_eq!(
        committed, generated,
        "cargo xtask docs writes docs/page.schema.json"
    );
}

#[test]
fn the_schema_accepts_pages_and_refuses_what_lacks_a_field_or_has_another_type() {
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("page.json", schema()).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile("page.json", &mut schemas).unwrap();
    let full = serde_json::to_value(page(&session())).unwrap();
    let empty = serde_json::to_value(page(&Snapshot::default())).unwrap();
    for model in [&full, &empty] {
        schemas
            .validate(model, index)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for (place, wrong) in [
        ("/schema", "tuneagent.page/2".into()),
        ("/title", Value::Null),
        ("/timeline/time/bands/0/shares", "all".into()),
        ("/tables/2/rows/0/0/text", 1.into()),
        ("/tiles/0", serde_json::json!({"name": "without a value"})),
    ] {
        let mut model = full.clone();
        *model.pointer_mut(place).unwrap() = wrong;
        assert!(schemas.validate(&model, index).is_err(), "{place}");
    }
}
