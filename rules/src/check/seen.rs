//! References of formulas to other windows: metrics and instances of inner windows; data so far, boundaries
//! and earlier instances of enclosing windows; and values at a hit.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span};

use super::infer::{Infer, MetricNames, RuleNames};
use crate::measure::{Measure, Scope};
use crate::term::{FoldRange, Term, Typed};
use crate::types::{KeyKind, Type};

impl Infer<'_> {
    /// A metric of another window.
    pub(super) fn metric_elsewhere(&mut self, name: &str, metric: &MetricNames, span: Span) -> Option<Typed> {
        let (home, window) = (self.home, metric.window);
        if self.names.encloses(home, window) {
            if metric.type_of.table.is_some() {
                let message =
                    format!("`{name}` is a table in each of the instances, and they would be rows too");
                let wrong = Diagnostic::wrong("E0143", span, message);
                return self.report(wrong.help("fold it in its own window first, under a name of its own"));
            }
            let metric_of = metric.type_of.by(Some(KeyKind::Of(Type::PLAIN.kind)));
            let term = Term::Inner {
                metric: metric.index,
                window,
            };
            return Some(Typed::new(metric_of, span, term));
        }
        if self.names.encloses(window, home) {
            let message = format!(
                "`{name}` is of the window {}, whose instance is still open",
                self.names.window_name(window)
            );
            let wrong = Diagnostic::wrong("E0147", span, message);
            return self.report(wrong.help(format!("it is not closed yet: `{name}[-1]` is the one before")));
        }
        self.of_another_window(name, window, span)
    }

    pub(super) fn of_another_window(&mut self, name: &str, window: usize, span: Span) -> Option<Typed> {
        let message = format!(
            "`{name}` is of the window {}, and this formula of {}",
            self.names.window_name(window),
            self.names.window_name(self.home)
        );
        self.refuse("E0147", span, message)
    }

    /// `iteration.index`, `iteration.duration`; the inner `None` if `name` is neither.
    pub(super) fn of_window_itself(&mut self, name: &str, span: Span) -> Option<Option<Typed>> {
        let (window, part) = name.split_once('.')?;
        let place = self.names.window_named(window)?;
        let typed = |term, type_of| Some(Some(Typed { term, type_of, span }));
        match (part, place == self.home, self.names.encloses(place, self.home)) {
            ("duration", true, _) => typed(Term::WindowDuration, Type::TIME),
            ("index", true, _) => typed(Term::WindowIndex, Type::PLAIN),
            ("index", false, true) => typed(Term::EnclosingIndex(place), Type::PLAIN),
            ("duration", false, true) => {
                let message = format!("`{window}` is not closed yet, and its duration not known");
                Some(self.refuse("E0147", span, message))
            }
            ("duration" | "index", false, false) => Some(self.of_another_window(name, place, span)),
            _ => None,
        }
    }

    /// The range of a boundary's hits that a formula may use as a single value: boundaries of its own window
    /// and of enclosing ones.
    pub(super) fn range_of_boundary(&self, probe: usize) -> Option<FoldRange> {
        let bordered = |window: usize| {
            let window = self.names.windows.get(window);
            window.is_some_and(|window| window.boundaries.contains(&probe))
        };
        if bordered(self.home) {
            return Some(FoldRange::Instance);
        }
        let around = self.names.around(self.home).into_iter();
        around
            .map(Some)
            .find(|window| window.is_some_and(bordered))
            .flatten()
            .map(FoldRange::Enclosing)
    }

    /// `count(batches)`: the number of instances of an inner window that closed within this one.
    pub(super) fn count_of_instances(&mut self, window: usize, span: Span) -> Option<Typed> {
        if self.names.encloses(self.home, window) {
            return Some(Typed::new(Type::PLAIN, span, Term::InnerCount(window)));
        }
        let (name, home) = (self.names.window_name(window), self.names.window_name(self.home));
        let message = format!(
            "the instances of `{name}` are counted in a window that it lies in, and this formula is of {home}"
        );
        self.report(
            Diagnostic::wrong("E0147", span, message).help("say the outer window: `{in: …, value: …}`"),
        )
    }

    /// `cpu.time at iteration.end`.
    pub(super) fn at_boundary(
        &mut self,
        of: &Expr,
        place: &str,
        place_span: Span,
        span: Span,
    ) -> Option<Typed> {
        let measure = match &of.node {
            ExprNode::Name(name) => Measure::named(name),
            _ => None,
        };
        let Some(measure) = measure else {
            let message = "only a measure has a value at a hit";
            let help =
                "for example `memory.resident at iteration.end`; what a hit captures is one of its parts";
            return self.report(Diagnostic::wrong("E0134", of.span, message).help(help));
        };
        let probe = match self.names.boundary_named(place, self.home) {
            Some(probe) => probe,
            None => {
                let name = self.names.window_name(self.home);
                let message = format!("`{place}` is not a boundary of the window {name}");
                let help = format!(
                    "`{name}.begin`, `{name}.end`, or the name of the probe, if its hits are the boundaries"
                );
                return self.report(Diagnostic::wrong("E0147", place_span, message).help(help));
            }
        };
        let table = (measure.scope() == Scope::Process).then_some(KeyKind::Process);
        let type_of = Type::number(measure.dimension()).by(table);
        let term = Term::At { measure, probe };
        Some(Typed { term, type_of, span })
    }
}

impl RuleNames {
    pub(super) fn window_name(&self, window: usize) -> &str {
        self.windows.get(window).map_or("", |window| window.name.as_str())
    }

    pub(super) fn window_named(&self, name: &str) -> Option<usize> {
        self.windows.iter().position(|window| window.name == name)
    }

    /// The probe of a boundary of `home`, by its own name, or as `iteration.begin` and `iteration.end`.
    fn boundary_named(&self, place: &str, home: usize) -> Option<usize> {
        let window = self.windows.get(home)?;
        if let Some((name, end)) = place.rsplit_once('.')
            && name == window.name
        {
            return match end {
                "begin" => window.begin,
                "end" => window.end,
                probe => self
                    .probes
                    .get(probe)
                    .map(|probe| probe.index)
                    .filter(|probe| window.boundaries.contains(probe)),
            };
        }
        let probe = self.probes.get(place)?.index;
        window.boundaries.contains(&probe).then_some(probe)
    }
}
