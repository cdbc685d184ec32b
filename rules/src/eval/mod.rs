//! Evaluates checked formulas. Total: what cannot be computed is none with a reason.

mod action;
pub(crate) mod called;
pub(crate) mod partial;
pub(crate) mod rows;
mod rule;
pub(crate) mod run;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::{Literal, ValueError, ValueType};
use syntax::ast::{Comparison, Operator};

use crate::eval::called::{Memory, Past};
use crate::eval::partial::{Content, Reduced};
use crate::eval::rows::{NO_NUMBERS, fold_rows, why_empty};
use crate::facts::ProcessFacts;
use crate::function::{FormulaFunction, Reduction};
use crate::hit::Hit;
use crate::measure::Measure;
use crate::term::{Fact, Statistic, Term, Typed};
use crate::value::{
    Cell, HitRead, Key, NOT_FINITE, ProcessId, Scalar, Time, Value, WhyMissing, WhyUnknown, boolean, finite,
    number, observed,
};

/// The hits of a probe in one process within a window.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct HitsInWindow {
    pub(crate) count: u64,
    /// Sum of the durations, in nanoseconds.
    pub(crate) sum_ns: u64,
    /// Least and greatest duration, in seconds, if every hit was delivered and there was one.
    pub(crate) ends: Option<(f64, f64)>,
}

/// The hits of a probe in each process, or why they are unknown.
pub(crate) type HitsByProcess = BTreeMap<ProcessId, Result<HitsInWindow, WhyUnknown>>;

/// An enclosing instance, as it was when the inner one ended.
#[derive(Clone, Debug)]
pub(crate) struct EnclosingInstance {
    pub(crate) window: usize,
    pub(crate) data: WindowData,
}

/// A measure for each MPI function that a process called, or why it is unknown.
pub(crate) type Calls = Result<BTreeMap<String, f64>, WhyUnknown>;

#[derive(Clone, Debug, Default)]
pub(crate) struct WindowData {
    /// Index of the window.
    pub(crate) window: usize,
    /// Number of the instance since the beginning.
    pub(crate) number: u64,
    /// Index within the enclosing instance; equal to `number` without one.
    pub(crate) index: u64,
    /// Window, number and index of the enclosing instances, the innermost first.
    pub(crate) outer: Vec<(usize, u64, u64)>,
    /// Data of the enclosing instances at its end, as far as formulas use it.
    pub(crate) around: Vec<EnclosingInstance>,
    /// For each inner window, the metrics of its instances that closed within this one.
    pub(crate) inner: BTreeMap<usize, Result<Vec<Past>, WhyUnknown>>,
    /// Measures at the hits of its boundaries.
    pub(crate) at_boundaries: BTreeMap<(Measure, usize), Value>,
    /// Actual duration in seconds, if both ends are known; `None` if it is not over.
    pub(crate) duration: Option<Result<f64, WhyUnknown>>,
    /// Its begin and end.
    pub(crate) span: (Time, Time),
    /// Its begin and end in each process that hit its boundaries itself.
    pub(crate) own: BTreeMap<ProcessId, (Time, Time)>,
    /// For each role, the processes that were present from boundary to boundary.
    pub(crate) roles: Vec<BTreeSet<ProcessId>>,
    pub(crate) measures: BTreeMap<Measure, Value>,
    /// Reductions of measures that nodes have computed, instead of the rows of their tables.
    pub(crate) reduced: Vec<(Reduction, Typed, Reduced)>,
    /// For each measure and process, the change per MPI function called, if formulas select calls.
    pub(crate) calls: BTreeMap<Measure, BTreeMap<ProcessId, Calls>>,
    /// For each probe, its name and its hits by process.
    pub(crate) probes: Vec<(String, HitsByProcess)>,
    /// Aggregates of its hits.
    pub(crate) content: Option<Arc<Content>>,
    /// For each probe, why some of its hits are unknown.
    pub(crate) lacking: Vec<Option<String>>,
    /// Processes whose hits do not count: they were not present from boundary to boundary.
    pub(crate) excluded: Vec<ProcessId>,
    /// The contents of earlier closed instances, the newest last, for folds that go back to them.
    pub(crate) earlier: Vec<Arc<Content>>,
    /// The content of all earlier closed instances, for folds over all of them.
    pub(crate) run: Option<Arc<Content>>,
    /// The value of each fold, computed on demand.
    pub(crate) folded: Vec<OnceCell<Value>>,
    /// For each probe, its role.
    pub(crate) probe_roles: Vec<usize>,
    /// The rank of each process that has one.
    pub(crate) ranks: BTreeMap<ProcessId, u32>,
    /// What is left out, and why.
    pub(crate) left_out: Vec<String>,
}

/// What a formula may read; `None` or empty if its kind of formula has no access to it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Context<'a> {
    pub(crate) facts: Option<&'a ProcessFacts>,
    pub(crate) window: Option<&'a WindowData>,
    /// Values of the metrics evaluated so far, with their names.
    pub(crate) metrics: &'a [(String, Value)],
    pub(crate) proposed: Option<&'a Scalar>,
    /// Values of windows that closed before.
    pub(crate) memory: Memory<'a>,
    /// The hit for which a formula is evaluated.
    pub(crate) hit: Option<&'a Hit>,
    /// Values of parameters and range variables, the outermost first.
    pub(crate) variables: &'a [Value],
    /// Raw reads of a probe, for captures.
    pub(crate) reads: &'a [HitRead],
    /// For probes of this role, only the hits of this process are visible.
    pub(crate) sees: Option<(usize, ProcessId)>,
}

impl WindowData {
    /// Adds the aggregates of the hits; nothing is folded yet.
    pub(crate) fn with(self, content: Arc<Content>) -> WindowData {
        WindowData {
            folded: vec![OnceCell::new(); content.fold_count()],
            content: Some(content),
            ..self
        }
    }

    /// Merges further aggregates, if any.
    pub(crate) fn also_with(mut self, more: &Content) -> WindowData {
        if let Some(content) = self.content.as_mut().filter(|_| more.len() > 0) {
            Arc::make_mut(content).merge(more);
        }
        self
    }

    /// The processes whose hits a probe contains.
    pub(crate) fn members(&self, probe: usize) -> impl Iterator<Item = ProcessId> {
        let role = self.probe_roles.get(probe).and_then(|role| self.roles.get(*role));
        role.into_iter().flatten().copied()
    }
}

/// Why a constant formula cannot be written to a variable of this type. A formula that depends on
/// measurements is checked when it has a value.
pub(crate) fn constant_mismatch(typed: &Typed, value_type: ValueType) -> Option<ValueError> {
    let constant = typed
        .is_constant()
        .then(|| Context::default().eval(typed).single());
    let literal = Literal::try_from(&constant?.ok()?).ok()?;
    literal.of_type(value_type).err()
}

/// The constant that a formula is, if a range refuses it whatever is measured.
pub(crate) fn constant_outside(typed: &Typed, range: &Typed) -> Option<Scalar> {
    let constant = typed
        .is_constant()
        .then(|| Context::default().eval(typed).single())?
        .ok()?;
    let context = Context {
        proposed: Some(&constant),
        ..Context::default()
    };
    let is_inside = boolean(&context.eval(range).single().ok()?).ok()?;
    (!is_inside).then_some(constant)
}

impl<'a> Context<'a> {
    /// The context for one hit.
    pub(crate) fn of_hit<'b>(self, hit: &'b Hit) -> Context<'b>
    where
        'a: 'b,
    {
        Context {
            hit: Some(hit),
            ..self
        }
    }

    /// The value of a part; it has the type that the check determined.
    pub(crate) fn eval(self, typed: &Typed) -> Value {
        let value = self.value(typed);
        debug_assert!(value.is_a(typed.type_of), "{typed:?} has the value {value:?}");
        value
    }

    fn value(self, typed: &Typed) -> Value {
        match &typed.term {
            Term::Constant(value) => Value::Single(Ok(value.clone())),
            Term::Metric(index) => self.metric(*index),
            Term::Measure(measure) => self.measure(*measure),
            Term::WindowDuration => self.in_window(|window| match window.duration.clone() {
                Some(duration) => Value::Single(observed(duration)),
                None => Value::none("it is not over"),
            }),
            Term::WindowIndex => self.in_window(|window| Value::number(window.index as f64)),
            Term::RoleCount(role) => self
                .in_window(|window| Value::number(window.roles.get(*role).map_or(0, BTreeSet::len) as f64)),
            Term::Hits {
                probe,
                statistic,
                by_process,
            } => self.in_window(|window| hits(window, *probe, *statistic, *by_process)),
            Term::Fold(fold) => self.in_window(|window| partial::value(self, window, fold)),
            Term::Call { .. } | Term::Variable(_) | Term::Each { .. } | Term::Row { .. } => {
                self.called(&typed.term)
            }
            Term::Over { .. } | Term::Earlier { .. } | Term::Chosen { .. } | Term::Keys(_) => {
                self.called(&typed.term)
            }
            Term::Field(field) => Value::Single(match self.hit {
                Some(hit) => hit.field(*field),
                None => Err("it is of each hit".into()),
            }),
            Term::Read(read) => Value::Single(match self.reads.get(*read) {
                Some(read) => read.clone().map_err(WhyMissing::from),
                None => Err("it was not delivered".into()),
            }),
            Term::Known(value) => value.clone(),
            Term::Inner { .. } | Term::InnerCount(_) | Term::Enclosing { .. } | Term::EnclosingIndex(_) => {
                self.elsewhere(&typed.term)
            }
            Term::At { .. } | Term::Run(_) => self.elsewhere(&typed.term),
            Term::OfCalls { measure, filter, .. } => self.of_calls(*measure, filter),
            Term::Original => Value::none("it is known only where it is passed"),
            Term::Fact(fact) => Value::Single(self.fact(*fact)),
            Term::Loads(glob) => self.about_process(|facts| facts.loads(glob)),
            Term::Has(symbol) => self.about_process(|facts| facts.symbols.contains(symbol)),
            Term::Proposed => Value::Single(
                self.proposed
                    .cloned()
                    .ok_or_else(|| "no value is proposed".into()),
            ),
            Term::Negate(of) => self.eval(of).map(|value| finite(-number(&value)?)),
            Term::Not(of) => self.eval(of).map(|value| Ok(Scalar::Boolean(!boolean(&value)?))),
            Term::Arithmetic(operator, left, right) => self.eval(left).zip(self.eval(right), |a, b| {
                arithmetic(*operator, number(&a)?, number(&b)?)
            }),
            Term::Both(left, right) => self.logic(left, right, |a, b| a && b),
            Term::Either(left, right) => self.logic(left, right, |a, b| a || b),
            Term::Compare {
                comparison,
                left,
                right,
                ..
            } => self.eval(left).zip(self.eval(right), |a, b| {
                compare(*comparison, &a, &b).map(Scalar::Boolean)
            }),
            Term::Reduce(reduction, of) => Value::Single(self.reduce(*reduction, of)),
            Term::Apply(function, arguments) => self.apply(function, arguments),
        }
    }

    fn reduce(self, reduction: Reduction, rows: &Typed) -> Cell {
        if let Term::Each {
            of, from, to, depth, ..
        } = &rows.term
        {
            // Its rows are not looked up, so no table is built.
            let rows = self.range(of, (from, to), *depth)?;
            return fold_rows(reduction, rows, NO_NUMBERS, |key| self.key(key));
        }
        let mut reduced = self.window.iter().flat_map(|window| &window.reduced);
        if let Some((_, _, known)) = reduced.find(|(by, of, _)| *by == reduction && of == rows) {
            return known.read(reduction, why_empty(rows));
        }
        match self.eval(rows) {
            Value::Table(values) => fold_rows(reduction, values, why_empty(rows), |key| self.key(key)),
            // If no row of a table could be computed, the table itself is none.
            Value::Single(Err(reason)) => Err(reason),
            Value::Single(value) => value,
        }
    }

    fn in_window(self, f: impl Fn(&WindowData) -> Value) -> Value {
        self.window.map_or_else(|| Value::none("no window has closed"), f)
    }

    fn about_process(self, f: impl Fn(&ProcessFacts) -> bool) -> Value {
        match self.facts {
            Some(facts) => Value::Single(Ok(Scalar::Boolean(f(facts)))),
            None => Value::none("no process is evaluated"),
        }
    }

    fn metric(self, index: usize) -> Value {
        match self.metrics.get(index) {
            Some((name, Value::Single(Err(why)))) => Value::none(why.clone().of_metric(name)),
            Some((_, value)) => value.clone(),
            None => Value::none("it is not evaluated yet"),
        }
    }

    fn measure(self, measure: Measure) -> Value {
        let known = self.window.and_then(|window| window.measures.get(&measure));
        known
            .cloned()
            .unwrap_or_else(|| Value::none(format!("{} was not observed", measure.name())))
    }

    /// The value of a row key; a process is represented by its rank.
    pub(crate) fn key(self, key: &Key) -> Cell {
        match key {
            Key::Process(process) => {
                let rank = self.window.and_then(|window| window.ranks.get(process));
                rank.map(|rank| Scalar::Number((*rank).into()))
                    .ok_or_else(|| format!("process {} has no rank", process.0).into())
            }
            Key::Boolean(value) => Ok(Scalar::Boolean(*value)),
            Key::Number(value) => Ok(Scalar::Number(value.0)),
            Key::Text(text) => Ok(Scalar::Text(text.clone())),
        }
    }

    fn fact(self, fact: Fact) -> Cell {
        let facts = self.facts.ok_or("no process is evaluated")?;
        let known = match fact {
            Fact::Mpi => facts.mpi.clone().map(Scalar::Text),
            Fact::Rank => facts.rank.map(|rank| Scalar::Number(rank.into())),
            Fact::Size => facts.size.map(|size| Scalar::Number(size.into())),
            Fact::Exe => Some(Scalar::Text(facts.exe.clone())),
        };
        known.ok_or_else(|| "the process has none".into())
    }

    fn logic(self, left: &Typed, right: &Typed, f: impl Fn(bool, bool) -> bool) -> Value {
        self.eval(left).zip(self.eval(right), |a, b| {
            Ok(Scalar::Boolean(f(boolean(&a)?, boolean(&b)?)))
        })
    }

    fn apply(self, function: &FormulaFunction, arguments: &[Typed]) -> Value {
        let mut values = arguments.iter().map(|argument| self.eval(argument));
        match function.scalar() {
            Some(scalar) => (scalar.evaluate)(&mut values),
            None => Value::none("it is no function of single values"),
        }
    }
}

pub(crate) fn arithmetic(operator: Operator, a: f64, b: f64) -> Cell {
    let why = || match operator {
        Operator::Divide | Operator::Remainder if b == 0.0 => "its divisor is 0",
        Operator::Or | Operator::And => "and/or of numbers",
        _ => NOT_FINITE,
    };
    let value = calculated(operator, a, b);
    value.map(Scalar::Number).ok_or_else(|| why().into())
}

/// The result without a reason; `None` if there is no number.
pub(crate) fn calculated(operator: Operator, a: f64, b: f64) -> Option<f64> {
    let value = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        // Division by 0 is not finite.
        Operator::Divide => a / b,
        Operator::Remainder => a.rem_euclid(b),
        Operator::Power => a.powf(b),
        Operator::Or | Operator::And => return None,
    };
    value.is_finite().then_some(value)
}

pub(crate) fn compare(comparison: Comparison, a: &Scalar, b: &Scalar) -> Result<bool, WhyMissing> {
    Ok(match comparison {
        Comparison::Equal => a == b,
        Comparison::Unequal => a != b,
        Comparison::Less => number(a)? < number(b)?,
        Comparison::LessOrEqual => number(a)? <= number(b)?,
        Comparison::Greater => number(a)? > number(b)?,
        Comparison::GreaterOrEqual => number(a)? >= number(b)?,
    })
}

fn hits(window: &WindowData, probe: usize, statistic: Statistic, by_process: bool) -> Value {
    let Some((name, rows)) = window.probes.get(probe) else {
        return Value::none("the probe is not known");
    };
    if by_process {
        let cell = |row: &Result<HitsInWindow, WhyUnknown>| of_hits(name, &row.clone()?, statistic);
        let rows = rows.iter();
        return Value::Table(
            rows.map(|(process, row)| (Key::Process(*process), cell(row)))
                .collect(),
        );
    }
    let mut all = HitsInWindow::default();
    for row in rows.values() {
        match row {
            Ok(row) => all = all.with(row),
            Err(reason) => return Value::none(reason.clone()),
        }
    }
    if rows.is_empty() {
        return Value::none("no process of the probe's role was there for all of the window");
    }
    Value::Single(of_hits(name, &all, statistic))
}

impl HitsInWindow {
    /// Together with the hits of another process.
    pub(crate) fn with(&self, other: &HitsInWindow) -> HitsInWindow {
        let ends = match (self.ends, other.ends) {
            (Some((low, high)), Some((l, h))) => Some((low.min(l), high.max(h))),
            (ends, None) | (None, ends) => ends,
        };
        HitsInWindow {
            count: self.count.saturating_add(other.count),
            sum_ns: self.sum_ns.saturating_add(other.sum_ns),
            ends,
        }
    }
}

fn of_hits(name: &str, hits: &HitsInWindow, statistic: Statistic) -> Cell {
    let never = || format!("{name} was hit 0 times in the window").into();
    match statistic {
        Statistic::Count => finite(hits.count as f64),
        Statistic::Sum => finite(hits.sum_ns as f64 / 1e9),
        Statistic::Mean if hits.count > 0 => finite(hits.sum_ns as f64 / 1e9 / hits.count as f64),
        Statistic::Mean => Err(never()),
        Statistic::Min => hits.ends.map(|(low, _)| Scalar::Number(low)).ok_or_else(never),
        Statistic::Max => hits.ends.map(|(_, high)| Scalar::Number(high)).ok_or_else(never),
    }
}
