//! `sum(mpi.time where call == "MPI_Barrier")`: measures of selected MPI calls. Timed windows have them per
//! function; windows from probe to probe fold them from the calls.

use syntax::ast::Expr;
use syntax::diag::{Diagnostic, Span};

use super::implied::MPI;
use super::infer::Infer;
use crate::folds::NOWHERE;
use crate::function::Reduction;
use crate::measure::Measure;
use crate::term::{Field, Fold, FoldRange, Rowed, Term, Typed};
use crate::types::{KeyKind, Type};

/// The meaning of `call` in the present condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMeaning {
    Variable(usize),
    Function,
}

/// The selection of calls while a formula about them is inferred.
#[derive(Clone, Debug)]
pub(crate) struct CallSelection {
    condition: Expr,
    used: bool,
}

impl Infer<'_> {
    /// Infers a formula whose measures of MPI cover the calls that satisfy the condition.
    pub(super) fn of_calls(&mut self, of: &Expr, condition: &Expr) -> Option<Typed> {
        let calls = CallSelection {
            condition: condition.clone(),
            used: false,
        };
        let outer = self.calls.replace(calls);
        let typed = self.infer(of);
        let calls = std::mem::replace(&mut self.calls, outer);
        let typed = typed?;
        if calls.is_some_and(|calls| calls.used) {
            return Some(typed);
        }
        let message = "`call` is the name of the called MPI function, and this is not a measure of MPI";
        let help = "mpi.time, mpi.calls, mpi.bytes; which function a hit is of is its `function`";
        self.report(Diagnostic::wrong("E0134", condition.span, message).help(help))
    }

    /// A measure of the selected calls; the inner `None` without a selection, or if it is no measure of MPI.
    pub(super) fn measure_of_calls(&mut self, measure: Measure, span: Span) -> Option<Option<Typed>> {
        let mpi = [Measure::MpiTime, Measure::MpiCalls, Measure::MpiBytes].contains(&measure);
        let mut calls = self.calls.take().filter(|_| mpi)?;
        calls.used = true;
        let condition = calls.condition.clone();
        let typed = if self.names.is_timed(self.home) {
            self.counted_calls(measure, &condition, span)
        } else {
            self.folded_calls(measure, &condition, span)
        };
        self.calls = Some(calls);
        Some(typed)
    }

    fn counted_calls(&mut self, measure: Measure, condition: &Expr, span: Span) -> Option<Typed> {
        let depth = self.variables.len();
        let outer = self.call_is.replace(CallMeaning::Variable(depth));
        let filter = self.infer_boolean(condition);
        self.call_is = outer;
        let filter = filter?;
        if filter.type_of.table.is_some() {
            let message = "of each function called there is one condition, this is a table";
            return self.refuse("E0143", filter.span, message);
        }
        let of = Type::number(measure.dimension()).by(Some(KeyKind::Process));
        let filter = Box::new(filter);
        let text = format!("{} where {condition}", measure.name());
        Some(Typed::new(
            of,
            span,
            Term::OfCalls {
                measure,
                filter,
                text,
            },
        ))
    }

    fn folded_calls(&mut self, measure: Measure, condition: &Expr, span: Span) -> Option<Typed> {
        let probe = self.names.probes.get(MPI)?.index;
        let outer = (
            self.stream.replace(probe),
            self.call_is.replace(CallMeaning::Function),
        );
        let filter = self.infer_boolean(condition);
        (self.stream, self.call_is) = outer;
        let filter = filter?;
        let (reduction, field, of) = match measure {
            Measure::MpiTime => (Reduction::Sum, Some(Field::Duration), Type::TIME),
            Measure::MpiBytes => {
                let bytes = self.names.probes.get(MPI)?.field("bytes")??;
                (Reduction::Sum, Some(bytes.0), bytes.1)
            }
            _ => (Reduction::Count, None, Type::PLAIN),
        };
        let part = |field: Field| Typed::new(of, span, Term::Field(field));
        let fold = Fold {
            probe,
            range: FoldRange::Instance,
            reduction,
            of: field.map(part),
            second: None,
            filter: Some(filter),
            by: Some(Rowed::ByProcess),
            slot: NOWHERE,
            text: format!("{} where {condition}", measure.name()),
        };
        let table = Some(KeyKind::Process);
        Some(Typed::new(Type { table, ..of }, span, Term::Fold(Box::new(fold))))
    }

    /// `call` in such a condition.
    pub(super) fn call_name(&mut self, span: Span) -> Option<Option<Typed>> {
        match self.call_is? {
            CallMeaning::Variable(depth) => Some(Some(Typed::new(Type::TEXT, span, Term::Variable(depth)))),
            CallMeaning::Function => self.part_of_hit("function", span),
        }
    }
}
