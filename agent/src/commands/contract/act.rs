//! `contract watch --apply`: what the policy decides is made by a session, by a rule with a guard.

use contract::Contract;
use job::{Discovery, Member};
use plan::Mode;
use profile::streams::{
    ContractWatch, GuardedStep, MeasuredModule, ModuleProcesses, Policy, PolicyAction, RankReport,
    UnknownWorkers, WorkerCounts,
};
use session::request::{RuleSource, RuleText};

use crate::{
    commands::{by_hand, session as running, target},
    exit::Failure,
};

/// The policy, and the session that carries out its decisions.
pub(super) struct Actor {
    policy: Policy,
    targets: Vec<String>,
    /// The process of the session.
    session: u32,
}

impl Actor {
    /// `session` is the process of the session that has these targets.
    pub(super) fn new(contract: &Contract, targets: &[String], session: u32) -> Actor {
        Actor {
            policy: Policy::of(contract.clone()),
            targets: targets.to_vec(),
            session,
        }
    }

    /// The requirements have changed.
    pub(super) fn require(&mut self, contract: &Contract) {
        self.policy.require(contract.clone());
    }

    /// Judges the last change by this report, or acts if none is on trial; returns what is to be said.
    pub(super) fn look(
        &mut self,
        watch: &mut ContractWatch,
        report: &RankReport,
    ) -> Result<Option<String>, Failure> {
        if self.policy.is_on_trial() {
            return Ok(self.policy.judge(watch, &report.changes));
        }
        let workers = self.workers(&self.policy.changeable(watch))?;
        let decision = self.policy.decide(watch, &workers);
        let decision = decision.map_err(|wrong| {
            Failure::failed(wrong.first().map_or(String::new(), |one| one.message.clone()))
        })?;
        match decision {
            PolicyAction::Wait => Ok(None),
            PolicyAction::Say(line) => Ok(Some(line)),
            PolicyAction::Make(step) => {
                self.add(&step)?;
                Ok(Some(step.sentence()))
            }
        }
    }

    /// How many workers the modules have now, by the variables that set them.
    fn workers(&self, modules: &[(MeasuredModule, &str)]) -> Result<WorkerCounts, Failure> {
        if modules.is_empty() {
            return Ok(WorkerCounts::new());
        }
        let job = target::jobs(&mut Discovery::default(), &self.targets, false)?;
        let workers = modules.iter().map(|(module, variable)| {
            let mut members = job.members.iter();
            let first = members.find(|member| is_of(member, &module.processes));
            let text = first.and_then(|member| by_hand::read(&member.space, variable));
            let number = text
                .as_ref()
                .and_then(|text| text.split(' ').next()?.parse().ok());
            let number = number.filter(|workers| *workers > 0);
            let number = number.ok_or_else(|| UnknownWorkers {
                module: module.name.clone(),
                variable: (*variable).to_owned(),
                value: text,
            });
            (module.name.clone(), number)
        });
        Ok(workers.collect())
    }

    fn add(&self, step: &GuardedStep) -> Result<(), Failure> {
        let rule = RuleSource {
            source: RuleText {
                name: step.rule.clone(),
                text: step.text.clone(),
                uses: Some(Default::default()),
                ..RuleText::default()
            },
            ..RuleSource::default()
        };
        let mut session = running::find(&self.session.to_string())?;
        // An earlier rule for the same variable gives way; what it changed stays.
        let mut earlier = self.policy.steps().iter().rev().skip(1);
        if let Some(before) = earlier.find(|before| before.shares_a_module(step)) {
            session.remove(&before.rule, true).map_err(running::failure)?;
        }
        session.add(rule, Mode::Applying).map_err(running::failure)?;
        Ok(())
    }
}

fn is_of(member: &Member, processes: &ModuleProcesses) -> bool {
    match processes {
        ModuleProcesses::Ranks(ranks) => member.rank.is_some_and(|rank| ranks.contains(&rank.number)),
        ModuleProcesses::Stage { pid, .. } => member.process.pid.number == *pid,
    }
}
