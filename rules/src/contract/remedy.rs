//! The least change of workers that lets a contract hold, from service times as measured while its program ran.

use serde::Serialize;

use super::capacity::Capacity;
use super::model::{Adaptation, Contract, Module, OperatingPoint, Work};
use super::service::{efficiency, workers};
use crate::diag::Diagnostic;
use crate::quantity::significant;

/// What to do about a module that is compute-bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Remedy {
    Set(WorkersStep),
    /// Why no step is taken: the greatest rate with it, and what binds it.
    Nothing(String),
}

/// The number of workers of one module, and the rates that follow from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkersStep {
    pub module: String,
    /// The variable of the program that sets the number, and where it is set.
    pub variable: String,
    pub at: Option<String>,
    /// The least and the greatest number that may be set.
    pub range: (u32, u32),
    pub from: u32,
    pub to: u32,
    /// The first required feature, with the rate that is promised of it.
    pub feature: String,
    pub promised: f64,
    /// The promised rate of the module's activations.
    pub module_rate: f64,
    /// What binds the rates then.
    pub then_bound_by: String,
}

/// A greatest rate that lacks this share of the required one is rounding.
const ROUNDING: f64 = 1e-9;

impl Contract {
    /// Replaces the work of a module by what was measured: how long it was busy per activation, with its number
    /// of workers at that time; of `None` as many as the contract states.
    ///
    /// # Errors
    /// If there is no such module, or it has several computations.
    pub fn measure(&mut self, module: &str, busy_s: f64, count: Option<u32>) -> Result<(), String> {
        if let Some(count) = count {
            self.suppose(&format!("{module}.workers = {count}"))?;
        }
        let index = self.modules.iter().position(|one| one.name == module);
        let index = index.ok_or_else(|| format!("there is no module `{module}`"))?;
        let (_, count) = workers(&self.modules[index])?;
        let share = efficiency(&self.modules[index], count)?;
        let [computation] = self.modules[index].computations.as_mut_slice() else {
            return Err(format!("`{module}` has several computations"));
        };
        computation.work = Some(self.works.len());
        self.works.push(Work {
            name: format!("{module} as measured"),
            points: vec![OperatingPoint {
                properties: Default::default(),
                time_s: Some(busy_s * f64::from(count) * share),
                amounts: Default::default(),
                overlapped: false,
            }],
        });
        Ok(())
    }

    /// The variable that sets the number of workers of a module.
    ///
    /// # Errors
    /// If the contract states none: why no step is taken.
    pub fn variable_of(&self, module: &str) -> Result<&str, String> {
        Ok(self.adaptation(module)?.0.variable.as_str())
    }

    fn adaptation(&self, module: &str) -> Result<(&Adaptation, &Module), String> {
        let both = self
            .adaptations
            .iter()
            .map(|one| (one, &self.modules[one.module]));
        let mut same = both.filter(|(_, of)| of.name == module);
        same.next()
            .ok_or_else(|| format!("the contract states nothing to adapt in {module}"))
    }

    /// The least number of workers of a module with which the contract holds, if there is one.
    ///
    /// # Errors
    /// If the contract cannot be assessed.
    pub fn remedy(&self, module: &str) -> Result<Remedy, Vec<Diagnostic>> {
        let nothing = |why: String| Ok(Remedy::Nothing(why));
        let (adaptation, adapted) = match self.adaptation(module) {
            Ok(both) => both,
            Err(why) => return nothing(why),
        };
        let (_, sizes) = self.sizes()?;
        let size = sizes.into_iter().find(|size| size.module == module);
        let (Some(size), Ok((_, now))) = (size, workers(adapted)) else {
            return nothing(format!("the contract does not state the `workers` of {module}"));
        };
        let mut changed = self.clone();
        if let Err(why) = changed.suppose(&format!("{module}.workers = {}", size.workers)) {
            return nothing(why);
        }
        let (assessment, capacity) = match changed.capacity() {
            Ok(both) => both,
            // Such as more workers than there are machines.
            Err(wrong) => return nothing(wrong.first().map_or(String::new(), |one| one.message.clone())),
        };
        let first = capacity.resources.first().map(|one| one.resource.clone());
        let (Some(greatest), Some(then_bound_by)) = (capacity.greatest, first) else {
            return nothing(format!("nothing in the contract limits {}", capacity.feature));
        };
        if greatest < capacity.rate * (1.0 - ROUNDING) {
            return nothing(unreachable(
                module,
                size.workers,
                &capacity,
                greatest,
                &then_bound_by,
            ));
        }
        if size.workers <= now {
            return nothing(format!(
                "{module} has {now} workers, which are enough by the contract: it does not describe this program"
            ));
        }
        Ok(Remedy::Set(WorkersStep {
            module: module.to_owned(),
            variable: adaptation.variable.clone(),
            at: adaptation.at.clone(),
            range: (adaptation.least, adaptation.most),
            from: now,
            to: size.workers,
            promised: greatest,
            module_rate: assessment.rate(module).unwrap_or_default() * greatest / capacity.rate,
            feature: capacity.feature,
            then_bound_by,
        }))
    }
}

/// `film is required at 1/s, and can be at most 0.4/s with 16 workers in C2, bound by link lan`
fn unreachable(module: &str, workers: u32, capacity: &Capacity, greatest: f64, bound_by: &str) -> String {
    format!(
        "{} is required at {}/s, and can be at most {}/s with {workers} workers in {module}, bound by {bound_by}",
        capacity.feature,
        significant(capacity.rate, 4),
        significant(greatest, 4)
    )
}
