//! Exact fractions of small integers, and formulas of constants that evaluate to them.

use num_rational::Ratio;
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul, CheckedSub, Zero};
use syntax::ast::{Expr, ExprNode, Operator};
use syntax::diag::Diagnostic;
use syntax::unit::{Dimension, unit_named};

/// A fraction; its operations are checked.
pub(super) type Exact = Ratio<i128>;

/// An exact constant with its dimension, in seconds and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Constant {
    pub(super) value: Exact,
    pub(super) dimension: Dimension,
}

/// The nearest floating-point number.
pub(super) fn to_f64(value: Exact) -> f64 {
    *value.numer() as f64 / *value.denom() as f64
}

/// The fraction with the smallest denominator that is as near as a linear program in floating point is exact.
pub(super) fn near(value: f64) -> Option<Exact> {
    let tolerance = 1e-9 * value.abs();
    let (mut before, mut last) = ((0_i128, 1_i128), (1_i128, 0_i128));
    let mut rest = value;
    // Convergents of the continued fraction.
    for _ in 0..40 {
        let integer_part = rest.floor();
        if !integer_part.is_finite() || integer_part.abs() > 1e15 {
            return None;
        }
        let step = |(a, b): (i128, i128)| {
            let integer_part = integer_part as i128;
            Some((
                integer_part.checked_mul(last.0)?.checked_add(a)?,
                integer_part.checked_mul(last.1)?.checked_add(b)?,
            ))
        };
        let next = step(before)?;
        (before, last) = (last, next);
        let found = Exact::new(last.0, last.1);
        if (to_f64(found) - value).abs() <= tolerance {
            return Some(found);
        }
        rest = 1.0 / (rest - integer_part);
    }
    None
}

/// A formula of numbers, units and parameters.
pub(super) fn constant(
    expr: &Expr,
    parameter: &dyn Fn(&str) -> Option<Constant>,
) -> Result<Constant, Diagnostic> {
    let too_large = || {
        let message = "this number has too many digits";
        Diagnostic::wrong("E0172", expr.span, message).help("at most 30 digits on each side of the point")
    };
    match &expr.node {
        ExprNode::Number { digits, unit } => {
            let value = decimal(digits).ok_or_else(too_large)?;
            let Some(unit) = unit.and_then(unit_named) else {
                return Ok(plain(value));
            };
            Ok(Constant {
                value: value.checked_mul(&factor(unit.factor)).ok_or_else(too_large)?,
                dimension: unit.dimension,
            })
        }
        ExprNode::Name(name) => match (parameter(name), unit_named(name)) {
            (Some(value), _) => Ok(value),
            (None, Some(unit)) => Ok(Constant {
                value: factor(unit.factor),
                dimension: unit.dimension,
            }),
            (None, None) => {
                let message = format!("there is no parameter and no unit `{name}`");
                Err(Diagnostic::wrong("E0174", expr.span, message))
            }
        },
        ExprNode::Negate(of) => {
            let of = constant(of, parameter)?;
            Ok(Constant {
                value: -of.value,
                ..of
            })
        }
        ExprNode::Binary {
            operator,
            left,
            right,
        } => {
            let (left, right) = (constant(left, parameter)?, constant(right, parameter)?);
            binary(*operator, left, right, expr)?.ok_or_else(too_large)
        }
        _ => {
            let message = "this is not a constant: numbers, units, parameters and + - * / only";
            Err(Diagnostic::wrong("E0173", expr.span, message))
        }
    }
}

fn plain(value: Exact) -> Constant {
    Constant {
        value,
        dimension: Dimension::NONE,
    }
}

fn binary(
    operator: Operator,
    left: Constant,
    right: Constant,
    expr: &Expr,
) -> Result<Option<Constant>, Diagnostic> {
    let (a, b) = (&left.value, &right.value);
    let sums = matches!(operator, Operator::Add | Operator::Subtract);
    if sums && left.dimension != right.dimension {
        let message = format!("{} and {} cannot be added", left.dimension, right.dimension);
        return Err(Diagnostic::wrong("E0173", expr.span, message));
    }
    let (value, dimension) = match operator {
        Operator::Add => (a.checked_add(b), Some(left.dimension)),
        Operator::Subtract => (a.checked_sub(b), Some(left.dimension)),
        Operator::Multiply => (a.checked_mul(b), left.dimension.times(right.dimension)),
        Operator::Divide if b.is_zero() => {
            return Err(Diagnostic::wrong("E0172", expr.span, "this divides by 0"));
        }
        Operator::Divide => (a.checked_div(b), left.dimension.over(right.dimension)),
        _ => {
            let message = "this is not a constant: numbers, units, parameters and + - * / only";
            return Err(Diagnostic::wrong("E0173", expr.span, message));
        }
    };
    Ok(value
        .zip(dimension)
        .map(|(value, dimension)| Constant { value, dimension }))
}

/// The factor of a unit; all of them are integers or one over an integer.
fn factor(factor: f64) -> Exact {
    match factor < 1.0 {
        true => Exact::new(1, (1.0 / factor).round() as i128),
        false => Exact::from_integer(factor as i128),
    }
}

/// `12`, `0.75` or `3307e6`; `None` if it has too many digits.
fn decimal(digits: &str) -> Option<Exact> {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (integer_part, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let number = format!("{integer_part}{fraction}").parse::<i128>().ok()?;
    let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    match exponent < 0 {
        true => Some(Exact::new(number, power)),
        false => Some(Exact::from_integer(number.checked_mul(power)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syntax::diag::Span;
    use syntax::{parser::parse, text::Text};

    fn value(text: &str) -> Result<Constant, &'static str> {
        let expr = parse(&Text::elsewhere(text, Span::default())).map_err(|wrong| wrong.code)?;
        let half = |name: &str| (name == "half").then(|| plain(Exact::new(1, 2)));
        constant(&expr, &half).map_err(|wrong| wrong.code)
    }

    #[test]
    fn constants_are_exact() {
        for (text, over, under) in [
            ("1/12", 1, 12),
            ("0.75 + 0.2", 19, 20),
            ("3307e6", 3_307_000_000, 1),
            ("-2 * half", -1, 1),
            ("30%", 3, 10),
            ("1/12s", 1, 12),
            ("2/s", 2, 1),
            ("100Mbit/s", 12_500_000, 1),
            ("8bit", 1, 1),
            ("1ms", 1, 1000),
        ] {
            assert_eq!(
                value(text).map(|it| it.value),
                Ok(Exact::new(over, under)),
                "{text}"
            );
        }
        assert_eq!(
            value("1B/1s").map(|it| it.dimension),
            Ok(Dimension { time: -1, bytes: 1 })
        );
        for (text, code) in [
            ("1/0", "E0172"),
            ("1e40", "E0172"),
            ("1s + 1B", "E0173"),
            ("nobody", "E0174"),
            ("max(1, 2)", "E0173"),
            ("54Mb", "E0121"),
        ] {
            assert_eq!(value(text), Err(code), "{text}");
        }
    }
}
