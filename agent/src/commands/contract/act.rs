//! `contract watch --apply`: the module that has to act gets the least number of workers by the model. The session
//! that watches the job makes the change, by a rule with a guard.

use std::collections::BTreeSet;

use job::Discovery;
use plan::Mode;
use profile::streams::{ContractWatch, GuardedStep, MeasuredModule, RankReport};
use rules::contract::{Contract, Remedy};
use session::request::{RuleSource, RuleText};

use crate::{
    commands::{by_hand, session as running, target},
    exit::Failure,
};

/// What has been done about a contract, and what came of it.
pub(super) struct Actor<'a> {
    contract: &'a Contract,
    target: &'a str,
    /// The process of the session.
    session: u32,
    /// The rules that were added.
    steps: Vec<GuardedStep>,
    /// The last verdict on the last of them.
    verdict: Option<String>,
    /// Modules that are left alone: a change did not help.
    left_alone: BTreeSet<String>,
    /// Modules of which it was said why nothing is done; the numbers of the reason vary from window to window.
    said: BTreeSet<String>,
}

impl<'a> Actor<'a> {
    pub(super) fn new(contract: &'a Contract, target: &'a str, session: u32) -> Actor<'a> {
        Actor {
            contract,
            target,
            session,
            steps: Vec::new(),
            verdict: None,
            left_alone: BTreeSet::new(),
            said: BTreeSet::new(),
        }
    }

    /// Judges the last change by this report, or acts if none is on trial; returns what is to be said.
    pub(super) fn look(
        &mut self,
        watch: &mut ContractWatch,
        report: &RankReport,
    ) -> Result<Option<String>, Failure> {
        if let Some(last) = self.steps.last()
            && !self.verdict.as_deref().is_some_and(is_final)
        {
            return Ok(self.judged(last.clone(), watch, report));
        }
        let Some(name) = watch.has_to_act().filter(|name| !self.left_alone.contains(*name)) else {
            return Ok(None);
        };
        let measured = watch.measured();
        let Some(module) = measured.iter().find(|module| module.name == name) else {
            return Ok(None);
        };
        match self.remedy(module, &measured)? {
            Remedy::Set(step) => {
                let step = module.guarded(self.contract.name(), step, self.steps.len() + 1);
                self.add(&step)?;
                let line = step.sentence();
                self.verdict = None;
                self.said.clear();
                self.steps.push(step);
                Ok(Some(line))
            }
            Remedy::Nothing(why) => {
                let is_new = self.said.insert(module.name.clone());
                Ok(is_new.then(|| format!("nothing is changed: {why}")))
            }
        }
    }

    fn remedy(&self, module: &MeasuredModule, all: &[MeasuredModule]) -> Result<Remedy, Failure> {
        let variable = match self.contract.variable_of(&module.name) {
            Ok(variable) => variable,
            Err(why) => return Ok(Remedy::Nothing(why)),
        };
        let job = target::job(&mut Discovery::default(), self.target, false)?;
        let mut members = job.members.iter();
        let first = members.find(|member| {
            let rank = member.rank.map(|rank| rank.number);
            rank.is_some_and(|rank| module.ranks.contains(&rank))
        });
        let text = first.and_then(|member| by_hand::read(&member.space, variable));
        let number = text
            .as_ref()
            .and_then(|text| text.split(' ').next()?.parse().ok());
        let Some(workers) = number.filter(|workers| *workers > 0) else {
            return Ok(Remedy::Nothing(format!(
                "{variable} of {} is no number of workers: {}",
                module.name,
                text.unwrap_or_else(|| "it has no such variable".to_owned())
            )));
        };
        let remedy = module.remedy(self.contract, all, workers);
        remedy.map_err(|wrong| Failure::no(wrong.first().map_or(String::new(), |one| one.message.clone())))
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
        let same = |before: &&GuardedStep| before.step.variable == step.step.variable;
        if let Some(before) = self.steps.iter().rfind(same) {
            session.remove(&before.rule, true).map_err(running::failure)?;
        }
        session.add(rule, Mode::Applying).map_err(running::failure)?;
        Ok(())
    }

    /// A new verdict on a change, beside what was promised.
    fn judged(
        &mut self,
        step: GuardedStep,
        watch: &mut ContractWatch,
        report: &RankReport,
    ) -> Option<String> {
        let mut changes = report.changes.iter().rev();
        let change = changes.find(|change| change.rule.as_deref() == Some(&step.rule))?;
        let (verdict, text) = match &change.guard {
            Some(guard) => (guard.verdict.clone(), guard.text.clone()),
            None => (change.outcome.clone(), change.outcome.clone()),
        };
        if self.verdict.as_ref() == Some(&verdict) {
            return None;
        }
        if is_final(&verdict) {
            watch.begin_again();
        }
        if is_final(&verdict) && verdict != "kept" {
            self.left_alone.insert(step.step.module.clone());
        }
        self.verdict = Some(verdict);
        Some(format!("{}; {text}", step.promise()))
    }
}

/// Whether a trial is over (docs/report.md).
fn is_final(verdict: &str) -> bool {
    matches!(
        verdict,
        "kept" | "reverted" | "not reverted" | "not judged" | "ended"
    )
}
