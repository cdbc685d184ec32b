//! The guard of a tune, checked: what says whether a change is worth keeping. The judgement itself is in
//! `engine::trial`.

use crate::term::Typed;

#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) maximize: bool,
    pub(crate) objective: Typed,
    pub(crate) objective_text: String,
    /// Windows before and after.
    pub(crate) over: u32,
    /// Share of the value before.
    pub(crate) margin: f64,
    /// A change stays unless the objective is worse; else it stays only if it is better.
    pub(crate) keeps_unless_worse: bool,
    /// Of the window before the change, known in the objective as `was`: then the tune follows.
    pub(crate) was: Option<Typed>,
    /// After so many windows a reverted tune tries again.
    pub(crate) retry: Option<u32>,
}

impl Guard {
    pub(crate) fn formulas(&self) -> impl Iterator<Item = &Typed> {
        std::iter::once(&self.objective).chain(&self.was)
    }

    /// A change is reverted and made again if need be. What follows would decide anew meanwhile.
    pub(crate) fn repeats(&self) -> bool {
        self.was.is_none() && !self.keeps_unless_worse
    }

    /// How many windows before a change it must know. What says by itself what the change is compared with
    /// needs no more than one.
    pub(crate) fn needs_before(&self) -> usize {
        if self.was.is_some() { 1 } else { self.over as usize }
    }
}
