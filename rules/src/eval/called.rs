//! Values of called metrics, of ranges, of rows, and of earlier windows.

use crate::eval::rows::for_each;
use crate::eval::run::RunState;
use crate::eval::{Calls, Context};
use crate::measure::Measure;
use crate::term::{Term, Typed};
use crate::types::KeyKind;
use crate::value::{Cell, Key, Rows, Scalar, Value, WhyMissing, WhyUnknown, boolean, finite};

/// A closed instance with its named metrics.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    /// Number of the instance since the beginning.
    pub(crate) number: u64,
    pub(crate) metrics: Vec<(String, Value)>,
}

/// Data of earlier closed windows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory<'a> {
    /// For each window, its last closed instances, the newest last.
    pub(crate) windows: &'a [Vec<Past>],
    /// The state of the folds over every window.
    pub(crate) runs: &'a [RunState],
}

impl<'a> Context<'a> {
    /// The part of [`Context::eval`] that is implemented in this file.
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
            Term::Each {
                of, from, to, depth, ..
            } => match self.range(of, (from, to), *depth) {
                Ok(rows) => Value::Table(rows.into_iter().collect()),
                Err(reason) => Value::none(reason),
            },
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

    /// The rows of a range, in numerical order.
    pub(crate) fn range(
        self,
        of: &Typed,
        (from, to): (&Typed, &Typed),
        depth: usize,
    ) -> Result<Vec<(Key, Cell)>, WhyMissing> {
        let ends = (self.eval(from).single(), self.eval(to).single());
        for_each(self, of, ends, depth)
    }

    /// A row of a table; a process is identified by its rank.
    fn row(self, table: &Typed, key: &Typed) -> Cell {
        let rows = match self.eval(table) {
            Value::Table(rows) => rows,
            Value::Single(cell) => return cell,
        };
        let key = self.eval(key).single()?;
        let found = match table.type_of.table {
            Some(KeyKind::Process) => {
                let mut rows = rows.into_iter();
                rows.find(|(row, _)| self.key(row) == Ok(key.clone()))
                    .map(|(_, cell)| cell)
            }
            _ => rows.get(&Key::of(&key)).cloned(),
        };
        found.unwrap_or_else(|| Err(format!("it has no row {key}").into()))
    }

    fn history(self, window: usize) -> &'a [Past] {
        self.memory.windows.get(window).map_or(&[], Vec::as_slice)
    }

    /// A measure of the MPI calls whose name satisfies the condition, by process.
    pub(crate) fn of_calls(self, measure: Measure, condition: &Typed) -> Value {
        let known = self.window.and_then(|window| window.calls.get(&measure));
        let Some(processes) = known else {
            return Value::none(format!("{} was not observed by its calls", measure.name()));
        };
        let row = |calls: &Calls| -> Cell {
            let mut sum = 0.0;
            for (call, value) in calls.as_ref().map_err(WhyUnknown::clone)? {
                let mut variables = self.variables.to_vec();
                variables.push(Value::Single(Ok(Scalar::Text(call.clone()))));
                let context = Context {
                    variables: &variables,
                    ..self
                };
                if boolean(&context.eval(condition).single()?)? {
                    sum += value;
                }
            }
            finite(sum)
        };
        let rows = processes.iter();
        Value::Table(
            rows.map(|(process, calls)| (Key::Process(*process), row(calls)))
                .collect(),
        )
    }

    /// The rows that satisfy a condition. If the condition is none for one row, the table is none, because
    /// the row could belong to it.
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

    /// A row for each of the last windows, including this one, as far as they exist.
    fn over(self, metric: usize, count: u32) -> Value {
        let Some(window) = self.window else {
            return Value::none("no window has closed");
        };
        let now = self
            .metrics
            .get(metric)
            .map(|(_, value)| (window.number, value.clone()));
        let before = self.history(window.window).iter().rev();
        let before = before.take(count.saturating_sub(1) as usize);
        let before = before.filter_map(|past| Some((past.number, past.metrics.get(metric)?.1.clone())));
        Value::Table(now.into_iter().chain(before).map(row_of).collect())
    }

    fn earlier(self, metric: usize, back: u32) -> Value {
        let history = self.history(self.window.map_or(0, |window| window.window));
        let index = history.len().checked_sub(back as usize);
        let past = index.and_then(|index| history.get(index));
        let value = past.and_then(|past| past.metrics.get(metric));
        match value {
            Some((_, value)) => value.clone(),
            None if back == 1 => Value::none("there was no window before this one"),
            None => Value::none(format!("there were not {back} windows before this one")),
        }
    }

    /// References outside the instance: to enclosing and inner windows, to all instances so far, and to
    /// values at boundaries.
    pub(crate) fn elsewhere(self, term: &Term) -> Value {
        let Some(window) = self.window else {
            return Value::none("no window has closed");
        };
        let inner = |position: &usize| match window.inner.get(position) {
            Some(Ok(past)) => Ok(past.as_slice()),
            Some(Err(reason)) => Err(reason.clone()),
            None => Ok(&[][..]),
        };
        match term {
            Term::Inner { metric, window } => {
                let rows = match inner(window) {
                    Ok(past) => (0..).zip(past),
                    Err(reason) => return Value::none(reason),
                };
                let row = |(index, past): (u64, &Past)| Some((index, past.metrics.get(*metric)?.1.clone()));
                Value::Table(rows.filter_map(row).map(row_of).collect())
            }
            Term::At { measure, probe } => {
                let known = window.at_boundaries.get(&(*measure, *probe));
                let never = || Value::none(format!("{} was not observed there", measure.name()));
                known.cloned().unwrap_or_else(never)
            }
            Term::Run(position) => match self.memory.runs.get(*position) {
                Some(run) => run.value(self),
                None => Value::none("it is known only at the close of a window"),
            },
            Term::InnerCount(position) => match inner(position) {
                Ok(past) => Value::number(past.len() as f64),
                Err(reason) => Value::none(reason),
            },
            Term::EnclosingIndex(position) => match window.outer.iter().find(|(of, ..)| of == position) {
                Some((_, _, index)) => Value::number(*index as f64),
                None => Value::none("there is no window around it"),
            },
            Term::Enclosing {
                metric,
                window: position,
                back,
            } => self.enclosing(*position, *metric, *back),
            _ => Value::none("it is not of another window"),
        }
    }

    fn enclosing(self, index: usize, metric: usize, back: u32) -> Value {
        let mut outer = self.window.into_iter().flat_map(|window| &window.outer);
        let Some((_, number, _)) = outer.find(|(of, ..)| *of == index) else {
            return Value::none("there is no window around it");
        };
        let wanted = number.checked_sub(back.into());
        let past = self
            .history(index)
            .iter()
            .rev()
            .find(|past| Some(past.number) == wanted);
        match past.and_then(|past| past.metrics.get(metric)) {
            Some((_, value)) => value.clone(),
            None if wanted.is_none() => {
                Value::none(format!("there were not {back} windows before the one around it"))
            }
            None => Value::none("the window before the one around it has not closed, or was left out"),
        }
    }
}

fn row_of((number, value): (u64, Value)) -> (Key, Cell) {
    (Key::of(&Scalar::Number(number as f64)), value.single())
}
