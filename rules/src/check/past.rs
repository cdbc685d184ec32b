//! Values of earlier windows: `x over 5`, `x[-1]`, `mean(x over run)`, `ewma(x, 0.4)`, and the range of a
//! fold over hits: `sum(x over iteration)`, `mean(x over 256 chunks)`.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span};

use super::infer::{Infer, MetricNames};
use crate::function::Reduction;
use crate::rule::{Run, RunFold};
use crate::term::{FoldRange, Term, Typed};
use crate::types::{KeyKind, Kind, Type};
use crate::value::Scalar;

/// Maximum number of newest hits in a fold.
const NEWEST_MAX: f64 = 1_000_000.0;
/// Maximum number of folds over the run in a rule.
const RUNS_MAX: usize = 64;

impl Infer<'_> {
    /// A metric with a value of its own: only these have earlier values.
    fn kept(&mut self, of: &Expr) -> Option<MetricNames> {
        let metric = match &of.node {
            ExprNode::Name(name) => self.metric(name),
            _ => None,
        };
        match metric {
            // An error in the metric itself was reported.
            Some(None) => None,
            Some(Some(metric)) if metric.body.is_none() => Some(metric),
            // The inference reports why it has no value of its own.
            Some(Some(_)) => self.infer(of).and(None),
            _ => {
                let message = "only metrics have earlier values";
                let help = "give it a name under `metrics`";
                self.report(Diagnostic::wrong("E0134", of.span, message).help(help))
            }
        }
    }

    /// `x over 5` outside of a reduction.
    pub(super) fn over(
        &mut self,
        of: &Expr,
        count: &Expr,
        unit: Option<&(String, Span)>,
        span: Span,
    ) -> Option<Typed> {
        if let Some(probe) = self.stream_of(of) {
            return self.hits_over(probe, count, unit, span);
        }
        if let Some((unit, index)) = unit {
            let message =
                format!("`{unit}` cannot be counted: what stands before `over` has no value for each hit");
            return self.refuse("E0134", *index, message);
        }
        if let ExprNode::Name(name) = &count.node
            && (name == "run" || self.names.window_named(name).is_some())
        {
            let message = format!("`over {name}` has no table of its own: it says what a reduction folds");
            let wrong = Diagnostic::wrong("E0134", span, message);
            return self.report(wrong.help(format!("for example `mean({of} over {name})`")));
        }
        let metric = self.kept(of)?;
        let count_of = self.infer(count)?;
        if metric.window != self.home {
            return self.metric_elsewhere(&of.to_string(), &metric, of.span);
        }
        if metric.type_of.table.is_some() {
            let message = "this has several values in each window, and earlier windows make one table of one value each";
            let help = "fold it first, under a name of its own; or take one window: `x[-1]`";
            return self.report(
                Diagnostic::error("E0143", message)
                    .at(of.span, "a table")
                    .help(help),
            );
        }
        let Some(count) = integer(&count_of, 1000.0) else {
            let message = "`over` is a constant number of windows: an integer of 1 to 1000";
            return self.refuse("E0145", count.span, message);
        };
        let result = metric.type_of.by(Some(KeyKind::Of(Type::PLAIN.kind)));
        let term = Term::Over {
            metric: metric.index,
            count,
        };
        Some(Typed::new(result, span, term))
    }

    /// Refuses hits outside of a reduction, because they cannot be a table.
    fn hits_over(
        &mut self,
        probe: usize,
        count: &Expr,
        unit: Option<&(String, Span)>,
        span: Span,
    ) -> Option<Typed> {
        let (name, _) = self.probe(probe)?;
        let (message, help) = match (unit, &count.node) {
            (None, ExprNode::Number { .. }) => (
                format!("these are hits of `{name}`, and `over` with a number alone counts windows"),
                format!("fold them first, under a name of its own; or count hits: `over {count} {name}`"),
            ),
            _ => (
                "this has a value for each hit".to_string(),
                "reduce it: `mean(x over …)`".to_string(),
            ),
        };
        self.report(Diagnostic::wrong("E0134", span, message).help(help))
    }

    /// The range of hits that `over` selects.
    pub(super) fn range(
        &mut self,
        probe: usize,
        count: &Expr,
        unit: Option<&(String, Span)>,
        span: Span,
    ) -> Option<FoldRange> {
        if let Some((unit, index)) = unit {
            let (name, _) = self.probe(probe)?;
            if unit != name && unit.strip_suffix('s') != Some(name) {
                let message = format!("`over` counts the hits that are folded, and these are of `{name}`");
                let wrong = Diagnostic::wrong("E0134", *index, message);
                return self.report(wrong.help(format!("`over {count} {name}`")));
            }
            let count_of = self.infer(count)?;
            let Some(found) = integer(&count_of, NEWEST_MAX) else {
                let message = "`over` is a constant number of hits: an integer of 1 to 1000000";
                return self.refuse("E0145", count.span, message);
            };
            return Some(FoldRange::Newest(found));
        }
        let ExprNode::Name(name) = &count.node else {
            self.hits_over(probe, count, unit, span);
            return None;
        };
        match self.names.window_named(name) {
            Some(window) if window == self.home => Some(FoldRange::Instance),
            Some(window) if self.names.encloses(window, self.home) => Some(FoldRange::Enclosing(window)),
            Some(_) => {
                let home = self.names.window_name(self.home).to_string();
                let message =
                    format!("the window {home}, in which this is evaluated, does not lie in `{name}`");
                self.refuse("E0147", count.span, message)
            }
            None if name == "run" => Some(FoldRange::Run),
            None => {
                let message = "`over` is a number of windows or hits, a window around this one, or `run`";
                self.refuse("E0145", count.span, message)
            }
        }
    }

    /// `mean(x over run)`: a fold over the values of a formula in every instance.
    pub(super) fn over_run(&mut self, reduction: Reduction, of: &Expr, span: Span) -> Option<Typed> {
        let of = self.once_each_instance(of)?;
        if let Reduction::Quantile(_) | Reduction::Slope | Reduction::Intercept = reduction {
            let message = "this cannot be carried on from instance to instance";
            let help = "the last ones can be kept: `quantile(x over 100, 95%)`";
            return self.report(Diagnostic::wrong("E0144", span, message).help(help));
        }
        if let Reduction::ArgMin | Reduction::ArgMax = reduction {
            let message = "argmin and argmax give the key of a row; over the run there are no rows";
            return self.refuse("E0134", span, message);
        }
        let result = self.folded(reduction, &of)?;
        self.run(of, None, RunFold::Reduce(reduction), result, span)
    }

    /// `ewma(x, 0.4)`, `ewma(x, 0.4 by key over run)`.
    pub(super) fn ewma(&mut self, arguments: &[Expr], span: Span) -> Option<Typed> {
        let [of, second] = arguments else { return None };
        let typed = self.once_each_instance(of)?;
        let Kind::Number(_) = typed.type_of.kind else {
            let message = format!("only numbers have a mean, this is {}", typed.type_of.what());
            return self.refuse("E0140", typed.span, message);
        };
        let second = match &second.node {
            ExprNode::Over {
                of,
                count,
                unit: None,
            } if matches!(&count.node, ExprNode::Name(name) if name == "run") => of,
            _ => second,
        };
        let (weight, by) = match &second.node {
            ExprNode::By { of, key, key_span } => {
                let key = Expr {
                    node: ExprNode::Name(key.clone()),
                    span: *key_span,
                };
                (&**of, Some(self.once_each_instance(&key)?))
            }
            _ => (second, None),
        };
        let weight_of = self.infer(weight)?;
        let weight = match weight_of.term {
            Term::Constant(Scalar::Number(weight))
                if weight_of.type_of.kind == Type::PLAIN.kind && weight > 0.0 && weight <= 1.0 =>
            {
                weight
            }
            _ => {
                let message = "the weight of the newest is a constant above 0 and at most 1";
                return self.refuse("E0145", weight_of.span, message);
            }
        };
        let result = typed
            .type_of
            .by(by.as_ref().map(|by| KeyKind::Of(by.type_of.kind)));
        self.run(typed, by, RunFold::Ewma(weight), result, span)
    }

    /// A formula with one value in each instance of the window.
    fn once_each_instance(&mut self, expr: &Expr) -> Option<Typed> {
        let typed = self.infer(expr)?;
        if typed.type_of.table.is_some() {
            let message = "this has several values in each instance, and one is carried on";
            let wrong = Diagnostic::error("E0143", message).at(typed.span, "a table");
            return self.report(wrong.help("fold it first: sum, mean, min, max"));
        }
        // A variable that is bound inside does not count.
        let depends = !self.variables.is_empty() || self.stream.is_some();
        if depends && typed.varies() {
            let message = "what is carried on over the run cannot depend on a parameter or a hit";
            return self.refuse("E0134", typed.span, message);
        }
        Some(typed)
    }

    fn run(
        &mut self,
        of: Typed,
        by: Option<Typed>,
        fold: RunFold,
        result: Type,
        span: Span,
    ) -> Option<Typed> {
        if self.place != super::infer::FormulaPosition::Window {
            return self.refuse("E0134", span, "a constant is needed here");
        }
        if self.runs.len() == RUNS_MAX {
            let message = format!("a rule may fold at most {RUNS_MAX} formulas over the run");
            return self.refuse("E0123", span, message);
        }
        let index = self.runs.len();
        self.runs.push(Run {
            window: self.home,
            of,
            by,
            fold,
            text: String::new(),
        });
        Some(Typed::new(result, span, Term::Run(index)))
    }

    /// `x[-1]`, for this window or an enclosing one.
    pub(super) fn earlier(&mut self, of: &Expr, back: f64, span: Span) -> Option<Typed> {
        let metric = self.kept(of)?;
        if back.fract() != 0.0 || !(1.0..=1000.0).contains(&back) {
            let message = "a metric is kept for 1 to 1000 windows: `x[-1]` is the one before";
            return self.refuse("E0145", span, message);
        }
        let back = back as u32;
        let MetricNames {
            index: metric_index,
            window,
            type_of,
            ..
        } = metric;
        let term = if window == self.home {
            Term::Earlier {
                metric: metric_index,
                back,
            }
        } else if self.names.encloses(window, self.home) {
            Term::Enclosing {
                metric: metric_index,
                window,
                back,
            }
        } else {
            return self.of_another_window(&of.to_string(), window, span);
        };
        Some(Typed::new(type_of, span, term))
    }
}

/// A constant integer from 1 to `most`.
fn integer(typed: &Typed, most: f64) -> Option<u32> {
    match typed.term {
        Term::Constant(Scalar::Number(value))
            if typed.type_of.kind == Type::PLAIN.kind
                && value.fract() == 0.0
                && (1.0..=most).contains(&value) =>
        {
            Some(value as u32)
        }
        _ => None,
    }
}
