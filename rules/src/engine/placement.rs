//! The place at which each fold of a rule can be computed: as close to the hits as the merge law of
//! aggregates permits. On one machine the agent of a session computes all folds that are not placed in the kernel.

use super::keyed_intake::ByKey;
use super::not_summed::NotSummed;
use super::timed_plan::TimedPlan;
use crate::partial_sum::Grouping;
use crate::rule::CheckedRule;
use crate::term::{Fold, Statistic, Term};
use crate::window::Window;

plan::words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Placement {
        /// By the probe itself: no hit leaves the kernel.
        Kernel = "kernel",
        /// By the agent on the node of the processes: it sends one aggregate for any number of hits and processes,
        /// or one for each process where a formula needs that.
        Node = "node",
        /// By the coordinator of all nodes: each hit is sent there.
        Coordinator = "coordinator",
    }
}

/// A fold of a rule. Formulas of one window with equal folds share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFold {
    /// The window whose hits it folds.
    pub window: String,
    /// The fold as in the rule, such as `sum(compute.duration) by process`.
    pub fold: String,
    pub uses: usize,
    /// The place closest to the hits.
    pub placement: Placement,
    pub why: &'static str,
}

impl CheckedRule {
    /// The place of a statistic of the hits of a probe between two totals, and why.
    pub(crate) fn placement_of_totals(
        &self,
        probe: usize,
        statistic: Statistic,
    ) -> (Placement, &'static str) {
        match statistic {
            Statistic::Min | Statistic::Max if TimedPlan::of(self).passes_hits.get(probe) == Some(&true) => {
                (Placement::Coordinator, OTHERS)
            }
            Statistic::Min | Statistic::Max => (Placement::Node, "totals have no extremes"),
            Statistic::Count | Statistic::Sum | Statistic::Mean => {
                (Placement::Kernel, "computed from its totals")
            }
        }
    }

    /// The placement of each fold of hits, in the order of windows and formulas.
    pub fn placements(&self) -> Vec<PlacedFold> {
        let by_key = ByKey::of(self);
        let mut out: Vec<PlacedFold> = Vec::new();
        for (folds, window) in self.folds.iter().zip(&self.windows) {
            for (fold, uses) in folds.gathered() {
                let (placement, why) = self.placement(fold, window, &by_key);
                out.push(PlacedFold {
                    window: window.name.clone(),
                    fold: fold.text.clone(),
                    uses,
                    placement,
                    why,
                });
            }
        }
        out.extend(self.totals());
        out
    }

    /// The placement of a fold of a window, by the window's index.
    pub(crate) fn placement_of(&self, fold: &Fold, window: usize) -> Placement {
        let window = self.windows.get(window);
        window.map_or(Placement::Coordinator, |window| {
            self.placement(fold, window, &ByKey::of(self)).0
        })
    }

    fn placement(&self, fold: &Fold, window: &Window, by_key: &ByKey) -> (Placement, &'static str) {
        if crate::folds::waits(fold) {
            return (Placement::Coordinator, NotSummed::NeedsClose.reason());
        }
        if window.boundaries().is_none() {
            return match TimedPlan::of(self).passes_hits.get(fold.probe) {
                Some(false) => (
                    Placement::Node,
                    "its hits are those between the ends of the window",
                ),
                Some(true) => (Placement::Coordinator, OTHERS),
                None => (Placement::Coordinator, "it goes over pairs of hits"),
            };
        }
        let partial_sum = self
            .partial_sum(fold.probe, by_key)
            .map(|partial_sum| partial_sum.by);
        match (partial_sum, by_key.has(fold.probe)) {
            (Ok(Grouping::Read(_)), _) => (Placement::Kernel, "aggregated for each key"),
            (Ok(Grouping::Epoch), _) => (
                Placement::Kernel,
                "aggregated from boundary to boundary of its process",
            ),
            (Err(why), by_key) => {
                let index = if by_key {
                    Placement::Node
                } else {
                    Placement::Coordinator
                };
                // The obstacle may be another formula over the same hits.
                let is_others = self.aggregated(fold).is_ok() && self.is_of_fold(fold.probe, why);
                (index, if is_others { OTHERS } else { why.reason() })
            }
        }
    }

    /// Folds of timed windows that use the totals of a probe.
    fn totals(&self) -> Vec<PlacedFold> {
        let mut out: Vec<PlacedFold> = Vec::new();
        for metric in &self.metrics {
            metric.value.visit(&mut |term| {
                if let Term::Hits { probe, statistic, .. } = term {
                    let name = self.probes.get(*probe).map_or("", |probe| probe.name.as_str());
                    let of = statistic.of(name);
                    let (placement, why) = self.placement_of_totals(*probe, *statistic);
                    let window = self
                        .windows
                        .get(metric.window)
                        .map_or("", |window| window.name.as_str());
                    match out
                        .iter_mut()
                        .find(|known| known.fold == of && known.window == window)
                    {
                        Some(known) => known.uses += 1,
                        None => out.push(PlacedFold {
                            window: window.to_string(),
                            fold: of,
                            uses: 1,
                            placement,
                            why,
                        }),
                    }
                }
            });
        }
        out
    }
}

/// Why a fold that could be computed nearer to its hits is not.
const OTHERS: &str = "another formula needs each of the same hits";
