//! What stays and what is reverted: verdicts, reverts, removal of rules, the end.

use std::collections::{BTreeMap, BTreeSet};

use plan::GuardEffect;
use profile::GuardView;
use profile::format::duration;
use profile::outcome::{ChangeOutcome, GuardVerdict};
use rules::{DecisionId, Time, TrialProgress};

use super::{
    Changes,
    event::{
        ChangeEffect, ChangeEffects, ChangeId, ChangeNotice, Ending, Execution, JudgedDecision, MachineId,
        MachineReverts, NotTried, Order, RevertResult,
    },
    made::Made,
    outcome::Standing,
    reverting::Judgement,
    summary::{self, Left},
};
use crate::changes::ProbeSwitch;

/// What to do where a verdict takes so many seconds, as a suffix.
fn longer((least, most): (f64, f64)) -> String {
    let [least, most] = [least, most].map(|seconds| duration(seconds * 1e9));
    format!("; a verdict takes {least} to {most}: let the session last longer")
}

/// Why a change that was reverted to compare at the end was not judged.
pub(super) fn ended_compared(ending: Ending, too_short: &BTreeMap<String, String>, rule: &str) -> String {
    let longer = too_short.get(rule).map_or("", String::as_str);
    format!("{ending} ended while the change was reverted to compare{longer}")
}

/// How far a trial was at the end.
pub(super) fn ended(ending: Ending, trial: TrialProgress) -> String {
    format!("{ending} ended after {} of {} windows", trial.seen, trial.over)
}

/// The text for switched probes: no guard has judged them, and nothing in the program was changed.
const BACK: &str = "its condition no longer holds; its probes are switched back";

impl Changes {
    /// Whether the decision switches probes of the session, without a change of the program.
    pub fn is_switch(&self, decision: DecisionId) -> bool {
        let known = self.decisions.get(&decision).map(|known| &known.decided.how);
        matches!(known, Some(Execution::Switch(_)))
    }

    pub(super) fn judged(&mut self, judged: JudgedDecision) -> ChangeEffects {
        let JudgedDecision {
            decision,
            rule,
            guard,
            keeps,
            slots,
        } = judged;
        let slots = slots.as_ref();
        let is_judged = |made: &&Made| slots.is_none_or(|slots| slots.contains(&made.process.slot));
        let judged = self.in_force_of_decision(decision).filter(is_judged);
        // Changes in an ended process are gone with it.
        let living = judged.filter(|made| !self.has_ended(made.process));
        let changes: Vec<ChangeId> = living.map(Made::change).collect();
        if keeps {
            return self.keep(decision, &rule, &guard, &changes);
        }
        if matches!(guard.effect, Some(GuardEffect::Worse | GuardEffect::NoEffect)) {
            self.findings.refuted(&rule);
        }
        let (judgement, shown) = self.reverting.begin(decision, guard, &changes);
        self.judge(decision, judgement, &shown);
        // The revert is reported when it is done.
        let mut effects = ChangeEffects::new();
        let known = self.decisions.get(&decision).map(|known| &known.decided.how);
        if changes.is_empty() {
            effects.push(ChangeEffect::Say(match self.is_switch(decision) {
                true => ChangeNotice::Switched {
                    rule,
                    text: BACK.to_owned(),
                },
                false => ChangeNotice::Guard(shown.sentence()),
            }));
        }
        effects.extend(self.revert(&changes));
        if let Some(Execution::Switch(switches)) = known {
            let back = ProbeSwitch::back(switches, slots);
            effects.extend((!back.is_empty()).then_some(ChangeEffect::SwitchBack(back)));
            if slots.is_none() {
                self.decisions.remove(&decision);
            }
        }
        effects
    }

    fn keep(
        &mut self,
        decision: DecisionId,
        rule: &str,
        guard: &GuardView,
        changes: &[ChangeId],
    ) -> ChangeEffects {
        self.judge(decision, Judgement::Kept, guard);
        let is_confirmed = guard.effect == Some(GuardEffect::Confirmed);
        if is_confirmed && self.made.of_decision(decision).any(Made::is_made) {
            self.findings.repaired(rule);
        }
        let confirm = |change: &ChangeId| ChangeEffect::Order(change.machine, Order::Confirm(*change));
        let confirmed = changes.iter().filter(|_| self.stopped.is_none()).map(confirm);
        std::iter::once(ChangeEffect::Say(ChangeNotice::Guard(guard.sentence())))
            .chain(confirmed)
            .collect()
    }

    pub(super) fn reverted(&mut self, change: ChangeId, result: RevertResult, now: Time) -> ChangeEffects {
        let mut effects = ChangeEffects::new();
        let (outcome, failed) = match result {
            RevertResult::Reverted => (ChangeOutcome::Reverted, None),
            RevertResult::ChangedSince => (
                ChangeOutcome::LeftAlone,
                Some("the program changed it since".to_owned()),
            ),
            RevertResult::Failed { reason, may_pass } => {
                let outcome = ChangeOutcome::NotBack(reason.clone());
                // An ended process holds no changes.
                if !may_pass || self.is_gone(change) {
                    self.retry.over(change);
                } else if self.retry.failed(change, now) {
                    let outcome = outcome.clone();
                    effects.push(ChangeEffect::Say(ChangeNotice::Retried { change, outcome }));
                }
                (outcome, Some(reason))
            }
        };
        if !matches!(outcome, ChangeOutcome::NotBack(_)) && self.retry.over(change) {
            let outcome = outcome.clone();
            effects.push(ChangeEffect::Say(ChangeNotice::Settled { change, outcome }));
        }
        self.settle(change, &outcome);
        effects.extend(self.guard_answered(change, failed.as_deref()));
        effects
    }

    fn guard_answered(&mut self, change: ChangeId, failed: Option<&str>) -> Option<ChangeEffect> {
        let (decision, judgement, guard) = self.reverting.answered(change, failed)?;
        self.judge(decision, judgement, &guard);
        if judgement == Judgement::Reverted && guard.verdict == GuardVerdict::Compared {
            // A trial reverts its change often: only the first time is reported, and the judged change
            // counts.
            let is_first = self
                .decisions
                .get(&decision)
                .is_none_or(|known| !known.decided.again);
            self.forget_compared(decision);
            return is_first.then_some(ChangeEffect::Say(ChangeNotice::Guard(guard.sentence())));
        }
        Some(ChangeEffect::Say(ChangeNotice::Guard(guard.sentence())))
    }

    pub(super) fn removed(&mut self, rule: &str, keeps: bool) -> ChangeEffects {
        if keeps {
            return ChangeEffects::new();
        }
        self.findings.forget(rule);
        let changes: Vec<ChangeId> = self.in_force_of(rule).collect();
        self.revert(&changes)
    }

    /// The changes of a rule that are in force and not being reverted, in the order in which they were made.
    pub fn in_force_of(&self, rule: &str) -> impl Iterator<Item = ChangeId> {
        let of = self.made.iter().filter(move |made| made.rule() == rule);
        let left = of.filter(|made| made.is_in_force() && !made.is_being_reverted());
        left.map(Made::change)
    }

    /// Ends all trials without a verdict; unconfirmed changes are reverted. `time_to_verdict` is what a verdict
    /// takes, by rule, in seconds.
    pub(super) fn stop(
        &mut self,
        ending: Ending,
        on_trial: Vec<TrialProgress>,
        time_to_verdict: &BTreeMap<String, (f64, f64)>,
    ) -> ChangeEffects {
        // A program ends when it has done its work.
        let times = time_to_verdict.iter().filter(|_| ending == Ending::Session);
        let of_rule = times.map(|(rule, time)| (rule.clone(), longer(*time)));
        self.too_short = of_rule.collect();
        let mut effects = ChangeEffects::new();
        for trial in on_trial {
            let decision = trial.decision;
            let known = self.decisions.get(&decision);
            let rule = known.map_or_else(String::new, |known| known.decided.rule.clone());
            let longer = self.too_short.get(&rule).map_or("", String::as_str);
            let reason = format!("{}{longer}", ended(ending, trial));
            let guard = GuardView::without(GuardVerdict::NotJudged, reason.clone());
            effects.push(ChangeEffect::Say(ChangeNotice::NotJudged { rule, reason }));
            self.unjudged.insert(decision, guard);
        }
        let too_short = &self.too_short;
        let compared = self.made.compared_mut();
        let not_judged = compared.filter_map(|made| {
            let reason = ended_compared(ending, too_short, made.rule());
            let is_new = made.is_not_judged(&reason);
            is_new.then(|| (made.rule().to_owned(), reason))
        });
        let rules: BTreeMap<String, String> = not_judged.collect();
        effects.extend(
            rules
                .into_iter()
                .map(|(rule, reason)| ChangeEffect::Say(ChangeNotice::NotJudged { rule, reason })),
        );
        self.stopped = Some(ending);
        effects.push(ChangeEffect::Finish);
        effects
    }

    pub(super) fn actuator_ended(&mut self, machine: MachineId, reverts: MachineReverts) -> ChangeEffects {
        let mut effects = ChangeEffects::new();
        for (change, result) in reverts.reverted {
            let outcome = match result {
                RevertResult::Reverted => ChangeOutcome::Reverted,
                RevertResult::ChangedSince => ChangeOutcome::LeftAlone,
                RevertResult::Failed { reason, .. } => ChangeOutcome::NotBack(reason),
            };
            // If a guard wanted it reverted and earlier attempts failed, its verdict holds now.
            if outcome == ChangeOutcome::Reverted
                && let Some((decision, judgement, guard)) = self.reverting.answered(change, None)
            {
                self.judge(decision, judgement, &guard);
            }
            self.retry.over(change);
            if !self.settle(change, &outcome) {
                self.strangers.push(Left::stranger(Standing::of(&outcome)));
            }
        }
        let failed: BTreeSet<ChangeId> = reverts.failed.iter().map(|tried| tried.change).collect();
        for NotTried {
            change,
            why,
            has_ended,
        } in reverts.failed
        {
            let outcome = ChangeOutcome::NotBack(why.to_string());
            self.retry.over(change);
            // An ended process holds no changes.
            if !self.settle(change, &outcome) && !has_ended {
                self.strangers.push(Left::stranger(Standing::NotBack));
            }
        }
        for change in reverts.kept.iter().filter(|change| !failed.contains(change)) {
            match self.made.find_mut(*change) {
                Some(made) => made.keep(),
                None => self.strangers.push(Left::stranger(Standing::Kept)),
            }
        }
        effects.extend(self.unanswered(machine));
        effects
    }

    /// Settles orders without an answer: an actuator that has ended answers none.
    fn unanswered(&mut self, machine: MachineId) -> ChangeEffects {
        let mut effects = ChangeEffects::new();
        for decision in self.waiting.clone() {
            let Some(known) = self.decisions.get_mut(&decision) else {
                continue;
            };
            let parts = &known.decided.parts;
            let is_there = |part: &usize| {
                parts
                    .get(*part)
                    .is_some_and(|part| part.process.machine == machine)
            };
            let unanswered: Vec<usize> = known.waiting.iter().copied().filter(is_there).collect();
            if unanswered.is_empty() {
                continue;
            }
            known.waiting.retain(|part| !unanswered.contains(part));
            let (rule, is_over) = (known.decided.rule.clone(), known.waiting.is_empty());
            effects.push(ChangeEffect::Say(ChangeNotice::NoAnswer { rule }));
            if is_over {
                self.waiting.remove(&decision);
            }
        }
        effects
    }

    /// The rules whose repairs were reverted.
    pub fn repairs_ended(&self) -> Vec<String> {
        let is_back = |rule: &str| {
            let of = self.made.iter().filter(|made| made.rule() == rule);
            let of: Vec<Standing> = of.map(Made::standing).collect();
            of.contains(&Standing::Back) && !of.contains(&Standing::Kept)
        };
        let repairs = self.findings.repairs().filter(|rule| is_back(rule));
        repairs.map(str::to_owned).collect()
    }

    /// The state of all changes, for the last line of a session; `unknown` of them are only in the journal,
    /// and `undo` is the command that reverts the remaining ones.
    pub fn summary(&self, unknown: usize, undo: &str, program: &str) -> String {
        let made = self.made.iter().chain(self.made.compared());
        let left = made.filter(|made| made.is_made()).map(|made| Left {
            standing: made.standing(),
            is_gone: self.has_ended(made.process),
            text: made.text().to_owned(),
            remains: made.remains().map(str::to_owned),
            count: 1,
        });
        let strangers = self.strangers.iter().cloned();
        let left: Vec<Left> = left.chain(self.made.dropped().left()).chain(strangers).collect();
        summary::summary(&left, unknown, undo, program)
    }
}
