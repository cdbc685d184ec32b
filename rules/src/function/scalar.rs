//! The functions of single values: their type rules and values. On tables they work row by row.

use plan::{Expression, Operator};
use syntax::diag::{Diagnostic, Span};

use crate::cpu_shares;
use crate::types::{Kind, Operand, Type};
use crate::value::{Cell, Key, Scalar, Value, WhyMissing, finite, number};

/// The type of the value for these arguments, which are numbers, in a call.
type TypeRule = fn(&[Operand], Span) -> Result<Type, Diagnostic>;

/// The values of the arguments, in their order.
type Values<'a> = &'a mut dyn Iterator<Item = Value>;

type Evaluation = fn(Values<'_>) -> Value;

/// The computation in the program, where an argument is passed.
type Compiled = fn(Vec<Expression>) -> Option<Expression>;

/// A function of single values; on tables it works row by row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarFunction {
    pub(crate) type_rule: TypeRule,
    pub(crate) evaluate: Evaluation,
    /// A row of the result depends on that row of the arguments alone.
    pub(crate) is_by_row: bool,
    /// `None` if it is not available where an argument is passed.
    pub(crate) compiled: Option<Compiled>,
}

impl ScalarFunction {
    pub(super) const fn new(type_rule: TypeRule, evaluate: Evaluation) -> ScalarFunction {
        ScalarFunction {
            type_rule,
            evaluate,
            is_by_row: true,
            compiled: None,
        }
    }

    pub(super) const fn of_all_rows(self) -> ScalarFunction {
        ScalarFunction {
            is_by_row: false,
            ..self
        }
    }

    pub(super) const fn compiled(self, compiled: Compiled) -> ScalarFunction {
        ScalarFunction {
            compiled: Some(compiled),
            ..self
        }
    }
}

/// Numbers of one dimension, which is that of the result, too.
pub(super) fn alike(arguments: &[Operand], span: Span) -> Result<Type, Diagnostic> {
    let first = first_of(arguments, span)?;
    let mut type_of = first.type_of;
    for other in arguments.iter().skip(1) {
        if other.type_of.kind != type_of.kind {
            return Err(first.different("compare", *other, span));
        }
        type_of = Type {
            table: Operand { type_of, ..first }.rows(*other)?,
            percent: type_of.percent && other.type_of.percent,
            ..type_of
        };
    }
    Ok(type_of)
}

/// A plain number that is rounded.
pub(super) fn rounded(arguments: &[Operand], span: Span) -> Result<Type, Diagnostic> {
    let Operand { type_of, span, .. } = first_of(arguments, span)?;
    if type_of.kind == Type::PLAIN.kind {
        return Ok(type_of);
    }
    let message = format!(
        "only a plain number has a nearest integer, this is {}",
        type_of.what()
    );
    let help = "divide by the unit you mean to count in: `floor(x / 1ms)`";
    Err(Diagnostic::wrong("E0141", span, message).help(help))
}

/// The root of a number whose dimension has even powers.
pub(super) fn root(arguments: &[Operand], span: Span) -> Result<Type, Diagnostic> {
    let Operand { type_of, span, .. } = first_of(arguments, span)?;
    let Some(root) = type_of.dimension().root() else {
        let message = format!("{} has no square root", type_of.what());
        return Err(Diagnostic::wrong("E0141", span, message));
    };
    Ok(Type {
        kind: Kind::Number(root),
        ..type_of
    })
}

/// `factoring_x(batch, mean, stddev, workers)`.
pub(super) fn factoring(arguments: &[Operand], span: Span) -> Result<Type, Diagnostic> {
    let [batch, mean, stddev, workers] = arguments else {
        return Err(lacks_argument(span));
    };
    for plain in [batch, workers] {
        if plain.type_of.kind != Type::PLAIN.kind {
            let what = plain.type_of.what();
            let message = format!("a plain number is needed here, this is {what}");
            return Err(Diagnostic::wrong("E0141", plain.span, message));
        }
    }
    if mean.type_of.kind != stddev.type_of.kind {
        return Err(mean.different("compare", *stddev, span));
    }
    plain_with_rows(arguments)
}

/// `cpu_shares(cpus, serial, now)`: a number and two tables of plain numbers.
pub(super) fn shares(arguments: &[Operand], _: Span) -> Result<Type, Diagnostic> {
    for (place, part) in arguments.iter().enumerate() {
        if part.type_of.kind != Type::PLAIN.kind || part.type_of.table.is_some() != (place > 0) {
            let needed = match place {
                0 => "a plain number",
                _ => "a table of plain numbers",
            };
            let message = format!("{needed} is needed here, this is {}", part.type_of.what());
            return Err(Diagnostic::wrong("E0141", part.span, message));
        }
    }
    plain_with_rows(arguments)
}

fn first_of(arguments: &[Operand], span: Span) -> Result<Operand, Diagnostic> {
    arguments.first().copied().ok_or_else(|| lacks_argument(span))
}

/// The number of arguments is checked before.
fn lacks_argument(span: Span) -> Diagnostic {
    Diagnostic::wrong("E0133", span, "this lacks an argument")
}

/// A plain number with the rows of all arguments.
fn plain_with_rows(arguments: &[Operand]) -> Result<Type, Diagnostic> {
    let mut type_of = Type::PLAIN;
    for part in arguments {
        type_of.table = Operand { type_of, ..*part }.rows(*part)?;
    }
    Ok(type_of)
}

fn first(values: Values<'_>) -> Value {
    values
        .next()
        .unwrap_or_else(|| Value::none("there is no argument"))
}

/// The function of the first argument.
pub(super) fn each(values: Values<'_>, f: fn(f64) -> f64) -> Value {
    first(values).map(|value| finite(f(number(&value)?)))
}

pub(super) fn square_root(values: Values<'_>) -> Value {
    first(values).map(|value| match number(&value)? {
        value if value < 0.0 => Err("it is the root of a negative number".into()),
        value => finite(value.sqrt()),
    })
}

/// The function of the first two arguments, then of its result and the next, and so on.
pub(super) fn folded(values: Values<'_>, f: fn(f64, f64) -> f64) -> Value {
    let first = first(values);
    values.fold(first, |a, b| both(a, b, f))
}

fn both(a: Value, b: Value, f: fn(f64, f64) -> f64) -> Value {
    a.zip(b, |a, b| finite(f(number(&a)?, number(&b)?)))
}

pub(super) fn clamped(values: Values<'_>) -> Value {
    let value = first(values);
    let (Some(low), Some(high)) = (values.next(), values.next()) else {
        return Value::none("clamp lacks a bound");
    };
    let ordered = low.zip(high.clone(), |low, high| match number(&low)? <= number(&high)? {
        true => Ok(low),
        false => Err("clamp has its low bound above its high".into()),
    });
    both(both(value, ordered, f64::max), high, f64::min)
}

pub(super) fn factoring_x(values: Values<'_>) -> Value {
    let values: Vec<Value> = values.collect();
    let Ok([batch, mean, stddev, workers]) = <[Value; 4]>::try_from(values) else {
        return Value::none("factoring_x lacks an argument");
    };
    let step = |f: fn(f64, f64) -> Result<f64, &'static str>| {
        move |a: Scalar, b: Scalar| finite(f(number(&a)?, number(&b)?)?)
    };
    let spread = mean.zip(stddev, step(variation)).zip(workers, step(spread));
    batch.zip(spread, step(factor))
}

/// The first of three steps of the factoring model: the variation of the task times. The errors state why there is no
/// value.
fn variation(mean: f64, stddev: f64) -> Result<f64, &'static str> {
    if mean <= 0.0 || stddev < 0.0 {
        return Err("factoring needs a mean above 0 and a spread that is not below it");
    }
    Ok(stddev / mean)
}

/// The effect of the variation for a number of workers.
fn spread(variation: f64, workers: f64) -> Result<f64, &'static str> {
    if workers < 1.0 {
        return Err("factoring needs a worker");
    }
    Ok(variation * (workers / 2.0).sqrt())
}

/// The factor of a batch.
fn factor(batch: f64, spread: f64) -> Result<f64, &'static str> {
    if batch < 0.0 {
        return Err("batches are numbered from 0");
    }
    Ok(if batch < 1.0 { 1.0 + spread } else { 2.0 + spread })
}

/// The CPUs of each row; none in all rows if one of them is not known.
pub(super) fn cpu_shares(values: Values<'_>) -> Value {
    let cpus = first(values).single().and_then(|cpus| number(&cpus));
    let (Some(Value::Table(serial)), Some(Value::Table(mut now))) = (values.next(), values.next()) else {
        return Value::none("cpu_shares needs two tables");
    };
    let (keys, serial): (Vec<Key>, Vec<Cell>) = serial.into_iter().unzip();
    let unknown = || Err("its present size is not known".into());
    let rows = keys.iter().zip(serial).map(|(key, serial)| {
        let size = now.remove(key).unwrap_or_else(unknown);
        Ok((number(&serial?)?, number(&size?)?))
    });
    let rows: Result<Vec<(f64, f64)>, WhyMissing> = rows.collect();
    let shares = rows.and_then(|rows| Ok(cpu_shares::shares(cpus?, &rows)));
    let cells: Vec<Cell> = match shares {
        Ok(shares) => shares.into_iter().map(|share| finite(share.into())).collect(),
        Err(why) => keys.iter().map(|_| Err(why.clone())).collect(),
    };
    Value::Table(keys.into_iter().zip(cells).collect())
}

pub(super) fn compiled_fold(operator: Operator, parts: Vec<Expression>) -> Option<Expression> {
    let both = |a, b| Expression::Both(operator, Box::new(a), Box::new(b));
    parts.into_iter().reduce(both)
}

pub(super) fn compiled_clamp(parts: Vec<Expression>) -> Option<Expression> {
    let [value, low, high] = <[Expression; 3]>::try_from(parts).ok()?;
    let least = compiled_fold(Operator::Max, vec![value, low])?;
    compiled_fold(Operator::Min, vec![least, high])
}

#[cfg(test)]
mod tests {
    use super::{factor, spread, variation};

    fn factoring_x(batch: f64, mean: f64, stddev: f64, workers: f64) -> Result<f64, &'static str> {
        factor(batch, spread(variation(mean, stddev)?, workers)?)
    }

    #[test]
    fn factoring_of_nothing_is_none() {
        assert!(factoring_x(0.0, 0.0, 1.0, 8.0).is_err());
        assert!(factoring_x(0.0, 1.0, 1.0, 0.0).is_err());
    }
}
