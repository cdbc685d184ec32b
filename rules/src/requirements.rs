//! What the formulas of a rule need, found once when it is checked: searching all of them again takes longer
//! than the arithmetic of an evaluation. Evaluates nothing.

use std::collections::BTreeSet;

use crate::measure::Measure;

/// By their places in the rule. Empty before it has been looked through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requirements {
    /// For each tune the metrics that it is computed from, theirs included.
    pub(crate) behind: Vec<Vec<usize>>,
    /// For each window the measures at hits of its boundaries, each with the probe.
    pub(crate) at_boundaries: Vec<Vec<(Measure, usize)>>,
    /// The roles of the processes whose hits come one by one.
    pub(crate) roles_with_hits: BTreeSet<usize>,
}

impl Requirements {
    /// The metrics behind a tune.
    pub(crate) fn behind(&self, tune: usize) -> &[usize] {
        self.behind.get(tune).map_or(&[], Vec::as_slice)
    }

    /// The roles of the processes whose hits it waits for.
    pub(crate) fn roles_with_hits(&self) -> impl Iterator<Item = usize> {
        self.roles_with_hits.iter().copied()
    }

    /// The measures at the boundaries of a window.
    pub(crate) fn at_boundaries(&self, window: usize) -> &[(Measure, usize)] {
        self.at_boundaries.get(window).map_or(&[], Vec::as_slice)
    }
}
