//! What the formulas of a rule ask for, found once when it is checked: looking through all of them again takes an evaluation longer
//! than its own arithmetic. Evaluates nothing.

use std::collections::BTreeSet;

use crate::measure::Measure;
use crate::rule::{CheckedRule, Guard, Tune};
use crate::term::{Term, Typed};

/// By their places in the rule. Empty before it has been looked through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// For each tune the metrics that it is computed from, theirs included.
    behind: Vec<Vec<usize>>,
    /// For each window the measures at hits of its borders, each with the probe.
    at_borders: Vec<Vec<(Measure, usize)>>,
    /// The roles of the processes whose hits come one by one.
    heard: BTreeSet<usize>,
}

impl Asked {
    pub(crate) fn of(rule: &CheckedRule) -> Asked {
        let behind = rule.tunes.iter().map(|tune| rule.metrics_behind(&parts(tune)));
        let at_borders = (0..rule.windows.len()).map(|place| at_borders(&rule.formulas_of(place)));
        let probes = rule.probes.iter().zip(&rule.plan.probes);
        let heard = probes.filter(|(_, planned)| planned.delivers.are_hits());
        Asked {
            heard: heard.map(|(probe, _)| probe.role).collect(),
            behind: behind.collect(),
            at_borders: at_borders.collect(),
        }
    }

    /// The metrics behind a tune.
    pub(crate) fn behind(&self, tune: usize) -> &[usize] {
        self.behind.get(tune).map_or(&[], Vec::as_slice)
    }

    /// The roles of the processes whose hits it waits for.
    pub(crate) fn heard(&self) -> impl Iterator<Item = usize> {
        self.heard.iter().copied()
    }

    /// The measures at the borders of a window.
    pub(crate) fn at_borders(&self, window: usize) -> &[(Measure, usize)] {
        self.at_borders.get(window).map_or(&[], Vec::as_slice)
    }
}

/// The formulas that a tune gives as reasons: its condition, what it changes, and what it is judged by.
fn parts(tune: &Tune) -> Vec<&Typed> {
    let mut parts: Vec<&Typed> = tune.when.iter().collect();
    if let Some(change) = &tune.action {
        parts.extend(change.deed.formulas());
        parts.extend(change.guard.iter().flat_map(Guard::formulas));
    }
    parts
}

fn at_borders(formulas: &[&Typed]) -> Vec<(Measure, usize)> {
    let mut asked = BTreeSet::new();
    for formula in formulas {
        formula.visit(&mut |term| {
            if let Term::At { measure, probe } = term {
                asked.insert((*measure, *probe));
            }
        });
    }
    asked.into_iter().collect()
}
