//! What a tune does, checked, with the formulas that say with which values. They are evaluated in
//! [`crate::eval`].

use plan::Action;

use crate::guard::Guard;
use crate::term::Typed;

/// A change of the processes of a role.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) role: usize,
    /// What is done; for what is computed a value that means nothing stands in it.
    pub(crate) action: Action,
    /// What is computed for each decision.
    pub(crate) formulas: Vec<Formula>,
    /// What must hold of the value, and how it is written.
    pub(crate) range: Option<(Typed, String)>,
    /// Without it nothing is judged, and the change does not occupy the trial.
    pub(crate) guard: Option<Guard>,
}

/// A formula of an action, and where its value belongs.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    /// Which of [`Action::arguments_mut`]; 0 of an action that has one value.
    pub(crate) place: usize,
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
