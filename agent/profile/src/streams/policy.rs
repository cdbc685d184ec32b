//! What is decided about a contract while its program runs: the module that has to act gets workers, and workers
//! that the contract does not need are given back.

use std::collections::{BTreeMap, BTreeSet};

use contract::{Contract, ContractError, ContractStep, Remedy, WorkersStep};
use rules::Diagnostic;
use thiserror::Error;

use super::act::{GuardedStep, MeasuredModule};
use super::trial::{ReportedChange, judged};
use super::watch::ContractWatch;
use crate::snapshot::outcome::GuardVerdict;

/// The number of workers of a module cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{variable} of {module} is no number of workers: {}", .value.as_deref().unwrap_or("it has no such variable"))]
pub struct UnknownWorkers {
    pub module: String,
    pub variable: String,
    /// What is there instead; `None` without such a variable.
    pub value: Option<String>,
}

/// How many workers modules have now; why not, where that is not known.
pub type WorkerCounts = BTreeMap<String, Result<u32, UnknownWorkers>>;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyAction {
    Wait,
    Say(String),
    Make(GuardedStep),
}

/// What has been done about a contract, and what came of it.
#[derive(Clone, Debug)]
pub struct Policy {
    contract: Contract,
    steps: Vec<GuardedStep>,
    /// The last verdict on the last of them.
    verdict: Option<GuardVerdict>,
    /// Modules that get no more workers, or give none back (false): such a change did not help, or did harm.
    left_alone: BTreeSet<(String, bool)>,
    /// How many workers the work of a module took when they were changed last: as long as it takes about as many,
    /// none are given back.
    taken: BTreeMap<String, f64>,
    /// The same for the change that is on trial.
    taken_now: BTreeMap<String, f64>,
    /// Modules of which it was said why nothing is done; the numbers of the reason vary from window to window.
    said: BTreeSet<String>,
}

/// The work of a module has become less if it takes this share of the workers that it took.
const LESS_WORK: f64 = 0.9;

impl Policy {
    pub fn of(contract: Contract) -> Policy {
        Policy {
            contract,
            steps: Vec::new(),
            verdict: None,
            left_alone: BTreeSet::new(),
            taken: BTreeMap::new(),
            taken_now: BTreeMap::new(),
            said: BTreeSet::new(),
        }
    }

    /// The requirements have changed: what was found out for the earlier ones no longer counts.
    pub fn require(&mut self, contract: Contract) {
        self.contract = contract;
        self.left_alone.clear();
        self.taken.clear();
        self.taken_now.clear();
        self.said.clear();
    }

    /// The steps that were made, the first one first.
    pub fn steps(&self) -> &[GuardedStep] {
        &self.steps
    }

    /// Whether the last step has no final verdict yet: nothing is decided then.
    pub fn is_on_trial(&self) -> bool {
        !self.steps.is_empty() && !self.verdict.is_some_and(GuardVerdict::is_final)
    }

    /// Takes the verdict on the last step; returns what is to be said if it is a new one.
    pub fn judge(&mut self, watch: &mut ContractWatch, changes: &[ReportedChange]) -> Option<String> {
        let step = self.steps.last()?;
        let (verdict, text) = judged(changes, &step.rule)?;
        if self.verdict.replace(verdict) == Some(verdict) {
            return None;
        }
        if verdict.is_final() {
            watch.begin_again();
        }
        let modules = step.step.modules.iter();
        match verdict {
            GuardVerdict::Kept => self.taken.append(&mut self.taken_now),
            verdict if verdict.is_final() => self
                .left_alone
                .extend(modules.map(|one| (one.module.clone(), step.adds()))),
            _ => {}
        }
        Some(format!("{}; {text}", step.prediction()))
    }

    /// The modules whose numbers of workers can be changed.
    pub fn changeable(&self, watch: &ContractWatch) -> Vec<(MeasuredModule, &str)> {
        let all = watch.measured().into_iter();
        all.filter_map(|module| {
            let variable = self.contract.variable_of(&module.name).ok()?;
            Some((module, variable))
        })
        .collect()
    }

    /// What is to be done after a window.
    ///
    /// # Errors
    /// If the contract cannot be assessed with what was measured.
    pub fn decide(
        &mut self,
        watch: &ContractWatch,
        workers: &WorkerCounts,
    ) -> Result<PolicyAction, Vec<Diagnostic>> {
        if self.is_on_trial() {
            return Ok(PolicyAction::Wait);
        }
        let known: BTreeMap<String, u32> = workers
            .iter()
            .filter_map(|(module, workers)| Some((module.clone(), *workers.as_ref().ok()?)))
            .collect();
        let measured = watch.measured();
        let step = match watch.has_to_act() {
            Some(module) => {
                if self.left_alone.contains(&(module.to_owned(), true)) {
                    return Ok(PolicyAction::Wait);
                }
                match self.remedy(watch, module, &measured, workers, &known)? {
                    Remedy::Set(step) => step,
                    Remedy::Nothing(why) => {
                        return Ok(match self.said.insert(module.to_owned()) {
                            true => PolicyAction::Say(format!("nothing is changed: {why}")),
                            false => PolicyAction::Wait,
                        });
                    }
                }
            }
            None if watch.is_met() => match self.spare(watch, &measured, &known)? {
                Some(step) => step,
                None => return Ok(PolicyAction::Wait),
            },
            None => return Ok(PolicyAction::Wait),
        };
        Ok(PolicyAction::Make(self.made(step, &measured)))
    }

    fn made(&mut self, step: ContractStep, measured: &[MeasuredModule]) -> GuardedStep {
        let modules = step.modules.iter();
        self.taken_now = modules
            .filter_map(|one| Some((one.module.clone(), taken(one, measured)?)))
            .collect();
        let step = GuardedStep::of(self.contract.name(), step, measured, self.steps.len() + 1);
        self.verdict = None;
        self.said.clear();
        self.steps.push(step.clone());
        step
    }

    /// The least that lets the contract hold.
    fn remedy(
        &self,
        watch: &ContractWatch,
        module: &str,
        measured: &[MeasuredModule],
        workers: &WorkerCounts,
        known: &BTreeMap<String, u32>,
    ) -> Result<Remedy, Vec<Diagnostic>> {
        if let Some(Err(why)) = workers.get(module) {
            return Ok(Remedy::Nothing(why.to_string()));
        }
        match self.as_measured(watch, measured, known) {
            Ok(contract) => contract.remedy(module, known),
            Err(why) => Ok(Remedy::Nothing(why.to_string())),
        }
    }

    /// Workers that were not needed in any of the last windows, of modules whose work has become less since their
    /// workers were changed.
    fn spare(
        &self,
        watch: &ContractWatch,
        measured: &[MeasuredModule],
        known: &BTreeMap<String, u32>,
    ) -> Result<Option<ContractStep>, Vec<Diagnostic>> {
        let mut may_give = known.clone();
        may_give.retain(|module, _| !self.left_alone.contains(&(module.clone(), false)));
        let slowest = watch.slowest();
        let contracts = [slowest.as_slice(), measured].map(|all| self.as_measured(watch, all, known));
        let [Ok(at_slowest), Ok(at_means)] = contracts else {
            return Ok(None);
        };
        let Some(mut step) = at_slowest.spare(&may_give)? else {
            return Ok(None);
        };
        step.modules.retain(|one| {
            let before = self.taken.get(&one.module);
            let now = taken(one, &slowest);
            before.is_none_or(|before| now.is_some_and(|now| now < LESS_WORK * before))
        });
        if step.modules.is_empty() {
            return Ok(None);
        }
        Ok(match at_means.step(step.modules)? {
            Remedy::Set(step) => Some(step),
            Remedy::Nothing(_) => None,
        })
    }

    /// The contract with the measured times of all modules, and items in an activation, in place of those that it states.
    fn as_measured(
        &self,
        watch: &ContractWatch,
        all: &[MeasuredModule],
        known: &BTreeMap<String, u32>,
    ) -> Result<Contract, ContractError> {
        let mut contract = watch.as_measured();
        for one in all {
            if let Some(busy_s) = one.busy_s() {
                contract.measure(&one.name, busy_s, known.get(&one.name).copied())?;
            }
        }
        Ok(contract)
    }
}

/// How many workers the required rate takes at the measured time of an activation.
fn taken(one: &WorkersStep, measured: &[MeasuredModule]) -> Option<f64> {
    let module = measured.iter().find(|module| module.name == one.module)?;
    Some(module.busy_s()? * f64::from(one.from) * one.required_rate)
}
