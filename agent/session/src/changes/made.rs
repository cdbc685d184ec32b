//! One change of one process: as it was made, and its current state.

use rules::{DecisionId, TrialProgress};
use std::{collections::BTreeMap, time::Duration};

use profile::cost::HoldTotals;
use profile::outcome::{ChangeOutcome, GuardVerdict};
use profile::{ChangeView, GuardView};

use crate::process::LastChange;

use super::{
    Changes,
    event::{ActuatorPid, ChangeId, MemberProcess, OrderPart, ShownChange},
    judging::{ended, ended_compared},
    outcome::Standing,
    reverting::Judgement,
};

/// Number of newest changes that are shown; the journal has all of them.
pub(super) const SHOWN_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) decision: DecisionId,
    pub(super) process: MemberProcess,
    pid: ActuatorPid,
    /// 0 if nothing was made.
    number: u64,
    view: ChangeView,
    /// Left in force when the session ended.
    is_kept: bool,
    judgement: Option<Judgement>,
    /// The result of the first comparison of its trial, if it was reverted to compare since.
    first_result: Option<String>,
}

impl Made {
    pub(super) fn new(
        decision: DecisionId,
        part: OrderPart,
        outcome: ChangeOutcome,
        shown: Option<Box<ShownChange>>,
    ) -> Made {
        let OrderPart {
            process,
            pid,
            mut view,
            ..
        } = part;
        if let Some(shown) = shown {
            let ShownChange {
                number,
                variable,
                old,
                new,
                mechanism,
                hold_ns,
                reaction,
            } = *shown;
            view.number = number;
            view.variable = variable.unwrap_or(view.variable);
            view.old = old.unwrap_or(view.old);
            view.new = new.unwrap_or(view.new);
            view.mechanism = mechanism;
            view.hold_ns = hold_ns;
            view.reaction = reaction;
        }
        let number = if outcome.is_done() { view.number } else { 0 };
        view.outcome = outcome;
        Made {
            decision,
            process,
            pid,
            number,
            view,
            is_kept: false,
            judgement: None,
            first_result: None,
        }
    }

    pub(super) fn change(&self) -> ChangeId {
        ChangeId {
            machine: self.process.machine,
            pid: self.pid,
            number: self.number,
        }
    }

    pub(super) fn is_made(&self) -> bool {
        self.number != 0 && self.view.outcome != ChangeOutcome::AlreadyThere
    }

    pub(super) fn standing(&self) -> Standing {
        match self.is_kept {
            true => Standing::Kept,
            false => Standing::of(&self.view.outcome),
        }
    }

    pub(super) fn is_in_force(&self) -> bool {
        self.is_made() && self.standing() == Standing::InForce
    }

    /// Nothing of it is in the process, and it will not be needed; a confirmed repair may still be.
    pub(super) fn is_settled(&self) -> bool {
        let is_over = matches!(
            self.standing(),
            Standing::NotMade | Standing::Over | Standing::Back | Standing::LeftAlone
        );
        is_over && !self.is_confirmed()
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.judgement == Some(Judgement::Kept)
    }

    /// A guard reverts it, or has reverted it.
    pub(super) fn is_being_reverted(&self) -> bool {
        matches!(self.judgement, Some(Judgement::Reverting | Judgement::Reverted))
    }

    pub(super) fn judge(&mut self, judgement: Judgement, guard: &GuardView) {
        self.judgement = Some(judgement);
        self.view.guard = Some(guard.clone());
    }

    pub(super) fn settle(&mut self, outcome: ChangeOutcome) {
        // A call that changed nothing keeps that outcome when it is reverted.
        if self.view.outcome != ChangeOutcome::AlreadyThere {
            self.view.outcome = outcome;
        }
        self.is_kept = false;
    }

    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn at(&self) -> Duration {
        self.view.at
    }

    /// It was reverted to be compared since it was first made.
    pub(super) fn was_compared(&self) -> bool {
        self.view.first_at.is_some()
    }

    /// Nothing is decided any more while the guard has it reverted to compare. False if it was judged.
    pub(super) fn is_not_judged(&mut self, reason: &str) -> bool {
        let guard = self.view.guard.as_mut();
        let Some(guard) = guard.filter(|guard| guard.verdict == GuardVerdict::Compared) else {
            return false;
        };
        let first = &guard.text;
        *guard = GuardView::without(
            GuardVerdict::NotJudged,
            format!("{reason}; first comparison: {first}"),
        );
        true
    }

    /// Takes the place of `before`, which was reverted to be compared.
    pub(super) fn is_made_again(&mut self, before: &Made) {
        self.view.first_at = before.view.first_at.or(Some(before.view.at));
        let of_before = before.view.guard.as_ref().map(|guard| guard.text.clone());
        self.first_result = before.first_result.clone().or(of_before);
    }

    pub(super) fn rule(&self) -> &str {
        &self.view.rule
    }

    pub(super) fn text(&self) -> &str {
        &self.view.variable
    }

    pub(super) fn remains(&self) -> Option<&str> {
        self.view.remains.as_deref()
    }

    pub(super) fn add_hold(&self, held: &mut BTreeMap<&'static str, HoldTotals>) {
        let of = held.entry(self.view.action.name()).or_default();
        of.changes += 1;
        of.ns += self.view.hold_ns;
    }

    fn view(&self, trial: Option<&GuardView>) -> ChangeView {
        let trial = trial.filter(|_| self.is_made());
        let on_trial = || {
            let text = |trial: &GuardView| match &self.first_result {
                Some(first) => format!("{}; first comparison: {first}", trial.text),
                None => trial.text.clone(),
            };
            trial.map(|trial| GuardView {
                text: text(trial),
                ..trial.clone()
            })
        };
        ChangeView {
            guard: self.view.guard.clone().or_else(on_trial),
            ..self.view.clone()
        }
    }
}

impl Changes {
    /// The newest `SHOWN_MAX` changes as they are shown, with the progress of trials.
    pub fn views(&self, on_trial: &[TrialProgress]) -> Vec<ChangeView> {
        let on_trial = on_trial.iter().map(|trial| {
            let view = match self.stopped {
                // It was made when the session was about to end.
                Some(ending) => GuardView::without(GuardVerdict::NotJudged, ended(ending, *trial)),
                None => {
                    let reason = format!("{} of {} windows", trial.seen, trial.over);
                    GuardView::without(GuardVerdict::OnTrial, reason)
                }
            };
            (trial.decision, view)
        });
        let trials: BTreeMap<DecisionId, GuardView> = on_trial.chain(self.unjudged.clone()).collect();
        let shown = self.made.newest(SHOWN_MAX).chain(self.made.compared());
        shown.map(|made| made.view(trials.get(&made.decision))).collect()
    }

    /// The newest change that was made in a process.
    pub fn last_made(&self, process: MemberProcess) -> Option<LastChange> {
        let mut newest_first = self.made.iter().rev();
        let newest = newest_first.find(|made| made.process == process && made.is_made());
        newest.map(|made| LastChange {
            number: made.number,
            rule: made.rule().to_owned(),
            at_ns: made.at().as_nanos() as u64,
        })
    }

    /// Number of changes that are too old to be shown.
    pub fn not_shown(&self) -> usize {
        self.made.len().saturating_sub(SHOWN_MAX)
    }

    /// Sets the outcome of a change. False if the change is unknown.
    pub(super) fn settle(&mut self, change: ChangeId, outcome: &ChangeOutcome) -> bool {
        let made = self.made.find_mut(change);
        made.map(|made| made.settle(outcome.clone())).is_some()
    }

    pub(super) fn judge(&mut self, decision: DecisionId, judgement: Judgement, guard: &GuardView) {
        let (stopped, too_short) = (self.stopped, &self.too_short);
        self.made.change_decision(decision, |made| {
            made.judge(judgement, guard);
            // It is never made again.
            if let Some(ending) = stopped {
                made.is_not_judged(&ended_compared(ending, too_short, &made.view.rule.clone()));
            }
        });
    }
}
