//! Values: results of rules ([`Scalar`]), and values that can be written into a process ([`Value`]): a closed
//! set of at most 8 bytes, so that every write is one aligned store.
//!
//! Conversions between text and bytes, independent of processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a text is not a value of a type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueError {
    /// Not a number (or not true/false).
    #[error("`{text}` is not a value of type {value_type}: expected {}", expected(*.value_type))]
    Malformed { text: String, value_type: ValueType },
    #[error("{text} does not fit into {value_type}, which holds {min} to {max}")]
    OutOfRange {
        text: String,
        value_type: ValueType,
        min: String,
        max: String,
    },
    #[error("`{0}` is not a type: expected one of bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64")]
    UnknownType(String),
    /// The bytes are no value of the type.
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

/// A single value of a rule. The variable to which it is written determines its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scalar {
    Boolean(bool),
    /// A number in seconds, bytes, or their powers; the rule determines its dimension.
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

/// At most 8 bytes in memory order. Displayed and stored as hexadecimal digits, lowest address first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes {
    length: u8,
    bytes: [u8; 8],
}

impl Bytes {
    /// The size limit of a write: one aligned store.
    pub const MAX: usize = 8;

    /// `None` if there are more than [`Bytes::MAX`].
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

    /// The bytes as a word, padded with zeros.
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

/// A text is not bytes as they are printed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not bytes: expected up to 8 bytes in hexadecimal")]
pub struct BytesError(String);

impl TryFrom<String> for Bytes {
    type Error = BytesError;

    fn try_from(text: String) -> Result<Bytes, BytesError> {
        let bad = || BytesError(text.clone());
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

macro_rules! scalars {
    ($($variant:ident $name:literal $rust:ty;)*) => {
        /// The types of values.
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
            /// All types, in the order in which they are listed to users.
            pub const ALL: &'static [ValueType] = &[ValueType::Bool, $(ValueType::$variant),*];

            pub fn name(self) -> &'static str {
                match self {
                    ValueType::Bool => "bool",
                    $(ValueType::$variant => $name,)*
                }
            }

            /// Size of a value of this type, in bytes.
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

            /// The bytes in the memory of the target (little-endian machines only).
            pub fn to_bytes(self) -> Bytes {
                let mut bytes = [0; Bytes::MAX];
                match self {
                    Value::Bool(value) => bytes[0] = u8::from(value),
                    $(Value::$variant(value) => bytes[..size_of::<$rust>()].copy_from_slice(&value.to_le_bytes()),)*
                }
                Bytes { length: self.value_type().size() as u8, bytes }
            }

            /// The value of these bytes; a bool other than 0 and 1 is refused, as is a wrong length.
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
                    Value::F32(value) if needs_exponent(f64::from(*value)) => write!(f, "{value:e}"),
                    Value::F64(value) if needs_exponent(*value) => write!(f, "{value:e}"),
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

/// Whether a number would have too many zeros without an exponent.
fn needs_exponent(value: f64) -> bool {
    value != 0.0 && value.is_finite() && !(1e-6..1e16).contains(&value.abs())
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

/// A value whose type is that of its variable: a result of a rule, or a user's input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Literal {
    Boolean(bool),
    Integer(i128),
    Float(#[serde(with = "bits")] f64),
}

/// Serializes the bits, because JSON cannot represent infinities and NaN.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(number.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

/// A text that is no value of any type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LiteralError {
    #[error("`{0}` is not a value: expected a number, true or false")]
    Malformed(String),
    /// Digits of a number that no type holds. An infinity has a name.
    #[error("{0} does not fit into f64, which holds {min} to {max}", min = Value::F64(f64::MIN), max = Value::F64(f64::MAX))]
    TooLarge(String),
}

impl FromStr for Literal {
    type Err = LiteralError;

    /// Parses decimal numbers, hexadecimal numbers with `0x`, true and false.
    fn from_str(text: &str) -> Result<Literal, LiteralError> {
        match text {
            "true" => return Ok(Literal::Boolean(true)),
            "false" => return Ok(Literal::Boolean(false)),
            _ => {}
        }
        if let Some(number) = parse_integer(text) {
            return Ok(Literal::Integer(number));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) => {
                Err(LiteralError::TooLarge(text.to_owned()))
            }
            Ok(number) => Ok(Literal::Float(number)),
            Err(_) => Err(LiteralError::Malformed(text.to_owned())),
        }
    }
}

impl TryFrom<&Scalar> for Literal {
    type Error = LiteralError;

    fn try_from(scalar: &Scalar) -> Result<Literal, LiteralError> {
        match scalar {
            Scalar::Boolean(value) => Ok(Literal::Boolean(*value)),
            Scalar::Number(value) => Ok(Literal::Float(*value)),
            Scalar::Text(text) => Err(LiteralError::Malformed(text.clone())),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Boolean(value) => write!(f, "{value}"),
            Literal::Integer(value) => write!(f, "{value}"),
            Literal::Float(value) if needs_exponent(*value) => write!(f, "{value:e}"),
            Literal::Float(value) => write!(f, "{value}"),
        }
    }
}

impl Literal {
    /// Converts to this type; a number that is not exact in the type is refused, except for the last digits
    /// of a fraction.
    pub fn of_type(self, value_type: ValueType) -> Result<Value, ValueError> {
        let malformed = || ValueError::Malformed {
            text: self.to_string(),
            value_type,
        };
        match value_type {
            ValueType::Bool => match self {
                Literal::Boolean(value) => Ok(Value::Bool(value)),
                _ => match self.integer() {
                    Some(number @ (0 | 1)) => Ok(Value::Bool(number == 1)),
                    _ => Err(malformed()),
                },
            },
            ValueType::F64 => Ok(Value::F64(self.float().ok_or_else(malformed)?)),
            ValueType::F32 => {
                let wide = self.float().ok_or_else(malformed)?;
                let narrow = wide as f32;
                if wide.is_finite() && !narrow.is_finite() {
                    return Err(self.out_of_range(value_type, Value::F32(f32::MIN), Value::F32(f32::MAX)));
                }
                Ok(Value::F32(narrow))
            }
            _ => self.narrow(value_type, self.integer().ok_or_else(malformed)?),
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Literal::Boolean(_) => None,
            Literal::Integer(number) => Some(number as f64),
            Literal::Float(number) => Some(number),
        }
    }

    fn integer(self) -> Option<i128> {
        // Larger numbers fit no type; the conversion saturates there.
        match self {
            Literal::Boolean(_) => None,
            Literal::Integer(number) => Some(number),
            Literal::Float(number) => (number.fract() == 0.0).then_some(number as i128),
        }
    }

    fn narrow(self, value_type: ValueType, number: i128) -> Result<Value, ValueError> {
        macro_rules! narrow {
            ($variant:ident, $rust:ty) => {
                <$rust>::try_from(number)
                    .map(Value::$variant)
                    .map_err(|_| self.out_of_range(value_type, <$rust>::MIN, <$rust>::MAX))
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
                text: self.to_string(),
                value_type,
            }),
        }
    }

    fn out_of_range(
        self,
        value_type: ValueType,
        min: impl fmt::Display,
        max: impl fmt::Display,
    ) -> ValueError {
        ValueError::OutOfRange {
            text: self.to_string(),
            value_type,
            min: min.to_string(),
            max: max.to_string(),
        }
    }
}

fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    // `from_str_radix` would accept a second sign.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, value_type: ValueType) -> Result<Value, ValueError> {
        text.parse::<Literal>().unwrap().of_type(value_type)
    }

    #[test]
    fn numbers_with_many_zeros_have_an_exponent_and_read_back_as_they_were() {
        for (value, text) in [
            (1.122_504_006_630_29e-71, "1.12250400663029e-71"),
            (-2.5e-7, "-2.5e-7"),
            (1e20, "1e20"),
            (0.000_001, "0.000001"),
            (0.25, "0.25"),
            (0.0, "0"),
        ] {
            assert_eq!(Value::F64(value).to_string(), text);
            assert_eq!(Literal::Float(value).to_string(), text);
            assert_eq!(text.parse(), Ok(value));
        }
        assert_eq!(Value::F32(1e-30).to_string(), "1e-30");
    }

    #[test]
    fn a_bool_is_zero_or_one_and_nothing_else() {
        assert_eq!(read("true", ValueType::Bool), Ok(Value::Bool(true)));
        assert!(read("2", ValueType::Bool).is_err());
        let two = Bytes::new(&[2]).unwrap();
        assert!(Value::from_bytes(ValueType::Bool, two).is_err());
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused_with_the_range() {
        let error = read("300", ValueType::U8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "300 does not fit into u8, which holds 0 to 255"
        );
        assert!(read("-1", ValueType::U64).is_err());
        assert_eq!(
            read("1e39", ValueType::F32).unwrap_err().to_string(),
            "1e39 does not fit into f32, which holds -3.4028235e38 to 3.4028235e38"
        );
        assert!(read("12.5", ValueType::I32).is_err() && read("1e40", ValueType::I32).is_err());
        assert!(read("true", ValueType::I32).is_err() && read("nan", ValueType::I32).is_err());
        assert_eq!(read("-0x80", ValueType::I8), Ok(Value::I8(-128)));
    }

    #[test]
    fn digits_of_a_number_that_no_type_holds_are_refused_and_an_infinity_has_a_name() {
        let digits = "9".repeat(400);
        for text in ["1e400", "-1e400", digits.as_str()] {
            let error = text.parse::<Literal>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "{text} does not fit into f64, which holds -1.7976931348623157e308 to 1.7976931348623157e308"
                )
            );
        }
        assert_eq!(read("inf", ValueType::F64), Ok(Value::F64(f64::INFINITY)));
        assert_eq!(
            read("-infinity", ValueType::F32),
            Ok(Value::F32(f32::NEG_INFINITY))
        );
    }

    #[test]
    fn a_literal_is_any_number_and_stays_it_on_the_way() {
        for text in ["x", "--1", "0x+1", "", "on"] {
            assert!(text.parse::<Literal>().is_err(), "{text}");
        }
        for text in [
            "true",
            "-1",
            "18446744073709551615",
            "0.1",
            "inf",
            "-0.0",
            "1e300",
        ] {
            let literal: Literal = text.parse().unwrap();
            let written = serde_json::to_string(&literal).unwrap();
            assert_eq!(
                serde_json::from_str::<Literal>(&written).unwrap(),
                literal,
                "{text}"
            );
        }
        assert_eq!(
            read("18446744073709551615", ValueType::U64),
            Ok(Value::U64(u64::MAX))
        );
        // An integer as a rule computes it.
        assert_eq!(Literal::Float(12.0).of_type(ValueType::I32), Ok(Value::I32(12)));
        assert_eq!(
            Literal::Float(1.0).of_type(ValueType::Bool),
            Ok(Value::Bool(true))
        );
        assert!(Literal::try_from(&Scalar::Text("12".into())).is_err());
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
            prop_assert_eq!(read(&number.to_string(), ValueType::I64), Ok(Value::I64(number)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,20}", pick in 0..ValueType::ALL.len()) {
            let _ = text.parse::<Literal>().map(|literal| literal.of_type(ValueType::ALL[pick]));
            let _ = Bytes::try_from(text);
        }
    }
}
