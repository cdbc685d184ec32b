//! The placement of a part of a formula: where it is computed in an evaluation over several nodes.

use crate::engine::Placement;
use crate::rule::CheckedRule;
use crate::term::{Term, Typed};

/// The placement of a part of a formula in a window.
///
/// Nodes fold hits that carry the key of their instance, and pass on all else: rows of a table are reduced at
/// the coordinator, because it knows which processes were there from boundary to boundary.
pub(super) fn placement(rule: &CheckedRule, window: usize, of: &Typed) -> Placement {
    match &of.term {
        Term::Hits { statistic, .. } => statistic.placement().0,
        Term::Fold(fold) => rule.placement_of(fold, window),
        Term::Metric(metric) => match rule.metrics.get(*metric) {
            Some(metric) => placement(rule, window, &metric.value),
            None => Placement::Coordinator,
        },
        _ => Placement::Coordinator,
    }
}
