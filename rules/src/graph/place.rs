//! The placement of a part of a formula: as low as possible, to minimise communication.

use crate::engine::Placement;
use crate::function::Reduction;
use crate::rule::CheckedRule;
use crate::term::{Statistic, Term, Typed};
use crate::types::KeyKind;
use crate::window::WindowKind;

/// The placement of a part of a formula in a window.
pub(super) fn placement(rule: &CheckedRule, window: usize, of: &Typed) -> Placement {
    match &of.term {
        Term::Hits { statistic, .. } => match statistic {
            Statistic::Count | Statistic::Sum | Statistic::Mean | Statistic::Min | Statistic::Max => {
                Placement::Kernel
            }
        },
        Term::Fold(fold) => rule.placement_of(fold, window),
        // Kept by process, on the node of the process.
        Term::Measure(_) | Term::At { .. } | Term::OfCalls { .. } => Placement::Node,
        Term::Reduce(reduction, table) if of_processes(table) && merges(*reduction) => {
            placement(rule, window, table).max(Placement::Node)
        }
        Term::Metric(metric) => match rule.metrics.get(*metric) {
            Some(metric) => placement(rule, window, &metric.value),
            None => Placement::Coordinator,
        },
        // Every machine closes timed windows itself.
        Term::WindowDuration | Term::WindowIndex if is_timed(rule, window) => Placement::Node,
        // Row by row, on the node of each process.
        _ if of.of.table == Some(KeyKind::Process) => {
            let parts = of.children().into_iter().filter(|part| !part.is_constant());
            let parts = parts.map(|part| placement(rule, window, part));
            parts.max().unwrap_or(Placement::Coordinator).max(Placement::Node)
        }
        _ => Placement::Coordinator,
    }
}

fn of_processes(table: &Typed) -> bool {
    table.of.table == Some(KeyKind::Process)
}

/// Whether the partial results of machines can be merged.
fn merges(reduction: Reduction) -> bool {
    !matches!(reduction, Reduction::Quantile(_))
}

fn is_timed(rule: &CheckedRule, window: usize) -> bool {
    let window = rule.windows.get(window);
    window.is_some_and(|window| matches!(window.kind, WindowKind::Timed(_)))
}
