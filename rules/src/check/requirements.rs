//! Collects what the formulas of a rule refer to.

use std::collections::BTreeSet;

use crate::guard::Guard;
use crate::measure::Measure;
use crate::requirements::Requirements;
use crate::rule::{CheckedRule, Tune};
use crate::term::{Term, Typed};

impl Requirements {
    pub(crate) fn of(rule: &CheckedRule) -> Requirements {
        let behind = rule.tunes.iter().map(|tune| rule.metrics_behind(&parts(tune)));
        let at_boundaries = (0..rule.windows.len()).map(|place| at_boundaries(&rule.formulas_of(place)));
        let probes = rule.probes.iter().zip(&rule.plan.probes);
        let with_hits = probes.filter(|(_, planned)| planned.delivers.are_hits());
        Requirements {
            roles_with_hits: with_hits.map(|(probe, _)| probe.role).collect(),
            behind: behind.collect(),
            at_boundaries: at_boundaries.collect(),
        }
    }
}

/// The formulas that determine a tune's action: its condition, its values, and its guard's objective.
fn parts(tune: &Tune) -> Vec<&Typed> {
    let mut parts: Vec<&Typed> = tune.when.iter().collect();
    if let Some(change) = &tune.action {
        parts.extend(change.formulas());
        parts.extend(change.guard.iter().flat_map(Guard::formulas));
    }
    parts
}

fn at_boundaries(formulas: &[&Typed]) -> Vec<(Measure, usize)> {
    let mut found = BTreeSet::new();
    for formula in formulas {
        formula.visit(&mut |term| {
            if let Term::At { measure, probe } = term {
                found.insert((*measure, *probe));
            }
        });
    }
    found.into_iter().collect()
}
