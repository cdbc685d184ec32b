//! What the variables hold that rules would write, read with the counters: who would write what is there
//! already changes nothing. Writes nothing itself.

use std::collections::BTreeMap;

use plan::ValueType;
use tuner::{Location, Memory, VariableName};

use job::Member;
use profile::probe::number_of;

/// Where they are in each process, by its slot; looked up at its first reading.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<u32, Vec<Place>>);

#[derive(Debug)]
struct Place {
    /// As the rule has it.
    name: String,
    location: Location,
    type_name: &'static str,
}

impl Written {
    /// Rules have come or gone: all is looked up anew.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Each that is found and can be read, with the number that it holds; a boolean is 0 or 1.
    pub(super) fn read(
        &mut self,
        slot: u32,
        member: &Member,
        wanted: impl FnOnce() -> Vec<(String, Option<ValueType>)>,
    ) -> Vec<(String, f64)> {
        let look_up = || {
            let places = wanted().into_iter();
            places
                .filter_map(|(name, stated)| Place::of(name, stated, member))
                .collect()
        };
        let places = self.0.entry(slot).or_insert_with(look_up);
        if places.is_empty() {
            return Vec::new();
        }
        let Ok(memory) = Memory::open(&member.process) else {
            return Vec::new();
        };
        let value = |place: &Place| Some((place.name.clone(), place.read(&memory)?));
        places.iter().filter_map(value).collect()
    }
}

impl Place {
    fn of(name: String, stated: Option<ValueType>, member: &Member) -> Option<Place> {
        let location = member.space.variable(&VariableName::from(name.as_str())).ok()?;
        let of = stated.or(location.value_type())?;
        (location.size == of.size() as u64).then_some(Place {
            name,
            location,
            type_name: of.name(),
        })
    }

    fn read(&self, memory: &Memory) -> Option<f64> {
        let bytes = self.location.read(memory).ok()?;
        number_of(bytes.word(), self.type_name)
    }
}
