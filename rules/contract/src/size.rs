//! The smallest number of equal machines, or the least cost of unequal ones, that meets the assessed rates.

use std::collections::BTreeMap;

use serde::Serialize;
use syntax::diag::Diagnostic;

use super::assess::Assessment;
use super::choice::NotChosen;
use super::error::{ContractError, unknown};
use super::model::{Contract, Module};
use super::service::{Workers, use_of};
use super::system::{Feature, System};

/// The size of a parallel module.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    pub module: String,
    /// Kinds of machines with how many of each; without kinds, the number of workers.
    pub machines: BTreeMap<String, u32>,
    pub workers: u32,
    /// The variable of the program that sets the number of workers.
    pub set: Option<String>,
    /// The share of their time that the assessed rates use.
    pub utilisation: f64,
    pub cost: f64,
    /// Why no number of workers is enough; then the above is the most that there is.
    pub insufficient: Option<String>,
}

/// The service rate may lack this share, which is rounding.
const ROUNDING: f64 = 1e-9;
/// Maximum number of workers that are tried.
const WORKERS_MAX: u32 = 100_000;

impl Contract {
    /// Sizes of the parallel modules with work, at the assessed rates.
    ///
    /// # Errors
    /// If the contract cannot be assessed.
    pub fn sizes(&self) -> Result<(Assessment, Vec<Size>), Vec<Diagnostic>> {
        self.sizes_at(1.0)
    }

    /// Sizes at so many times the assessed rates.
    pub(super) fn sizes_at(&self, times: f64) -> Result<(Assessment, Vec<Size>), Vec<Diagnostic>> {
        let assessment = self.assess()?;
        let system = System::of(self);
        let mut out = Vec::new();
        for (index, module) in self.modules.iter().enumerate() {
            if module.workers.is_none() && module.place.machines.len() < 2 || !module.has_work() {
                continue;
            }
            let rates = self.activations(&system, &assessment, index);
            let rates: Vec<f64> = rates.iter().map(|rate| rate * times).collect();
            let size = match module.place.machines.len() {
                0 | 1 => equal(self, index, module, &rates),
                _ => self.unequal(index, rates),
            };
            out.push(size.map_err(|wrong| vec![wrong])?);
        }
        Ok((assessment, out))
    }

    /// The assessed rates of the computations of a module.
    pub(super) fn activations(&self, system: &System, assessment: &Assessment, module: usize) -> Vec<f64> {
        let rate = |computation| {
            let column = system.column(Feature::Activation { module, computation });
            column.map_or(0.0, |column| assessment.features[column].rate)
        };
        (0..self.modules[module].computations.len()).map(rate).collect()
    }

    /// The least cost of machines of several kinds.
    fn unequal(&self, index: usize, rates: Vec<f64>) -> Result<Size, Diagnostic> {
        let one = self.candidate(index, rates)?;
        let all = || {
            one.uses
                .iter()
                .map(|(kind, _)| (*kind, self.machines[*kind].count))
        };
        let (machines, insufficient) = match self.chosen(std::slice::from_ref(&one), 1.0) {
            Ok(choice) => (one.machines(&choice.counts[0]), None),
            Err(NotChosen::TooFew) => (
                all().collect(),
                Some("all machines of these kinds are not enough"),
            ),
            Err(NotChosen::TooLong) => {
                return Err(unknown(&self.modules[index], &ContractError::TooManyChoices));
            }
        };
        Ok(Size {
            insufficient: insufficient.map(str::to_owned),
            ..self.sized(index, &one.rates, &machines)?
        })
    }

    /// A module with these machines.
    pub(super) fn sized(&self, index: usize, rates: &[f64], machines: &Workers) -> Result<Size, Diagnostic> {
        let module = &self.modules[index];
        let workers = machines.iter().map(|(_, count)| *count).sum();
        let of_kind = |(kind, count): &(usize, u32)| (self.machines[*kind].name.clone(), *count);
        let cost = |(kind, count): &(usize, u32)| self.machines[*kind].cost * f64::from(*count);
        Ok(Size {
            module: module.name.clone(),
            set: self.variable_at(index),
            machines: machines.iter().map(of_kind).collect(),
            workers,
            utilisation: use_of(self, module, rates, machines, workers)
                .map_err(|why| unknown(module, &why))?,
            cost: machines.iter().map(cost).sum(),
            insufficient: None,
        })
    }

    /// The variable that sets the number of workers of a module.
    fn variable_at(&self, index: usize) -> Option<String> {
        let adaptation = self.adaptations.iter().find(|one| one.module == index);
        adaptation.map(|one| one.variable.clone())
    }
}

fn equal(contract: &Contract, index: usize, module: &Module, rates: &[f64]) -> Result<Size, Diagnostic> {
    let kind = module.place.machines.first().map(|(machine, _)| *machine);
    let there_are = kind.map_or(WORKERS_MAX, |kind| contract.machines[kind].count);
    let (least, most) = contract.range(index).unwrap_or((1, WORKERS_MAX));
    let table = module.efficiency.last().map_or(WORKERS_MAX, |(last, _)| *last);
    let most = most.min(there_are).min(table);
    let with = |count: u32| {
        let machines = kind.map(|kind| (kind, count)).into_iter().collect();
        use_of(contract, module, rates, &machines, count).map_err(|why| unknown(module, &why))
    };
    let mut best: Option<(u32, f64)> = None;
    for count in least.min(most)..=most {
        let used = with(count)?;
        if best.is_none_or(|(_, known)| used < known) {
            best = Some((count, used));
        }
        if used <= 1.0 + ROUNDING {
            best = Some((count, used));
            break;
        }
    }
    let (workers, utilisation) = best.unwrap_or((most, with(most)?));
    let kind = kind.map(|kind| &contract.machines[kind]);
    Ok(Size {
        module: module.name.clone(),
        set: contract.variable_at(index),
        machines: kind
            .map(|kind| (kind.name.clone(), workers))
            .into_iter()
            .collect(),
        workers,
        utilisation,
        cost: kind.map_or(1.0, |kind| kind.cost) * f64::from(workers),
        insufficient: (utilisation > 1.0 + ROUNDING).then(|| format!("at most {most} workers are possible")),
    })
}
