//! Writes the JSON of the schema, with sorted keys. It does not read JSON, and has no numbers.

use std::collections::BTreeMap;
use std::fmt;

/// Sorted, so that moving a key in the table of keys does not change the schema.
pub type Object = BTreeMap<String, Json>;

#[derive(Clone)]
pub enum Json {
    Bool(bool),
    Text(String),
    List(Vec<Json>),
    Object(Object),
}

pub fn object<const N: usize>(entries: [(&str, Json); N]) -> Object {
    entries.map(|(name, value)| (name.to_owned(), value)).into()
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<Object> for Json {
    fn from(entries: Object) -> Json {
        Json::Object(entries)
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Json {
        Json::List(items.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "\n")
    }
}

impl Json {
    /// Writes the value; `line` is a line break with the indentation of the line that the value begins in.
    fn write(&self, f: &mut fmt::Formatter<'_>, line: &str) -> fmt::Result {
        let inner = format!("{line}  ");
        match self {
            Json::Bool(value) => write!(f, "{value}"),
            Json::Text(text) => quoted(f, text),
            Json::List(items) if items.is_empty() => f.write_str("[]"),
            Json::Object(entries) if entries.is_empty() => f.write_str("{}"),
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index == 0 { "[" } else { "," })?;
                    f.write_str(&inner)?;
                    item.write(f, &inner)?;
                }
                write!(f, "{line}]")
            }
            Json::Object(entries) => {
                for (index, (name, value)) in entries.iter().enumerate() {
                    f.write_str(if index == 0 { "{" } else { "," })?;
                    f.write_str(&inner)?;
                    quoted(f, name)?;
                    f.write_str(": ")?;
                    value.write(f, &inner)?;
                }
                write!(f, "{line}}}")
            }
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_reader_reads_what_was_written() {
        let text = "a \"quoted\" \\s, a\nline, a\ttab and \u{7f}\u{1f525}";
        let list: Json = [true, false].into_iter().collect();
        let json = Json::from(object([
            ("b", list),
            (text, text.into()),
            ("a", object([]).into()),
            ("c", [""; 0].into_iter().collect()),
        ]));
        let expected = serde_json::json!({"a": {}, "b": [true, false], "c": [], text: text});
        let read: serde_json::Value = serde_json::from_str(&json.to_string()).unwrap();
        assert_eq!(read, expected);
    }
}
