//! Calls of functions of the program: their notation (`flush("log", 1, 2.5, true)`), their arguments, and how
//! they are reverted.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::value::ValueType;

/// Exceeds the arguments that any call can have.
const ARGUMENTS_MAX: usize = 14;

/// The notation of [`Argument::Was`].
pub const WAS: &str = "was";

/// The name of a function, with its module if needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionName {
    pub name: String,
    /// The path, file name, soname, or file name without the part from `.so` on.
    pub module: Option<String>,
}

impl From<&str> for FunctionName {
    /// `function` or `module:function`; `::` belongs to the name.
    fn from(text: &str) -> FunctionName {
        match text.split_once(':') {
            Some((module, name)) if !module.is_empty() && !name.is_empty() && !name.starts_with(':') => {
                FunctionName {
                    name: name.to_owned(),
                    module: Some(module.to_owned()),
                }
            }
            _ => FunctionName {
                name: text.to_owned(),
                module: None,
            },
        }
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.module {
            Some(module) => write!(f, "{module}:{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// An integer, bool or address.
    Integer(i64),
    Double(f64),
    Float(f32),
    /// A zero-terminated text. It exists until the call has returned, or until the inserted call is reverted:
    /// not suitable for functions that keep the address.
    Text(String),
    /// The value of a variable of the program at the time of the call; only for a call that is made once.
    Variable(String),
    /// The value read just before the call that is reverted; only in an inverse.
    Was,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Integer(number) => write!(f, "{number}"),
            Argument::Double(number) => write!(f, "{number:?}"),
            Argument::Float(number) => write!(f, "{number:?}f"),
            Argument::Text(text) => write!(f, "{text:?}"),
            Argument::Variable(name) => f.write_str(name),
            Argument::Was => f.write_str(WAS),
        }
    }
}

/// The return type of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnType {
    /// The result is ignored.
    Nothing,
    /// A number or a bool.
    Value(ValueType),
    Pointer,
    /// The type in the debug information; ignored without one.
    IfKnown,
}

/// Requests one call of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRequest {
    pub function: FunctionName,
    /// At most 6 integers, addresses or texts, and 8 floating-point numbers.
    pub arguments: Vec<Argument>,
    /// The return type; i64 if `None`.
    pub returns: Option<ReturnType>,
    /// The wait for the call, in ms. A longer call is never interrupted.
    pub wait_ms: u64,
    /// The only thread that may make the call.
    pub thread: Option<i32>,
    /// How it is reverted.
    #[serde(default)]
    pub inverse: Inverse,
}

/// How a call is reverted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inverse {
    /// Unspecified: the call stays.
    #[default]
    Unstated,
    /// There is nothing to revert, for this reason.
    NotNeeded(String),
    /// By another call, made by the thread that made the first one.
    Call {
        /// The inverse call: constants and [`Argument::Was`].
        call: Invocation,
        /// A call that the same thread makes just before the first one, with constants: its result is
        /// [`Argument::Was`].
        was: Option<Invocation>,
        /// What it does not restore, in words: `glibc keeps up to 64 MiB`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remains: Option<String>,
    },
}

/// Why a text is not a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a call: {why} (as in `f(1, 2.5, \"text\", true)`)")]
pub struct TextError {
    pub text: String,
    pub why: String,
}

/// A function with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    pub function: FunctionName,
    pub arguments: Vec<Argument>,
}

impl Invocation {
    /// Parses a call; a name alone is a call without arguments.
    pub fn parse(text: &str) -> Result<Invocation, TextError> {
        let error = |why: String| TextError {
            text: text.to_owned(),
            why,
        };
        let trimmed = text.trim();
        let (name, rest) = match trimmed.split_once('(') {
            None => (trimmed, ""),
            Some((name, rest)) => {
                let rest = rest.strip_suffix(')');
                (
                    name,
                    rest.ok_or_else(|| error("it does not end with `)`".to_owned()))?,
                )
            }
        };
        if name.trim().is_empty() {
            return Err(error("it has no name".to_owned()));
        }
        if name.contains(char::is_whitespace) {
            return Err(error("its arguments are not in brackets".to_owned()));
        }
        let parts = split(rest).ok_or_else(|| error("a text has no end".to_owned()))?;
        if parts.len() > ARGUMENTS_MAX {
            return Err(error(format!("it has more than {ARGUMENTS_MAX} arguments")));
        }
        let arguments = parts
            .iter()
            .map(|part| argument(part).ok_or_else(|| error(format!("`{part}` is not a value"))));
        Ok(Invocation {
            function: FunctionName::from(name.trim()),
            arguments: arguments.collect::<Result<_, _>>()?,
        })
    }
}

/// Splits at the commas outside of texts.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut characters = text.chars();
    let mut in_text = false;
    while let Some(character) = characters.next() {
        match character {
            '"' => in_text = !in_text,
            '\\' if in_text => {
                part.push(character);
                part.push(characters.next()?);
                continue;
            }
            ',' if !in_text => {
                parts.push(std::mem::take(&mut part).trim().to_owned());
                continue;
            }
            _ => {}
        }
        part.push(character);
    }
    if in_text {
        return None;
    }
    if !(parts.is_empty() && part.trim().is_empty()) {
        parts.push(part.trim().to_owned());
    }
    Some(parts)
}

fn argument(text: &str) -> Option<Argument> {
    if let Some(quoted) = text.strip_prefix('"') {
        return unescape(quoted.strip_suffix('"')?).map(Argument::Text);
    }
    match text {
        "true" => return Some(Argument::Integer(1)),
        "false" | "NULL" | "nullptr" => return Some(Argument::Integer(0)),
        WAS => return Some(Argument::Was),
        _ => {}
    }
    if let Some(number) = integer(text) {
        return Some(Argument::Integer(number));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.')) {
        return None;
    }
    match text.strip_suffix('f') {
        Some(float) => float.parse().ok().map(Argument::Float),
        None => text.parse().ok().map(Argument::Double),
    }
}

/// Decimal or hexadecimal. Numbers above the greatest i64, up to the greatest u64, keep their bits.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = text
        .strip_prefix('-')
        .map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    let number: i128 = if negative { -number } else { number };
    let as_unsigned = |_| u64::try_from(number).map(u64::cast_signed);
    i64::try_from(number).or_else(as_unsigned).ok()
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                't' => '\t',
                '"' => '"',
                '\\' => '\\',
                _ => return None,
            },
            '"' | '\0' => return None,
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_of_argument_is_read() {
        let call =
            Invocation::parse(r#"libm:f(1, -2.5, 0.5f, "a, \"b\"\n", true, 0xffffffffffffffff, NULL)"#)
                .unwrap();
        assert_eq!(call.function.to_string(), "libm:f");
        assert_eq!(
            call.arguments,
            [
                Argument::Integer(1),
                Argument::Double(-2.5),
                Argument::Float(0.5),
                Argument::Text("a, \"b\"\n".to_owned()),
                Argument::Integer(1),
                Argument::Integer(-1),
                Argument::Integer(0),
            ]
        );
        assert_eq!(Invocation::parse("f(was)").unwrap().arguments, [Argument::Was]);
        assert!(Invocation::parse("ns::f()").unwrap().arguments.is_empty());
        assert_eq!(Invocation::parse("ns::f").unwrap().function.name, "ns::f");
    }

    #[test]
    fn a_text_that_is_no_call_is_refused_with_the_reason() {
        let error = |text| Invocation::parse(text).unwrap_err().why;
        assert_eq!(error("f(1"), "it does not end with `)`");
        assert_eq!(error("(1)"), "it has no name");
        assert_eq!(error("f(x)"), "`x` is not a value");
        assert_eq!(error("f(1,)"), "`` is not a value");
        assert_eq!(error("f(\"a)"), "a text has no end");
        assert_eq!(error("f(nan)"), "`nan` is not a value");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-f0-9x(),\"\\\\ .\u{e9}-]{0,40}") {
            let _ = Invocation::parse(&text);
        }
    }
}
