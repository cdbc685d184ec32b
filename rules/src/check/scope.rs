//! Infers the window of a formula: the window that it names, else that of its metrics and of the windows it
//! refers to, else the innermost window of its hits. A formula that refers to no window, but to a history,
//! floats: it belongs to every window that uses it.

use std::collections::{BTreeMap, BTreeSet};

use syntax::ast::{Expr, ExprNode};
use syntax::diag::{Diagnostic, Span};
use syntax::text::Text;

use super::Checker;
use super::infer::RuleNames;
use crate::file::{MetricEntry, TuneEntry};
use crate::function::{Meaning, function_named};
use crate::measure::Measure;

/// The scope of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricScope {
    Fixed(usize),
    /// Every window whose formulas use it: it has a value for each hit, or folds a history.
    Floating {
        /// Its hits belong to no particular instance.
        history: bool,
        each_hit: bool,
    },
}

/// The properties of a formula that determine its window.
#[derive(Default)]
struct Seen {
    /// It folds the newest hits, or those of the entire run.
    history: bool,
    /// It has a value in one window only.
    pinned: bool,
}

impl Checker<'_> {
    /// Infers the scopes of all metrics, in order; returns for each name the windows in which it is
    /// evaluated.
    pub(super) fn scopes(&mut self, order: &[usize]) -> BTreeMap<String, BTreeSet<usize>> {
        let file = self.file;
        let mut wanted: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for entry in order.iter().filter_map(|place| file.metrics.get(*place)) {
            if let Some(home) = self.home_of_metric(entry) {
                self.names.scopes.insert(entry.named.name.raw.clone(), home);
            }
        }
        let mut uses: Vec<(&Expr, usize)> = Vec::new();
        for (place, window) in file.windows.iter().enumerate() {
            let conditions = window.complete.iter().map(|named| &named.expr);
            let conditions = conditions.chain(&window.discard).chain(&window.until);
            uses.extend(conditions.map(|expr| (expr, place)));
        }
        let before = self.wrong.len();
        for tune in &file.tunes {
            let home = self.trigger(tune).map_or(0, |trigger| trigger.window());
            uses.extend(tune.exprs().into_iter().map(|expr| (expr, home)));
        }
        // The check of tunes reports these errors.
        self.wrong.truncate(before);
        for (expr, home) in uses {
            self.want(expr, home, &mut wanted);
        }
        // In reverse order of evaluation, so that all uses of a metric are known.
        for entry in order.iter().rev().filter_map(|place| file.metrics.get(*place)) {
            let (name, expr) = (&entry.named.name.raw, &entry.named.expr);
            match self.names.scopes.get(name) {
                Some(MetricScope::Fixed(home)) => {
                    wanted.insert(name.clone(), BTreeSet::from([*home]));
                }
                Some(MetricScope::Floating { .. }) if !wanted.contains_key(name) => {
                    let home = self.names.named_window(&[expr]).unwrap_or(0);
                    wanted.insert(name.clone(), BTreeSet::from([home]));
                }
                Some(MetricScope::Floating { .. }) => {}
                None => continue,
            }
            for home in wanted.get(name).cloned().unwrap_or_default() {
                self.want(expr, home, &mut wanted);
            }
        }
        wanted
    }

    /// Records that the floating metrics of a formula are evaluated in its window.
    fn want(&self, expr: &Expr, home: usize, wanted: &mut BTreeMap<String, BTreeSet<usize>>) {
        for (name, _) in expr.names() {
            if let Some(MetricScope::Floating { .. }) = self.names.scopes.get(name) {
                wanted.entry(name.to_string()).or_default().insert(home);
            }
        }
    }

    fn home_of_metric(&mut self, entry: &MetricEntry) -> Option<MetricScope> {
        let expr = &entry.named.expr;
        if let Some(name) = &entry.window {
            return self.window_named(name).map(MetricScope::Fixed);
        }
        if self.names.windows.len() <= 1 {
            return Some(MetricScope::Fixed(0));
        }
        let each_hit = !self.names.hits_of(expr).is_empty();
        let mut seen = Seen::default();
        self.names.see(expr, false, &mut seen);
        if entry.parameter.is_none() && (each_hit || (seen.history && !seen.pinned)) {
            let history = seen.history;
            return Some(MetricScope::Floating { history, each_hit });
        }
        self.home(None, &[expr], entry.named.name.span)
            .map(MetricScope::Fixed)
    }

    /// The window of formulas.
    pub(super) fn home(&mut self, named: Option<&Text>, formulas: &[&Expr], place: Span) -> Option<usize> {
        if let Some(name) = named {
            return self.window_named(name);
        }
        if self.names.windows.len() <= 1 {
            return Some(0);
        }
        if let Some(home) = self.names.named_window(formulas) {
            return Some(home);
        }
        let names = formulas.iter().flat_map(|expr| expr.names());
        let probe = |(name, _): (&str, Span)| {
            let base = name.split('.').next().unwrap_or(name);
            self.names.probes.get(base).map(|probe| probe.index)
        };
        let probes: Vec<usize> = names.filter_map(probe).collect();
        if let Some(home) = self.innermost_of(&probes) {
            return Some(home);
        }
        let windows: Vec<&str> = self
            .names
            .windows
            .iter()
            .map(|window| window.name.as_str())
            .collect();
        let message = format!("this could be in any of the windows {}", windows.join(", "));
        let help = "say it: `name: {in: window, value: …}` for a metric, `every: window` in a tune";
        self.report(Diagnostic::wrong("E0147", place, message).help(help))
    }

    pub(super) fn home_of_tune(&mut self, entry: &TuneEntry) -> Option<usize> {
        let formulas: Vec<&Expr> = [&entry.when, &entry.while_holds, &entry.value]
            .into_iter()
            .flatten()
            .collect();
        self.home(entry.every.as_ref(), &formulas, entry.span)
    }

    /// The innermost window to whose instances the hits of all these probes belong.
    pub(super) fn innermost_of(&self, probes: &[usize]) -> Option<usize> {
        let windows = || (0..self.names.windows.len()).filter(|place| !self.names.is_timed(*place));
        let has = |window: usize, probe: &usize| self.names.places(window, *probe);
        let mut found: Vec<usize> = windows()
            .filter(|window| probes.iter().any(|probe| has(*window, probe)))
            .collect();
        if found.is_empty() && !probes.is_empty() {
            // They belong by time, to all nested windows.
            found = windows().collect();
            if found.len() < self.names.windows.len() {
                return None;
            }
        }
        self.names.innermost(&found)
    }
}

impl RuleNames {
    pub(super) fn is_timed(&self, window: usize) -> bool {
        self.windows.get(window).is_some_and(|window| window.timed)
    }

    /// Whether a window places hits of a probe by a key, or has them as boundaries.
    fn places(&self, window: usize, probe: usize) -> bool {
        self.windows.get(window).is_some_and(|window| {
            let keyed = window
                .keys
                .as_ref()
                .and_then(|keys| keys.get(probe).copied().flatten());
            window.boundaries.contains(&probe) || keyed.is_some()
        })
    }

    /// Whether a window encloses another, at any depth.
    pub(super) fn encloses(&self, outer: usize, inner: usize) -> bool {
        self.around(inner).contains(&outer)
    }

    /// The windows that enclose a window, the innermost first.
    pub(super) fn around(&self, window: usize) -> Vec<usize> {
        let mut out = Vec::new();
        let mut next = self.windows.get(window).and_then(|window| window.within);
        while let Some(outer) = next.filter(|outer| !out.contains(outer)) {
            out.push(outer);
            next = self.windows.get(outer).and_then(|window| window.within);
        }
        out
    }

    /// The window that lies in all the others; `None` if they are not nested.
    fn innermost(&self, windows: &[usize]) -> Option<usize> {
        let within_all = |window: &&usize| {
            let mut others = windows.iter().filter(|other| other != window);
            others.all(|other| other == *window || self.encloses(*other, **window))
        };
        windows.iter().find(within_all).copied()
    }

    /// The window of the metrics, windows and boundaries that formulas name; of nested windows the innermost,
    /// else the first.
    pub(super) fn named_window(&self, formulas: &[&Expr]) -> Option<usize> {
        let mut found = Vec::new();
        formulas.iter().for_each(|expr| self.windows_in(expr, &mut found));
        self.innermost(&found).or(found.first().copied())
    }

    fn windows_in(&self, expr: &Expr, out: &mut Vec<usize>) {
        match &expr.node {
            // The number of instances of a window is known in the enclosing one.
            ExprNode::Call {
                function, arguments, ..
            } if function == "count" => {
                if let [
                    Expr {
                        node: ExprNode::Name(name),
                        ..
                    },
                ] = arguments.as_slice()
                    && let Some(window) = self.window_named(name)
                {
                    out.extend(self.windows.get(window).and_then(|window| window.within));
                    return;
                }
            }
            ExprNode::Over { of, .. } => return self.windows_in(of, out),
            ExprNode::Name(name) | ExprNode::At { place: name, .. } => {
                let base = name.split('.').next().unwrap_or(name);
                match self.scopes.get(name.as_str()) {
                    Some(MetricScope::Fixed(window)) => out.push(*window),
                    Some(MetricScope::Floating { .. }) => {}
                    None => out.extend(self.window_named(base)),
                }
                let probe = self.probes.get(base).map(|probe| probe.index);
                out.extend(probe.and_then(|probe| self.window_bordered_by(probe)));
            }
            ExprNode::Call { function, .. } => {
                if let Some(MetricScope::Fixed(window)) = self.scopes.get(function.as_str()) {
                    out.push(*window);
                }
            }
            _ => {}
        }
        expr.children()
            .into_iter()
            .for_each(|child| self.windows_in(child, out));
    }

    fn window_bordered_by(&self, probe: usize) -> Option<usize> {
        self.windows
            .iter()
            .position(|window| window.boundaries.contains(&probe))
    }

    /// The probes for each of whose hits a formula has a value; boundaries of any window have one value in
    /// it.
    fn hits_of(&self, expr: &Expr) -> Vec<usize> {
        let mut out = Vec::new();
        self.outside_reductions(expr, &mut |name| {
            let base = name.split('.').next().unwrap_or(name);
            if let Some(MetricScope::Floating { each_hit: true, .. }) = self.scopes.get(name) {
                out.push(usize::MAX);
            } else if let Some(probe) = self.probes.get(base) {
                out.extend(Some(probe.index).filter(|probe| self.window_bordered_by(*probe).is_none()));
            }
        });
        out
    }

    pub(super) fn outside_reductions(&self, expr: &Expr, f: &mut impl FnMut(&str)) {
        match &expr.node {
            ExprNode::Call {
                function, arguments, ..
            } if is_reduction(function, arguments.len()) => return,
            ExprNode::Name(name) => f(name),
            _ => {}
        }
        expr.children()
            .into_iter()
            .for_each(|child| self.outside_reductions(child, f));
    }

    fn see(&self, expr: &Expr, reduced: bool, seen: &mut Seen) {
        match &expr.node {
            ExprNode::Over { unit: Some(_), .. } => {
                seen.history = true;
                return;
            }
            ExprNode::Over { of, count, .. } => {
                let over_run = matches!(&count.node, ExprNode::Name(name) if name == "run");
                match over_run && !self.hits_of(of).is_empty() {
                    true => seen.history = true,
                    false => {
                        seen.pinned |=
                            matches!(&count.node, ExprNode::Name(name) if self.window_named(name).is_some());
                        self.see(of, reduced, seen);
                    }
                }
                return;
            }
            ExprNode::Call {
                function, arguments, ..
            } => {
                seen.pinned |= self.scopes.contains_key(function.as_str());
                let inside = reduced || is_reduction(function, arguments.len());
                return arguments
                    .iter()
                    .for_each(|argument| self.see(argument, inside, seen));
            }
            ExprNode::Name(name) | ExprNode::At { place: name, .. } => self.see_name(name, reduced, seen),
            _ => {}
        }
        expr.children()
            .into_iter()
            .for_each(|child| self.see(child, reduced, seen));
    }

    fn see_name(&self, name: &str, reduced: bool, seen: &mut Seen) {
        let base = name.split('.').next().unwrap_or(name);
        match self.scopes.get(name) {
            Some(MetricScope::Fixed(_)) => seen.pinned = true,
            Some(MetricScope::Floating { history: true, .. }) => seen.history = true,
            Some(MetricScope::Floating { history: false, .. }) => seen.pinned |= reduced,
            None => {
                let hits = reduced && self.probes.contains_key(base);
                let measured = Measure::named(name).is_some();
                seen.pinned |= hits || measured || self.window_named(base).is_some();
            }
        }
    }
}

/// Whether a function reduces the values of many hits or rows to one.
pub(super) fn is_reduction(function: &str, arguments: usize) -> bool {
    let meaning = function_named(function).map(|function| function.meaning);
    meaning
        .is_some_and(|meaning| matches!(meaning, Meaning::Changed) || meaning.reduction(arguments).is_some())
}
