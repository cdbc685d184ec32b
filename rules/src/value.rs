//! Values of the language at run time. A value may be none, with the reason; none propagates and never
//! becomes 0.

use std::{collections::BTreeMap, fmt};

pub use plan::Scalar;
use serde::{Deserialize, Serialize};
use syntax::quantity;
use syntax::unit::Dimension;

use crate::types::{KeyKind, Kind, Type};

/// A process, by a number that the agent assigns. Not a pid: this crate is independent of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId(pub u32);

/// A machine of the job, by a number that the agent assigns; 0 if there is only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine(pub u32);

/// The subject of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    Process(ProcessId),
    Machine(Machine),
}

impl Subject {
    /// The process or, without one, the machine.
    pub fn of(process: Option<ProcessId>, machine: Machine) -> Subject {
        process.map_or(Subject::Machine(machine), Subject::Process)
    }

    /// The process; `None` for a machine.
    pub fn process(self) -> Option<ProcessId> {
        match self {
            Subject::Process(process) => Some(process),
            Subject::Machine(_) => None,
        }
    }
}

/// A point in time: nanoseconds since a moment that the agent chose. This crate reads no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// Nanoseconds from `earlier` to this; 0 if `earlier` is later.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Why something was not observed, as text for display.
pub type WhyUnknown = String;

/// Why a formula has no value; rules propagate and display it. Parts of folds that nodes send read no metric, so the
/// text is enough there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) struct WhyMissing {
    /// The first metric that lacks a value for this reason, if a formula read one.
    metric: Option<Box<str>>,
    reason: String,
}

impl WhyMissing {
    /// The reason without the metric.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// For a formula that reads the metric. One that lacks its value because of another metric names that one only.
    pub(crate) fn of_metric(self, name: &str) -> WhyMissing {
        WhyMissing {
            metric: self.metric.or_else(|| Some(name.into())),
            ..self
        }
    }

    /// Keeps the reason whose text is first in lexicographic order, so that the order of hits does not matter.
    pub(crate) fn keep_first(kept: &mut Option<Box<WhyMissing>>, other: &WhyMissing) {
        let is_before = |known: &WhyMissing| match (&other.metric, &known.metric) {
            (None, None) => other.reason < known.reason,
            _ => other.to_string() < known.to_string(),
        };
        if kept.as_deref().is_none_or(is_before) {
            *kept = Some(Box::new(other.clone()));
        }
    }

    /// Bytes of memory, at most.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<WhyMissing>() + self.reason.len() + self.metric.as_ref().map_or(0, |name| name.len())
    }
}

impl fmt::Display for WhyMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(metric) = &self.metric {
            write!(f, "{metric} has no value because ")?;
        }
        f.write_str(&self.reason)
    }
}

impl From<String> for WhyMissing {
    fn from(reason: String) -> WhyMissing {
        WhyMissing { metric: None, reason }
    }
}

impl From<&str> for WhyMissing {
    fn from(reason: &str) -> WhyMissing {
        reason.to_owned().into()
    }
}

impl From<WhyMissing> for String {
    fn from(why: WhyMissing) -> String {
        why.to_string()
    }
}

/// A single value of a formula, or the reason why there is none.
pub(crate) type Cell = Result<Scalar, WhyMissing>;

/// What was read at a hit, or why it could not be read.
pub(crate) type HitRead = Result<Scalar, WhyUnknown>;

/// The reads of a hit. Up to two values, the usual case, are stored inline.
pub type Reads = smallvec::SmallVec<[HitRead; 2]>;

/// A key of a table's row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Key {
    Process(ProcessId),
    Boolean(bool),
    Number(Ordered),
    Text(String),
}

impl Key {
    /// The key for a value.
    pub(crate) fn of(value: &Scalar) -> Key {
        match value {
            Scalar::Boolean(value) => Key::Boolean(*value),
            // −0 becomes 0, so that keys have one zero.
            Scalar::Number(value) => Key::Number(Ordered(value + 0.0)),
            Scalar::Text(text) => Key::Text(text.clone()),
        }
    }
}

/// A totally ordered number, for keys.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ordered(pub(crate) f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The rows of a table.
pub(crate) type Rows = BTreeMap<Key, Cell>;

/// A single value or a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Single(Cell),
    Table(Rows),
}

impl Value {
    pub(crate) fn number(value: f64) -> Value {
        Value::Single(finite(value))
    }

    pub(crate) fn none(reason: impl Into<WhyMissing>) -> Value {
        Value::Single(Err(reason.into()))
    }

    /// The value as one cell; a table has no single value.
    pub(crate) fn single(self) -> Cell {
        match self {
            Value::Single(cell) => cell,
            Value::Table(_) => Err("it is a table".into()),
        }
    }

    /// Applies `f` to every cell that has a value.
    pub(crate) fn map(self, f: impl Fn(Scalar) -> Cell) -> Value {
        match self {
            Value::Single(cell) => Value::Single(cell.and_then(f)),
            Value::Table(rows) => Value::Table(
                rows.into_iter()
                    .map(|(key, cell)| (key, cell.and_then(&f)))
                    .collect(),
            ),
        }
    }

    /// Applies `f` to the values of equal keys. A single value is combined with every row; a key that one
    /// side lacks is left out.
    pub(crate) fn zip(self, other: Value, f: impl Fn(Scalar, Scalar) -> Cell) -> Value {
        let both = |a: Cell, b: Cell| f(a?, b?);
        match (self, other) {
            (Value::Single(a), Value::Single(b)) => Value::Single(both(a, b)),
            (Value::Single(a), Value::Table(rows)) => Value::Table(
                rows.into_iter()
                    .map(|(key, b)| (key, both(a.clone(), b)))
                    .collect(),
            ),
            (Value::Table(rows), Value::Single(b)) => Value::Table(
                rows.into_iter()
                    .map(|(key, a)| (key, both(a, b.clone())))
                    .collect(),
            ),
            (Value::Table(rows), Value::Table(mut others)) => Value::Table(
                rows.into_iter()
                    .filter_map(|(key, a)| {
                        let b = others.remove(&key)?;
                        Some((key, both(a, b)))
                    })
                    .collect(),
            ),
        }
    }

    /// Whether it has the checked type: kind, single or table, kind of the keys. None has any type.
    pub(crate) fn is_a(&self, of: Type) -> bool {
        let is_of = |scalar: &Scalar, kind: Kind| match (scalar, kind) {
            (Scalar::Number(value), Kind::Number(_)) => value.is_finite(),
            (Scalar::Boolean(_), Kind::Boolean) | (Scalar::Text(_), Kind::Text) => true,
            _ => false,
        };
        let is_cell = |cell: &Cell| cell.as_ref().map_or(true, |scalar| is_of(scalar, of.kind));
        let is_key = |key: &Key, keys: KeyKind| {
            matches!(
                (key, keys),
                (Key::Process(_), KeyKind::Process)
                    | (Key::Number(_), KeyKind::Of(Kind::Number(_)))
                    | (Key::Boolean(_), KeyKind::Of(Kind::Boolean))
                    | (Key::Text(_), KeyKind::Of(Kind::Text))
            )
        };
        match (self, of.table) {
            (Value::Single(Err(_)), _) => true,
            (Value::Single(cell), None) => is_cell(cell),
            (Value::Table(rows), Some(keys)) => {
                rows.iter().all(|(key, cell)| is_key(key, keys) && is_cell(cell))
            }
            _ => false,
        }
    }

    /// The value as numbers; `None` if a row has no value or is not a number.
    pub(crate) fn reading(&self, of: Type) -> Option<MetricReading> {
        let number = |cell: &Cell| match cell {
            Ok(Scalar::Number(value)) => Some(*value),
            Ok(Scalar::Boolean(value)) => Some(f64::from(u8::from(*value))),
            Ok(Scalar::Text(_)) | Err(_) => None,
        };
        let numbers: Vec<f64> = match self {
            Value::Single(cell) => vec![number(cell)?],
            Value::Table(rows) => rows.values().map(number).collect::<Option<_>>()?,
        };
        let low = numbers.iter().copied().reduce(f64::min)?;
        let high = numbers.iter().copied().reduce(f64::max)?;
        let parts = numbers.iter().map(|value| value / numbers.len() as f64);
        Some(MetricReading {
            low,
            mean: parts.sum::<f64>().clamp(low, high),
            high,
            dimension: match of.kind {
                Kind::Number(dimension) => Some(dimension),
                Kind::Boolean | Kind::Text => None,
            },
            is_share: of.percent,
        })
    }

    /// For display: `6`, `91.4 ms`, `0.31 to 0.34 over 6 processes`, `none (…)`.
    pub(crate) fn show(&self, of: Type) -> String {
        match self {
            Value::Single(cell) => show_cell(cell, of),
            Value::Table(rows) => show_rows(rows, of),
        }
    }
}

/// A value of a metric as numbers, for plots: for a table, the range of its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricReading {
    /// The least row, in seconds and bytes.
    pub low: f64,
    pub mean: f64,
    pub high: f64,
    /// `None` for a boolean, which is 0 or 1.
    pub dimension: Option<Dimension>,
    /// It is displayed in percent.
    pub is_share: bool,
}

/// The checker ensures the type; a mismatch gives none instead of a panic.
pub(crate) fn number(value: &Scalar) -> Result<f64, WhyMissing> {
    match value {
        Scalar::Number(value) => Ok(*value),
        _ => Err(format!("{value} is not a number").into()),
    }
}

pub(crate) fn boolean(value: &Scalar) -> Result<bool, WhyMissing> {
    match value {
        Scalar::Boolean(value) => Ok(*value),
        _ => Err(format!("{value} is not a boolean").into()),
    }
}

pub(crate) const NOT_FINITE: &str = "the result is not a finite number";

pub(crate) fn finite(value: f64) -> Cell {
    if value.is_finite() {
        Ok(Scalar::Number(value))
    } else {
        Err(NOT_FINITE.into())
    }
}

/// An observed number as the value of a formula.
pub(crate) fn observed(value: Result<f64, WhyUnknown>) -> Cell {
    finite(value?)
}

pub(crate) fn show_cell(cell: &Cell, of: Type) -> String {
    match (cell, of.kind) {
        (Ok(Scalar::Number(value)), Kind::Number(dimension)) => {
            quantity::metric(*value, dimension, of.percent)
        }
        (Ok(value), _) => value.to_string(),
        (Err(reason), _) => format!("none ({reason})"),
    }
}

fn show_rows(rows: &Rows, of: Type) -> String {
    if let Some(none) = rows.values().find(|cell| cell.is_err()) {
        return show_cell(none, of);
    }
    let numbers = rows.values().filter_map(|cell| match cell {
        Ok(Scalar::Number(value)) => Some(*value),
        _ => None,
    });
    let ends = numbers.fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    let over = match (of.table, rows.len()) {
        (Some(KeyKind::Process), 1) => "1 process".to_string(),
        (Some(KeyKind::Process), count) => format!("{count} processes"),
        (_, 1) => "1 row".to_string(),
        (_, count) => format!("{count} rows"),
    };
    let shown = |value: f64| show_cell(&Ok(Scalar::Number(value)), of);
    match ends {
        Some((low, high)) if shown(low) == shown(high) => format!("{} over {over}", shown(low)),
        Some((low, high)) => format!("{} to {} over {over}", shown(low), shown(high)),
        None => over,
    }
}
