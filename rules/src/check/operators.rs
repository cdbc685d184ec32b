//! The types of operators, and the errors for operands that do not fit.

use syntax::ast::{Comparison, Expr, ExprNode, Operator};
use syntax::diag::{Diagnostic, Span, names_help};
use syntax::unit::Dimension;

use super::infer::Infer;
use super::scope::is_reduction;
use crate::facts::MPI_LIBRARIES;
use crate::term::{Fact, Term, Typed};
use crate::types::{Kind, Type};
use crate::value::Scalar;

impl Infer<'_> {
    pub(super) fn arithmetic(
        &mut self,
        operator: Operator,
        left: Typed,
        right: Typed,
        span: Span,
    ) -> Option<Typed> {
        let (Kind::Number(a), Kind::Number(b)) = (left.type_of.kind, right.type_of.kind) else {
            return None;
        };
        let table = self.rows(&left, &right)?;
        let mut percent = false;
        let dimension = match operator {
            Operator::Multiply => a.times(b),
            Operator::Divide => a.over(b),
            Operator::Power => return self.power(left, right, span),
            _ if a == b => {
                percent = left.type_of.percent && right.type_of.percent;
                Some(a)
            }
            _ => {
                let verb = match operator {
                    Operator::Add => "add",
                    Operator::Subtract => "subtract",
                    _ => "divide with remainder",
                };
                let wrong = left.operand().different(verb, right.operand(), span);
                return self.report(wrong);
            }
        };
        let Some(dimension) = dimension else {
            return self.refuse("E0141", span, "the powers of the units grow too large");
        };
        let of = Type {
            table,
            percent,
            ..Type::number(dimension)
        };
        Some(Typed::new(
            of,
            span,
            Term::Arithmetic(operator, Box::new(left), Box::new(right)),
        ))
    }

    fn power(&mut self, left: Typed, right: Typed, span: Span) -> Option<Typed> {
        let (Kind::Number(base), Kind::Number(exponent)) = (left.type_of.kind, right.type_of.kind) else {
            return None;
        };
        if exponent != Dimension::NONE {
            let message = format!("an exponent must be a plain number, this is {exponent}");
            return self.refuse("E0141", right.span, message);
        }
        let dimension = if base == Dimension::NONE {
            Some(base)
        } else {
            integer_constant(&right).and_then(|exponent| base.power(exponent))
        };
        let Some(dimension) = dimension else {
            let message = format!("the exponent of {base} must be a small integer written out");
            return self.refuse("E0141", right.span, message);
        };
        let of = Type::number(dimension).by(self.rows(&left, &right)?);
        Some(Typed::new(
            of,
            span,
            Term::Arithmetic(Operator::Power, Box::new(left), Box::new(right)),
        ))
    }

    /// `x in [1, 2]` is `x == 1 or x == 2`.
    pub(super) fn in_list(&mut self, of: &Expr, list: &[Expr], span: Span) -> Option<Typed> {
        let mut overall: Option<Typed> = None;
        for part in list {
            let one = self.comparisons(of, &[(Comparison::Equal, part.clone())], span)?;
            overall = Some(match overall {
                None => one,
                Some(before) => {
                    let table = self.rows(&before, &one)?;
                    Typed::new(
                        Type::BOOLEAN.by(table),
                        span,
                        Term::Either(Box::new(before), Box::new(one)),
                    )
                }
            });
        }
        overall
    }

    /// `changed(x)` is `min(x) != max(x)`.
    pub(super) fn changed(&mut self, arguments: &[Expr], span: Span) -> Option<Typed> {
        let end = |function: &str| Expr {
            node: ExprNode::Call {
                function: function.to_string(),
                function_span: span,
                arguments: arguments.to_vec(),
            },
            span,
        };
        self.comparisons(&end("min"), &[(Comparison::Unequal, end("max"))], span)
    }

    /// Warns of `sum(a) / sum(b) by key`, in which the key applies only to the second reduction.
    pub(super) fn half_keyed(&mut self, left: &Expr, right: &Expr) {
        let probe = |expr: &Expr| match &expr.node {
            ExprNode::Call {
                function, arguments, ..
            } if is_reduction(function, arguments.len()) => {
                arguments.first().and_then(|argument| self.stream_of(argument))
            }
            _ => None,
        };
        let ExprNode::By { of, key, key_span } = &right.node else {
            return;
        };
        if probe(left).is_none() || probe(left) != probe(of) {
            return;
        }
        let message = format!("`by {key}` belongs to the second of these reductions alone");
        let wrong = Diagnostic::warning("E0157", message)
            .at(*key_span, "")
            .at(left.span, "this is one value for all rows");
        let help = format!("to divide row by row write `({left} by {key}) / ({of} by {key})`");
        self.wrong.push(wrong.help(help));
    }

    /// `a <= b < c` is `a <= b and b < c`.
    pub(super) fn comparisons(
        &mut self,
        first: &Expr,
        rest: &[(Comparison, Expr)],
        span: Span,
    ) -> Option<Typed> {
        let mut left_expr = first;
        let mut left = self.infer(first);
        let mut overall: Option<Typed> = None;
        for (comparison, right_expr) in rest {
            let right = self.infer(right_expr);
            let text = format!("{left_expr} {} {right_expr}", comparison.sign());
            let one = self.compare(*comparison, left?, right.clone()?, text)?;
            overall = Some(match overall {
                None => one,
                Some(before) => {
                    let of = Type::BOOLEAN.by(self.rows(&before, &one)?);
                    Typed::new(of, span, Term::Both(Box::new(before), Box::new(one)))
                }
            });
            (left_expr, left) = (right_expr, right);
        }
        overall
    }

    fn compare(&mut self, comparison: Comparison, left: Typed, right: Typed, text: String) -> Option<Typed> {
        let span = left.span.to(right.span);
        if left.type_of.kind != right.type_of.kind {
            let wrong = left.operand().different("compare", right.operand(), span);
            return self.report(wrong);
        }
        let equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
        if !equality && !matches!(left.type_of.kind, Kind::Number(_)) {
            let message = format!("`{}` is for numbers, these are not", comparison.sign());
            return self.report(Diagnostic::error("E0140", message).at(span, left.type_of.what()));
        }
        for (fact, other) in [(&left, &right), (&right, &left)] {
            if let (Term::Fact(Fact::Mpi), Term::Constant(Scalar::Text(name))) = (&fact.term, &other.term)
                && !MPI_LIBRARIES.contains(&name.as_str())
            {
                let known = names_help(name, MPI_LIBRARIES.iter().copied());
                let message = format!("no MPI library is called \"{name}\" here");
                return self.report(Diagnostic::wrong("E0130", other.span, message).help_if(known));
            }
        }
        let of = Type::BOOLEAN.by(self.rows(&left, &right)?);
        let (left, right) = (Box::new(left), Box::new(right));
        Some(Typed::new(
            of,
            span,
            Term::Compare {
                comparison,
                left,
                right,
                text,
            },
        ))
    }
}

fn integer_constant(of: &Typed) -> Option<i8> {
    match &of.term {
        Term::Constant(Scalar::Number(value)) if value.fract() == 0.0 && value.abs() <= 16.0 => {
            Some(*value as i8)
        }
        Term::Negate(inner) => integer_constant(inner).map(|value| -value),
        _ => None,
    }
}
