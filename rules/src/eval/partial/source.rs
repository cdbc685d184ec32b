//! Evaluates conditions, values and keys of one hit on arrival. Does not allocate for numbers.

use crate::eval::{Context, arithmetic, compare};
use crate::hit::Hit;
use crate::term::{Field, Term, Typed};
use crate::value::{Cell, Key, Scalar, WhyMissing, boolean, finite, number};

/// The value of `of` for a hit. Equals [`Context::eval`], with fast paths for the parts that are most
/// frequent for hits.
pub(crate) fn cell(of: &Typed, hit: &Hit) -> Cell {
    match &of.term {
        Term::Field(field) => hit.field(*field),
        Term::Constant(value) => Ok(value.clone()),
        Term::Negate(part) => finite(-number(&cell(part, hit)?)?),
        Term::Not(part) => Ok(Scalar::Boolean(!boolean(&cell(part, hit)?)?)),
        Term::Arithmetic(operator, left, right) => {
            let (left, right) = (cell(left, hit)?, cell(right, hit)?);
            arithmetic(*operator, number(&left)?, number(&right)?)
        }
        Term::Compare {
            comparison,
            left,
            right,
            ..
        } => {
            let (left, right) = (cell(left, hit)?, cell(right, hit)?);
            compare(*comparison, &left, &right).map(Scalar::Boolean)
        }
        Term::Both(left, right) => {
            let (left, right) = (cell(left, hit)?, cell(right, hit)?);
            Ok(Scalar::Boolean(boolean(&left)? && boolean(&right)?))
        }
        Term::Either(left, right) => {
            let (left, right) = (cell(left, hit)?, cell(right, hit)?);
            Ok(Scalar::Boolean(boolean(&left)? || boolean(&right)?))
        }
        _ => Context::default().of_hit(hit).eval(of).single(),
    }
}

/// As `cell`, for a field of the hit that is a number, which is the usual case.
#[inline]
pub(crate) fn number_in(of: &Typed, hit: &Hit) -> Option<f64> {
    match of.term {
        Term::Field(Field::Capture(place)) => match hit.captures.get(place) {
            Some(Ok(Scalar::Number(value))) => Some(*value),
            _ => None,
        },
        Term::Field(Field::Time) => Some(hit.time.0 as f64 / 1e9),
        _ => None,
    }
}

/// Whether a hit satisfies a condition.
pub(crate) fn holds(condition: &Typed, hit: &Hit) -> Result<bool, WhyMissing> {
    boolean(&cell(condition, hit)?)
}

/// The key of a hit's row.
pub(crate) fn key(of: &Typed, hit: &Hit) -> Result<Key, WhyMissing> {
    cell(of, hit).map(|value| Key::of(&value))
}
