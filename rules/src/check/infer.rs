//! Type inference of formulas: [`Expr`] to [`Typed`]. `resolve` determines the meaning of names, `reduce`
//! infers reductions.

use std::collections::BTreeMap;

use syntax::ast::{Expr, ExprNode, Operator};
use syntax::diag::{Diagnostic, Span, did_you_mean};
use syntax::unit::unit_named;

use super::calls::{CallMeaning, CallSelection};
pub(crate) use super::names::{MetricNames, ProbeNames, RuleNames, WindowNames};
use super::scope::MetricScope;
use crate::function::{FUNCTIONS, FormulaFunction, Meaning, ScalarFunction, function_named};
use crate::read::PlannedCapture;
use crate::rule::Run;
use crate::target::Site;
use crate::term::{Term, Typed};
use crate::types::{KeyKind, Kind, Operand, Type};
use crate::value::Scalar;

/// The kind of a formula; it determines the available names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormulaPosition {
    /// Parameters and settings: no measurements.
    Constant,
    /// Roles: facts about one process.
    Role,
    /// Captures: reads of a probe in the program.
    Capture,
    /// Metrics and tunes: measurements of the window.
    Window,
}

/// The site of a capture, and its reads.
pub(crate) struct Reads {
    pub(crate) site: Site,
    pub(crate) is_mark: bool,
    pub(crate) bindings: BTreeMap<String, String>,
    pub(crate) planned: Vec<PlannedCapture>,
}

/// Infers formulas of one place; errors are added to `wrong` once, and the erroneous part has no type.
pub(crate) struct Infer<'a> {
    pub(crate) names: &'a RuleNames,
    pub(crate) place: FormulaPosition,
    /// The type of `value`, in a range.
    pub(crate) proposed: Option<Type>,
    /// Index of the window of a formula.
    pub(crate) home: usize,
    /// Indices of probes from here on are those of joins.
    pub(crate) pairs_from: usize,
    /// The probe, in a formula that is evaluated for each of its hits.
    pub(crate) stream: Option<usize>,
    /// Names of the parameters and range variables in scope, the outermost first. They are plain numbers.
    pub(crate) variables: Vec<String>,
    /// Number of inferred parts; parts of calls and ranges count as often as they are evaluated.
    pub(crate) cost: u64,
    /// Present in a capture.
    pub(crate) reads: Option<Reads>,
    /// Whether `original` is available, as in a trampoline.
    pub(crate) original: bool,
    /// The table whose rows are selected.
    pub(crate) rows: Option<Typed>,
    /// The selection of MPI calls for measures.
    pub(crate) calls: Option<CallSelection>,
    /// The meaning of `call`.
    pub(crate) call_is: Option<CallMeaning>,
    pub(crate) runs: &'a mut Vec<Run>,
    pub(crate) wrong: &'a mut Vec<Diagnostic>,
}

impl Infer<'_> {
    pub(crate) fn report<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.wrong.push(diagnostic);
        None
    }

    pub(super) fn refuse<T>(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> Option<T> {
        self.report(Diagnostic::wrong(code, span, message))
    }

    /// The metric `name` as seen by this formula; the inner `None` stands for a metric with a reported error.
    pub(crate) fn metric(&self, name: &str) -> Option<Option<MetricNames>> {
        let home = match self.names.scopes.get(name)? {
            MetricScope::Fixed(home) => *home,
            MetricScope::Floating { .. } => self.home,
        };
        let found = self.names.metrics.get(&(name.to_string(), home));
        Some(found.cloned().flatten())
    }

    pub(crate) fn infer(&mut self, expr: &Expr) -> Option<Typed> {
        let mut typed = self.inferred(expr)?;
        // Inner terms, for example in the body of a metric, have their text already.
        let text = match &mut typed.term {
            Term::Fold(fold) => Some(&mut fold.text),
            Term::Each { text, .. } => Some(text),
            Term::Run(place) => self.runs.get_mut(*place).map(|run| &mut run.text),
            _ => None,
        };
        if let Some(text) = text.filter(|text| text.is_empty()) {
            *text = expr.to_string();
        }
        Some(typed)
    }

    fn inferred(&mut self, expr: &Expr) -> Option<Typed> {
        let span = expr.span;
        self.cost = self.cost.saturating_add(1);
        let typed = |term, type_of| Some(Typed { term, type_of, span });
        match &expr.node {
            ExprNode::Number { digits, unit } => self.literal(digits, *unit, span),
            ExprNode::Text(text) => typed(Term::Constant(Scalar::Text(text.clone())), Type::TEXT),
            ExprNode::Boolean(value) => typed(Term::Constant(Scalar::Boolean(*value)), Type::BOOLEAN),
            ExprNode::Name(name) => self.name(name, span),
            ExprNode::Call {
                function,
                function_span,
                arguments,
            } => self.call(expr, function, *function_span, arguments),
            ExprNode::By { of, key, key_span } => self.by(of, key, *key_span, span),
            ExprNode::Negate(of) => {
                let negated = self.infer_number(of)?;
                let type_of = negated.type_of;
                typed(Term::Negate(Box::new(negated)), type_of)
            }
            ExprNode::Not(of) => {
                let negated = self.infer_boolean(of)?;
                let type_of = negated.type_of;
                typed(Term::Not(Box::new(negated)), type_of)
            }
            ExprNode::Binary {
                operator: operator @ (Operator::And | Operator::Or),
                left,
                right,
            } => self.logic(*operator, left, right, span),
            ExprNode::Binary {
                operator,
                left,
                right,
            } => {
                if *operator == Operator::Divide {
                    self.half_keyed(left, right);
                }
                let (left, right) = (self.infer_number(left), self.infer_number(right));
                self.arithmetic(*operator, left?, right?, span)
            }
            ExprNode::Compare { first, rest } => self.comparisons(first, rest, span),
            ExprNode::As { .. } | ExprNode::Member { .. } | ExprNode::Pointed(_) => self.in_program(expr),
            ExprNode::Where { condition, .. } => {
                let message = "`where` belongs into a reduction: `sum(x where y > 3)`";
                self.refuse("E0134", condition.span, message)
            }
            ExprNode::Index { of, index } => self.row(of, index, span),
            ExprNode::Over { of, count, unit } => self.over(of, count, unit.as_ref(), span),
            ExprNode::At {
                of,
                place,
                place_span,
            } => self.at(of, place, *place_span, span),
            ExprNode::In { of, list } => self.in_list(of, list, span),
            ExprNode::Each {
                of,
                name,
                name_span,
                from,
                to,
            } => self.each(of, name, *name_span, from, to, span),
        }
    }

    /// Refuses what is available only in captures.
    fn in_program(&mut self, expr: &Expr) -> Option<Typed> {
        let (message, place) = match &expr.node {
            ExprNode::As {
                of,
                layout,
                layout_span,
            } if self.place == FormulaPosition::Capture => {
                return self.read(of, Some((layout, *layout_span)));
            }
            _ if self.place == FormulaPosition::Capture => return self.read(expr, None),
            ExprNode::As { layout_span, .. } => (
                "types in memory belong to what is read, under `capture`",
                *layout_span,
            ),
            _ => (
                "members and pointers are read in the program, under `capture`",
                expr.span,
            ),
        };
        self.refuse("E0134", place, message)
    }

    fn logic(&mut self, operator: Operator, left: &Expr, right: &Expr, span: Span) -> Option<Typed> {
        let (left, right) = (self.infer_boolean(left), self.infer_boolean(right));
        let (left, right) = (Box::new(left?), Box::new(right?));
        let type_of = Type::BOOLEAN.by(self.rows(&left, &right)?);
        let term = if operator == Operator::And {
            Term::Both(left, right)
        } else {
            Term::Either(left, right)
        };
        Some(Typed { term, type_of, span })
    }

    /// The row keys of two combined parts.
    pub(super) fn rows(&mut self, left: &Typed, right: &Typed) -> Option<Option<KeyKind>> {
        let rows = left.operand().rows(right.operand());
        rows.map_or_else(|wrong| self.report(wrong), Some)
    }

    fn literal(&mut self, digits: &str, unit: Option<&'static str>, span: Span) -> Option<Typed> {
        let value: f64 = digits
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .or_else(|| {
                self.refuse(
                    "E0120",
                    span,
                    format!("`{digits}` is not a number: expected one of at most about 1.8e308"),
                )
            })?;
        let unit = unit.and_then(unit_named);
        let of = Type::number(unit.map_or_else(Default::default, |unit| unit.dimension));
        let percent = unit.is_some_and(|unit| unit.name == "%");
        // Division keeps 30% equal to 30/100; multiplication by 0.01 would be off by one bit.
        let value = unit.map_or(value, |u| {
            if u.factor < 1.0 {
                value / (1.0 / u.factor).round()
            } else {
                value * u.factor
            }
        });
        Some(Typed::new(
            Type { percent, ..of },
            span,
            Term::Constant(Scalar::Number(value)),
        ))
    }

    fn infer_number(&mut self, expr: &Expr) -> Option<Typed> {
        let typed = self.infer(expr)?;
        match typed.type_of.kind {
            Kind::Number(_) => Some(typed),
            Kind::Boolean | Kind::Text => {
                let message = format!("a number is needed here, this is {}", typed.type_of.what());
                self.refuse("E0140", typed.span, message)
            }
        }
    }

    pub(crate) fn infer_boolean(&mut self, expr: &Expr) -> Option<Typed> {
        let typed = self.infer(expr)?;
        self.boolean(typed)
    }

    pub(crate) fn boolean(&mut self, typed: Typed) -> Option<Typed> {
        if typed.type_of.kind == Kind::Boolean {
            return Some(typed);
        }
        let message = format!("a condition is needed here, this is {}", typed.type_of.what());
        self.report(Diagnostic::wrong("E0140", typed.span, message).help("compare it: `… > 3`"))
    }

    fn call(&mut self, expr: &Expr, name: &str, name_span: Span, arguments: &[Expr]) -> Option<Typed> {
        if self.place == FormulaPosition::Capture && name == "arg" {
            return self.read(expr, None);
        }
        if self.place == FormulaPosition::Window
            && let Some(metric) = self.metric(name)
        {
            let metric = metric?;
            return self.call_metric(name, name_span, metric, arguments, expr.span);
        }
        let Some(function) = function_named(name) else {
            let near = did_you_mean(name, FUNCTIONS.iter().map(|function| function.name));
            let wrong = Diagnostic::wrong("E0133", name_span, format!("there is no function `{name}`"));
            return self.report(wrong.help_if(near));
        };
        if !function.arguments.contains(&arguments.len()) {
            let message = format!("`{name}` cannot take {} arguments", arguments.len());
            let help = format!("it is called as `{}`", function.usage);
            return self.report(Diagnostic::wrong("E0133", expr.span, message).help(help));
        }
        if let Some(reduction) = function.meaning.reduction(arguments.len()) {
            return self.reduction(reduction, arguments, None, expr.span);
        }
        match function.meaning {
            Meaning::Both(_, scalar) | Meaning::Scalar(scalar) => {
                self.apply(function, scalar, arguments, expr.span)
            }
            Meaning::Loads | Meaning::Has => self.about_process(function, arguments.first()?, expr.span),
            Meaning::Ewma => self.ewma(arguments, expr.span),
            Meaning::Changed => self.changed(arguments, expr.span),
            Meaning::Reduction(_) => None,
        }
    }

    fn at(&mut self, of: &Expr, place: &str, place_span: Span, span: Span) -> Option<Typed> {
        if self.place == FormulaPosition::Window {
            return self.at_boundary(of, place, place_span, span);
        }
        let message = "values at a hit are measured; they belong under `metrics` and `tune`";
        self.refuse("E0134", span, message)
    }

    fn about_process(&mut self, function: &FormulaFunction, argument: &Expr, span: Span) -> Option<Typed> {
        let name = function.name;
        if self.place != FormulaPosition::Role {
            let message = format!("`{name}` is a fact of a process and belongs under `roles`");
            return self.report(Diagnostic::wrong("E0134", span, message).help("declare a role with it"));
        }
        let term = match (function.meaning, &argument.node) {
            (Meaning::Loads, ExprNode::Text(glob)) => Term::Loads(glob.clone()),
            (Meaning::Has, ExprNode::Name(symbol) | ExprNode::Text(symbol)) => Term::Has(symbol.clone()),
            _ => {
                let message = format!("`{name}` is called as `{}`", function.usage);
                return self.refuse("E0140", argument.span, message);
            }
        };
        Some(Typed::new(Type::BOOLEAN, span, term))
    }

    fn apply(
        &mut self,
        function: &'static FormulaFunction,
        scalar: ScalarFunction,
        arguments: &[Expr],
        span: Span,
    ) -> Option<Typed> {
        let typed: Vec<Option<Typed>> = arguments
            .iter()
            .map(|argument| self.infer_number(argument))
            .collect();
        let typed: Vec<Typed> = typed.into_iter().collect::<Option<_>>()?;
        let operands: Vec<Operand> = typed.iter().map(Typed::operand).collect();
        match (scalar.type_rule)(&operands, span) {
            Ok(of) => Some(Typed::new(of, span, Term::Apply(function, typed))),
            Err(wrong) => self.report(wrong),
        }
    }
}
