//! Values: what a rule computes ([`Scalar`]), and what can be written into a process ([`Value`]): a closed set of at most 8 bytes, so that
//! every write is one aligned store.
//!
//! Text in, bytes out, and back. Knows nothing of processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a text is not a value of a type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueError {
    /// Not a number (or not true/false) at all.
    #[error("`{text}` is not {}", expected(*.value_type))]
    Malformed {
        text: String,
        /// What it should have been.
        value_type: ValueType,
    },
    #[error("{text} does not fit into {value_type}, which holds {min} to {max}")]
    OutOfRange {
        text: String,
        value_type: ValueType,
        min: String,
        max: String,
    },
    #[error("`{0}` is not a type; the types are bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64")]
    UnknownType(String),
    /// Bytes that are no value of the type.
    #[error("the bytes {bytes} are not a value of type {value_type}")]
    Bytes { bytes: Bytes, value_type: ValueType },
}

fn expected(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Bool => "true, false, 1 or 0",
        ValueType::F32 | ValueType::F64 => "a number",
        _ => "an integer",
    }
}

/// A single value of a rule. Which bytes it becomes depends on the variable that takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scalar {
    Boolean(bool),
    /// A number in seconds, bytes, or their powers; its dimension is known from the rule.
    Number(f64),
    /// A name or text.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Boolean(value) => write!(f, "{value}"),
            Scalar::Number(value) => write!(f, "{value}"),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

/// At most 8 bytes, as they lie in memory. Shown and stored as hexadecimal digits, lowest address first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bytes {
    length: u8,
    bytes: [u8; 8],
}

impl Bytes {
    /// The most bytes that one write changes: one aligned store.
    pub const MAX: usize = 8;

    /// `None` when there are more than [`Bytes::MAX`].
    pub fn new(slice: &[u8]) -> Option<Bytes> {
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Bytes {
            length: slice.len() as u8,
            bytes,
        })
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// As a word, with zeros behind them.
    pub fn word(&self) -> u64 {
        u64::from_le_bytes(self.bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({self})")
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> String {
        bytes.to_string()
    }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Bytes, String> {
        let bad = || format!("`{text}` is not 0 to 8 bytes in hexadecimal");
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return Err(bad());
        }
        let digits = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16));
        let bytes: Vec<u8> = digits.collect::<Result<_, _>>().map_err(|_| bad())?;
        Bytes::new(&bytes).ok_or_else(bad)
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        Bytes::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

macro_rules! scalars {
    ($($variant:ident $name:literal $rust:ty;)*) => {
        /// The types a value can have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum ValueType {
            /// One byte that is 0 or 1.
            Bool,
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        /// A value with its type.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Value {
            /// One byte that is 0 or 1.
            Bool(bool),
            $(#[doc = concat!("`", $name, "`")] $variant($rust),)*
        }

        impl ValueType {
            /// All of them, in the order in which they are listed to users.
            pub const ALL: &'static [ValueType] = &[ValueType::Bool, $(ValueType::$variant),*];

            /// How users write it.
            pub fn name(self) -> &'static str {
                match self {
                    ValueType::Bool => "bool",
                    $(ValueType::$variant => $name,)*
                }
            }

            /// Bytes that a value of this type takes.
            pub fn size(self) -> usize {
                match self {
                    ValueType::Bool => 1,
                    $(ValueType::$variant => size_of::<$rust>(),)*
                }
            }
        }

        impl Value {
            pub fn value_type(self) -> ValueType {
                match self {
                    Value::Bool(_) => ValueType::Bool,
                    $(Value::$variant(_) => ValueType::$variant,)*
                }
            }

            /// As it lies in the memory of the target (little-endian machines only).
            pub fn to_bytes(self) -> Bytes {
                let mut bytes = [0; Bytes::MAX];
                match self {
                    Value::Bool(value) => bytes[0] = u8::from(value),
                    $(Value::$variant(value) => bytes[..size_of::<$rust>()].copy_from_slice(&value.to_le_bytes()),)*
                }
                Bytes { length: self.value_type().size() as u8, bytes }
            }

            /// The value that these bytes are; a bool that is neither 0 nor 1 is refused, as is a wrong
            /// length.
            pub fn from_bytes(value_type: ValueType, bytes: Bytes) -> Result<Value, ValueError> {
                if bytes.as_slice().len() != value_type.size() {
                    return Err(ValueError::Bytes { bytes, value_type });
                }
                Ok(match value_type {
                    ValueType::Bool => match bytes.word() {
                        0 => Value::Bool(false),
                        1 => Value::Bool(true),
                        _ => return Err(ValueError::Bytes { bytes, value_type }),
                    },
                    $(ValueType::$variant => {
                        let mut raw = [0; size_of::<$rust>()];
                        raw.copy_from_slice(bytes.as_slice());
                        Value::$variant(<$rust>::from_le_bytes(raw))
                    })*
                })
            }
        }

        impl fmt::Display for Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Value::Bool(value) => write!(f, "{value}"),
                    $(Value::$variant(value) => write!(f, "{value}"),)*
                }
            }
        }
    };
}

scalars! {
    I8 "i8" i8;
    I16 "i16" i16;
    I32 "i32" i32;
    I64 "i64" i64;
    U8 "u8" u8;
    U16 "u16" u16;
    U32 "u32" u32;
    U64 "u64" u64;
    F32 "f32" f32;
    F64 "f64" f64;
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ValueType {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<ValueType, ValueError> {
        let found = ValueType::ALL.iter().find(|candidate| candidate.name() == text);
        found
            .copied()
            .ok_or_else(|| ValueError::UnknownType(text.to_owned()))
    }
}

impl Value {
    /// Reads decimal numbers, `0x` hexadecimal ones and, for bool, true, false, 1 and 0.
    pub fn parse(text: &str, value_type: ValueType) -> Result<Value, ValueError> {
        let malformed = || ValueError::Malformed {
            text: text.to_owned(),
            value_type,
        };
        match value_type {
            ValueType::Bool => match text {
                "true" | "1" => Ok(Value::Bool(true)),
                "false" | "0" => Ok(Value::Bool(false)),
                _ => Err(malformed()),
            },
            ValueType::F64 => text.parse().map(Value::F64).map_err(|_| malformed()),
            ValueType::F32 => {
                let wide: f64 = text.parse().map_err(|_| malformed())?;
                let narrow = wide as f32;
                if wide.is_finite() && !narrow.is_finite() {
                    return Err(out_of_range(text, value_type, f32::MIN, f32::MAX));
                }
                Ok(Value::F32(narrow))
            }
            _ => integer(text, value_type, parse_integer(text).ok_or_else(malformed)?),
        }
    }
}

fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    // `from_str_radix` would take a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with(['+', '-'])),
        None => digits.parse().ok(),
    }?;
    Some(if negative { -magnitude } else { magnitude })
}

fn integer(text: &str, value_type: ValueType, number: i128) -> Result<Value, ValueError> {
    macro_rules! narrow {
        ($variant:ident, $rust:ty) => {
            <$rust>::try_from(number)
                .map(Value::$variant)
                .map_err(|_| out_of_range(text, value_type, <$rust>::MIN, <$rust>::MAX))
        };
    }
    match value_type {
        ValueType::I8 => narrow!(I8, i8),
        ValueType::I16 => narrow!(I16, i16),
        ValueType::I32 => narrow!(I32, i32),
        ValueType::I64 => narrow!(I64, i64),
        ValueType::U8 => narrow!(U8, u8),
        ValueType::U16 => narrow!(U16, u16),
        ValueType::U32 => narrow!(U32, u32),
        ValueType::U64 => narrow!(U64, u64),
        ValueType::Bool | ValueType::F32 | ValueType::F64 => Err(ValueError::Malformed {
            text: text.to_owned(),
            value_type,
        }),
    }
}

fn out_of_range(
    text: &str,
    value_type: ValueType,
    min: impl fmt::Display,
    max: impl fmt::Display,
) -> ValueError {
    ValueError::OutOfRange {
        text: text.to_owned(),
        value_type,
        min: min.to_string(),
        max: max.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bool_is_zero_or_one_and_nothing_else() {
        assert_eq!(Value::parse("true", ValueType::Bool), Ok(Value::Bool(true)));
        assert!(Value::parse("2", ValueType::Bool).is_err());
        let two = Bytes::new(&[2]).unwrap();
        assert!(Value::from_bytes(ValueType::Bool, two).is_err());
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused_with_the_range() {
        let error = Value::parse("300", ValueType::U8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "300 does not fit into u8, which holds 0 to 255"
        );
        assert!(Value::parse("-1", ValueType::U64).is_err());
        assert!(Value::parse("1e39", ValueType::F32).is_err());
        assert!(Value::parse("--1", ValueType::I32).is_err());
        assert!(Value::parse("0x+1", ValueType::I32).is_err());
        assert_eq!(Value::parse("-0x80", ValueType::I8), Ok(Value::I8(-128)));
    }

    proptest! {
        #[test]
        fn bytes_of_a_value_read_back_as_the_value(bits: u64, pick in 1..ValueType::ALL.len()) {
            let value_type = ValueType::ALL[pick];
            let bytes = Bytes::new(&bits.to_le_bytes()[..value_type.size()]).unwrap();
            let value = Value::from_bytes(value_type, bytes).unwrap();
            prop_assert_eq!(value.to_bytes(), bytes);
            prop_assert_eq!(Bytes::try_from(bytes.to_string()), Ok(bytes));
        }

        #[test]
        fn a_printed_number_parses_to_itself(number: i64) {
            prop_assert_eq!(Value::parse(&number.to_string(), ValueType::I64), Ok(Value::I64(number)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,20}", pick in 0..ValueType::ALL.len()) {
            let _ = Value::parse(&text, ValueType::ALL[pick]);
            let _ = Bytes::try_from(text);
        }
    }
}
