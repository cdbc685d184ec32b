//! The checked tree, with resolved names and types. Only the checker builds it; the evaluator relies on it.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use syntax::ast::{Comparison, Operator};
use syntax::diag::Span;

use crate::function::{FormulaFunction, Reduction};
use crate::measure::Measure;
use crate::types::{Operand, Type};
use crate::value::{Scalar, Value};

/// A field of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    Process,
    Thread,
    Host,
    Duration,
    /// The index of a capture of the probe.
    Capture(usize),
}

/// The row keys of a fold over hits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rowed {
    ByProcess,
    By(Typed),
}

/// The hits over which a fold goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldRange {
    /// The hits of the closing instance.
    Instance,
    /// The hits so far of the open instance of an enclosing window, by the window's index.
    Enclosing(usize),
    /// The hits of the newest closed instances of the formula's window, including the closing one: as many
    /// complete instances as contain this number of hits.
    Newest(u32),
    /// The hits of every instance since the beginning, including the closing one.
    Run,
}

/// A fold over the hits of a probe in the window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    /// Index in the table of its window's folds; equal folds share one.
    pub(crate) slot: usize,
    pub(crate) probe: usize,
    pub(crate) range: FoldRange,
    pub(crate) reduction: Reduction,
    /// Evaluated for each hit; `None` if hits are counted.
    pub(crate) of: Option<Typed>,
    /// The second argument of `slope` and `intercept`.
    pub(crate) second: Option<Typed>,
    pub(crate) filter: Option<Typed>,
    pub(crate) by: Option<Rowed>,
    /// As written, for display.
    pub(crate) text: String,
}

/// A fact about a process, for the conditions of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Mpi,
    Rank,
    Size,
    Exe,
}

impl Fact {
    pub(crate) const ALL: [Fact; 4] = [Fact::Mpi, Fact::Rank, Fact::Size, Fact::Exe];

    /// The name under `roles`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fact::Mpi => "mpi",
            Fact::Rank => "rank",
            Fact::Size => "size",
            Fact::Exe => "exe",
        }
    }

    pub(crate) fn type_of(self) -> Type {
        match self {
            Fact::Mpi | Fact::Exe => Type::TEXT,
            Fact::Rank | Fact::Size => Type::PLAIN,
        }
    }

    pub(crate) fn named(name: &str) -> Option<Fact> {
        Fact::ALL.into_iter().find(|fact| fact.name() == name)
    }
}

/// A statistic of a probe's hits in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    Count,
    Sum,
    Mean,
    Min,
    Max,
}

impl Statistic {
    /// The statistic of a probe as a formula.
    pub(crate) fn of(self, probe: &str) -> String {
        match self {
            Statistic::Count => format!("count({probe})"),
            Statistic::Sum => format!("sum({probe}.duration)"),
            Statistic::Mean => format!("mean({probe}.duration)"),
            Statistic::Min => format!("min({probe}.duration)"),
            Statistic::Max => format!("max({probe}.duration)"),
        }
    }
}

/// A subexpression with its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Typed {
    pub(crate) term: Term,
    pub(crate) type_of: Type,
    pub(crate) span: Span,
}

/// The operation of a subexpression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    Constant(Scalar),
    /// A metric, by its index in the order of evaluation.
    Metric(usize),
    Measure(Measure),
    WindowDuration,
    WindowIndex,
    /// The number of processes of the role.
    RoleCount(usize),
    Hits {
        probe: usize,
        statistic: Statistic,
        by_process: bool,
    },
    Fold(Box<Fold>),
    /// A metric with a parameter, and its argument.
    Call {
        metric: usize,
        body: Arc<Typed>,
        argument: Box<Typed>,
    },
    /// The value of a parameter or range variable, by the number of variables around it.
    Variable(usize),
    /// A table: the value for every integer of a range.
    Each {
        of: Box<Typed>,
        from: Box<Typed>,
        to: Box<Typed>,
        /// The number of variables around it.
        depth: usize,
        /// As written, for display.
        text: String,
    },
    /// A table: a metric in the last windows, by window index.
    Over {
        metric: usize,
        count: u32,
    },
    /// A metric, `back` windows before.
    Earlier {
        metric: usize,
        back: u32,
    },
    /// A table by index: a metric of an inner window, for its instances that closed within this one.
    Inner {
        metric: usize,
        window: usize,
    },
    /// The number of instances of an inner window that closed within this one.
    InnerCount(usize),
    /// A metric of an enclosing window, `back` instances before the open one.
    Enclosing {
        metric: usize,
        window: usize,
        back: u32,
    },
    /// The index of the open instance of an enclosing window.
    EnclosingIndex(usize),
    /// A fold over the values of a formula in every instance since the beginning, by its index in the rule.
    Run(usize),
    /// The value of a measure at a boundary hit.
    At {
        measure: Measure,
        probe: usize,
    },
    /// A counter over the MPI calls whose name, the innermost variable, satisfies the condition.
    OfCalls {
        measure: Measure,
        filter: Box<Typed>,
        /// As written, for display.
        text: String,
    },
    /// The original argument, in a formula that a trampoline computes.
    Original,
    /// The rows of a table for which a condition with equal row keys holds.
    Chosen {
        of: Box<Typed>,
        condition: Box<Typed>,
    },
    /// The keys of a table's rows as its values; a process is represented by its rank.
    Keys(Box<Typed>),
    Row {
        of: Box<Typed>,
        key: Box<Typed>,
    },
    /// A field of the hit, in a formula that is evaluated for each hit.
    Field(Field),
    /// A raw read, in a capture, by its index among the reads of the probe.
    Read(usize),
    /// A part that does not depend on the hit, computed before the iteration over hits.
    Known(Value),
    Fact(Fact),
    Loads(String),
    Has(String),
    /// `value` in a `range`.
    Proposed,
    Negate(Box<Typed>),
    Not(Box<Typed>),
    Arithmetic(Operator, Box<Typed>, Box<Typed>),
    Both(Box<Typed>, Box<Typed>),
    Either(Box<Typed>, Box<Typed>),
    /// `text` is the comparison as written, for explanations.
    Compare {
        comparison: Comparison,
        left: Box<Typed>,
        right: Box<Typed>,
        text: String,
    },
    /// Reduces the rows of a table.
    Reduce(Reduction, Box<Typed>),
    /// A function of single values.
    Apply(&'static FormulaFunction, Vec<Typed>),
}

/// The parts of a subexpression, rarely more than four. Formulas are traversed at each evaluation, so these
/// are stored inline.
type Subterms<T> = SmallVec<[T; 4]>;

impl Typed {
    pub(crate) fn new(type_of: Type, span: Span, term: Term) -> Typed {
        Typed { term, type_of, span }
    }

    pub(crate) fn operand(&self) -> Operand {
        Operand {
            type_of: self.type_of,
            span: self.span,
            is_zero: matches!(self.term, Term::Constant(Scalar::Number(0.0)))
                && self.type_of.kind == Type::PLAIN.kind,
        }
    }

    /// Whether its value is known before anything is measured.
    pub(crate) fn is_constant(&self) -> bool {
        let operator = matches!(
            self.term,
            Term::Constant(_)
                | Term::Negate(_)
                | Term::Not(_)
                | Term::Arithmetic(..)
                | Term::Both(..)
                | Term::Either(..)
                | Term::Compare { .. }
                | Term::Apply(..)
        );
        operator && self.children().into_iter().all(Typed::is_constant)
    }

    pub(crate) fn children(&self) -> Subterms<&Typed> {
        match &self.term {
            Term::Negate(of) | Term::Not(of) | Term::Reduce(_, of) => smallvec![&**of],
            Term::Arithmetic(_, left, right) | Term::Both(left, right) | Term::Either(left, right) => {
                smallvec![&**left, &**right]
            }
            Term::Compare { left, right, .. } => smallvec![&**left, &**right],
            Term::Apply(_, arguments) => arguments.iter().collect(),
            Term::Fold(fold) => {
                let by = match &fold.by {
                    Some(Rowed::By(by)) => Some(by),
                    Some(Rowed::ByProcess) | None => None,
                };
                let parts = [fold.of.as_ref(), fold.second.as_ref(), fold.filter.as_ref(), by];
                parts.into_iter().flatten().collect()
            }
            Term::Call { argument, .. } => smallvec![&**argument],
            Term::Each { of, from, to, .. } => smallvec![&**of, &**from, &**to],
            Term::Row { of, key } => smallvec![&**of, &**key],
            Term::OfCalls { filter, .. } => smallvec![&**filter],
            Term::Chosen { of, condition } => smallvec![&**of, &**condition],
            Term::Keys(of) => smallvec![&**of],
            Term::Inner { .. }
            | Term::InnerCount(_)
            | Term::Enclosing { .. }
            | Term::EnclosingIndex(_)
            | Term::Run(_)
            | Term::At { .. }
            | Term::Original
            | Term::Constant(_)
            | Term::Variable(_)
            | Term::Over { .. }
            | Term::Earlier { .. }
            | Term::Field(_)
            | Term::Read(_)
            | Term::Known(_)
            | Term::Metric(_)
            | Term::Measure(_)
            | Term::WindowDuration
            | Term::WindowIndex
            | Term::RoleCount(_)
            | Term::Hits { .. }
            | Term::Fact(_)
            | Term::Loads(_)
            | Term::Has(_)
            | Term::Proposed => Subterms::new(),
        }
    }

    /// The direct parts, mutable.
    pub(crate) fn children_mut(&mut self) -> Subterms<&mut Typed> {
        match &mut self.term {
            Term::Negate(of) | Term::Not(of) | Term::Reduce(_, of) => smallvec![&mut **of],
            Term::Arithmetic(_, left, right) | Term::Both(left, right) | Term::Either(left, right) => {
                smallvec![&mut **left, &mut **right]
            }
            Term::Compare { left, right, .. } => smallvec![&mut **left, &mut **right],
            Term::Apply(_, arguments) => arguments.iter_mut().collect(),
            Term::Call { argument, .. } => smallvec![&mut **argument],
            Term::Each { of, from, to, .. } => smallvec![&mut **of, &mut **from, &mut **to],
            Term::Row { of, key } => smallvec![&mut **of, &mut **key],
            Term::Chosen { of, condition } => smallvec![&mut **of, &mut **condition],
            Term::Keys(of) => smallvec![&mut **of],
            _ => Subterms::new(),
        }
    }

    /// Whether the value varies from hit to hit or with a variable. A fold inside varies only with its
    /// variables, not with its own hits.
    pub(crate) fn varies(&self) -> bool {
        match &self.term {
            Term::Field(_) | Term::Variable(_) => true,
            Term::Fold(_) => {
                let mut varies = false;
                self.visit(&mut |term| varies |= matches!(term, Term::Variable(_)));
                varies
            }
            _ => self.children().into_iter().any(Typed::varies),
        }
    }

    /// Whether it contains a fold over hits of `probe`.
    pub(crate) fn folds(&self, probe: usize) -> bool {
        let mut found = false;
        self.visit(&mut |term| found |= matches!(term, Term::Fold(fold) if fold.probe == probe));
        found
    }

    /// Calls `f` on this part and on all parts below it.
    pub(crate) fn visit(&self, f: &mut impl FnMut(&Term)) {
        f(&self.term);
        self.children().into_iter().for_each(|child| child.visit(f));
    }
}
