//! What is computed of one hit when it is taken in: conditions, values, keys. Without allocation where
//! numbers are.

use crate::eval::{Context, arithmetic, boolean, compare, number};
use crate::hit::Hit;
use crate::term::{Field, Term, Typed};
use crate::value::{Cell, Key, Reason, Scalar, finite};

/// The value of `of` for a hit. As [`Context::eval`], on the parts that are mostly evaluated for hits.
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

/// The same where it is a part of the hit and a number, as it mostly is.
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

/// Whether a condition holds of a hit.
pub(crate) fn holds(condition: &Typed, hit: &Hit) -> Result<bool, Reason> {
    boolean(&cell(condition, hit)?)
}

/// The key of a hit's row.
pub(crate) fn key(of: &Typed, hit: &Hit) -> Result<Key, Reason> {
    cell(of, hit).map(|value| Key::of(&value))
}
