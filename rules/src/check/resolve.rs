//! Resolves names, depending on the kind of the formula; explains names that have no meaning there.

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span, names_help};
use syntax::unit::unit_named;

use super::infer::{FormulaPosition, Infer};
use crate::measure::{Measure, Scope as MeasureScope};
use crate::term::{Fact, Term, Typed};
use crate::types::{KeyKind, Type};

impl Infer<'_> {
    pub(super) fn name(&mut self, name: &str, span: Span) -> Option<Typed> {
        let typed = |term, type_of| Some(Typed { term, type_of, span });
        if let Some(counted) = self.names.counted.get(name) {
            if self.place == FormulaPosition::Window {
                return typed(counted.term.clone(), counted.type_of);
            }
            let message = format!("`{name}` counts processes, and a constant is needed here");
            return self.refuse("E0134", span, message);
        }
        if let Some(parameter) = self.names.parameters.get(name) {
            let (value, of) = parameter.clone()?;
            return typed(Term::Constant(value), of);
        }
        if let (Some(of), "value") = (self.proposed, name) {
            return typed(Term::Proposed, of);
        }
        if self.original && name == "original" {
            return typed(Term::Original, Type::PLAIN);
        }
        if name == "call"
            && let Some(call) = self.call_name(span)
        {
            return call;
        }
        if let Some(key) = self.key_of_row(name, span) {
            return key;
        }
        if self.place == FormulaPosition::Role
            && let Some(fact) = Fact::named(name)
        {
            return typed(Term::Fact(fact), fact.type_of());
        }
        if let Some(depth) = self.variables.iter().position(|variable| variable == name) {
            return typed(Term::Variable(depth), Type::PLAIN);
        }
        if let Some(part) = self.part_of_hit(name, span) {
            return part;
        }
        if self.place == FormulaPosition::Capture {
            let name = Expr {
                node: ExprNode::Name(name.to_string()),
                span,
            };
            return self.read(&name, None);
        }
        if self.place == FormulaPosition::Window
            && let Some(known) = self.of_window(name, span)
        {
            return known;
        }
        let unknown = self.unknown_name(name, span);
        self.report(unknown)
    }

    /// A measurement or result of the window; the inner `None` if `name` is neither.
    fn of_window(&mut self, name: &str, span: Span) -> Option<Option<Typed>> {
        let typed = |term, type_of| Some(Some(Typed { term, type_of, span }));
        if let Some(metric) = self.metric(name) {
            let Some(metric) = metric else {
                return Some(None);
            };
            if metric.stream.is_some() {
                let message = format!("`{name}` has a value for each hit");
                let wrong = Diagnostic::wrong("E0134", span, message);
                return Some(self.report(wrong.help(format!("reduce it: `sum({name})`, `mean({name})`"))));
            }
            if metric.body.is_some() {
                let message = format!("`{name}` has a parameter and no value without it");
                let wrong = Diagnostic::wrong("E0133", span, message);
                return Some(self.report(wrong.help(format!("call it: `{name}(3)`"))));
            }
            if metric.window != self.home {
                return Some(self.metric_elsewhere(name, &metric, span));
            }
            return typed(Term::Metric(metric.index), metric.type_of);
        }
        if let Some(measure) = Measure::named(name) {
            if let Some(of_calls) = self.measure_of_calls(measure, span) {
                return Some(of_calls);
            }
            let table = (measure.scope() == MeasureScope::Process).then_some(KeyKind::Process);
            let of = Type::number(measure.dimension()).by(table);
            return typed(Term::Measure(measure), of);
        }
        if let Some(of_window) = self.of_window_itself(name, span) {
            return Some(of_window);
        }
        self.of_boundary(name, span)
    }

    fn unknown_name(&self, name: &str, span: Span) -> Diagnostic {
        let elsewhere = |message: &str, help: &str| {
            Diagnostic::wrong("E0134", span, format!("`{name}` {message}")).help(help)
        };
        let base = name.split('.').next().unwrap_or(name);
        if let "peer" | "communicator" = name {
            let message = format!("`{name}` of an MPI call is not in this version");
            return Diagnostic::wrong("E0105", span, message)
                .help("this version has `call`, the name of the function");
        }
        if name == "call" {
            return elsewhere(
                "is which MPI function was called, in the `where` of a measure of MPI",
                "`sum(mpi.time where call == \"MPI_Barrier\")`",
            );
        }
        if self.place == FormulaPosition::Window && self.names.window_named(name).is_some() {
            return elsewhere(
                "is a window and has no value of its own",
                &format!("`{name}.duration`, `{name}.index`, or its instances: `count({name})`"),
            );
        }
        if self.place == FormulaPosition::Window && self.names.roles.contains_key(name) {
            return elsewhere(
                "is a role and has no value of its own",
                &format!("its processes: `count({name})`"),
            );
        }
        if self.place == FormulaPosition::Window && self.names.probes.contains_key(base) && base == name {
            return elsewhere(
                "is a probe and has no value of its own",
                &format!("its hits: `count({name})`"),
            );
        }
        if self.place == FormulaPosition::Window && self.names.probes.contains_key(base) {
            return elsewhere(
                "has a value for each hit",
                &format!("reduce it: `sum({name})`, `mean({name})`"),
            );
        }
        if self.place != FormulaPosition::Role && Fact::named(name).is_some() {
            return elsewhere(
                "is known of a process, and only under `roles`",
                "declare a role with it",
            );
        }
        let measured = Measure::named(name).is_some() || self.names.scopes.contains_key(name);
        if self.place == FormulaPosition::Role && measured {
            return elsewhere(
                "is measured, and roles are decided before",
                "roles use facts: mpi, rank, size, exe, loads, has",
            );
        }
        if self.place == FormulaPosition::Constant && (measured || self.names.roles.contains_key(name)) {
            return elsewhere(
                "is measured, and a constant is needed here",
                "give it a name under `metrics`",
            );
        }
        let unit =
            unit_named(name).map(|_| format!("a unit follows a number: `1{name}`, as in `5 / 1{name}`"));
        let near = || names_help(name, self.known().iter().map(String::as_str));
        Diagnostic::wrong("E0130", span, format!("there is no `{name}`")).help_if(unit.or_else(near))
    }

    pub(super) fn known(&self) -> Vec<String> {
        let mut known: Vec<String> = self.names.parameters.keys().cloned().collect();
        match self.place {
            FormulaPosition::Constant | FormulaPosition::Capture => {}
            FormulaPosition::Role => known.extend(Fact::ALL.map(|fact| fact.name().to_owned())),
            FormulaPosition::Window => {
                known.extend(self.names.scopes.keys().cloned());
                known.extend(Measure::ALL.iter().map(|measure| measure.name().to_string()));
                let windows = self.names.windows.iter().map(|window| &window.name);
                known.extend(
                    windows.flat_map(|window| [format!("{window}.duration"), format!("{window}.index")]),
                );
                known.extend(self.names.probes.keys().map(|probe| format!("{probe}.duration")));
            }
        }
        if self.proposed.is_some() {
            known.push("value".to_string());
        }
        known
    }
}
