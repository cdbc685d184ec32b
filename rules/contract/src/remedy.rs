//! The least change of workers that lets a contract hold, from service times as measured while its program ran.

use std::collections::BTreeMap;

use serde::Serialize;
use syntax::diag::Diagnostic;
use syntax::quantity::significant;

use super::capacity::Capacity;
use super::error::ContractError;
use super::model::{Adaptation, Contract, OperatingPoint, Work};
use super::service::{efficiency, use_of, workers};
use super::size::Size;

/// What to do about a contract that does not hold, or whose modules have more workers than it needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Remedy {
    Set(ContractStep),
    /// Why no step is taken: the greatest rate with it, and what binds it.
    Nothing(String),
}

/// New numbers of workers, and the rates that follow from them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContractStep {
    /// The module that has to act, then those that would bind the rates instead of it.
    pub modules: Vec<WorkersStep>,
    /// The first required feature, with the rate that is predicted of it.
    pub feature: String,
    pub predicted: f64,
    /// What binds the rates then.
    pub then_bound_by: String,
}

/// The number of workers of one module.
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
    /// Activations of the module per second that the contract requires, and that are predicted.
    pub required_rate: f64,
    pub predicted_rate: f64,
}

/// A greatest rate that lacks this share of the required one is rounding.
const ROUNDING: f64 = 1e-9;

/// Workers are given back if the rest can deliver a tenth more than is required, so that small changes of the load
/// do not add and remove workers by turns.
const WITH_FEWER: f64 = 1.1;

impl Contract {
    /// Replaces the work of a module by what was measured: how long it was busy per activation, with its number
    /// of workers at that time; of `None` as many as the contract states.
    ///
    /// # Errors
    /// If there is no such module, or it has several computations.
    pub fn measure(&mut self, module: &str, busy_s: f64, count: Option<u32>) -> Result<(), ContractError> {
        if let Some(count) = count {
            self.set_workers(module, count)?;
        }
        let index = self.modules.iter().position(|one| one.name == module);
        let index = index.ok_or_else(|| ContractError::NoModule {
            module: module.to_owned(),
        })?;
        let (_, count) = workers(&self.modules[index])?;
        let share = efficiency(&self.modules[index], count)?;
        let [computation] = self.modules[index].computations.as_mut_slice() else {
            return Err(ContractError::SeveralComputations {
                module: module.to_owned(),
            });
        };
        computation.work = Some(self.works.len());
        self.modules[index].measured_s = Some(busy_s);
        self.works.push(Work {
            name: format!("{module} as measured"),
            points: vec![OperatingPoint::of_time(busy_s * f64::from(count) * share)],
        });
        Ok(())
    }

    /// How long the workers of a module are busy with an activation, by the work that the contract states, in
    /// seconds; `None` if it states none, or the module has several computations.
    pub fn busy_s(&self, module: &str) -> Option<f64> {
        let module = self.modules.iter().find(|one| one.name == module)?;
        let (machines, count) = workers(module).ok()?;
        let busy_s = match module.computations.as_slice() {
            [_] => use_of(self, module, &[1.0], &machines, count).ok()?,
            _ => return None,
        };
        (busy_s > 0.0).then_some(busy_s)
    }

    /// The variable that sets the number of workers of a module.
    ///
    /// # Errors
    /// If the contract states none: why no step is taken.
    pub fn variable_of(&self, module: &str) -> Result<&str, ContractError> {
        let name = |one: &&Adaptation| self.modules[one.module].name == module;
        let found = self.adaptations.iter().find(name);
        let module = || module.to_owned();
        let found = found.ok_or_else(|| ContractError::NothingToAdapt { module: module() })?;
        if self.modules[found.module].computations.len() > 1 {
            return Err(ContractError::TimesNotMeasured { module: module() });
        }
        match self.modules[found.module].workers {
            Some(_) => Ok(&found.variable),
            None => Err(ContractError::WorkersNotStated { module: module() }),
        }
    }

    /// The least numbers of workers with which the contract holds, if there are any. `module` is the one that has
    /// to act; where more workers in it alone only move the bottleneck, the others that are too slow get more, too.
    /// `now` has the numbers that can be changed.
    ///
    /// # Errors
    /// If the contract cannot be assessed.
    pub fn remedy(&self, module: &str, now: &BTreeMap<String, u32>) -> Result<Remedy, Vec<Diagnostic>> {
        if let Err(why) = self.variable_of(module) {
            return Ok(Remedy::Nothing(why.to_string()));
        }
        let mut slower = self.least_workers(1.0, now)?;
        let Some(own) = slower.iter().position(|one| one.module == module) else {
            return Ok(Remedy::Nothing(format!(
                "the number of workers of {module} is not known"
            )));
        };
        let own = slower.remove(own);
        if own.to <= own.from {
            return Ok(Remedy::Nothing(format!(
                "{module} has {} workers, which are enough by the contract: it does not describe this program",
                own.from
            )));
        }
        let alone = self.step(vec![own.clone()])?;
        slower.retain(|one| one.to > one.from);
        match alone {
            Remedy::Nothing(_) if !slower.is_empty() => self.step([vec![own], slower].concat()),
            _ => Ok(alone),
        }
    }

    /// The least numbers of workers for modules that have more than the contract needs; `None` if none has.
    ///
    /// # Errors
    /// If the contract cannot be assessed.
    pub fn spare(&self, now: &BTreeMap<String, u32>) -> Result<Option<ContractStep>, Vec<Diagnostic>> {
        let mut fewer = self.least_workers(WITH_FEWER, now)?;
        fewer.retain(|one| one.to < one.from);
        if fewer.is_empty() {
            return Ok(None);
        }
        Ok(match self.step(fewer)? {
            Remedy::Set(step) => Some(step),
            Remedy::Nothing(_) => None,
        })
    }

    /// For each module that can be changed the least number of workers that delivers so many times the required
    /// rates, or the best one if none does.
    fn least_workers(
        &self,
        times: f64,
        now: &BTreeMap<String, u32>,
    ) -> Result<Vec<WorkersStep>, Vec<Diagnostic>> {
        let (_, sizes) = self.sizes_at(times)?;
        let step = |size: Size| {
            let mut adaptations = self.adaptations.iter();
            let adaptation = adaptations.find(|one| self.modules[one.module].name == size.module)?;
            Some(WorkersStep {
                from: *now.get(&size.module)?,
                module: size.module,
                variable: adaptation.variable.clone(),
                at: adaptation.at.clone(),
                range: (adaptation.least, adaptation.most),
                to: size.workers,
                required_rate: 0.0,
                predicted_rate: 0.0,
            })
        };
        Ok(sizes.into_iter().filter_map(step).collect())
    }

    /// The rates that follow from these numbers of workers, if the contract holds with them.
    ///
    /// # Errors
    /// If the contract cannot be assessed.
    pub fn step(&self, mut modules: Vec<WorkersStep>) -> Result<Remedy, Vec<Diagnostic>> {
        let nothing = |why: String| Ok(Remedy::Nothing(why));
        let mut changed = self.clone();
        for one in &modules {
            if let Err(why) = changed.set_workers(&one.module, one.to) {
                return nothing(why.to_string());
            }
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
            return nothing(unreachable(&modules, &capacity, greatest, &then_bound_by));
        }
        for one in &mut modules {
            one.required_rate = assessment.rate(&one.module).unwrap_or_default();
            one.predicted_rate = one.required_rate * greatest / capacity.rate;
        }
        Ok(Remedy::Set(ContractStep {
            modules,
            feature: capacity.feature,
            predicted: greatest,
            then_bound_by,
        }))
    }
}

/// `film is required at 1/s, and can be at most 0.4/s with 16 workers in C2 and 2 in C4, bound by link lan`
fn unreachable(modules: &[WorkersStep], capacity: &Capacity, greatest: f64, bound_by: &str) -> String {
    let numbers = modules.iter().enumerate().map(|(at, one)| match at {
        0 => format!("{} workers in {}", one.to, one.module),
        _ => format!(" and {} in {}", one.to, one.module),
    });
    format!(
        "{} is required at {}/s, and can be at most {}/s with {}, bound by {bound_by}",
        capacity.feature,
        significant(capacity.rate, 4),
        significant(greatest, 4),
        numbers.collect::<String>()
    )
}
