//! The current values of the variables that rules would write: writing the present value changes nothing.

use std::collections::BTreeMap;

use plan::{Action, Set};

use super::output::ProcessAction;
use crate::value::{ProcessId, Scalar, Time};

/// For each process and variable, the time and value of the last read.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(BTreeMap<ProcessId, BTreeMap<String, (Time, Scalar)>>);

impl Variables {
    pub(super) fn observe(&mut self, process: ProcessId, name: String, read: (Time, Scalar)) {
        self.0.entry(process).or_default().insert(name, read);
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        self.0.remove(&process);
    }

    /// Whether a change would write the value that the variable held when it was last read, after `since`.
    /// Of copies in several libraries the value is known while all have the same.
    pub(super) fn has(&self, change: &ProcessAction, since: Time) -> bool {
        let Action::Set(Set { variable, value, .. }) = &change.action else {
            return false;
        };
        let known = self.0.get(&change.process);
        let known = known.and_then(|known| known.get(variable));
        known.is_some_and(|(time, held)| *time > since && is_same(held, value))
    }
}

/// A rule writes `true` where a program may have a number.
fn is_same(held: &Scalar, wanted: &Scalar) -> bool {
    let number = |value: &Scalar| match value {
        Scalar::Boolean(value) => Some(f64::from(u8::from(*value))),
        Scalar::Number(value) => Some(*value),
        Scalar::Text(_) => None,
    };
    number(held).is_some() && number(held) == number(wanted)
}
