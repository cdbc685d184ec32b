//! Machines for all modules together, at the least cost: no two of them get the same one. Sizes alone (`size`) are of
//! each module by itself, on the kinds that its place names.

use serde::Serialize;
use syntax::diag::Diagnostic;
use syntax::quantity::significant;

use super::capacity::Capacity;
use super::choice::{CompetingModule, NotChosen};
use super::exact::to_f64;
use super::model::Contract;
use super::size::Size;
use super::system::System;

/// Where the modules with work run.
#[derive(Clone, Debug, Serialize)]
pub struct MachineMap {
    pub modules: Vec<Size>,
    /// Of all machines that are used; one that modules share counts once.
    pub cost: f64,
    /// No other choice costs less; otherwise not all could be tried.
    pub is_least: bool,
    /// What the resources deliver then.
    pub capacity: Capacity,
}

/// Maximum number of variables of a choice: the time that it takes grows with them.
const VARIABLES_MAX: usize = 300;
/// Halvings by which the greatest rate is found where the machines are not enough.
const HALVINGS: usize = 14;
/// A rate below this share of the required one is none.
const SHARE_MIN: f64 = 1e-4;

impl Contract {
    /// Chooses the machines of all modules with work, so that the assessed rates hold at the least cost. A module that
    /// states no machines may run on each that meets the conditions of its place.
    ///
    /// # Errors
    /// If the contract cannot be assessed, no machine fits a module, or all of them are not enough.
    pub fn mapping(&self) -> Result<MachineMap, Vec<Diagnostic>> {
        let candidates = self.candidates()?;
        let variables = |one: &CompetingModule| one.uses.len() + one.efficiency.len();
        let variables: usize = candidates.iter().map(variables).sum();
        if variables > VARIABLES_MAX {
            return Err(self.too_long());
        }
        let choice = self.chosen(&candidates, 1.0).map_err(|why| match why {
            NotChosen::TooFew => self.too_few(&candidates),
            NotChosen::TooLong => self.too_long(),
        })?;
        let (mut modules, mut mapped) = (Vec::new(), self.clone());
        let mut used = vec![0; self.machines.len()];
        for (one, counts) in candidates.iter().zip(&choice.counts) {
            let machines = one.machines(counts);
            machines.iter().for_each(|(kind, count)| used[*kind] += count);
            let size = self
                .sized(one.module, &one.rates, &machines)
                .map_err(|wrong| vec![wrong])?;
            let module = &mut mapped.modules[one.module];
            module.place.machines = machines;
            if let Some(workers) = &mut module.workers {
                workers.count = Some(size.workers);
            }
            modules.push(size);
        }
        let used = self.machines.iter().zip(used);
        let cost = used
            .map(|(kind, used)| kind.cost * f64::from(used.min(kind.count)))
            .sum();
        let (_, capacity) = mapped.capacity()?;
        match mapped.exceeded(&capacity) {
            Some(wrong) => Err(vec![wrong]),
            None => Ok(MachineMap {
                modules,
                cost,
                is_least: choice.is_least,
                capacity,
            }),
        }
    }

    fn candidates(&self) -> Result<Vec<CompetingModule>, Vec<Diagnostic>> {
        let assessment = self.assess()?;
        let system = System::of(self);
        let mut out = Vec::new();
        for index in (0..self.modules.len()).filter(|index| self.modules[*index].has_work()) {
            let rates = self.activations(&system, &assessment, index);
            if rates.iter().sum::<f64>() > 0.0 {
                out.push(self.candidate(index, rates).map_err(|wrong| vec![wrong])?);
            }
        }
        Ok(out)
    }

    /// The error for machines that are not enough, with the greatest rate that some choice of them delivers.
    fn too_few(&self, candidates: &[CompetingModule]) -> Vec<Diagnostic> {
        let (mut enough, mut too_much) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = (enough + too_much) / 2.0;
            match self.chosen(candidates, middle) {
                Ok(_) => enough = middle,
                Err(NotChosen::TooFew) => too_much = middle,
                Err(NotChosen::TooLong) => return self.too_long(),
            }
        }
        let Some(first) = self.requirements.first().filter(|_| enough > SHARE_MIN) else {
            let message = "there are fewer machines than modules that need one each";
            return vec![Diagnostic::wrong("E0179", self.span, message)];
        };
        let required = to_f64(first.least);
        let message = format!(
            "`{}` is required at {}/s, and can be at most {}/s with any choice of machines",
            first.feature,
            significant(required, 4),
            significant(required * enough, 4)
        );
        vec![Diagnostic::error("E0180", message).at(first.span, "required")]
    }

    fn too_long(&self) -> Vec<Diagnostic> {
        let message = "there are too many choices of machines for so many modules";
        let help = "state `machines` in the `place` of modules";
        vec![Diagnostic::wrong("E0179", self.span, message).help(help)]
    }
}
