//! Whether the condition of a tune holds, overall or for each process, and for how many consecutive
//! evaluations.

use std::collections::BTreeMap;

use crate::eval::Context;
use crate::rule::Tune;
use crate::value::{Cell, Key, ProcessId, Scalar, Value, boolean};

#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// For a condition on each process: true if it holds for at least one.
    pub(super) overall: Cell,
    /// For each process, if the condition is a table.
    rows: Option<BTreeMap<ProcessId, Cell>>,
}

impl Condition {
    /// The condition of `tune`; without one it always holds.
    pub(super) fn of(tune: &Tune, context: Context<'_>) -> Condition {
        let value = match &tune.when {
            Some(when) => context.eval(when),
            None => Value::Single(Ok(Scalar::Boolean(true))),
        };
        let rows = match value {
            Value::Single(overall) => return Condition { overall, rows: None },
            Value::Table(rows) => rows,
        };
        let process = |(key, cell): (Key, Cell)| match key {
            Key::Process(process) => Some((process, cell)),
            Key::Boolean(_) | Key::Number(_) | Key::Text(_) => None,
        };
        let rows: BTreeMap<ProcessId, Cell> = rows.into_iter().filter_map(process).collect();
        let holds = rows.values().any(is_true);
        let none = rows.values().find(|cell| cell.is_err()).cloned();
        let overall = match (holds, rows.is_empty()) {
            (true, _) => Ok(Scalar::Boolean(true)),
            (false, true) => Err("it is of each process, and there is none".into()),
            (false, false) => none.unwrap_or(Ok(Scalar::Boolean(false))),
        };
        let rows = Some(rows);
        Condition { overall, rows }
    }

    /// A condition that does not hold.
    pub(super) fn never() -> Condition {
        Condition {
            overall: Ok(Scalar::Boolean(false)),
            rows: None,
        }
    }

    /// Whether it holds, for a condition on each process for at least one.
    pub(super) fn holds(&self) -> bool {
        is_true(&self.overall)
    }

    pub(super) fn fails_for(&self, process: ProcessId) -> bool {
        let cell = match &self.rows {
            None => Some(&self.overall),
            Some(rows) => rows.get(&process),
        };
        cell.is_some_and(is_false)
    }
}

fn is_true(cell: &Cell) -> bool {
    cell.as_ref().is_ok_and(|value| boolean(value) == Ok(true))
}

fn is_false(cell: &Cell) -> bool {
    cell.as_ref().is_ok_and(|value| boolean(value) == Ok(false))
}

/// Consecutive evaluations in which a condition was true, and in which it was false. One without a value
/// resets both.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    held: u32,
    failed: u32,
}

impl Streak {
    fn count(&mut self, cell: &Cell) {
        let next = |counts: bool, so_far: u32| if counts { so_far.saturating_add(1) } else { 0 };
        self.held = next(is_true(cell), self.held);
        self.failed = next(is_false(cell), self.failed);
    }
}

/// The counts of a condition, overall or for each process.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    overall: Streak,
    rows: Option<BTreeMap<ProcessId, Streak>>,
}

impl Held {
    pub(super) fn count(&mut self, condition: &Condition) {
        self.overall.count(&condition.overall);
        let Some(cells) = &condition.rows else {
            self.rows = None;
            return;
        };
        let before = self.rows.take().unwrap_or_default();
        let row = |(process, cell): (&ProcessId, &Cell)| {
            let mut row = before.get(process).copied().unwrap_or_default();
            row.count(cell);
            (*process, row)
        };
        self.rows = Some(cells.iter().map(row).collect());
    }

    /// How long it has held: for a condition on each process, the longest over the processes.
    pub(super) fn held(&self) -> u32 {
        let rows = self.rows.as_ref();
        rows.map_or(self.overall.held, |rows| {
            rows.values().map(|row| row.held).max().unwrap_or(0)
        })
    }

    /// How long it has failed: for a condition on each process, for all of them.
    pub(super) fn failed(&self) -> u32 {
        self.overall.failed
    }

    pub(super) fn held_for(&self, process: ProcessId) -> u32 {
        self.row(process).held
    }

    pub(super) fn failed_for(&self, process: ProcessId) -> u32 {
        self.row(process).failed
    }

    fn row(&self, process: ProcessId) -> Streak {
        match &self.rows {
            None => self.overall,
            Some(rows) => rows.get(&process).copied().unwrap_or_default(),
        }
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        if let Some(rows) = &mut self.rows {
            rows.remove(&process);
        }
    }
}
