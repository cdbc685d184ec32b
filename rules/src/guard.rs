//! The checked guard of a tune: the criterion for keeping a change. `engine::trial` judges.

use syntax::quantity::metric;

use crate::term::Typed;

#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) maximize: bool,
    pub(crate) objective: Typed,
    pub(crate) objective_text: String,
    /// Number of windows before and after the change.
    pub(crate) over: u32,
    /// As a share of the value before.
    pub(crate) margin: f64,
    /// A change stays unless the objective is worse; otherwise it stays only if the objective is better.
    pub(crate) keeps_unless_worse: bool,
    /// The value in the window before the change, called `was` in the objective. With it, the tune acts
    /// during its trial.
    pub(crate) was: Option<Typed>,
    /// Number of windows after which a reverted tune tries again.
    pub(crate) retry: Option<u32>,
}

impl Guard {
    pub(crate) fn formulas(&self) -> impl Iterator<Item = &Typed> {
        std::iter::once(&self.objective).chain(&self.was)
    }

    /// Whether a change may be reverted and made again. Not with `was`, where the tune would decide anew in
    /// between.
    pub(crate) fn repeats(&self) -> bool {
        self.was.is_none() && !self.keeps_unless_worse
    }

    /// A value of the objective in its unit.
    pub(crate) fn shown(&self, value: f64) -> String {
        let type_of = self.objective.type_of;
        metric(value, type_of.dimension(), type_of.percent)
    }

    /// The number of windows before a change that it requires: one if it states what the change is compared
    /// with.
    pub(crate) fn needs_before(&self) -> usize {
        if self.was.is_some() { 1 } else { self.over as usize }
    }
}
