//! Values of the variables that rules would write, read with the counters, so that a rule does not write a
//! value that is in place already. Writes nothing itself.

use std::collections::BTreeMap;

use plan::ValueType;
use tuner::{Location, Memory, VariableName};

use job::Member;
use profile::probe::number_of;

/// The variables of each process, by slot; looked up at its first reading.
#[derive(Debug, Default)]
pub(super) struct TargetVariables(BTreeMap<u32, Vec<TargetVariable>>);

/// A variable of a process; several libraries may have a copy.
#[derive(Debug)]
pub(super) struct TargetVariable {
    /// The name in the rule.
    name: String,
    copies: Vec<Location>,
    type_name: &'static str,
}

impl TargetVariables {
    /// Rules were added or removed: look up everything again.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Each variable that is found and readable, with its value; a boolean is 0 or 1.
    pub(super) fn read(
        &mut self,
        slot: u32,
        member: &Member,
        wanted: impl FnOnce() -> Vec<(String, Option<ValueType>)>,
    ) -> Vec<(String, f64)> {
        let look_up = || {
            let places = wanted().into_iter();
            places
                .filter_map(|(name, stated)| TargetVariable::every(name, stated, member))
                .collect()
        };
        let places = self.0.entry(slot).or_insert_with(look_up);
        if places.is_empty() {
            return Vec::new();
        }
        let Ok(memory) = Memory::open(&member.process) else {
            return Vec::new();
        };
        let value = |place: &TargetVariable| Some((place.name.clone(), place.read(&memory)?));
        places.iter().filter_map(value).collect()
    }
}

impl TargetVariable {
    /// A variable of which there is one.
    pub(super) fn of(name: String, stated: Option<ValueType>, member: &Member) -> Option<TargetVariable> {
        TargetVariable::every(name, stated, member).filter(|variable| variable.copies.len() == 1)
    }

    fn every(name: String, stated: Option<ValueType>, member: &Member) -> Option<TargetVariable> {
        let wanted = VariableName::from(name.as_str());
        let copies = member.space.every_variable(&wanted).ok()?;
        let of = stated.or(copies.first()?.value_type())?;
        let is_readable = copies.iter().all(|copy| copy.size == of.size() as u64);
        is_readable.then_some(TargetVariable {
            name,
            copies,
            type_name: of.name(),
        })
    }

    /// The value; `None` if the copies have different ones.
    pub(super) fn read(&self, memory: &Memory) -> Option<f64> {
        let value = |copy: &Location| number_of(copy.read(memory).ok()?.word(), self.type_name);
        let first = value(self.copies.first()?)?;
        let is_one = self.copies[1..].iter().all(|copy| value(copy) == Some(first));
        is_one.then_some(first)
    }
}
