//! Metrics with a parameter, ranges of numbers and rows of tables: `T(3)`, `T(n) for n in 1 to 8`, `busy[2]`.
//! [`super::past`] has earlier values.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span};

use super::infer::{Infer, MetricNames};
use crate::eval::rows::NUMBERS_MAX;
use crate::term::{Term, Typed};
use crate::types::{KeyKind, Kind, Type};
use crate::value::Scalar;

/// Cost limit of a formula, in evaluated parts.
const COST_MAX: u64 = 10_000_000;

impl Infer<'_> {
    pub(super) fn call_metric(
        &mut self,
        name: &str,
        name_span: Span,
        metric: MetricNames,
        arguments: &[Expr],
        span: Span,
    ) -> Option<Typed> {
        let body = metric.body.filter(|_| metric.stream.is_none());
        let (Some(body), [argument]) = (body, arguments) else {
            let message = format!("`{name}` cannot be called with {} arguments", arguments.len());
            let help = "a metric `T(n)` has one parameter, a metric `T` none";
            return self.report(Diagnostic::wrong("E0133", name_span, message).help(help));
        };
        if metric.window != self.home {
            return self.of_another_window(name, metric.window, span);
        }
        let argument = self.plain(argument)?;
        self.spend(metric.cost, span)?;
        if argument.type_of.table.is_some() {
            let message = "a metric is called with a single value, this is a table";
            return self.refuse("E0143", argument.span, message);
        }
        Some(Typed::new(
            metric.type_of,
            span,
            Term::Call {
                metric: metric.index,
                body,
                argument: Box::new(argument),
            },
        ))
    }

    fn plain(&mut self, expr: &Expr) -> Option<Typed> {
        let typed = self.infer(expr)?;
        if typed.type_of.kind == Type::PLAIN.kind {
            return Some(typed);
        }
        let message = format!("a plain number is needed here, this is {}", typed.type_of.what());
        self.refuse("E0141", typed.span, message)
    }

    /// Limits the cost, because a few nested calls could take unbounded time.
    fn spend(&mut self, cost: u64, span: Span) -> Option<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost <= COST_MAX {
            return Some(());
        }
        let message = "there is too much to compute in this formula";
        let help = "give a metric with fewer calls, or a constant range of fewer numbers";
        self.report(Diagnostic::wrong("E0123", span, message).help(help))
    }

    pub(super) fn each(
        &mut self,
        of: &Expr,
        name: &str,
        name_span: Span,
        from: &Expr,
        to: &Expr,
        span: Span,
    ) -> Option<Typed> {
        let (from, to) = (self.plain(from)?, self.plain(to)?);
        if let Some(table) = [&from, &to].into_iter().find(|end| end.type_of.table.is_some()) {
            let message = "a range goes from number to number, this is a table";
            return self.refuse("E0143", table.span, message);
        }
        let names = self.names;
        let taken = names.scopes.contains_key(name) || names.parameters.contains_key(name);
        if taken || self.variables.iter().any(|variable| variable == name) {
            let message = format!("`{name}` is the name of something else already");
            return self.refuse("E0132", name_span, message);
        }
        let depth = self.variables.len();
        let before = self.cost;
        self.variables.push(name.to_string());
        let typed = self.infer(of);
        self.variables.pop();
        let once = self.cost - before;
        self.spend(once.saturating_mul(numbers(&from, &to)), span)?;
        let typed = typed?;
        if typed.type_of.table.is_some() {
            let message = "for each number there is one value, this is a table";
            return self.refuse("E0143", typed.span, message);
        }
        let result = typed.type_of.by(Some(KeyKind::Of(Type::PLAIN.kind)));
        let (of, from, to) = (Box::new(typed), Box::new(from), Box::new(to));
        Some(Typed::new(
            result,
            span,
            Term::Each {
                of,
                from,
                to,
                depth,
                text: String::new(),
            },
        ))
    }

    pub(super) fn row(&mut self, of: &Expr, key: &Expr, span: Span) -> Option<Typed> {
        if self.place == super::infer::FormulaPosition::Capture {
            let element = Expr {
                node: ExprNode::Index {
                    of: Box::new(of.clone()),
                    index: Box::new(key.clone()),
                },
                span,
            };
            return self.read(&element, None);
        }
        if let ExprNode::Negate(back) = &key.node
            && let ExprNode::Number { digits, unit: None } = &back.node
            && let Ok(back) = digits.parse()
        {
            return self.earlier(of, back, span);
        }
        let (typed, key) = (self.infer(of), self.infer(key));
        let (typed, key) = (typed?, key?);
        let Some(rows) = typed.type_of.table else {
            let message = "this is a single value and has no rows";
            return self.report(
                Diagnostic::wrong("E0144", typed.span, message)
                    .help("its value in the window before: `x[-1]`"),
            );
        };
        let kind = match rows {
            KeyKind::Process => Type::PLAIN.kind,
            KeyKind::Of(kind) => kind,
        };
        if key.type_of.kind != kind {
            let wanted = match kind {
                Kind::Number(_) if rows == KeyKind::Process => "a rank".to_string(),
                kind => Type::single(kind).what(),
            };
            let message = format!("the key of a row is {wanted}, this is {}", key.type_of.what());
            return self.refuse("E0140", key.span, message);
        }
        if key.type_of.table.is_some() {
            let message = "the key of a row is a single value, this is a table";
            return self.refuse("E0143", key.span, message);
        }
        let result = Type {
            table: None,
            ..typed.type_of
        };
        let (of, key) = (Box::new(typed), Box::new(key));
        Some(Typed::new(result, span, Term::Row { of, key }))
    }
}

/// Upper bound of the numbers in a range.
fn numbers(from: &Typed, to: &Typed) -> u64 {
    match (&from.term, &to.term) {
        (Term::Constant(Scalar::Number(from)), Term::Constant(Scalar::Number(to))) => {
            (to - from + 1.0).clamp(0.0, NUMBERS_MAX) as u64
        }
        _ => NUMBERS_MAX as u64,
    }
}
