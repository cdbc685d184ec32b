//! The placement of a part of a formula: where it is computed in an evaluation over several nodes.

use crate::engine::Placement;
use crate::rule::CheckedRule;
use crate::term::{Term, Typed};

/// The placement of a part of a formula in a window.
///
/// Nodes fold hits that carry the key of their instance, and what belongs to windows of a length: hits, and
/// reductions of measures of which no formula needs the rows. All else is computed by the coordinator, because it
/// knows which processes were there from boundary to boundary.
pub(super) fn placement(rule: &CheckedRule, window: usize, of: &Typed) -> Placement {
    match &of.term {
        Term::Hits { probe, statistic, .. } => rule.placement_of_totals(*probe, *statistic).0,
        Term::Fold(fold) => rule.placement_of(fold, window),
        Term::Metric(metric) => match rule.metrics.get(*metric) {
            Some(metric) => placement(rule, window, &metric.value),
            None => Placement::Coordinator,
        },
        _ if rule.is_reduced_by_nodes(window, of) => Placement::Node,
        _ => Placement::Coordinator,
    }
}
