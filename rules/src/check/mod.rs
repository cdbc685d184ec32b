//! From a [`RuleFile`] to a [`CheckedRule`]: resolves names, checks types, units and settings, and determines
//! the order of evaluation.
//!
//! What passes can be evaluated without further checks; everything else is reported with its place.

mod action;
mod called;
mod calls;
mod capture;
mod folds;
mod hits;
mod implied;
mod infer;
mod invocation;
mod join;
mod names;
mod operators;
mod order;
mod past;
mod plan;
mod reduce;
mod requirements;
mod resolve;
mod roles;
mod scope;
mod seen;
mod source;
#[cfg(test)]
mod tests;
mod tune;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use capture::READS_MAX;
use infer::{FormulaPosition, Infer, MetricNames, ProbeNames, RuleNames};
use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span, has_errors};
use syntax::parser::parse;
use syntax::template::{FormulaText, Part};
use syntax::text::Text;
use syntax::unit::Dimension;

use crate::eval::Context;
use crate::file::used::not_taken;
use crate::file::{MetricEntry, Named, RuleFile};
use crate::function::function_named;
use crate::measure::Measure;
use crate::plan::{Delivery, Plan};
use crate::requirements::Requirements;
use crate::rule::{CheckedProbe, CheckedRule, Filled, FilledPart, Metric, Role, Run, Tune};
use crate::term::{Fact, Term, Typed};
use crate::types::{Kind, Type};
use crate::value::{Scalar, show_cell};
use crate::window::Window;

impl RuleFile {
    /// Checks the rule. `overrides` replaces parameters (name to formula).
    ///
    /// # Errors
    /// All errors in its names, types, units and settings, in the order of the file; an error in an override
    /// is reported at the parameter that it replaces.
    pub fn check(&self, overrides: &BTreeMap<String, String>) -> Result<CheckedRule, Vec<Diagnostic>> {
        let file = self.with_implied();
        let mut checker = Checker {
            file: &file,
            names: RuleNames::default(),
            probe_roles: Vec::new(),
            runs: Vec::new(),
            wrong: Vec::new(),
        };
        checker.wrong.extend(not_taken(&file.uses));
        let rule = checker.rule(overrides);
        let mut wrong = checker.wrong;
        wrong.sort_by_key(|d| d.labels.first().map_or(0, |(span, _)| span.start));
        // A formula that is inferred for several windows has the same error in each; it is reported once.
        let mut said: Vec<Diagnostic> = Vec::new();
        wrong.retain(|one| {
            let is_new = !said.contains(one);
            said.extend(is_new.then(|| one.clone()));
            is_new
        });
        match rule {
            Some(mut rule) if !has_errors(&wrong) => {
                rule.warnings = wrong;
                rule.gather_folds();
                rule.plan_sums();
                rule.requirements = Requirements::of(&rule);
                Ok(rule)
            }
            _ => Err(wrong),
        }
    }
}

pub(crate) struct Checker<'a> {
    file: &'a RuleFile,
    names: RuleNames,
    /// For each probe, its role.
    probe_roles: Vec<usize>,
    /// Folds over the run, in order of evaluation.
    runs: Vec<Run>,
    wrong: Vec<Diagnostic>,
}

/// What is read of an entry that may be absent; the outer `None` if it is wrong.
fn optional<E, T>(entry: Option<E>, read: impl FnOnce(E) -> Option<T>) -> Option<Option<T>> {
    match entry {
        Some(entry) => read(entry).map(Some),
        None => Some(None),
    }
}

impl Checker<'_> {
    fn refuse<T>(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Option<T> {
        self.report(Diagnostic::wrong(code, span, message))
    }

    fn report<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.wrong.push(diagnostic);
        None
    }

    fn rule(&mut self, overrides: &BTreeMap<String, String>) -> Option<CheckedRule> {
        let file = self.file;
        self.name_clashes();
        let named_roles = file.roles.iter().enumerate();
        self.names.roles = named_roles.map(|(i, role)| (role.name.raw.clone(), i)).collect();
        let parameters = self.parameters(overrides);
        let mut roles: Vec<Role> = file.roles.iter().filter_map(|entry| self.role(entry)).collect();
        if file.roles.is_empty() {
            roles.push(Role::everybody());
            self.names.roles.insert(roles::EVERYBODY.to_string(), 0);
        }
        let mut probes: Vec<CheckedProbe> = Vec::new();
        for entry in &file.probes {
            probes.extend(self.probe(entry, &mut roles));
        }
        self.probe_roles = probes.iter().map(|probe| probe.role).collect();
        for (index, entry) in file.probes.iter().enumerate() {
            let names = ProbeNames {
                index,
                site: entry.site,
                captures: Vec::new(),
            };
            self.names.probes.insert(entry.name.raw.clone(), names);
        }
        self.captures(&mut probes);
        let joins = self.joins();
        let mut windows = self.windows();
        let mut metrics = self.metrics();
        self.conditions(&mut windows);
        let tunes = self.tunes();
        show_shares_in_percent(&mut metrics, &tunes);
        if has_errors(&self.wrong) {
            return None;
        }
        let runs = std::mem::take(&mut self.runs);
        keep_history(&mut windows, &metrics, &tunes, &runs);
        let mut rule = CheckedRule {
            source: file.source.clone(),
            gained: file.gained.clone(),
            must_be_named: file.must_be_named.is_some(),
            risk: file.must_be_named.as_ref().or(file.results.as_ref()).cloned(),
            priority: file.priority,
            parameters,
            roles,
            probes,
            joins,
            windows,
            metrics,
            runs,
            tunes,
            ..CheckedRule::empty(&file.name(), &file.about)
        };
        rule.plan = plan::plan(&rule);
        self.unused_probes(&rule.plan);
        Some(rule)
    }

    fn infer(&mut self, place: FormulaPosition) -> Infer<'_> {
        Infer {
            names: &self.names,
            place,
            proposed: None,
            home: 0,
            pairs_from: self.file.probes.len(),
            stream: None,
            variables: Vec::new(),
            cost: 0,
            reads: None,
            original: false,
            rows: None,
            calls: None,
            call_is: None,
            runs: &mut self.runs,
            wrong: &mut self.wrong,
        }
    }

    /// Infers formulas of a window.
    fn in_window(&mut self, home: usize) -> Infer<'_> {
        Infer {
            home,
            ..self.infer(FormulaPosition::Window)
        }
    }

    /// Requires unique names: the meaning of a formula must not depend on a search order.
    fn name_clashes(&mut self) {
        let file = self.file;
        let mut seen: BTreeMap<&str, (Span, &str)> = BTreeMap::new();
        let probes = file.probes.iter().filter(|n| !n.implied);
        let sections: [(&str, Vec<&Text>); 6] = [
            ("a parameter", file.parameters.iter().map(|n| &n.name).collect()),
            ("a role", file.roles.iter().map(|n| &n.name).collect()),
            ("a probe", probes.map(|n| &n.name).collect()),
            ("a join", file.joins.iter().map(|n| &n.name).collect()),
            ("a window", file.windows.iter().map(|n| &n.name).collect()),
            ("a metric", file.metrics.iter().map(|n| &n.named.name).collect()),
        ];
        for (what, names) in sections {
            for name in names {
                let raw = name.raw.as_str();
                let fact = what == "a parameter" && Fact::named(raw).is_some();
                let built_in =
                    Measure::named(raw).is_some() || function_named(raw).is_some() || raw == "value";
                if fact || built_in {
                    let message = format!("`{raw}` is built in and cannot be the name of {what}");
                    let wrong = Diagnostic::wrong("E0132", name.span, message);
                    let help = format!("choose another name, such as `{raw}_here`");
                    self.wrong.push(wrong.help(help));
                }
                if let Some((first, first_what)) = seen.insert(raw, (name.span, what)) {
                    let message = format!("`{raw}` is the name of {first_what} and of {what}");
                    let wrong = Diagnostic::error("E0132", message)
                        .at(name.span, "again here")
                        .at(first, "first here");
                    self.wrong.push(wrong);
                }
            }
        }
    }

    fn parameters(&mut self, overrides: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let file = self.file;
        for name in overrides
            .keys()
            .filter(|name| !file.parameters.iter().any(|p| p.name.raw == **name))
        {
            let near = syntax::diag::did_you_mean(name, file.parameters.iter().map(|p| p.name.raw.as_str()));
            let wrong = Diagnostic::error("E0130", format!("the rule has no parameter `{name}` to set"));
            self.wrong.push(wrong.at(file.name.span, "").help_if(near));
        }
        let mut given: Vec<Named> = Vec::new();
        for named in &file.parameters {
            let name = named.name.clone();
            let replaced = overrides.get(&name.raw);
            match replaced.map(|text| parse(&Text::elsewhere(text, name.span))) {
                None => given.push(named.clone()),
                Some(Ok(expr)) => given.push(Named { name, expr }),
                Some(Err(wrong)) => self.wrong.push(wrong),
            }
        }
        for named in &file.parameters {
            self.names.parameters.insert(named.name.raw.clone(), None);
        }
        let mut shown = Vec::new();
        for i in order::order(&given, &mut self.wrong) {
            let Some(named) = given.get(i) else { continue };
            let name = &named.name.raw;
            if self.counts_processes(&named.expr) {
                if let Some(counted) = self.counted(&named.expr) {
                    shown.push((name.clone(), named.expr.to_string()));
                    self.names.counted.insert(name.clone(), counted);
                }
                continue;
            }
            let declared = file.parameters.iter().find(|declared| declared.name.raw == *name);
            let replaced = declared.zip(overrides.get(name));
            if replaced.is_some_and(|(declared, text)| !self.fits(declared, &named.expr, text)) {
                continue;
            }
            if let Some((value, of)) = self.constant(&named.expr) {
                shown.push((name.clone(), show_cell(&Ok(value.clone()), of)));
                self.names.parameters.insert(name.clone(), Some((value, of)));
            }
        }
        shown
    }

    /// Whether a value given in place of the declared one is of its kind; otherwise that is reported, and not
    /// what follows from it.
    fn fits(&mut self, declared: &Named, given: &Expr, text: &str) -> bool {
        let known = self.wrong.len();
        let wanted = self.constant(&declared.expr);
        self.wrong.truncate(known);
        let found = self.constant(given);
        let has_other_mistake = self.wrong.iter().skip(known).any(|wrong| wrong.code != "E0130");
        let Some((value, wanted)) = wanted.filter(|_| !has_other_mistake) else {
            return true;
        };
        let (code, what) = match &found {
            Some((_, of)) if of.kind == wanted.kind => return true,
            Some((_, of)) => ("E0141", format!("is {}", of.what())),
            None => ("E0130", "is no value".to_owned()),
        };
        self.wrong.truncate(known);
        let (name, value) = (&declared.name.raw, show_cell(&Ok(value), wanted));
        let wanted = wanted.what();
        let message = format!("`{text}` {what}, and the parameter `{name}` is {wanted}, such as {value}");
        self.wrong.push(
            Diagnostic::error(code, message).at(declared.name.span, format!("{wanted}: {value} by default")),
        );
        false
    }

    fn counts_processes(&self, expr: &Expr) -> bool {
        let names = expr.names();
        let counted =
            |name: &str| self.names.roles.contains_key(name) || self.names.counted.contains_key(name);
        names.iter().any(|(name, _)| counted(name))
    }

    /// A single value from constants and counts of roles.
    fn counted(&mut self, expr: &Expr) -> Option<Typed> {
        let typed = self.single(expr, 0)?;
        let mut measured = false;
        typed.visit(&mut |term| {
            measured |= matches!(
                term,
                Term::Measure(_)
                    | Term::Hits { .. }
                    | Term::Fold(_)
                    | Term::WindowIndex
                    | Term::WindowDuration
            );
        });
        if !measured {
            return Some(typed);
        }
        let message = "a parameter is a constant, or counts the processes of roles; this is measured";
        self.report(Diagnostic::wrong("E0134", typed.span, message).help("give it a name under `metrics`"))
    }

    fn constant(&mut self, expr: &Expr) -> Option<(Scalar, Type)> {
        let typed = self.infer(FormulaPosition::Constant).infer(expr)?;
        match Context::default().eval(&typed).single() {
            Ok(value) => Some((value, typed.type_of)),
            Err(reason) => {
                let message = format!("this constant has no value: {reason}");
                self.refuse("E0142", typed.span, message)
            }
        }
    }

    /// A constant number of `dimension`; `what` names the setting.
    fn setting(&mut self, expr: &Expr, dimension: Dimension, what: &str) -> Option<f64> {
        let (value, of) = self.constant(expr)?;
        match (value, of.kind) {
            (Scalar::Number(value), Kind::Number(found)) if found == dimension => Some(value),
            _ => {
                let message = format!("`{what}` must be {dimension}, this is {}", of.what());
                self.refuse("E0141", expr.span, message)
            }
        }
    }

    fn metrics(&mut self) -> Vec<Metric> {
        let file = self.file;
        let definitions: Vec<Named> = file.metrics.iter().map(|entry| entry.named.clone()).collect();
        let order = order::order(&definitions, &mut self.wrong);
        for entry in &file.metrics {
            // A metric in a cycle has no value in any window; that was reported.
            let home = scope::MetricScope::Fixed(usize::MAX);
            self.names.scopes.insert(entry.named.name.raw.clone(), home);
        }
        let scopes = self.scopes(&order);
        let mut metrics: Vec<Metric> = Vec::new();
        for entry in order.into_iter().filter_map(|place| file.metrics.get(place)) {
            self.parameter_clash(entry);
            for window in scopes.get(&entry.named.name.raw).into_iter().flatten() {
                self.metric(entry, *window, &mut metrics);
            }
        }
        metrics
    }

    /// Infers a metric for a window.
    fn metric(&mut self, entry: &MetricEntry, window: usize, metrics: &mut Vec<Metric>) {
        let named = &entry.named;
        let key = (named.name.raw.clone(), window);
        self.names.metrics.insert(key.clone(), None);
        let mut infer = self.in_window(window);
        infer
            .variables
            .extend(entry.parameter.iter().map(|name| name.raw.clone()));
        let stream = infer
            .stream_of(&named.expr)
            .filter(|probe| !infer.is_boundary(*probe));
        let (of, range) = match (&named.expr.node, stream) {
            (ExprNode::Over { of, count, unit }, Some(probe)) => {
                match infer.range(probe, count, unit.as_ref(), named.expr.span) {
                    Some(range) => (&**of, Some(range)),
                    None => return,
                }
            }
            _ => (&named.expr, stream.and_then(|_| infer.range_inside(&named.expr))),
        };
        infer.stream = stream;
        let value = infer.infer(of);
        let cost = infer.cost;
        let Some(value) = value else { return };
        let is_called = entry.parameter.is_some() || stream.is_some();
        let names = MetricNames {
            index: metrics.len(),
            window,
            type_of: value.type_of,
            cost,
            body: is_called.then(|| Arc::new(value.clone())),
            stream,
            range,
        };
        self.names.metrics.insert(key, Some(names));
        metrics.push(Metric {
            name: named.name.raw.clone(),
            window,
            is_called,
            value,
        });
    }

    /// A parameter must not shadow a name: otherwise a formula would have different meanings inside and
    /// outside of a metric.
    fn parameter_clash(&mut self, entry: &MetricEntry) {
        let Some(parameter) = &entry.parameter else { return };
        let raw = parameter.raw.as_str();
        let named = |names: &[Named]| names.iter().any(|named| named.name.raw == raw);
        let metric = self.file.metrics.iter().any(|other| other.named.name.raw == raw);
        if metric || named(&self.file.parameters) || Measure::named(raw).is_some() {
            let message = format!("`{raw}` is the name of something else already");
            self.wrong
                .push(Diagnostic::wrong("E0132", parameter.span, message));
        }
    }

    /// A formula with one value for the window.
    fn single(&mut self, expr: &Expr, home: usize) -> Option<Typed> {
        let typed = self.in_window(home).infer(expr)?;
        self.one_value(typed)
    }

    fn one_value(&mut self, typed: Typed) -> Option<Typed> {
        if typed.type_of.table.is_none() {
            return Some(typed);
        }
        let help = "fold it: sum, mean, min, max";
        let message = "one value is needed here, this has several";
        self.report(
            Diagnostic::error("E0143", message)
                .at(typed.span, "a table")
                .help(help),
        )
    }

    fn template(&mut self, template: &FormulaText, home: usize) -> Filled {
        let mut parts = Vec::new();
        for part in &template.parts {
            match part {
                Part::Literal(text) => parts.push(FilledPart::Literal(text.clone())),
                Part::Formula { expr, percent } => {
                    if let Some(mut typed) = self.single(expr, home) {
                        typed.type_of.percent |= *percent;
                        parts.push(FilledPart::Value(typed));
                    }
                }
            }
        }
        Filled(parts)
    }

    fn unused_probes(&mut self, plan: &Plan) {
        for (entry, planned) in self.file.probes.iter().zip(&plan.probes) {
            if !entry.implied && planned.delivers == Delivery::Nothing {
                let message = format!("the probe `{}` is used by no metric and no tune", entry.name.raw);
                self.wrong
                    .push(Diagnostic::warning("E0152", message).at(entry.name.span, ""));
            }
        }
    }
}

/// Determines how far back the formulas of each window refer.
fn keep_history(windows: &mut [Window], metrics: &[Metric], tunes: &[Tune], runs: &[Run]) {
    let of_metrics = metrics.iter().map(|metric| (metric.window, &metric.value));
    let of_tunes = tunes
        .iter()
        .flat_map(|tune| tune.formulas().into_iter().map(|of| (tune.trigger.window(), of)));
    let of_runs = runs.iter().map(|run| (run.window, &run.of));
    for (home, formula) in of_metrics.chain(of_tunes).chain(of_runs) {
        formula.visit(&mut |term| {
            let (window, back) = match term {
                Term::Over { count, .. } => (home, count.saturating_sub(1)),
                Term::Earlier { back, .. } => (home, *back),
                Term::Enclosing { window, back, .. } => (*window, *back),
                _ => return,
            };
            if let Some(window) = windows.get_mut(window) {
                window.history = window.history.max(back as usize);
            }
        });
    }
}

/// Displays a metric in percent if a condition, or a metric, compares it with a percentage.
fn show_shares_in_percent(metrics: &mut [Metric], tunes: &[Tune]) {
    let mut shares = Vec::new();
    let conditions = tunes.iter().filter_map(|tune| tune.when.as_ref());
    for condition in conditions.chain(metrics.iter().map(|metric| &metric.value)) {
        condition.visit(&mut |term| {
            if let Term::Compare { left, right, .. } = term {
                for (side, other) in [(left, right), (right, left)] {
                    if let (Term::Metric(index), true) = (&side.term, other.type_of.percent) {
                        shares.push(*index);
                    }
                }
            }
        });
    }
    for index in shares {
        if let Some(metric) = metrics.get_mut(index) {
            metric.value.type_of.percent = true;
        }
    }
}
