//! What is computed of one hit when it is taken in: conditions, values, keys. Without allocation where numbers are.

use crate::eval::{Context, arithmetic, boolean, compare, number};
use crate::hit::Hit;
use crate::term::{Field, Fold, Rowed, Term, Typed};
use crate::value::{Cell, Key, Scalar, finite};

/// The value of `of` for a hit. As [`Context::eval`], on the parts that hits are mostly asked for.
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
pub(crate) fn holds(condition: &Typed, hit: &Hit) -> Result<bool, String> {
    boolean(&cell(condition, hit)?)
}

/// The key of a hit's row.
pub(crate) fn key(of: &Typed, hit: &Hit) -> Result<Key, String> {
    cell(of, hit).map(|value| Key::of(&value))
}

/// What is folded of each hit.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The hits are counted.
    Hits,
    /// Nanoseconds.
    Duration,
    Value(Typed),
}

impl Source {
    pub(crate) fn of(fold: &Fold) -> Source {
        match &fold.of {
            None => Source::Hits,
            Some(of) if matches!(of.term, Term::Field(Field::Duration)) => Source::Duration,
            Some(of) => Source::Value(of.clone()),
        }
    }
}

/// Whether a fold needs what is known only at the close of the window, and cannot be made when a hit comes.
pub(crate) fn waits(fold: &Fold) -> bool {
    let by = match &fold.by {
        Some(Rowed::By(by)) => Some(by),
        Some(Rowed::ByProcess) | None => None,
    };
    let mut parts = [&fold.of, &fold.second, &fold.filter]
        .into_iter()
        .filter_map(Option::as_ref)
        .chain(by);
    !parts.all(|part| of_hit_alone(part, false))
}

/// `called` inside a metric with a parameter, whose variables are its own.
fn of_hit_alone(of: &Typed, called: bool) -> bool {
    let known = match &of.term {
        Term::Call { body, .. } => of_hit_alone(body, true),
        Term::Variable(_) | Term::Each { .. } => called,
        Term::Constant(_)
        | Term::Field(_)
        | Term::Known(_)
        | Term::Negate(_)
        | Term::Not(_)
        | Term::Arithmetic(..)
        | Term::Both(..)
        | Term::Either(..)
        | Term::Compare { .. }
        | Term::Reduce(..)
        | Term::Apply(..) => true,
        _ => false,
    };
    known && of.children().into_iter().all(|part| of_hit_alone(part, called))
}
