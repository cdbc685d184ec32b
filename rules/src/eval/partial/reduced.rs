//! A reduction of a table by process, before it is read: the states of different processes merge exactly.

use serde::{Deserialize, Serialize};

use super::state::{AggregateState, HitPosition};
use crate::function::Reduction;
use crate::value::{Cell, Key, ProcessId, Value, WhyMissing, finite};

/// A reduction over processes, before it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reduced {
    pub(crate) rows: u64,
    /// The first process whose row is none, and why.
    pub(crate) wrong: Option<(ProcessId, WhyMissing)>,
    /// Why there is no table.
    pub(crate) none: Option<WhyMissing>,
    pub(crate) state: AggregateState,
}

impl Reduced {
    pub(crate) fn empty(reduction: Reduction) -> Reduced {
        Reduced {
            rows: 0,
            wrong: None,
            none: None,
            state: AggregateState::new(reduction, false),
        }
    }

    pub(crate) fn of(reduction: Reduction, rows: Value) -> Reduced {
        let mut reduced = Reduced::empty(reduction);
        let rows = match rows {
            Value::Table(rows) => rows,
            Value::Single(cell) => {
                reduced.none = Some(cell.err().unwrap_or_else(|| "it is no table".into()));
                return reduced;
            }
        };
        for (key, cell) in rows {
            let Key::Process(process) = key else {
                continue;
            };
            reduced.rows += 1;
            match cell {
                Ok(value) => reduced
                    .state
                    .add(Ok(value), None, HitPosition::number(process.0.into())),
                Err(why) => {
                    reduced.wrong.get_or_insert((process, why));
                }
            }
        }
        reduced
    }

    pub(crate) fn merge(&mut self, other: &Reduced) {
        self.rows = self.rows.saturating_add(other.rows);
        self.wrong = first(self.wrong.take(), other.wrong.clone());
        self.none = self.none.take().or_else(|| other.none.clone());
        self.state.merge(&other.state);
    }

    /// As the reduction of a table with all rows.
    pub(crate) fn read(&self, reduction: Reduction, why_empty: &str) -> Cell {
        if let Some(why) = &self.none {
            return Err(why.clone());
        }
        if reduction == Reduction::Count {
            return finite(self.rows as f64);
        }
        match &self.wrong {
            Some((_, why)) => Err(why.clone()),
            None if self.rows == 0 => Err(why_empty.into()),
            None => self
                .state
                .read(reduction)
                .unwrap_or_else(|| Err(why_empty.into())),
        }
    }
}

/// What is said of the first process.
pub(crate) fn first<T>(one: Option<(ProcessId, T)>, other: Option<(ProcessId, T)>) -> Option<(ProcessId, T)> {
    one.into_iter().chain(other).min_by_key(|(process, _)| *process)
}
