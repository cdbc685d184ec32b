//! Reductions of tables, and ranges. Total: what cannot be computed is none with a reason.
//! [`crate::eval::partial`] folds hits.

use std::sync::Arc;

use crate::eval::partial::of_values;
use crate::eval::{Context, calculated};
use crate::function::Reduction;
use crate::term::{Term, Typed};
use crate::types::KeyKind;
use crate::value::{Cell, Key, Scalar, Value, WhyMissing, finite, number};

/// Maximum number of numbers in a range.
pub(crate) const NUMBERS_MAX: f64 = 10_000.0;

/// `term` with all parts precomputed that do not depend on the hit or a variable.
pub(crate) fn fix(context: Context<'_>, term: &Typed) -> Typed {
    let mut fixed = term.clone();
    fix_in_place(context, &mut fixed);
    fixed
}

/// In place, so that subterms are not copied again at each part.
fn fix_in_place(context: Context<'_>, part: &mut Typed) {
    if !part.varies() {
        if !matches!(part.term, Term::Constant(_)) {
            part.term = Term::Known(context.eval(part));
        }
        return;
    }
    for below in part.children_mut() {
        fix_in_place(context, below);
    }
    if let Term::Call { body, .. } = &mut part.term {
        *body = Arc::new(fix(context, body));
    }
}

/// The value of `of` for every integer from one to another, in order, with the integer as key.
pub(crate) fn for_each(
    context: Context<'_>,
    of: &Typed,
    ends: (Cell, Cell),
    depth: usize,
) -> Result<Vec<(Key, Cell)>, WhyMissing> {
    let (from, to) = match ends {
        (Ok(Scalar::Number(from)), Ok(Scalar::Number(to))) => (from, to),
        (Err(reason), _) | (_, Err(reason)) => return Err(reason),
        _ => return Err("a range goes from number to number".into()),
    };
    if from.fract() != 0.0 {
        return Err(format!("a range begins at an integer, not at {from}").into());
    }
    if to - from >= NUMBERS_MAX {
        return Err(format!("a range has at most {NUMBERS_MAX} numbers").into());
    }
    let of = fix(context, of);
    let mut variables: Vec<Value> = context.variables.iter().take(depth).cloned().collect();
    variables.push(Value::number(from));
    let mut numbers: Option<Vec<f64>> = variables.iter().map(as_number).collect();
    let mut rows = Vec::new();
    let mut number = from;
    while number <= to {
        let quick = numbers.as_mut().and_then(|numbers| {
            *numbers.last_mut()? = number;
            of_numbers(&of, numbers)
        });
        let cell = match quick {
            Some(value) => Ok(Scalar::Number(value)),
            None => {
                // A formula that contains more than numbers is not tried on the fast path again.
                numbers = None;
                if let Some(variable) = variables.last_mut() {
                    *variable = Value::number(number);
                }
                let inside = Context {
                    variables: &variables,
                    ..context
                };
                inside.eval(&of).single()
            }
        };
        rows.push((Key::of(&Scalar::Number(number)), cell));
        number += 1.0;
    }
    Ok(rows)
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Single(Ok(Scalar::Number(number))) => Some(*number),
        _ => None,
    }
}

/// Evaluates a formula over plain numbers, with the result of [`Context::eval`] but without a value for each
/// step. `None` if it contains anything else, or if its value is none: `eval` gives the reason.
fn of_numbers(of: &Typed, variables: &[f64]) -> Option<f64> {
    match &of.term {
        Term::Constant(Scalar::Number(number)) => Some(*number),
        Term::Known(value) => as_number(value),
        Term::Variable(depth) => variables.get(*depth).copied(),
        Term::Call { body, argument, .. } => of_numbers(body, &[of_numbers(argument, variables)?]),
        Term::Negate(of) => Some(-of_numbers(of, variables)?),
        Term::Arithmetic(operator, left, right) => calculated(
            *operator,
            of_numbers(left, variables)?,
            of_numbers(right, variables)?,
        ),
        _ => None,
    }
}

/// Why a range has no value.
pub(crate) const NO_NUMBERS: &str = "its range has no numbers";

/// Why an empty table has no value.
pub(crate) fn why_empty(typed: &Typed) -> &'static str {
    match typed.type_of.table {
        Some(KeyKind::Process) => "no process of its roles was there from its beginning to its end",
        _ => "nothing of it was seen in the window",
    }
}

/// The fold of the rows of a table. A row that is none makes the result none: a sum of the remaining rows
/// would be silently too small.
pub(crate) fn fold_rows(
    reduction: Reduction,
    rows: impl IntoIterator<Item = (Key, Cell), IntoIter: ExactSizeIterator>,
    why_empty: &str,
    rank: impl Fn(&Key) -> Cell,
) -> Cell {
    let rows = rows.into_iter();
    if reduction == Reduction::Count {
        return finite(rows.len() as f64);
    }
    let mut values = Vec::with_capacity(rows.len());
    let mut keys = Vec::with_capacity(rows.len());
    for (key, cell) in rows {
        values.push(cell?);
        keys.push(key);
    }
    if values.is_empty() {
        return Err(why_empty.into());
    }
    if let Reduction::ArgMin | Reduction::ArgMax = reduction {
        return arg(reduction, &values, &keys, rank);
    }
    of_values(reduction, &values).unwrap_or_else(|| Err(why_empty.into()))
}

/// For equal values the first, which is the smallest, key.
fn arg(reduction: Reduction, values: &[Scalar], keys: &[Key], rank: impl Fn(&Key) -> Cell) -> Cell {
    let mut best: Option<(f64, &Key)> = None;
    for (value, key) in values.iter().zip(keys) {
        let value = number(value)?;
        let better = best.is_none_or(|(best, _)| {
            if reduction == Reduction::ArgMin {
                value < best
            } else {
                value > best
            }
        });
        if better {
            best = Some((value, key));
        }
    }
    match best {
        Some((_, key)) => rank(key),
        None => Err("no row is the least or the greatest".into()),
    }
}
