//! The cheapest machines for modules that compete for them: an integer program.

use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolveOptions, Variable};
use syntax::diag::Diagnostic;

use super::error::{ContractError, unknown};
use super::model::{Contract, Module};
use super::service::{Workers, efficiency, fits, time_on};

/// The service rate may lack this share, which is rounding.
const ROUNDING: f64 = 1e-9;
/// One machine that delivers more times the rate is enough however much more it delivers.
const RATE_MAX: f64 = 1e6;
/// Maximum number of workers of a module.
const WORKERS_MAX: u32 = 100_000;
/// Maximum number of steps of a choice; then the best so far is taken.
const STEPS_MAX: u64 = 2_000;

/// A module that gets machines.
pub(super) struct CompetingModule {
    pub(super) module: usize,
    pub(super) rates: Vec<f64>,
    /// The kinds that it may run on, with the share of the time of one machine that its activations take.
    pub(super) uses: Vec<(usize, f64)>,
    /// The least and the greatest number of machines.
    range: (u32, u32),
    /// By number of machines, if it depends on that.
    pub(super) efficiency: Vec<(u32, f64)>,
}

/// Numbers of machines of each candidate, by the kinds that it may run on.
pub(super) struct Choice {
    pub(super) counts: Vec<Vec<u32>>,
    /// No other choice costs less; otherwise not all could be tried.
    pub(super) is_least: bool,
}

/// Why nothing is chosen.
pub(super) enum NotChosen {
    /// All machines are not enough.
    TooFew,
    /// It takes too many steps.
    TooLong,
}

impl Contract {
    pub(super) fn candidate(&self, index: usize, rates: Vec<f64>) -> Result<CompetingModule, Diagnostic> {
        let module = &self.modules[index];
        let stated = &module.place.machines;
        let is_stated = |kind: usize| stated.is_empty() || stated.iter().any(|(known, _)| *known == kind);
        let (mut uses, mut why) = (Vec::new(), None);
        for kind in (0..self.machines.len()).filter(|kind| is_stated(*kind)) {
            match self.use_on(module, &rates, kind) {
                Ok(used) => uses.push((kind, used)),
                Err(reason) => why = why.or(Some(reason)),
            }
        }
        if uses.is_empty() {
            let why = why.map_or_else(
                || "the contract states no `machines`".to_owned(),
                |why: ContractError| why.to_string(),
            );
            let message = format!("no machine fits `{}`: {why}", module.name);
            return Err(Diagnostic::wrong("E0179", module.span, message));
        }
        let works = module
            .computations
            .iter()
            .filter(|one| one.work.is_some())
            .count();
        let is_parallel = module.workers.is_some() || stated.len() > 1;
        if is_parallel && uses.len() > 1 && works > 1 {
            let name = module.name.clone();
            return Err(unknown(module, &ContractError::SeveralWorks { module: name }));
        }
        let range = match is_parallel {
            true => self.range(index).unwrap_or((1, WORKERS_MAX)),
            false => (1, 1),
        };
        Ok(CompetingModule {
            efficiency: self
                .efficiencies(module, &uses, range)
                .map_err(|why| unknown(module, &why))?,
            module: index,
            rates,
            uses,
            range,
        })
    }

    /// The used share of the power of each number of workers that it may have; empty if it is all.
    fn efficiencies(
        &self,
        module: &Module,
        uses: &[(usize, f64)],
        (least, most): (u32, u32),
    ) -> Result<Vec<(u32, f64)>, ContractError> {
        let Some((last, _)) = module.efficiency.last() else {
            return Ok(Vec::new());
        };
        let there_are: u32 = uses.iter().map(|(kind, _)| self.machines[*kind].count).sum();
        let most = most.min(*last).min(there_are).max(least);
        (least..=most)
            .map(|number| Ok((number, efficiency(module, number)?)))
            .collect()
    }

    /// The share of the time of one machine of a kind that the activations take.
    fn use_on(&self, module: &Module, rates: &[f64], kind: usize) -> Result<f64, ContractError> {
        fits(module, &self.machines[kind])?;
        let works = module.computations.iter().zip(rates);
        let works = works.filter_map(|(computation, rate)| Some((computation.work?, rate)));
        works
            .map(|(work, rate)| Ok(rate * time_on(self, work, kind)?))
            .sum()
    }

    /// Machines of all candidates with which so many times the assessed rates hold, at the least cost.
    pub(super) fn chosen(&self, candidates: &[CompetingModule], times: f64) -> Result<Choice, NotChosen> {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let shared: Vec<Option<Variable>> = self
            .machines
            .iter()
            .map(|kind| (kind.count == 1).then(|| problem.add_integer_var(kind.cost, (0, 1))))
            .collect();
        let mut taken: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.machines.len()];
        let mut counts: Vec<Vec<Variable>> = Vec::new();
        for one in candidates {
            let mut of_one = Vec::new();
            for (kind, used) in &one.uses {
                let machine = &self.machines[*kind];
                let most = i32::try_from(machine.count.min(one.range.1)).unwrap_or(i32::MAX);
                let cost = if shared[*kind].is_some() {
                    0.0
                } else {
                    machine.cost
                };
                let count = problem.add_integer_var(cost, (0, most));
                if let Some(shared) = shared[*kind] {
                    problem.add_constraint([(count, 1.0), (shared, -1.0)], ComparisonOp::Le, 0.0);
                }
                // A machine of its own kind is shared by the modules that run on it alone.
                let is_part = shared[*kind].is_some() && one.range.1 == 1;
                taken[*kind].push((count, if is_part { used * times } else { 1.0 }));
                of_one.push(count);
            }
            one.constrain(&mut problem, &of_one, times);
            counts.push(of_one);
        }
        for (machine, taken) in self.machines.iter().zip(taken) {
            let most = f64::from(machine.count) + ROUNDING;
            problem.add_constraint(taken.as_slice(), ComparisonOp::Le, most);
        }
        let mut options = SolveOptions::default();
        options.node_limit = Some(STEPS_MAX);
        let found = problem.solve_with(options).map_err(|error| match error {
            Error::Infeasible => NotChosen::TooFew,
            _ => NotChosen::TooLong,
        })?;
        let is_least = found.is_optimal();
        let solution = found.into_solution().map_err(|_| NotChosen::TooLong)?;
        let number = |count: &Variable| solution.var_value(*count).round().max(0.0) as u32;
        let counts = counts.iter().map(|of_one| of_one.iter().map(number).collect());
        Ok(Choice {
            counts: counts.collect(),
            is_least,
        })
    }
}

impl CompetingModule {
    /// The kinds of which it has machines, with how many.
    pub(super) fn machines(&self, counts: &[u32]) -> Workers {
        let machines = self.uses.iter().zip(counts);
        let machines = machines.filter(|(_, count)| **count > 0);
        machines.map(|((kind, _), count)| (*kind, *count)).collect()
    }

    /// The machines deliver the rates, and there are as many as there may be.
    fn constrain(&self, problem: &mut Problem, counts: &[Variable], times: f64) {
        let rates = counts.iter().zip(&self.uses);
        let rate = |used: f64| (1.0 / (used * times)).min(RATE_MAX);
        let rates: Vec<(Variable, f64)> = rates.map(|(count, (_, used))| (*count, rate(*used))).collect();
        let all: Vec<(Variable, f64)> = counts.iter().map(|count| (*count, 1.0)).collect();
        if self.efficiency.is_empty() {
            problem.add_constraint(rates.as_slice(), ComparisonOp::Ge, 1.0 - ROUNDING);
            problem.add_constraint(all.as_slice(), ComparisonOp::Ge, f64::from(self.range.0));
            problem.add_constraint(all.as_slice(), ComparisonOp::Le, f64::from(self.range.1));
            return;
        }
        // One of the numbers is chosen, and with it how much more the machines have to deliver.
        let numbers: Vec<(Variable, u32, f64)> = self
            .efficiency
            .iter()
            .map(|(number, share)| (problem.add_integer_var(0.0, (0, 1)), *number, *share))
            .collect();
        let (mut rates, mut all) = (rates, all);
        rates.extend(
            numbers
                .iter()
                .map(|(is_it, _, share)| (*is_it, -(1.0 - ROUNDING) / share)),
        );
        all.extend(
            numbers
                .iter()
                .map(|(is_it, number, _)| (*is_it, -f64::from(*number))),
        );
        let one: Vec<(Variable, f64)> = numbers.iter().map(|(is_it, ..)| (*is_it, 1.0)).collect();
        problem.add_constraint(one.as_slice(), ComparisonOp::Eq, 1.0);
        problem.add_constraint(rates.as_slice(), ComparisonOp::Ge, 0.0);
        problem.add_constraint(all.as_slice(), ComparisonOp::Eq, 0.0);
    }
}
