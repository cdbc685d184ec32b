//! Values of metrics that are called, of ranges, of rows, and of earlier windows.

use crate::eval::{Context, boolean};
use crate::fold::for_each;
use crate::term::{KeyKind, Term, Typed};
use crate::value::{Cell, Key, Rows, Scalar, Value};

/// A window that closed: its number, and its metrics with their names.
pub(crate) type Past = (u64, Vec<(String, Value)>);

impl Context<'_> {
    /// What [`Context::eval`] leaves to this file.
    pub(crate) fn called(self, term: &Term) -> Value {
        match term {
            Term::Call { body, argument, .. } => {
                let variables = [self.eval(argument)];
                let inside = Context {
                    variables: &variables,
                    ..self
                };
                inside.eval(body)
            }
            Term::Variable(depth) => {
                let value = self.variables.get(*depth).cloned();
                value.unwrap_or_else(|| Value::none("the variable stands for nothing"))
            }
            Term::Each { of, from, to, depth } => {
                let ends = (self.eval(from).single(), self.eval(to).single());
                for_each(self, of, ends, *depth)
            }
            Term::Row { of, key } => Value::Single(self.row(of, key)),
            Term::Over { metric, count } => self.over(*metric, *count),
            Term::Earlier { metric, back } => self.earlier(*metric, *back),
            Term::Chosen { of, condition } => self.chosen(of, condition),
            Term::Keys(of) => match self.eval(of) {
                Value::Single(Err(reason)) => Value::none(reason),
                Value::Single(_) => Value::none("it is not a table"),
                Value::Table(rows) => {
                    let keys = rows.into_keys().map(|key| (key.clone(), self.key(&key)));
                    Value::Table(keys.collect())
                }
            },
            _ => Value::none("it is not a call"),
        }
    }

    /// A row of a table; a process is told by its rank.
    fn row(self, of: &Typed, key: &Typed) -> Cell {
        let rows = match self.eval(of) {
            Value::Table(rows) => rows,
            Value::Single(cell) => return cell,
        };
        let key = self.eval(key).single()?;
        let found = match of.of.table {
            Some(KeyKind::Process) => {
                let mut rows = rows.into_iter();
                rows.find(|(row, _)| self.key(row) == Ok(key.clone()))
                    .map(|(_, cell)| cell)
            }
            _ => rows.get(&Key::of(&key)).cloned(),
        };
        found.unwrap_or_else(|| Err(format!("it has no row {key}")))
    }

    /// The rows for which a condition holds; none of one of them is none of all, for it could belong to them.
    fn chosen(self, of: &Typed, condition: &Typed) -> Value {
        let (rows, mut conditions) = match (self.eval(of), self.eval(condition)) {
            (Value::Table(rows), Value::Table(conditions)) => (rows, conditions),
            (Value::Single(Err(reason)), _) | (_, Value::Single(Err(reason))) => return Value::none(reason),
            _ => return Value::none("it is not a table"),
        };
        let mut chosen = Rows::new();
        for (key, cell) in rows {
            let holds = match conditions.remove(&key) {
                Some(holds) => holds.and_then(|holds| boolean(&holds)),
                None => Ok(false),
            };
            match holds {
                Ok(true) => {
                    chosen.insert(key, cell);
                }
                Ok(false) => {}
                Err(reason) => return Value::none(reason),
            }
        }
        Value::Table(chosen)
    }

    /// A row for each of the last windows, this one among them, as many as there are.
    fn over(self, metric: usize, count: u32) -> Value {
        let Some(window) = self.window else {
            return Value::none("no window has closed");
        };
        let now = self
            .metrics
            .get(metric)
            .map(|(_, value)| (window.index, value.clone()));
        let before = self.history.iter().rev().take(count.saturating_sub(1) as usize);
        let before = before.filter_map(|(index, metrics)| Some((*index, metrics.get(metric)?.1.clone())));
        let row = |(index, value): (u64, Value)| (Key::of(&Scalar::Number(index as f64)), value.single());
        Value::Table(now.into_iter().chain(before).map(row).collect::<Rows>())
    }

    fn earlier(self, metric: usize, back: u32) -> Value {
        let place = self.history.len().checked_sub(back as usize);
        let past = place.and_then(|place| self.history.get(place));
        let value = past.and_then(|(_, metrics)| metrics.get(metric));
        match value {
            Some((_, value)) => value.clone(),
            None if back == 1 => Value::none("there was no window before this one"),
            None => Value::none(format!("there were not {back} windows before this one")),
        }
    }
}
