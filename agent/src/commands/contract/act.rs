//! `contract watch --apply`: what the policy decides is made by the session that watches the job, by a rule with a
//! guard.

use job::Discovery;
use plan::Mode;
use profile::streams::{
    ContractWatch, GuardedStep, MeasuredModule, Policy, PolicyAction, RankReport, WorkerCounts,
};
use rules::contract::Contract;
use session::request::{RuleSource, RuleText};

use crate::{
    commands::{by_hand, session as running, target},
    exit::Failure,
};

/// The policy, and the session that carries out its decisions.
pub(super) struct Actor<'a> {
    policy: Policy,
    target: &'a str,
    /// The process of the session.
    session: u32,
}

impl<'a> Actor<'a> {
    pub(super) fn new(contract: &Contract, target: &'a str, session: u32) -> Actor<'a> {
        Actor {
            policy: Policy::of(contract.clone()),
            target,
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
        let decision = decision
            .map_err(|wrong| Failure::no(wrong.first().map_or(String::new(), |one| one.message.clone())))?;
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
        let job = target::job(&mut Discovery::default(), self.target, false)?;
        let workers = modules.iter().map(|(module, variable)| {
            let first = job.members.iter().find(|member| {
                let rank = member.rank.map(|rank| rank.number);
                rank.is_some_and(|rank| module.ranks.contains(&rank))
            });
            let text = first.and_then(|member| by_hand::read(&member.space, variable));
            let number = text
                .as_ref()
                .and_then(|text| text.split(' ').next()?.parse().ok());
            let number = number.filter(|workers| *workers > 0).ok_or_else(|| {
                format!(
                    "{variable} of {} is no number of workers: {}",
                    module.name,
                    text.unwrap_or_else(|| "it has no such variable".to_owned())
                )
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
