//! The types of reductions: `sum(x)`, `count(role)`, `mean(send.duration) by process`.

use super::infer::{Infer, Place};
use crate::diag::{Diagnostic, Span};
use crate::file::Site;
use crate::function::{Meaning, Reduction, function_named};
use crate::lang::ast::{Expr, Node};
use crate::term::{Kind, Statistic, Term, Type, Typed};

impl Infer<'_> {
    /// `of by key`: keeps the rows that the reduction would fold.
    pub(crate) fn by(&mut self, of: &Expr, key: &str, key_span: Span, span: Span) -> Option<Typed> {
        if key != "process" {
            let message = format!("`by {key}` is not in this version");
            return self.report(
                Diagnostic::error("E0105", message)
                    .at(key_span, "")
                    .help("this version has `by process`"),
            );
        }
        if let Node::Call {
            function, arguments, ..
        } = &of.node
            && let [argument] = arguments.as_slice()
            && let Some(Meaning::Reduction(reduction) | Meaning::Both(reduction, _)) =
                function_named(function).map(|function| function.meaning)
        {
            return self.reduction(reduction, argument, true, span);
        }
        let message = "`by process` belongs behind a reduction";
        self.report(
            Diagnostic::error("E0134", message)
                .at(span, "")
                .help("for example `sum(mpi.time) by process`"),
        )
    }

    pub(crate) fn reduction(
        &mut self,
        reduction: Reduction,
        argument: &Expr,
        by: bool,
        span: Span,
    ) -> Option<Typed> {
        if self.place == Place::Window
            && let Node::Name(name) = &argument.node
        {
            if let Some(&role) = self.names.roles.get(name.as_str())
                && !self.names.metrics.contains_key(name.as_str())
            {
                return self.role(reduction, role, by, argument.span, span);
            }
            let base = name.split('.').next().unwrap_or(name);
            if let Some(&(probe, site)) = self.names.probes.get(base) {
                let field = &name[base.len()..];
                return self.hits(reduction, (probe, site, base, field), by, argument.span, span);
            }
        }
        if let Some((name, place)) = self.hits_inside(argument) {
            let message = format!("arithmetic on each hit of `{name}` is not in this version");
            let help = "reduce first, then calculate: `sum(x.duration) * 2`";
            return self.report(Diagnostic::error("E0105", message).at(place, "").help(help));
        }
        let of = self.infer(argument)?;
        self.table(reduction, of, by, span)
    }

    fn hits_inside<'e>(&self, expr: &'e Expr) -> Option<(&'e str, Span)> {
        // Hits that another reduction inside folds are no matter of this one.
        if let Node::Call { function, .. } = &expr.node
            && !matches!(
                function_named(function).map(|f| f.meaning),
                Some(Meaning::Scalar(_))
            )
        {
            return None;
        }
        if let Node::Name(name) = &expr.node {
            let probe = name.strip_suffix(".duration")?;
            return self
                .names
                .probes
                .contains_key(probe)
                .then_some((probe, expr.span));
        }
        expr.children()
            .into_iter()
            .find_map(|child| self.hits_inside(child))
    }

    fn role(
        &mut self,
        reduction: Reduction,
        role: usize,
        by: bool,
        place: Span,
        span: Span,
    ) -> Option<Typed> {
        if reduction == Reduction::Count && !by {
            return Some(Typed {
                term: Term::RoleCount(role),
                of: Type::PLAIN,
                span,
            });
        }
        let message = "the processes of a role can only be counted";
        self.report(
            Diagnostic::error("E0134", message)
                .at(place, "a role")
                .help("a measure of them: `sum(cpu.time)`"),
        )
    }

    fn hits(
        &mut self,
        reduction: Reduction,
        (probe, site, name, field): (usize, Site, &str, &str),
        by_process: bool,
        place: Span,
        span: Span,
    ) -> Option<Typed> {
        let duration = match field {
            "" => false,
            ".duration" => true,
            _ => {
                let message = format!("a hit of `{name}` has no `{}`", field.trim_start_matches('.'));
                return self.report(
                    Diagnostic::error("E0130", message)
                        .at(place, "")
                        .help("it has `duration`"),
                );
            }
        };
        if duration && site != Site::Span {
            let message = format!("`{name}` is not a span, and so its hits have no duration");
            let help = format!("declare it with `span:`, or count its hits: `count({name})`");
            return self.report(Diagnostic::error("E0134", message).at(place, "").help(help));
        }
        let statistic = match reduction {
            Reduction::Count => Statistic::Count,
            _ if !duration => {
                let message = format!("the hits of `{name}` can only be counted");
                let help = format!("of their durations: `mean({name}.duration)`");
                return self.report(
                    Diagnostic::error("E0134", message)
                        .at(place, "a probe")
                        .help(help),
                );
            }
            Reduction::Sum => Statistic::Sum,
            Reduction::Mean => Statistic::Mean,
            Reduction::Min => Statistic::Min,
            Reduction::Max => Statistic::Max,
        };
        let of = if statistic == Statistic::Count {
            Type::PLAIN
        } else {
            Type::TIME
        };
        let of = Type {
            table: by_process,
            ..of
        };
        Some(Typed {
            term: Term::Hits {
                probe,
                statistic,
                by_process,
            },
            of,
            span,
        })
    }

    fn table(&mut self, reduction: Reduction, of: Typed, by: bool, span: Span) -> Option<Typed> {
        if !of.of.table {
            let message = "this is a single value already: there is nothing to fold";
            return self.report(
                Diagnostic::error("E0144", message)
                    .at(of.span, "")
                    .help("leave the reduction out"),
            );
        }
        if !matches!(of.of.kind, Kind::Number(_)) && reduction != Reduction::Count {
            let message = format!("only numbers can be folded, these are {} each", of.of.what());
            return self.report(Diagnostic::error("E0140", message).at(of.span, ""));
        }
        if by {
            if reduction == Reduction::Count {
                let message = "counted by process, a table by process has 1 in every row";
                return self.report(
                    Diagnostic::error("E0144", message)
                        .at(span, "")
                        .help("leave `by process` out"),
                );
            }
            return Some(Typed { span, ..of });
        }
        let result = if reduction == Reduction::Count {
            Type::PLAIN
        } else {
            Type {
                table: false,
                ..of.of
            }
        };
        Some(Typed {
            term: Term::Reduce(reduction, Box::new(of)),
            of: result,
            span,
        })
    }
}
