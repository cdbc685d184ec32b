//! The computations of rules as a graph, with common parts shared, constants folded, and every part placed as
//! low as possible; and the probes that several rules share. Displayed by `tuneagent rule plan`; not used for
//! evaluation.

mod label;
mod place;
mod probes;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use probes::SharedProbe;

use crate::engine::{PlacedFold, Placement};
use crate::eval::Context;
use crate::guard::Guard;
use crate::rule::{CheckedRule, FilledPart};
use crate::term::{Term, Typed};
use crate::value::show_cell;
use label::label;
use place::placement;

/// The combined computations of several rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Ordered such that each follows its parts.
    pub nodes: Vec<GraphNode>,
    /// The named parts: metrics, and the actions of tunes.
    pub named: Vec<Named>,
    /// The probes, each function once.
    pub probes: Vec<SharedProbe>,
    /// The folds of each rule, by its name.
    pub folds: Vec<(String, Vec<PlacedFold>)>,
}

/// A part of a formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Its operation: `+`, `max`, `sum(send.size)`.
    pub label: String,
    /// Indices of its parts.
    pub parts: Vec<usize>,
    /// Where it is computed; `None` for a constant.
    pub place: Option<Placement>,
    /// The rule, and the window at whose close it has its value.
    pub window: String,
}

/// A name for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub rule: String,
    /// The metric, or the action of a tune.
    pub name: String,
    /// The index of the part.
    pub node: usize,
}

pub fn graph(rules: &[CheckedRule]) -> Graph {
    let mut builder = Builder {
        graph: Graph {
            nodes: Vec::new(),
            named: Vec::new(),
            probes: probes::shared(rules),
            folds: rules
                .iter()
                .map(|rule| (rule.name.clone(), rule.placements()))
                .collect(),
        },
        known: BTreeMap::new(),
    };
    rules.iter().for_each(|rule| builder.rule(rule));
    builder.graph
}

struct Builder {
    graph: Graph,
    /// Parts with equal labels, parts and windows are shared.
    known: BTreeMap<(String, Vec<usize>, String), usize>,
}

impl Builder {
    fn rule(&mut self, rule: &CheckedRule) {
        let mut metrics: Vec<Option<usize>> = Vec::new();
        for metric in &rule.metrics {
            if metric.is_called {
                metrics.push(None);
                continue;
            }
            let node = self.part(rule, metric.window, &metric.value, &metrics);
            metrics.push(Some(node));
            self.name(rule, metric.name.clone(), node);
        }
        for tune in &rule.tunes {
            let window = tune.trigger.window();
            let label = tune
                .action
                .as_ref()
                .map_or("advice".to_string(), |change| change.action.label());
            let values = tune.action.iter().flat_map(|change| change.formulas());
            let guard = tune.guard().into_iter().flat_map(Guard::formulas);
            let parts = [("when", &tune.when), ("expect", &tune.expect)];
            let parts = parts
                .into_iter()
                .filter_map(|(what, part)| Some((what, part.as_ref()?)));
            let parts = parts.chain(values.map(|value| ("value", value)));
            for (what, part) in parts.chain(guard.map(|guard| ("guard", guard))) {
                let node = self.part(rule, window, part, &metrics);
                self.name(rule, format!("{label}: {what}"), node);
            }
            for filled in [&tune.finding, &tune.next_start].into_iter().flatten() {
                for part in &filled.0 {
                    if let FilledPart::Value(value) = part {
                        self.part(rule, window, value, &metrics);
                    }
                }
            }
        }
    }

    fn name(&mut self, rule: &CheckedRule, name: String, node: usize) {
        let rule = rule.name.clone();
        self.graph.named.push(Named { rule, name, node });
    }

    /// The index of a part, which is added if it is new.
    fn part(&mut self, rule: &CheckedRule, window: usize, typed: &Typed, metrics: &[Option<usize>]) -> usize {
        if let Term::Metric(metric) = &typed.term
            && let Some(Some(node)) = metrics.get(*metric)
        {
            return *node;
        }
        if typed.is_constant() {
            let label = show_cell(&Context::default().eval(typed).single(), typed.type_of);
            return self.node(label, Vec::new(), None, String::new());
        }
        let window_name = rule.windows.get(window).map_or("", |window| window.name.as_str());
        let window_name = format!("{}.{window_name}", rule.name);
        let place = Some(placement(rule, window, typed));
        let inner: Vec<&Typed> = match &typed.term {
            // The formula for each hit, or each number, belongs to the fold.
            Term::Fold(_) | Term::Each { .. } | Term::OfCalls { .. } => Vec::new(),
            _ => typed.children().into_vec(),
        };
        let label = label(rule, window, typed);
        let parts: Vec<usize> = inner
            .into_iter()
            .map(|part| self.part(rule, window, part, metrics))
            .collect();
        self.node(label, parts, place, window_name)
    }

    fn node(&mut self, label: String, parts: Vec<usize>, place: Option<Placement>, window: String) -> usize {
        let key = (label.clone(), parts.clone(), window.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let node = self.graph.nodes.len();
        self.known.insert(key, node);
        self.graph.nodes.push(GraphNode {
            label,
            parts,
            place,
            window,
        });
        node
    }
}
