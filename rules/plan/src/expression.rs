//! The expression for a changed argument: constants, the original value, + − × ÷, min, max, clamp. Small
//! enough to be compiled into the program.
//!
//! Parses a text into a tree. Semantics: integer parameters are computed in 64 bits and wrap, floating-point
//! parameters as f64.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::value::{Literal, ValueType};

const DEPTH_MAX: usize = 24;
/// Maximum number of nodes.
const NODES_MAX: usize = 100;

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// It ends too early, or contains something unexpected.
    #[error(
        "`{text}` is not understood from character {at} on: expected numbers, `original`, + - * /, min max clamp and parentheses"
    )]
    Syntax { text: String, at: usize },
    #[error(
        "the expression is nested deeper than {DEPTH_MAX} or longer than {NODES_MAX} numbers and operators"
    )]
    TooLarge,
    #[error("the parameter is {value_type}, and {number} is not a value of it")]
    NotOfType { number: String, value_type: ValueType },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// ÷. If an integer divisor is 0, the result of the complete expression is `original`.
    Divide,
    Min,
    Max,
}

/// An expression for the new value of an argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expression {
    Integer(i64),
    Float(f64),
    /// The value that the caller passed.
    Original,
    Both(Operator, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Parses `min(original, 64KiB)`, `original * 2 + 1`, `clamp(original, 1, 8)`.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        let mut parser = Parser {
            text,
            at: 0,
            nodes: 0,
        };
        let expression = parser.sum(0)?;
        match parser.peek() {
            None => Ok(expression),
            Some(_) => Err(parser.error()),
        }
    }

    /// Checks that a parameter of this type can hold every number in it.
    pub fn check(&self, value_type: ValueType) -> Result<(), ExpressionError> {
        self.measure(0, &mut 0)?;
        self.check_numbers(value_type)
    }

    fn measure(&self, depth: usize, nodes: &mut usize) -> Result<(), ExpressionError> {
        *nodes += 1;
        if depth > DEPTH_MAX || *nodes > NODES_MAX {
            return Err(ExpressionError::TooLarge);
        }
        match self {
            Expression::Both(_, left, right) => {
                left.measure(depth + 1, nodes)?;
                right.measure(depth + 1, nodes)
            }
            _ => Ok(()),
        }
    }

    fn check_numbers(&self, value_type: ValueType) -> Result<(), ExpressionError> {
        let number = match self {
            Expression::Original => return Ok(()),
            Expression::Both(_, left, right) => {
                left.check_numbers(value_type)?;
                return right.check_numbers(value_type);
            }
            Expression::Integer(number) => Literal::Integer(i128::from(*number)),
            Expression::Float(number) => Literal::Float(*number),
        };
        match number.of_type(value_type) {
            Ok(_) => Ok(()),
            Err(_) => Err(ExpressionError::NotOfType {
                number: number.to_string(),
                value_type,
            }),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Integer(number) => write!(f, "{number}"),
            Expression::Float(number) => write!(f, "{number:?}"),
            Expression::Original => f.write_str("original"),
            Expression::Both(operator, left, right) => match operator {
                Operator::Add => write!(f, "({left} + {right})"),
                Operator::Subtract => write!(f, "({left} - {right})"),
                Operator::Multiply => write!(f, "({left} * {right})"),
                Operator::Divide => write!(f, "({left} / {right})"),
                Operator::Min => write!(f, "min({left}, {right})"),
                Operator::Max => write!(f, "max({left}, {right})"),
            },
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    nodes: usize,
}

impl Parser<'_> {
    fn error(&self) -> ExpressionError {
        ExpressionError::Syntax {
            text: self.text.to_owned(),
            at: self.text[..self.at].chars().count() + 1,
        }
    }

    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn expect(&mut self, wanted: char) -> Result<(), ExpressionError> {
        match self.take(wanted) {
            true => Ok(()),
            false => Err(self.error()),
        }
    }

    fn both(
        &mut self,
        operator: Operator,
        left: Expression,
        right: Expression,
    ) -> Result<Expression, ExpressionError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(ExpressionError::TooLarge);
        }
        Ok(Expression::Both(operator, Box::new(left), Box::new(right)))
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        if depth > DEPTH_MAX {
            return Err(ExpressionError::TooLarge);
        }
        let operators = [('+', Operator::Add), ('-', Operator::Subtract)];
        self.joined(operators, |parser| parser.product(depth))
    }

    fn product(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        let operators = [('*', Operator::Multiply), ('/', Operator::Divide)];
        self.joined(operators, |parser| parser.factor(depth))
    }

    /// Operands with these operators between them, which bind from left to right.
    fn joined(
        &mut self,
        operators: [(char, Operator); 2],
        operand: impl Fn(&mut Self) -> Result<Expression, ExpressionError>,
    ) -> Result<Expression, ExpressionError> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(*sign)) {
            let right = operand(self)?;
            left = self.both(*operator, left, right)?;
        }
        Ok(left)
    }

    fn factor(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        if self.take('(') {
            let inner = self.sum(depth + 1)?;
            self.expect(')')?;
            return Ok(inner);
        }
        match self.peek() {
            Some(first) if first.is_ascii_digit() || first == '-' => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.word(depth),
            _ => Err(self.error()),
        }
    }

    fn word(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        if word == "original" {
            self.at += end;
            return Ok(Expression::Original);
        }
        if !matches!(word.as_str(), "min" | "max" | "clamp") {
            return Err(self.error());
        }
        self.at += end;
        self.expect('(')?;
        let first = self.sum(depth + 1)?;
        self.expect(',')?;
        let second = self.sum(depth + 1)?;
        let expression = match word.as_str() {
            "min" => self.both(Operator::Min, first, second)?,
            "max" => self.both(Operator::Max, first, second)?,
            _ => {
                self.expect(',')?;
                let greatest = self.sum(depth + 1)?;
                let least = self.both(Operator::Max, first, second)?;
                self.both(Operator::Min, least, greatest)?
            }
        };
        self.expect(')')?;
        Ok(expression)
    }

    fn number(&mut self) -> Result<Expression, ExpressionError> {
        let rest = &self.text[self.at..];
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_');
        let end = digits.find(|c| !is_part(c)).unwrap_or(digits.len());
        let length = rest.len() - digits.len() + end;
        let text: String = rest[..length].chars().filter(|c| *c != '_').collect();
        let unit = &rest[length..];
        let (shift, unit_length) = match unit.get(..3) {
            Some("KiB") => (10, 3),
            Some("MiB") => (20, 3),
            Some("GiB") => (30, 3),
            _ => (0, 0),
        };
        let number = match text.parse::<i64>() {
            Ok(number) => number.checked_mul(1 << shift).map(Expression::Integer),
            Err(_) if shift == 0 => text.parse().ok().map(Expression::Float),
            Err(_) => None,
        };
        let number = number.ok_or_else(|| self.error())?;
        self.at += length + unit_length;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn operators_bind_as_in_arithmetic() {
        let cases = [
            ("7", "7"),
            ("original * 2 + 1", "((original * 2) + 1)"),
            ("1 + 2 * 3 - -4", "((1 + (2 * 3)) - -4)"),
            ("(1 + 2) * 3", "((1 + 2) * 3)"),
            ("min(original, 64KiB)", "min(original, 65536)"),
            ("clamp(original, 1, 8)", "min(max(original, 1), 8)"),
            ("original / (original - 10)", "(original / (original - 10))"),
        ];
        for (text, read) in cases {
            assert_eq!(Expression::parse(text).unwrap().to_string(), read, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_shown_with_its_place() {
        let error = Expression::parse("original + oops").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`original + oops` is not understood from character 12 on: expected numbers, `original`, + - * /, min max clamp and \
             parentheses"
        );
        for text in ["", "1 +", "min(1)", "1 2", "(1", "9999999999999999999GiB"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
        assert_eq!(Expression::parse(&"(".repeat(99)), Err(ExpressionError::TooLarge));
        assert_eq!(
            Expression::parse(&"1+".repeat(999)),
            Err(ExpressionError::TooLarge)
        );
    }

    #[test]
    fn a_number_that_the_parameter_cannot_hold_is_refused() {
        let check = |text, of| {
            Expression::parse(text)
                .unwrap()
                .check(of)
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("min(original, 255)", ValueType::U8), Ok(()));
        assert_eq!(
            check("min(original, 256)", ValueType::U8),
            Err("the parameter is u8, and 256 is not a value of it".to_owned())
        );
        assert!(check("original * 0.5", ValueType::I32).is_err());
        assert!(check("original * 0.5", ValueType::F64).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9a-z+*/(), .\u{e9}KiB-]{0,40}") {
            let _ = Expression::parse(&text);
        }

        #[test]
        fn printed_expressions_are_read_back(left in 0i64..1000, right in 0i64..1000) {
            let text = format!("min(original, {left}) * {right} - 1");
            let once = Expression::parse(&text).unwrap();
            prop_assert_eq!(Expression::parse(&once.to_string()).unwrap(), once);
        }
    }
}
