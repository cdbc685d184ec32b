//! The types of reductions: `sum(x)`, `count(role)`, `mean(send.duration) by process`. They fold the rows of
//! a table or, in [`super::hits`], the hits of a probe.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span};
use syntax::unit::Dimension;

use super::implied::depends_on_calls;
use super::infer::{FormulaPosition, Infer};
use crate::function::{Meaning, Reduction, function_named};
use crate::term::{Term, Typed};
use crate::types::{KeyKind, Kind, Type};

/// A reduction as written.
#[derive(Clone, Copy)]
pub(super) struct Call<'e> {
    pub(super) reduction: Reduction,
    pub(super) of: &'e Expr,
    pub(super) second: Option<&'e Expr>,
    pub(super) filter: Option<&'e Expr>,
    pub(super) over: Option<OverClause<'e>>,
    /// The key after `by`.
    pub(super) by: Option<(&'e str, Span)>,
    pub(super) span: Span,
}

/// `over count unit`.
#[derive(Clone, Copy)]
pub(super) struct OverClause<'e> {
    pub(super) count: &'e Expr,
    pub(super) unit: Option<&'e (String, Span)>,
    pub(super) span: Span,
}

impl Infer<'_> {
    /// `of by key`: keeps the rows that the reduction would fold.
    pub(crate) fn by(&mut self, of: &Expr, key: &str, key_span: Span, span: Span) -> Option<Typed> {
        if let ExprNode::Call {
            function, arguments, ..
        } = &of.node
            && let Some(function) = function_named(function)
            && function.arguments.contains(&arguments.len())
            && let Some(reduction) = function.meaning.reduction(arguments.len())
        {
            return self.reduction(reduction, arguments, Some((key, key_span)), span);
        }
        let message = format!("`by {key}` belongs behind a reduction");
        self.report(Diagnostic::wrong("E0134", span, message).help("for example `sum(mpi.time) by process`"))
    }

    pub(crate) fn reduction(
        &mut self,
        reduction: Reduction,
        arguments: &[Expr],
        by: Option<(&str, Span)>,
        span: Span,
    ) -> Option<Typed> {
        let (of, filter) = match &arguments.first()?.node {
            ExprNode::Where { of, condition } => (&**of, Some(&**condition)),
            _ => (arguments.first()?, None),
        };
        let mut second = arguments.get(1);
        let mut reduction = reduction;
        if let (Reduction::Quantile(_), Some(share)) = (reduction, second.take()) {
            reduction = Reduction::Quantile(self.share(share)?);
        } else if let Reduction::Slope | Reduction::Intercept = reduction {
            second = arguments.get(1);
        }
        let (inner, over) = match &of.node {
            ExprNode::Over {
                of: inner,
                count,
                unit,
            } => {
                let (unit, span) = (unit.as_ref(), of.span);
                (&**inner, Some(OverClause { count, unit, span }))
            }
            _ => (of, None),
        };
        let call = Call {
            reduction,
            of,
            second,
            filter,
            over: None,
            by,
            span,
        };
        if self.place == FormulaPosition::Window
            && let Some(done) = self.in_a_window(&call, inner, over)
        {
            return done;
        }
        let of = self.infer(of)?;
        self.table(&call, of)
    }

    /// A reduction over processes, instances, hits or MPI calls, which only windows have; the inner `None`
    /// for a table.
    fn in_a_window(
        &mut self,
        call: &Call<'_>,
        inner: &Expr,
        over: Option<OverClause<'_>>,
    ) -> Option<Option<Typed>> {
        let name = match &call.of.node {
            ExprNode::Name(name) => name.as_str(),
            _ => "",
        };
        if let Some(&role) = self.names.roles.get(name)
            && !self.names.scopes.contains_key(name)
        {
            return Some(self.role(call, role));
        }
        let plain = call.filter.is_none() && call.by.is_none();
        if let (Some(window), Reduction::Count, true) = (self.names.window_named(name), call.reduction, plain)
        {
            return Some(self.count_of_instances(window, call.span));
        }
        if let Some(probe) = self.stream_of(inner) {
            let call = Call {
                of: inner,
                over,
                ..*call
            };
            return Some(self.hits(&call, probe));
        }
        let over_run = |over: OverClause<'_>| {
            let run = matches!(&over.count.node, ExprNode::Name(name) if name == "run");
            run && over.unit.is_none()
        };
        if plain && over.is_some_and(over_run) {
            return Some(self.over_run(call.reduction, inner, call.span));
        }
        let filter = call.filter.filter(|filter| depends_on_calls(filter))?;
        let Some(of) = self.of_calls(call.of, filter) else {
            return Some(None);
        };
        let call = Call {
            filter: None,
            ..*call
        };
        Some(self.table(&call, of))
    }

    fn share(&mut self, expr: &Expr) -> Option<f64> {
        let share = self.infer(expr)?;
        match share.term {
            Term::Constant(crate::value::Scalar::Number(value))
                if share.type_of.kind == Kind::Number(Dimension::NONE) && (0.0..=1.0).contains(&value) =>
            {
                Some(value)
            }
            _ => {
                let message = "the share of a quantile is a number of 0% to 100%, written out";
                self.refuse("E0145", share.span, message)
            }
        }
    }

    fn role(&mut self, call: &Call<'_>, role: usize) -> Option<Typed> {
        if call.reduction == Reduction::Count && call.by.is_none() && call.filter.is_none() {
            return Some(Typed::new(Type::PLAIN, call.span, Term::RoleCount(role)));
        }
        let message = "the processes of a role can only be counted";
        self.report(
            Diagnostic::error("E0134", message)
                .at(call.of.span, "a role")
                .help("a measure of them: `sum(cpu.time)`"),
        )
    }

    fn table(&mut self, call: &Call<'_>, typed: Typed) -> Option<Typed> {
        let reduction = call.reduction;
        let Some(rows) = typed.type_of.table else {
            let message = "this is a single value already: there is nothing to fold";
            let around = self
                .names
                .around(self.home)
                .first()
                .map(|outer| self.names.window_name(*outer));
            let help = match (&typed.term, around) {
                (Term::Metric(_), Some(outer)) => {
                    format!("in the window around it, it is a table: `{{in: {outer}, value: …}}`")
                }
                _ => "leave the reduction out".to_string(),
            };
            return self.report(Diagnostic::wrong("E0144", typed.span, message).help(help));
        };
        let typed = match call.filter {
            Some(filter) => self.chosen_rows(typed, filter)?,
            None => typed,
        };
        if let Reduction::Slope | Reduction::Intercept = reduction {
            let message = "a line goes through the hits of a probe, this is a table";
            return self.refuse("E0134", typed.span, message);
        }
        if let Some((key, place)) = call.by {
            if key != "process" || rows != KeyKind::Process {
                let message = format!("the rows of this table are identified {}", rows.what());
                let help = "hits are put into rows where they are reduced: `sum(send.size) by send.to`";
                let wrong = Diagnostic::wrong("E0146", typed.span, message).at(place, "");
                return self.report(wrong.help(help));
            }
            if reduction == Reduction::Count {
                let message = "counted by process, a table by process has 1 in every row";
                return self
                    .report(Diagnostic::wrong("E0144", call.span, message).help("leave `by process` out"));
            }
        }
        let folded = self.folded(reduction, &typed)?;
        if call.by.is_some() {
            return Some(Typed {
                span: call.span,
                ..typed
            });
        }
        let result = match (reduction, rows) {
            (Reduction::ArgMin | Reduction::ArgMax, KeyKind::Process) => Type::PLAIN,
            (Reduction::ArgMin | Reduction::ArgMax, KeyKind::Of(kind)) => Type::single(kind),
            _ => folded,
        };
        Some(Typed::new(
            result,
            call.span,
            Term::Reduce(reduction, Box::new(typed)),
        ))
    }

    /// The rows that satisfy a condition on each row: on its value, on other tables with the same keys, on
    /// its `key`, or on its `process`.
    fn chosen_rows(&mut self, typed: Typed, filter: &Expr) -> Option<Typed> {
        let outer = self.rows.replace(typed.clone());
        let condition = self.infer_boolean(filter);
        self.rows = outer;
        let condition = condition?;
        if condition.type_of.table.is_none() {
            let message = "this condition is the same for every row";
            let wrong = Diagnostic::wrong("E0144", condition.span, message);
            return self
                .report(wrong.help("compare the rows: `sum(x where x > 1ms)`, `sum(x where process > 0)`"));
        }
        self.rows(&typed, &condition)?;
        let (type_of, span) = (typed.type_of, typed.span);
        let (of, condition) = (Box::new(typed), Box::new(condition));
        Some(Typed::new(type_of, span, Term::Chosen { of, condition }))
    }

    /// `process` or `key`, in the selection of rows of a table.
    pub(super) fn key_of_row(&mut self, name: &str, span: Span) -> Option<Option<Typed>> {
        let typed = self.rows.clone()?;
        let kind = match (name, typed.type_of.table?) {
            ("key" | "process", KeyKind::Process) => Type::PLAIN.kind,
            ("key", KeyKind::Of(kind)) => kind,
            ("process", KeyKind::Of(_)) => {
                let message = "the rows of this table are not processes";
                let wrong = Diagnostic::wrong("E0146", typed.span, message).at(span, "");
                return Some(self.report(wrong.help("their key is `key`")));
            }
            _ => return None,
        };
        let type_of = Type::single(kind).by(typed.type_of.table);
        Some(Some(Typed::new(type_of, span, Term::Keys(Box::new(typed)))))
    }

    /// The type of a fold over values like `of`.
    pub(super) fn folded(&mut self, reduction: Reduction, typed: &Typed) -> Option<Type> {
        let single = Type {
            table: None,
            ..typed.type_of
        };
        let wrong = match (reduction, typed.type_of.kind) {
            (Reduction::Count, _) => return Some(Type::PLAIN),
            (Reduction::First | Reduction::Last | Reduction::Only, _) => return Some(single),
            (Reduction::Any | Reduction::All, Kind::Boolean) => return Some(single),
            (Reduction::Any | Reduction::All, _) => {
                format!(
                    "`any` and `all` are of conditions, these are {} each",
                    typed.type_of.what()
                )
            }
            (Reduction::Product, Kind::Number(dimension)) if dimension != Dimension::NONE => {
                let message = format!("only plain numbers have a product, these are {dimension} each");
                let help = format!("divide by a unit: `x / ({})`", dimension.as_factor());
                return self.report(Diagnostic::wrong("E0141", typed.span, message).help(help));
            }
            (_, Kind::Number(_)) => return Some(single),
            _ => format!(
                "only numbers can be folded, these are {} each",
                typed.type_of.what()
            ),
        };
        self.refuse("E0140", typed.span, wrong)
    }
}

impl Meaning {
    /// The reduction of a call with this number of arguments, if it is one.
    pub(super) fn reduction(self, arguments: usize) -> Option<Reduction> {
        match self {
            Meaning::Reduction(reduction) => Some(reduction),
            Meaning::Both(reduction, _) if arguments == 1 => Some(reduction),
            _ => None,
        }
    }
}
