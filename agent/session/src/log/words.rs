//! Events and effects as short text, generated from their JSON, so that new ones are listed too.

use serde_json::{Map, Value};

/// Longer texts are truncated: the file has all of them.
const TEXT_CHARS_MAX: usize = 160;

/// For longer lists only the length is shown.
const LIST_MAX: usize = 3;

/// As text, on one line.
pub(super) fn words(value: &Value) -> String {
    let text = said(value).replace('\n', " ");
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => known(fields).unwrap_or_else(|| named(fields)),
        Value::Array(items) if items.len() > LIST_MAX => format!("{} of them", items.len()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter(|item| !is_nothing(item)).map(said).collect();
            items.join(" ")
        }
        other => other.to_string(),
    }
}

/// Processes are named by their numbers.
fn known(fields: &Map<String, Value>) -> Option<String> {
    let get = |name: &str| fields.get(name);
    let machine = get("machine").filter(|machine| **machine != 0);
    let machine = machine
        .map(|machine| format!(" of machine {machine}"))
        .unwrap_or_default();
    match fields.len() {
        2 if get("start_time").is_some() => get("number").map(Value::to_string),
        2 if get("machine").is_some() => get("slot").map(|slot| format!("slot {slot}{machine}")),
        3 if get("machine").is_some() => {
            let (number, pid) = (get("number")?, get("pid")?);
            Some(format!("change {number} of pid {}{machine}", said(pid)))
        }
        _ => None,
    }
}

/// The fields that are not empty, the short ones first. The name of a single field stands for its value.
fn named(fields: &Map<String, Value>) -> String {
    let is_single = fields.len() == 1;
    let mut fields: Vec<_> = fields
        .iter()
        .filter(|(_, value)| is_single || !is_nothing(value))
        .collect();
    fields.sort_by_cached_key(|(name, value)| (value.is_object() || value.is_array(), (*name).clone()));
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| {
            let (name, value) = (name.replace('_', " ").to_lowercase(), said(value));
            match value.as_str() {
                "true" | "null" | "" => name,
                value => format!("{name} {value}"),
            }
        })
        .collect();
    fields.join(", ")
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
