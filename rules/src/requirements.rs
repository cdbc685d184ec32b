//! The requirements of a rule's formulas, determined once by the check: searching all formulas takes longer
//! than the arithmetic of an evaluation. Evaluates nothing.

use std::collections::BTreeSet;

use crate::measure::Measure;

/// By index in the rule. Empty until determined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requirements {
    /// For each tune, the metrics from which it is computed, directly or indirectly.
    pub(crate) behind: Vec<Vec<usize>>,
    /// For each window, the measures at its boundary hits, each with the probe.
    pub(crate) at_boundaries: Vec<Vec<(Measure, usize)>>,
    /// The roles of the processes whose hits are delivered one by one.
    pub(crate) roles_with_hits: BTreeSet<usize>,
}

impl Requirements {
    /// The metrics behind a tune.
    pub(crate) fn behind(&self, tune: usize) -> &[usize] {
        self.behind.get(tune).map_or(&[], Vec::as_slice)
    }

    /// The roles of the processes whose hits the rule waits for.
    pub(crate) fn roles_with_hits(&self) -> impl Iterator<Item = usize> {
        self.roles_with_hits.iter().copied()
    }

    /// The measures at the boundaries of a window.
    pub(crate) fn at_boundaries(&self, window: usize) -> &[(Measure, usize)] {
        self.at_boundaries.get(window).map_or(&[], Vec::as_slice)
    }
}
