//! Where each fold of a rule is made: as near to the hits as the law of the crate allows. As data, for people to look at
//! and for agents to follow.

use std::fmt;

use super::desk::ByKey;
use crate::function::{FUNCTIONS, Meaning, Reduction};
use crate::rule::CheckedRule;
use crate::tally::Grouping;
use crate::term::{Field, Fold, Rowed, Statistic, Term, Typed};
use crate::window::Window;

/// Where a fold is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// By the probe itself: no hit leaves the kernel.
    Kernel,
    /// By the agent of the processes' node: one aggregate for each process leaves it, however many hits there are.
    Node,
    /// Where all nodes come together: each hit goes there.
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

/// A fold of a rule. Formulas that fold the same in one window share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFold {
    /// The window whose hits it folds.
    pub window: String,
    /// What it folds, such as `sum(compute.duration) by process`.
    pub fold: String,
    pub uses: usize,
    /// The nearest place to the hits.
    pub placement: Placement,
    pub why: &'static str,
}

impl CheckedRule {
    /// Where each fold of hits is made, in the order of windows and formulas.
    pub fn placements(&self) -> Vec<PlacedFold> {
        let by_key = ByKey::of(self);
        let mut out: Vec<PlacedFold> = Vec::new();
        for (folds, window) in self.folds.iter().zip(&self.windows) {
            for (fold, uses) in folds.gathered() {
                let (placement, why) = self.placement(fold, window, &by_key);
                out.push(PlacedFold {
                    window: window.name.clone(),
                    fold: self.described(fold),
                    uses,
                    placement,
                    why,
                });
            }
        }
        out.extend(self.totals());
        out
    }

    /// Where a fold of the window at a place is made.
    pub(crate) fn placement_of(&self, fold: &Fold, window: usize) -> Placement {
        let window = self.windows.get(window);
        window.map_or(Placement::Coordinator, |window| {
            self.placement(fold, window, &ByKey::of(self)).0
        })
    }

    fn placement(&self, fold: &Fold, window: &Window, by_key: &ByKey) -> (Placement, &'static str) {
        if crate::folds::waits(fold) {
            return (
                Placement::Coordinator,
                "it needs what is known only when the window closes",
            );
        }
        if window.borders().is_none() {
            let why = "the hits of a window of a length are chosen by the totals at its boundaries";
            return (Placement::Coordinator, why);
        }
        let tally = self.tally(fold.probe, by_key).map(|tally| tally.by);
        match (tally, by_key.has(fold.probe)) {
            (Ok(Grouping::Read(_)), _) => (Placement::Kernel, "aggregated for each key"),
            (Ok(Grouping::Stretch), _) => (
                Placement::Kernel,
                "aggregated from boundary to boundary of its process",
            ),
            (Err(why), by_key) => {
                let place = if by_key {
                    Placement::Node
                } else {
                    Placement::Coordinator
                };
                // What stands in the way may be what another formula asks of the same hits.
                let is_others = self.added_up(fold).is_ok() && self.is_of_fold(fold.probe, why);
                let others = "another formula needs each of the same hits";
                (place, if is_others { others } else { why })
            }
        }
    }

    /// Folds of windows of a length that the totals of a probe tell.
    fn totals(&self) -> Vec<PlacedFold> {
        let mut out: Vec<PlacedFold> = Vec::new();
        for metric in &self.metrics {
            metric.value.visit(&mut |term| {
                if let Term::Hits { probe, statistic, .. } = term {
                    let name = self.probes.get(*probe).map_or("", |probe| probe.name.as_str());
                    let (of, placement, why) = match statistic {
                        Statistic::Count => (
                            format!("count({name})"),
                            Placement::Kernel,
                            "computed from its totals",
                        ),
                        Statistic::Sum => (
                            format!("sum({name}.duration)"),
                            Placement::Kernel,
                            "computed from its totals",
                        ),
                        Statistic::Mean => (
                            format!("mean({name}.duration)"),
                            Placement::Kernel,
                            "computed from its totals",
                        ),
                        Statistic::Min => (
                            format!("min({name}.duration)"),
                            Placement::Coordinator,
                            "totals have no extremes",
                        ),
                        Statistic::Max => (
                            format!("max({name}.duration)"),
                            Placement::Coordinator,
                            "totals have no extremes",
                        ),
                    };
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

    /// A fold as it is written, what is computed of each hit left out.
    fn described(&self, fold: &Fold) -> String {
        let names = self.probes.iter().map(|probe| probe.name.as_str());
        let name = names
            .chain(self.joins.iter().map(|join| join.name.as_str()))
            .nth(fold.probe)
            .unwrap_or_default();
        let of = match &fold.of {
            None => name.to_string(),
            Some(of) => self.part(fold.probe, name, of),
        };
        let filter = if fold.filter.is_some() { " where …" } else { "" };
        let by = match &fold.by {
            None => String::new(),
            Some(Rowed::ByProcess) => " by process".to_string(),
            Some(Rowed::By(key)) => format!(" by {}", self.part(fold.probe, name, key)),
        };
        format!("{}({of}{filter}){by}", fold.reduction.name())
    }

    fn part(&self, probe: usize, name: &str, of: &Typed) -> String {
        let part = match &of.term {
            Term::Field(Field::Time) => "time",
            Term::Field(Field::Process) => "process",
            Term::Field(Field::Thread) => "thread",
            Term::Field(Field::Host) => "host",
            Term::Field(Field::Duration) => "duration",
            Term::Field(Field::Capture(place)) => {
                let captures = self.probes.get(probe).map(|probe| &probe.captures);
                match captures.and_then(|captures| captures.get(*place)) {
                    Some((capture, _)) => capture,
                    None => "…",
                }
            }
            _ => "…",
        };
        format!("{name}.{part}")
    }
}

impl Reduction {
    fn name(self) -> &'static str {
        let same = |other: Reduction| std::mem::discriminant(&other) == std::mem::discriminant(&self);
        let is_it = |meaning: Meaning| match meaning {
            Meaning::Reduction(other) | Meaning::Both(other, _) => same(other),
            Meaning::Scalar(_) | Meaning::Ewma | Meaning::Changed | Meaning::Loads | Meaning::Has => false,
        };
        FUNCTIONS
            .iter()
            .find(|function| is_it(function.meaning))
            .map_or("", |function| function.name)
    }
}
