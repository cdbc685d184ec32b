//! Reading of JSON.

/// Elements of a JSON array; empty if the value is not an array.
pub fn each(value: &serde_json::Value) -> std::slice::Iter<'_, serde_json::Value> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}
