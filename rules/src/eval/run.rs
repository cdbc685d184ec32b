//! Folds over every instance of a window since the beginning: `mean(x over run)`, `ewma(x, 0.4 by
//! team.threads over run)`.
//!
//! Instances arrive in the order in which they close. An instance without a value of the formula is left out:
//! otherwise a single incomplete instance would leave the fold without a value for ever.

use std::collections::BTreeMap;

use crate::eval::Context;
use crate::eval::partial::{AggregateState, HitPosition};
use crate::rule::{Run, RunFold};
use crate::value::{Cell, Key, Value, finite, number};

/// Rows of a fold by a key; with further keys the fold has no value.
const ROWS_MAX: usize = 4096;

/// The state of a fold.
#[derive(Clone, Debug)]
pub(crate) struct RunState {
    run: Run,
    /// One row without a key, if the fold has none.
    rows: BTreeMap<Option<Key>, Folded>,
    count: u64,
    overflowed: bool,
}

#[derive(Clone, Debug)]
enum Folded {
    State(Box<AggregateState>),
    Ewma(f64),
}

impl RunState {
    pub(crate) fn new(run: &Run) -> RunState {
        RunState {
            run: run.clone(),
            rows: BTreeMap::new(),
            count: 0,
            overflowed: false,
        }
    }

    pub(crate) fn window(&self) -> usize {
        self.run.window
    }

    /// Its value including the closing instance.
    pub(crate) fn value(&self, context: Context<'_>) -> Value {
        let mut with = self.clone();
        with.take(context);
        with.read()
    }

    /// Adds the closing instance.
    pub(crate) fn take(&mut self, context: Context<'_>) {
        let key = self
            .run
            .by
            .as_ref()
            .map(|by| context.eval(by).single().map(|key| Key::of(&key)));
        let (Ok(value), Ok(key)) = (context.eval(&self.run.of).single(), key.transpose()) else {
            return;
        };
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.overflowed = true;
            return;
        }
        self.count += 1;
        match (&self.run.fold, number(&value)) {
            (RunFold::Ewma(weight), Ok(value)) => {
                let row = self.rows.entry(key).or_insert(Folded::Ewma(value));
                if let Folded::Ewma(mean) = row {
                    *mean += weight * (value - *mean);
                }
            }
            (RunFold::Ewma(_), Err(_)) => {}
            (RunFold::Reduce(reduction), _) => {
                let empty = || Folded::State(Box::new(AggregateState::new(*reduction, false)));
                if let Folded::State(state) = self.rows.entry(key).or_insert_with(empty) {
                    state.add(Ok(value), None, HitPosition::number(self.count));
                }
            }
        }
    }

    fn read(&self) -> Value {
        if self.overflowed {
            return Value::none(format!("it has more than {ROWS_MAX} rows"));
        }
        let never = || Err("no window has closed in which it has a value".into());
        let cell = |folded: &Folded| -> Cell {
            match (folded, &self.run.fold) {
                (Folded::Ewma(mean), _) => finite(*mean),
                (Folded::State(state), RunFold::Reduce(reduction)) => {
                    state.read(*reduction).unwrap_or_else(never)
                }
                (Folded::State(_), RunFold::Ewma(_)) => never(),
            }
        };
        if self.run.by.is_none() {
            return Value::Single(self.rows.get(&None).map_or_else(never, cell));
        }
        let row = |(key, folded): (&Option<Key>, &Folded)| Some((key.clone()?, cell(folded)));
        Value::Table(self.rows.iter().filter_map(row).collect())
    }
}
