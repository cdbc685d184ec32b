//! Reductions: values in their order to one value. Total: what cannot be computed is none with a reason.
//!
//! Values come in an order that does not depend on how they were delivered, so that sums of real numbers are the same
//! each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::eval::{Context, WindowData, boolean, number};
use crate::function::Reduction;
use crate::hit::Hit;
use crate::term::{Fold, Rowed, Term, Typed};
use crate::value::{Cell, Key, Rows, Scalar, Value, finite};

/// How many rows a table may have; what has more is none.
const MOST_ROWS: usize = 65_536;
/// How many numbers a range may have.
pub(crate) const MOST_NUMBERS: f64 = 10_000.0;

/// The value of a fold of the hits of `window`.
pub(crate) fn fold_hits(context: Context<'_>, window: &WindowData, fold: &Fold) -> Value {
    let Some((name, hits)) = window.hits.get(fold.probe) else {
        return Value::none("the probe is not known");
    };
    let hits = match hits {
        Ok(hits) => hits,
        Err(reason) => return Value::none(reason.clone()),
    };
    let fixed = |term: &Option<Typed>| term.as_ref().map(|term| fix(context, term));
    let parts = Parts {
        reduction: fold.reduction,
        of: fixed(&fold.of),
        second: fixed(&fold.second),
        name,
    };
    let hits = match chosen(context, hits, fixed(&fold.filter).as_ref()) {
        Ok(hits) => hits,
        Err(reason) => return Value::none(reason),
    };
    let Some(by) = &fold.by else {
        return Value::Single(parts.fold(context, &hits));
    };
    let mut groups: BTreeMap<Key, Vec<&Hit>> = BTreeMap::new();
    match by {
        Rowed::ByProcess => {
            let members = window.members(fold.probe);
            groups.extend(members.map(|process| (Key::Process(process), Vec::new())));
            for hit in hits {
                groups.entry(Key::Process(hit.process)).or_default().push(hit);
            }
        }
        Rowed::By(by) => {
            let by = fix(context, by);
            for hit in hits {
                // Without its key a hit could belong to any row: then none of them is known.
                match context.of_hit(hit).eval(&by).single() {
                    Ok(key) => groups.entry(Key::of(&key)).or_default().push(hit),
                    Err(reason) => return Value::none(reason),
                }
            }
        }
    }
    if groups.len() > MOST_ROWS {
        return Value::none(format!("it has more than {MOST_ROWS} rows"));
    }
    let rows = groups.into_iter();
    Value::Table(
        rows.map(|(key, hits)| (key, parts.fold(context, &hits)))
            .collect(),
    )
}

/// The hits for which `filter` holds; none of one of them is none of all.
fn chosen<'h>(context: Context<'_>, hits: &'h [Hit], filter: Option<&Typed>) -> Result<Vec<&'h Hit>, String> {
    let Some(filter) = filter else {
        return Ok(hits.iter().collect());
    };
    let mut out = Vec::new();
    for hit in hits {
        if boolean(&context.of_hit(hit).eval(filter).single()?)? {
            out.push(hit);
        }
    }
    Ok(out)
}

struct Parts<'a> {
    reduction: Reduction,
    of: Option<Typed>,
    second: Option<Typed>,
    name: &'a str,
}

impl Parts<'_> {
    fn fold(&self, context: Context<'_>, hits: &[&Hit]) -> Cell {
        let of_each = |term: &Typed| -> Result<Vec<Scalar>, String> {
            let value = |hit: &&Hit| context.of_hit(hit).eval(term).single();
            hits.iter().map(value).collect()
        };
        let Some(of) = &self.of else {
            return finite(hits.len() as f64);
        };
        let values = of_each(of)?;
        let seconds = match &self.second {
            Some(second) => of_each(second)?,
            None => Vec::new(),
        };
        fold(self.reduction, &values, &seconds)
            .unwrap_or_else(|| Err(format!("{} was hit 0 times in the window", self.name)))
    }
}

/// `term` with all that does not depend on the hit or a variable computed, once instead of each time.
pub(crate) fn fix(context: Context<'_>, term: &Typed) -> Typed {
    let mut fixed = term.clone();
    if !fixed.varies() {
        if !matches!(fixed.term, Term::Constant(_)) {
            fixed.term = Term::Known(context.eval(&fixed));
        }
        return fixed;
    }
    for part in fixed.children_mut() {
        *part = fix(context, part);
    }
    if let Term::Call { body, .. } = &mut fixed.term {
        *body = Arc::new(fix(context, body));
    }
    fixed
}

/// The value of `of` for every whole number from one to another, with the number as key.
pub(crate) fn for_each(context: Context<'_>, of: &Typed, ends: (Cell, Cell), depth: usize) -> Value {
    let (from, to) = match ends {
        (Ok(Scalar::Number(from)), Ok(Scalar::Number(to))) => (from, to),
        (Err(reason), _) | (_, Err(reason)) => return Value::none(reason),
        _ => return Value::none("a range goes from number to number"),
    };
    if from.fract() != 0.0 {
        return Value::none(format!("a range begins at a whole number, not at {from}"));
    }
    if to - from >= MOST_NUMBERS {
        return Value::none(format!("a range has at most {MOST_NUMBERS} numbers"));
    }
    let of = fix(context, of);
    let mut variables: Vec<Value> = context.variables.iter().take(depth).cloned().collect();
    variables.push(Value::number(from));
    let mut rows = Rows::new();
    let mut number = from;
    while number <= to {
        if let Some(variable) = variables.last_mut() {
            *variable = Value::number(number);
        }
        let inside = Context {
            variables: &variables,
            ..context
        };
        rows.insert(Key::of(&Scalar::Number(number)), inside.eval(&of).single());
        number += 1.0;
    }
    Value::Table(rows)
}

/// The fold of the rows of a table. One none among them makes the whole none: a sum of what happened to be measured
/// would be too small unseen.
pub(crate) fn fold_rows(reduction: Reduction, rows: Rows, rank: impl Fn(&Key) -> Cell) -> Cell {
    if reduction == Reduction::Count {
        return finite(rows.len() as f64);
    }
    let mut values = Vec::with_capacity(rows.len());
    let mut keys = Vec::with_capacity(rows.len());
    for (key, cell) in rows {
        values.push(cell?);
        keys.push(key);
    }
    if let Reduction::ArgMin | Reduction::ArgMax = reduction {
        return arg(reduction, &values, &keys, rank);
    }
    fold(reduction, &values, &[])
        .filter(|_| !values.is_empty())
        .unwrap_or_else(|| Err("the table has no rows".to_string()))
}

/// Among equals the first key, which is the least.
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
        None => Err("the table has no rows".to_string()),
    }
}

/// The fold of `values`; nothing where there is no value of nothing.
fn fold(reduction: Reduction, values: &[Scalar], seconds: &[Scalar]) -> Option<Cell> {
    match reduction {
        Reduction::Count => Some(finite(values.len() as f64)),
        Reduction::First => values.first().cloned().map(Ok),
        Reduction::Last => values.last().cloned().map(Ok),
        Reduction::Only => only(values),
        Reduction::Any | Reduction::All => Some(all_or_any(reduction, values)),
        _ => {
            let numbers = |values: &[Scalar]| values.iter().map(number).collect::<Result<Vec<f64>, String>>();
            match (numbers(values), numbers(seconds)) {
                (Ok(values), Ok(seconds)) => fold_numbers(reduction, &values, &seconds),
                (Err(reason), _) | (_, Err(reason)) => Some(Err(reason)),
            }
        }
    }
}

fn only(values: &[Scalar]) -> Option<Cell> {
    let first = values.first()?;
    match values.iter().find(|value| *value != first) {
        None => Some(Ok(first.clone())),
        Some(other) => Some(Err(format!("there is not one value, but {first} and {other}"))),
    }
}

fn all_or_any(reduction: Reduction, values: &[Scalar]) -> Cell {
    let mut found = reduction == Reduction::All;
    for value in values {
        let value = boolean(value)?;
        found = if reduction == Reduction::All {
            found && value
        } else {
            found || value
        };
    }
    Ok(Scalar::Boolean(found))
}

fn fold_numbers(reduction: Reduction, values: &[f64], seconds: &[f64]) -> Option<Cell> {
    let sum: f64 = values.iter().sum();
    match reduction {
        Reduction::Sum => return Some(finite(sum)),
        Reduction::Product => return Some(finite(values.iter().product())),
        _ => {}
    }
    let first = *values.first()?;
    let mean = sum / values.len() as f64;
    Some(match reduction {
        Reduction::Mean => finite(mean),
        Reduction::Stddev => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            finite((squares / values.len() as f64).sqrt())
        }
        Reduction::Min => finite(values.iter().copied().fold(first, f64::min)),
        Reduction::Max => finite(values.iter().copied().fold(first, f64::max)),
        Reduction::Quantile(share) => finite(quantile(values, share)),
        Reduction::Slope | Reduction::Intercept => line(reduction, values, seconds),
        _ => Err("this cannot be folded".to_string()),
    })
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len() - 1) as f64;
    let at = |place: f64| sorted.get(place as usize).copied().unwrap_or(f64::NAN);
    let (low, high) = (at(place.floor()), at(place.ceil()));
    low + (high - low) * place.fract()
}

/// Least squares of the ys over the xs.
fn line(reduction: Reduction, ys: &[f64], xs: &[f64]) -> Cell {
    if xs.len() != ys.len() {
        return Err("a hit lacks one of the two values".to_string());
    }
    let count = ys.len() as f64;
    let mean_x = xs.iter().sum::<f64>() / count;
    let mean_y = ys.iter().sum::<f64>() / count;
    let spread: f64 = xs.iter().map(|x| (x - mean_x).powi(2)).sum();
    let common: f64 = xs.iter().zip(ys).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    if spread == 0.0 {
        return Err("a line needs two different x".to_string());
    }
    let slope = common / spread;
    finite(if reduction == Reduction::Slope {
        slope
    } else {
        mean_y - slope * mean_x
    })
}
