//! Values that rules require at a hit, and those that are captured: the source of each, the path to it and
//! its type.

use abi::Capture;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// An argument, counted from 0, as it is at entry.
    Argument(u8),
    NamedArgument(String),
    ReturnValue,
    Variable(String),
    /// The bytes that an MPI call sends.
    Bytes,
}

/// A step on the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureStep {
    Field(String),
    Index(u32),
    Dereference,
}

/// A type as a rule states it: its name, and the maximum length of a text.
pub type Stated = (&'static str, u8);

/// A value that a request needs at the hits of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCapture {
    /// The expression in the rule; identifies the value.
    pub what: String,
    pub read: Read,
    pub steps: Vec<CaptureStep>,
    /// Read a variable when the function returns, not when it is entered.
    pub at_return: bool,
    /// Its type, if the rule states it.
    pub stated: Option<Stated>,
}

/// A value that the kernel side reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeCapture {
    /// The expression in the rule.
    pub what: String,
    /// As in [`WantedCapture`].
    pub at_return: bool,
    /// Its type; `str` for a text.
    pub type_name: &'static str,
    /// Maximum length of a text; 0 for a number.
    pub length: u8,
    pub read: Read,
    /// The spec for the kernel side.
    pub spec: Capture,
}

impl ProbeCapture {
    /// The name in a recording; [`ProbeCapture::from_label`] parses it.
    pub fn label(&self) -> String {
        let moment = if self.at_return { " at return" } else { "" };
        match self.length {
            0 => format!("{} as {}{moment}", self.what, self.type_name),
            length => format!("{} as str({length}){moment}", self.what),
        }
    }

    /// Parses the name of a capture in a recording; `None` if it was not made by [`ProbeCapture::label`].
    pub fn from_label(label: &str) -> Option<ProbeCapture> {
        let (label, at_return) = match label.strip_suffix(" at return") {
            Some(rest) => (rest, true),
            None => (label, false),
        };
        let (what, stated) = label.rsplit_once(" as ")?;
        let text = stated
            .strip_prefix("str(")
            .and_then(|rest| rest.strip_suffix(')'));
        let (type_name, length) = match text {
            Some(length) => (TEXT, length.parse().ok().filter(|length| *length > 0)?),
            None => (*TYPES.iter().find(|known| **known == stated)?, 0),
        };
        // A replay takes the value from the recording, so the source does not matter.
        Some(ProbeCapture {
            what: what.to_owned(),
            at_return,
            type_name,
            length,
            read: Read::ReturnValue,
            spec: Capture::default(),
        })
    }

    /// Whether it fulfils a request.
    pub fn is(&self, wanted: &WantedCapture) -> bool {
        let stated = |(name, length): Stated| self.type_name == name && self.length == length;
        self.what == wanted.what && self.at_return == wanted.at_return && wanted.stated.is_none_or(stated)
    }
}

/// The type name of a text.
const TEXT: &str = "str";

/// The types that can be read as numbers.
const TYPES: [&str; 12] = [
    "bool", "char", "i8", "u8", "i16", "u16", "i32", "u32", "f32", "i64", "u64", "f64",
];

/// Size of a number of this type in bytes; `None` if the type is not numeric.
pub fn width(type_name: &str) -> Option<u8> {
    Some(match type_name {
        "bool" | "char" | "i8" | "u8" => 1,
        "i16" | "u16" => 2,
        "i32" | "u32" | "f32" => 4,
        "i64" | "u64" | "f64" => 8,
        _ => return None,
    })
}

/// Decodes a captured number from its raw bytes, which come from a register or from memory; a boolean is 0 or
/// 1.
pub fn number(raw: u64, type_name: &str) -> Option<f64> {
    Some(match type_name {
        "bool" => f64::from(u8::from(raw as u8 != 0)),
        "i8" => f64::from(raw as i8),
        "u8" | "char" => f64::from(raw as u8),
        "i16" => f64::from(raw as i16),
        "u16" => f64::from(raw as u16),
        "i32" => f64::from(raw as i32),
        "u32" => f64::from(raw as u32),
        "f32" => f64::from(f32::from_bits(raw as u32)),
        "i64" => raw as i64 as f64,
        "u64" => raw as f64,
        "f64" => f64::from_bits(raw),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(what: &str, at_return: bool, type_name: &'static str, length: u8) -> ProbeCapture {
        ProbeCapture {
            what: what.to_owned(),
            at_return,
            type_name,
            length,
            read: Read::ReturnValue,
            spec: Capture::default(),
        }
    }

    #[test]
    fn a_label_says_everything_about_a_capture() {
        for type_name in TYPES {
            assert!(
                width(type_name).is_some() && number(0, type_name).is_some(),
                "{type_name}"
            );
            for what in [
                "arg(3)",
                "what it returns",
                "cfg.chunk",
                "*arg(1)",
                "Class::member",
                "head->next->n",
            ] {
                for at_return in [false, true] {
                    let capture = labelled(what, at_return, type_name, 0);
                    assert_eq!(ProbeCapture::from_label(&capture.label()), Some(capture));
                }
            }
        }
        let text = labelled("arg(0)", false, TEXT, 32);
        assert_eq!(text.label(), "arg(0) as str(32)");
        assert_eq!(ProbeCapture::from_label(&text.label()), Some(text));
        assert_eq!(ProbeCapture::from_label("arg(0) as str(0)"), None);
        assert_eq!(ProbeCapture::from_label("number"), None);
    }

    #[test]
    fn a_register_is_read_as_far_as_its_type_goes() {
        let cases = [
            (0xffff_ffff_ffff_ffff, "i32", -1.0),
            (0x0000_0001_ffff_fffe, "i32", -2.0),
            (0x0000_0001_0000_0007, "u32", 7.0),
            (0x1ff, "u8", 255.0),
            (0x3ff8_0000_0000_0000, "f64", 1.5),
            (0x3fc0_0000, "f32", 1.5),
            (2, "bool", 1.0),
        ];
        for (raw, type_name, expected) in cases {
            assert_eq!(number(raw, type_name), Some(expected), "{raw:#x} as {type_name}");
        }
        assert_eq!(number(1, "str"), None);
    }
}
