//! The checked tree: every name resolved, every part typed. Only the checker builds it; the evaluator trusts
//! it.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::diag::Span;
use crate::function::{Reduction, ScalarFunction};
use crate::lang::ast::{Comparison, Operator};
use crate::measure::Measure;
use crate::types::Type;
use crate::value::{Scalar, Value};

/// A part of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    Process,
    Thread,
    Host,
    Duration,
    /// By its place among the captures of the probe.
    Capture(usize),
}

/// The keys of the rows that a fold of hits makes.
#[derive(Clone, Debug)]
pub(crate) enum Rowed {
    ByProcess,
    By(Typed),
}

/// Which hits a fold takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldRange {
    /// Those of the instance that closes.
    Instance,
    /// Those so far of the open instance of the window, by its place, that encloses the formula's.
    Enclosing(usize),
    /// Those of the newest closed instances of the formula's window, whole ones, the one that closes among
    /// them: as many instances as it takes to have so many hits.
    Newest(u32),
    /// Those of every instance since the beginning, the one that closes among them.
    Run,
}

/// A fold over the hits of a probe in the window.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    /// Its place in the table of the folds of its window, where equal ones share one.
    pub(crate) slot: usize,
    pub(crate) probe: usize,
    pub(crate) range: FoldRange,
    pub(crate) reduction: Reduction,
    /// Of each hit; none where the hits themselves are counted.
    pub(crate) of: Option<Typed>,
    /// The second argument of `slope` and `intercept`.
    pub(crate) second: Option<Typed>,
    pub(crate) filter: Option<Typed>,
    pub(crate) by: Option<Rowed>,
    /// As written, for people.
    pub(crate) text: String,
}

/// A fact about a process that roles may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Mpi,
    Rank,
    Size,
    Exe,
}

/// Which number of a probe's hits in the window.
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

/// A part of a formula and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) term: Term,
    pub(crate) of: Type,
    pub(crate) span: Span,
}

/// What a part of a formula computes.
#[derive(Clone, Debug)]
pub(crate) enum Term {
    Constant(Scalar),
    /// By its place in the order of evaluation.
    Metric(usize),
    Measure(Measure),
    WindowDuration,
    WindowIndex,
    /// How many processes the role has.
    RoleCount(usize),
    Hits {
        probe: usize,
        statistic: Statistic,
        by_process: bool,
    },
    Fold(Box<Fold>),
    /// A metric with a parameter, and what it is called with.
    Call {
        metric: usize,
        body: Arc<Typed>,
        argument: Box<Typed>,
    },
    /// What a parameter or a range stands for, by how many are around it.
    Variable(usize),
    /// A table: the value for every whole number of a range.
    Each {
        of: Box<Typed>,
        from: Box<Typed>,
        to: Box<Typed>,
        /// How many variables are around it.
        depth: usize,
        /// As written, for people.
        text: String,
    },
    /// A table: a metric in the last windows, by their index.
    Over {
        metric: usize,
        count: u32,
    },
    /// A metric some windows before.
    Earlier {
        metric: usize,
        back: u32,
    },
    /// A table by index: a metric of an inner window in its instances that closed within this one.
    Inner {
        metric: usize,
        window: usize,
    },
    /// How many instances of an inner window closed within this one.
    InnerCount(usize),
    /// A metric of an enclosing window, so many instances before the open one.
    Enclosing {
        metric: usize,
        window: usize,
        back: u32,
    },
    /// The index of the open instance of an enclosing window.
    EnclosingIndex(usize),
    /// A fold of the values that a formula had in every instance since the beginning, by its place among the
    /// rule's.
    Run(usize),
    /// The value of a measure at the hit of a boundary.
    At {
        measure: Measure,
        probe: usize,
    },
    /// A counter of those MPI calls for whose name, the innermost variable, the condition holds.
    OfCalls {
        measure: Measure,
        filter: Box<Typed>,
        /// As written, for people.
        text: String,
    },
    /// In what a trampoline computes: the value that was passed.
    Original,
    /// The rows of a table for which a condition with the same rows holds.
    Chosen {
        of: Box<Typed>,
        condition: Box<Typed>,
    },
    /// The keys of the rows of a table, each in its row: a process by its rank.
    Keys(Box<Typed>),
    Row {
        of: Box<Typed>,
        key: Box<Typed>,
    },
    /// In what is evaluated for each hit.
    Field(Field),
    /// In a capture: what was read, by its place among the reads of the probe.
    Read(usize),
    /// What does not depend on the hit, computed before the hits are gone through.
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
    /// The text is the comparison as written, for explanations.
    Compare {
        comparison: Comparison,
        left: Box<Typed>,
        right: Box<Typed>,
        text: String,
    },
    /// Of the rows of a table.
    Reduce(Reduction, Box<Typed>),
    Apply(ScalarFunction, Vec<Typed>),
}

/// Parts of a formula; few have more. Formulas are walked through at each evaluation, so these take no memory
/// of their own.
type Parts<T> = SmallVec<[T; 4]>;

impl Typed {
    pub(crate) fn new(of: Type, span: Span, term: Term) -> Typed {
        Typed { term, of, span }
    }

    /// Whether it is known before anything is measured.
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

    /// The parts directly below.
    pub(crate) fn children(&self) -> Parts<&Typed> {
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
            | Term::Proposed => Parts::new(),
        }
    }

    /// The parts directly below, to be changed.
    pub(crate) fn children_mut(&mut self) -> Parts<&mut Typed> {
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
            _ => Parts::new(),
        }
    }

    /// Whether the value differs from hit to hit, or with a variable. What a fold inside makes of its own
    /// hits does not; a variable in it does.
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

    /// Whether it folds hits of a probe.
    pub(crate) fn folds(&self, probe: usize) -> bool {
        let mut found = false;
        self.visit(&mut |term| found |= matches!(term, Term::Fold(fold) if fold.probe == probe));
        found
    }

    /// Calls `f` on this part and all below it.
    pub(crate) fn visit(&self, f: &mut impl FnMut(&Term)) {
        f(&self.term);
        self.children().into_iter().for_each(|child| child.visit(f));
    }
}
