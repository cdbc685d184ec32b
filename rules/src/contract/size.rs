//! The smallest number of equal machines, or the least cost of unequal ones, that meets the assessed rates.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use serde::Serialize;

use super::assess::Assessment;
use super::model::{Contract, Module};
use super::service::{efficiency, time_on, use_of};
use super::system::{Feature, System};
use crate::diag::Diagnostic;

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
            let rate = |computation| {
                let column = system.column(Feature::Activation {
                    module: index,
                    computation,
                });
                column.map_or(0.0, |column| assessment.features[column].rate * times)
            };
            let rates: Vec<f64> = (0..module.computations.len()).map(rate).collect();
            let size = match module.place.machines.len() {
                0 | 1 => equal(self, index, module, &rates),
                _ => unequal(self, module, &rates),
            };
            let size = size.map_err(|why| vec![Diagnostic::wrong("E0181", module.span, why)])?;
            let adaptation = self.adaptations.iter().find(|one| one.module == index);
            out.push(Size {
                set: adaptation.map(|one| one.variable.clone()),
                ..size
            });
        }
        Ok((assessment, out))
    }
}

fn equal(contract: &Contract, index: usize, module: &Module, rates: &[f64]) -> Result<Size, String> {
    let kind = module.place.machines.first().map(|(machine, _)| *machine);
    let there_are = kind.map_or(WORKERS_MAX, |kind| contract.machines[kind].count);
    let (least, most) = contract.range(index).unwrap_or((1, WORKERS_MAX));
    let table = module.efficiency.last().map_or(WORKERS_MAX, |(last, _)| *last);
    let most = most.min(there_are).min(table);
    let with = |count: u32| {
        let machines = kind.map(|kind| (kind, count)).into_iter().collect();
        use_of(contract, module, rates, &machines, count)
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
        set: None,
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

/// The least cost of machines of several kinds: an integer program, for each number of workers if the
/// efficiency depends on it.
fn unequal(contract: &Contract, module: &Module, rates: &[f64]) -> Result<Size, String> {
    let works: Vec<(usize, f64)> = module
        .computations
        .iter()
        .zip(rates)
        .filter_map(|(computation, rate)| Some((computation.work?, *rate)))
        .collect();
    let [(work, rate)] = works.as_slice() else {
        return Err(format!(
            "`{}` has several works on machines of several kinds",
            module.name
        ));
    };
    let kinds: Vec<usize> = module
        .place
        .machines
        .iter()
        .map(|(machine, _)| *machine)
        .collect();
    let speeds = kinds
        .iter()
        .map(|kind| Ok(1.0 / time_on(contract, *work, *kind)?));
    let speeds = speeds.collect::<Result<Vec<f64>, String>>()?;
    let there_are: Vec<u32> = kinds.iter().map(|kind| contract.machines[*kind].count).collect();
    let costs: Vec<f64> = kinds.iter().map(|kind| contract.machines[*kind].cost).collect();
    let best = best_choice(module, &speeds, &there_are, &costs, *rate)?;
    let (counts, insufficient) = match best {
        Some((_, counts)) => (counts, None),
        None => (
            there_are,
            Some("all machines of these kinds are not enough".to_string()),
        ),
    };
    let machines: Vec<(usize, u32)> = kinds
        .iter()
        .copied()
        .zip(counts.iter().copied())
        .filter(|(_, count)| *count > 0)
        .collect();
    let workers = counts.iter().sum();
    Ok(Size {
        module: module.name.clone(),
        set: None,
        utilisation: use_of(contract, module, rates, &machines, workers)?,
        machines: machines
            .iter()
            .map(|(kind, count)| (contract.machines[*kind].name.clone(), *count))
            .collect(),
        workers,
        cost: counts
            .iter()
            .zip(&costs)
            .map(|(count, cost)| f64::from(*count) * cost)
            .sum(),
        insufficient,
    })
}

/// The cheapest numbers of machines, over all numbers of workers if the efficiency depends on them.
fn best_choice(
    module: &Module,
    speeds: &[f64],
    there_are: &[u32],
    costs: &[f64],
    rate: f64,
) -> Result<Option<(f64, Vec<u32>)>, String> {
    let total: u32 = there_are.iter().sum();
    let candidates: Vec<Option<u32>> = match module.efficiency.last() {
        None => vec![None],
        Some((last, _)) => (1..=total.min(*last)).map(Some).collect(),
    };
    let mut best: Option<(f64, Vec<u32>)> = None;
    for number in candidates {
        let share = number.map_or(Ok(1.0), |number| efficiency(module, number))?;
        let found = cheapest(speeds, there_are, costs, rate / share, number);
        if let Some((cost, counts)) = found
            && best.as_ref().is_none_or(|(known, _)| cost < *known - ROUNDING)
        {
            best = Some((cost, counts));
        }
    }
    Ok(best)
}

fn cheapest(
    speeds: &[f64],
    there_are: &[u32],
    costs: &[f64],
    rate: f64,
    number: Option<u32>,
) -> Option<(f64, Vec<u32>)> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let counts: Vec<Variable> = there_are
        .iter()
        .zip(costs)
        .map(|(most, cost)| problem.add_integer_var(*cost, (0, i32::try_from(*most).unwrap_or(i32::MAX))))
        .collect();
    let terms: Vec<(Variable, f64)> = counts
        .iter()
        .copied()
        .zip(speeds.iter().map(|speed| speed / rate))
        .collect();
    problem.add_constraint(terms.as_slice(), ComparisonOp::Ge, 1.0 - ROUNDING);
    if let Some(number) = number {
        let all: Vec<(Variable, f64)> = counts.iter().map(|count| (*count, 1.0)).collect();
        problem.add_constraint(all.as_slice(), ComparisonOp::Eq, f64::from(number));
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    let counts: Vec<u32> = counts
        .iter()
        .map(|count| solution.var_value(*count).round().max(0.0) as u32)
        .collect();
    let cost = counts
        .iter()
        .zip(costs)
        .map(|(count, cost)| f64::from(*count) * cost)
        .sum();
    Some((cost, counts))
}
