//! Operating points: which of several works an activation does, by its machine and by numbers of the program. These are
//! what the contract states, until something else was measured.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::ContractError;
use super::exact::{near, to_f64};
use super::model::{Contract, Machine, OperatingPoint, StatedNumber, Work};

/// The operating point that a module is at, of several that its work has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulePoint {
    /// The module, or a computation of it.
    pub module: String,
    pub work: String,
    /// What holds there, as the file has it; empty for a point without a condition.
    pub condition: String,
}

impl Contract {
    /// Replaces a number that the contract states by what was measured. A time only decides which operating points hold:
    /// [`Contract::measure`] replaces the work.
    ///
    /// # Errors
    /// If the contract states no such number, or `value` is not positive.
    pub fn observe(&mut self, number: &StatedNumber, value: f64) -> Result<(), ContractError> {
        let exact = near(value).filter(|_| value > 0.0);
        let exact = exact.ok_or(ContractError::NotMeasured { value })?;
        let stream_at = |name: &String| self.streams.iter().position(|one| one.name == *name);
        match number {
            StatedNumber::Size { stream } => {
                let at = stream_at(stream).ok_or_else(|| ContractError::NoStream {
                    stream: stream.clone(),
                })?;
                self.streams[at].item_bytes = Some(value);
            }
            StatedNumber::Time { module } => {
                let found = self.modules.iter_mut().find(|one| one.name == *module);
                let found = found.ok_or_else(|| ContractError::NoModule {
                    module: module.clone(),
                })?;
                found.measured_s = Some(value);
            }
            StatedNumber::Items { module, stream } => {
                let at = stream_at(stream);
                let found = self.modules.iter_mut().find(|one| one.name == *module);
                let gives = match found.map(|one| one.computations.as_mut_slice()) {
                    Some([computation]) => computation.gives.iter_mut().find(|(to, _)| Some(*to) == at),
                    _ => None,
                };
                let (_, stated) = gives.ok_or_else(|| ContractError::NotSent {
                    module: module.clone(),
                    stream: stream.clone(),
                })?;
                *stated = exact;
            }
        }
        Ok(())
    }

    /// The operating points that modules are at whose work has several.
    pub fn operating_points(&self) -> Vec<ModulePoint> {
        let mut points = Vec::new();
        for module in &self.modules {
            let machine = module.place.machines.first();
            let machine = machine.map(|(machine, _)| &self.machines[*machine]);
            for (at, computation) in module.computations.iter().enumerate() {
                let work = computation.work.map(|work| &self.works[work]);
                let Some(work) = work.filter(|work| work.points.len() > 1) else {
                    continue;
                };
                points.extend(point(self, work, machine).map(|point| ModulePoint {
                    module: module.computation_name(at),
                    work: work.name.clone(),
                    condition: point.condition.clone(),
                }));
            }
        }
        points
    }

    /// Whether the operating points of a work have a condition on this number.
    pub fn depends_on(&self, work: &str, number: &StatedNumber) -> bool {
        let works = self.works.iter().filter(|one| one.name == work);
        let mut conditions = works
            .flat_map(|work| &work.points)
            .flat_map(|point| &point.numbers);
        conditions.any(|condition| condition.number == *number)
    }

    /// What was measured of a number, or else the contract states; `None` if it has none, as of a time that was not
    /// measured: operating points state times, so that a condition on what they state would say nothing.
    pub fn number(&self, number: &StatedNumber) -> Option<f64> {
        let module_of = |name: &String| self.modules.iter().find(|one| one.name == *name);
        match number {
            StatedNumber::Size { stream } => {
                let stream = self.streams.iter().find(|one| one.name == *stream)?;
                stream.item_bytes
            }
            StatedNumber::Time { module } => module_of(module)?.measured_s,
            StatedNumber::Items { module, stream } => {
                let [computation] = module_of(module)?.computations.as_slice() else {
                    return None;
                };
                let mut gives = computation.gives.iter();
                let (_, items) = gives.find(|(to, _)| self.streams[*to].name == *stream)?;
                Some(to_f64(*items))
            }
        }
    }
}

impl fmt::Display for ModulePoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is at the operating point of {} ", self.module, self.work)?;
        match self.condition.as_str() {
            "" => write!(out, "without a condition"),
            condition => write!(out, "with {condition}"),
        }
    }
}

/// The first operating point of a work that holds on this machine, or without machines.
pub(super) fn point<'a>(
    contract: &Contract,
    work: &'a Work,
    machine: Option<&Machine>,
) -> Option<&'a OperatingPoint> {
    work.points.iter().find(|point| {
        let is_adequate = match machine {
            Some(machine) => machine.has_at_least(&point.properties),
            None => point.properties.is_empty(),
        };
        let holds = |least: f64, number| contract.number(number).is_some_and(|value| value >= least);
        is_adequate && point.numbers.iter().all(|one| holds(one.least, &one.number))
    })
}
