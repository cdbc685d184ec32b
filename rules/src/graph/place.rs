//! Where a part of a formula is computed: as low as it can go, so that little travels.

use std::fmt;

use crate::function::Reduction;
use crate::rule::{CheckedRule, WindowKind};
use crate::term::{Field, Fold, KeyKind, Reach, Rowed, Statistic, Term, Typed};

/// Where a part of a formula is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// In the probe: totals, extremes and sums of squares of durations and integers.
    Kernel,
    /// On each machine for its processes; what it comes to is merged.
    Node,
    /// In one place.
    Coordinator,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::Kernel => "kernel",
            Placement::Node => "node",
            Placement::Coordinator => "coordinator",
        })
    }
}

/// Whether a part is known before anything is measured.
pub(super) fn is_constant(of: &Typed) -> bool {
    let operator = matches!(
        of.term,
        Term::Constant(_)
            | Term::Negate(_)
            | Term::Not(_)
            | Term::Arithmetic(..)
            | Term::Both(..)
            | Term::Either(..)
            | Term::Compare { .. }
            | Term::Apply(..)
    );
    operator && of.children().into_iter().all(is_constant)
}

/// Where a part of a formula of a window is computed.
pub(super) fn placement(rule: &CheckedRule, window: usize, of: &Typed) -> Placement {
    match &of.term {
        Term::Hits { statistic, .. } => match statistic {
            Statistic::Count | Statistic::Sum | Statistic::Mean | Statistic::Min | Statistic::Max => {
                Placement::Kernel
            }
        },
        Term::Fold(fold) => of_fold(rule, window, fold),
        // Kept by process where the process is.
        Term::Measure(_) | Term::At { .. } | Term::OfCalls { .. } => Placement::Node,
        Term::Reduce(reduction, table) if of_processes(table) && merges(*reduction) => {
            placement(rule, window, table).max(Placement::Node)
        }
        Term::Metric(metric) => match rule.metrics.get(*metric) {
            Some(metric) => placement(rule, window, &metric.value),
            None => Placement::Coordinator,
        },
        // Every machine closes a window of time by itself.
        Term::WindowDuration | Term::WindowIndex if is_timed(rule, window) => Placement::Node,
        // Row by row, each with its process.
        _ if of.of.table == Some(KeyKind::Process) => {
            let parts = of.children().into_iter().filter(|part| !is_constant(part));
            let parts = parts.map(|part| placement(rule, window, part));
            parts.max().unwrap_or(Placement::Coordinator).max(Placement::Node)
        }
        _ => Placement::Coordinator,
    }
}

fn of_processes(table: &Typed) -> bool {
    table.of.table == Some(KeyKind::Process)
}

/// Whether what two machines made of their parts can be put together.
fn merges(reduction: Reduction) -> bool {
    !matches!(reduction, Reduction::Quantile(_))
}

fn of_fold(rule: &CheckedRule, window: usize, fold: &Fold) -> Placement {
    // The two hits of a pair may be on different machines.
    if fold.probe >= rule.probes.len() || !merges(fold.reduction) {
        return Placement::Coordinator;
    }
    let simple = match fold.reduction {
        Reduction::Count => true,
        Reduction::Sum | Reduction::Mean | Reduction::Stddev | Reduction::Min | Reduction::Max => fold
            .of
            .as_ref()
            .is_some_and(|of| is_integer(rule, fold.probe, of)),
        _ => false,
    };
    let rows = match &fold.by {
        None | Some(Rowed::ByProcess) => true,
        Some(Rowed::By(key)) => is_integer(rule, fold.probe, key),
    };
    let in_probe =
        is_timed(rule, window) && simple && rows && fold.filter.is_none() && fold.reach == Reach::Instance;
    if in_probe {
        Placement::Kernel
    } else {
        Placement::Node
    }
}

fn is_timed(rule: &CheckedRule, window: usize) -> bool {
    let window = rule.windows.get(window);
    window.is_some_and(|window| matches!(window.kind, WindowKind::Timed(_)))
}

/// A duration, or what is read as an integer, times a constant.
fn is_integer(rule: &CheckedRule, probe: usize, of: &Typed) -> bool {
    match &of.term {
        Term::Field(Field::Duration) => true,
        Term::Field(Field::Capture(place)) => {
            let probe = rule.probes.get(probe);
            let capture = probe.and_then(|probe| Some((probe, probe.captures.get(*place)?)));
            capture.is_some_and(|(probe, (_, value))| {
                use crate::read::Layout::{Bool, F32, F64, Str};
                let mut reads = 0;
                let mut integer = true;
                value.visit(&mut |term| match term {
                    Term::Read(read) => {
                        reads += 1;
                        let layout = probe.reads.get(*read).and_then(|read| read.layout);
                        integer &= !matches!(layout, Some(F32 | F64 | Str(_) | Bool));
                    }
                    Term::Constant(_) | Term::Arithmetic(crate::lang::ast::Operator::Multiply, ..) => {}
                    _ => integer = false,
                });
                integer && reads == 1
            })
        }
        _ => false,
    }
}
