//! The checked change of a tune, with the formulas that compute its values. [`crate::eval`] evaluates them.

use plan::Action;

use crate::guard::Guard;
use crate::term::Typed;

/// A change of the processes of a role.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) role: usize,
    /// The action; computed values have placeholders.
    pub(crate) action: Action,
    /// The formulas that are evaluated for each decision.
    pub(crate) formulas: Vec<Formula>,
    /// The condition on the value, with its text.
    pub(crate) range: Option<(Typed, String)>,
    /// Without it nothing is judged, and the change does not occupy the trial.
    pub(crate) guard: Option<Guard>,
}

/// A formula of an action, with the destination of its value.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    /// Index in [`Action::arguments_mut`]; 0 for an action with one value.
    pub(crate) index: usize,
    pub(crate) value: Typed,
}

impl Change {
    pub(crate) fn formulas(&self) -> impl Iterator<Item = &Typed> {
        self.formulas.iter().map(|formula| &formula.value)
    }

    pub(crate) fn formulas_mut(&mut self) -> impl Iterator<Item = &mut Typed> {
        self.formulas.iter_mut().map(|formula| &mut formula.value)
    }
}
