//! One change of one process, as it was made and as it stands.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Changes,
    event::{Change, Part, Pid, Process, Shown, Trial},
    outcome::{Outcome, Standing},
    undoing::Judgement,
};
use profile::{
    cost::Held,
    snapshot::{ChangeView, GuardView, outcome as words},
};

/// So many changes are shown, the newest; the journal has them all.
pub(super) const SHOWN_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) decision: u64,
    pub(super) process: Process,
    pid: Pid,
    /// 0 where nothing was made.
    number: u64,
    view: ChangeView,
    outcome: Outcome,
    /// Left in force when the session ended.
    is_kept: bool,
    judgement: Option<Judgement>,
}

impl Made {
    pub(super) fn new(decision: u64, part: Part, outcome: Outcome, shown: Option<Box<Shown>>) -> Made {
        let Part {
            process,
            pid,
            mut view,
            ..
        } = part;
        if let Some(shown) = shown {
            let Shown {
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
        Made {
            decision,
            process,
            pid,
            number,
            view,
            outcome,
            is_kept: false,
            judgement: None,
        }
    }

    pub(super) fn change(&self) -> Change {
        Change {
            machine: self.process.machine,
            pid: self.pid,
            number: self.number,
        }
    }

    pub(super) fn is_made(&self) -> bool {
        self.number != 0 && self.outcome != Outcome::AlreadyThere
    }

    pub(super) fn standing(&self) -> Standing {
        match self.is_kept {
            true => Standing::Kept,
            false => self.outcome.standing(),
        }
    }

    pub(super) fn is_in_force(&self) -> bool {
        self.is_made() && self.standing() == Standing::InForce
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.judgement == Some(Judgement::Kept)
    }

    /// A guard takes it back, or has.
    pub(super) fn is_being_undone(&self) -> bool {
        matches!(self.judgement, Some(Judgement::Undoing | Judgement::Undone))
    }

    pub(super) fn judge(&mut self, judgement: Judgement, guard: &GuardView) {
        self.judgement = Some(judgement);
        self.view.guard = Some(guard.clone());
    }

    pub(super) fn settle(&mut self, outcome: Outcome) {
        // A call that changed nothing changed nothing when it was taken back, either.
        if self.outcome != Outcome::AlreadyThere {
            self.outcome = outcome;
        }
        self.is_kept = false;
    }

    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn at(&self) -> Duration {
        self.view.at
    }

    pub(super) fn rule(&self) -> &str {
        &self.view.rule
    }

    pub(super) fn text(&self) -> &str {
        &self.view.variable
    }

    pub(super) fn add_hold(&self, held: &mut BTreeMap<&'static str, Held>) {
        let of = held.entry(self.view.action).or_default();
        of.changes += 1;
        of.ns += self.view.hold_ns;
    }

    fn view(&self, trial: Option<&GuardView>) -> ChangeView {
        let trial = trial.filter(|_| self.is_made());
        ChangeView {
            outcome: self.outcome.to_string(),
            guard: self.view.guard.clone().or_else(|| trial.cloned()),
            ..self.view.clone()
        }
    }
}

impl Changes {
    /// As shown, the newest `SHOWN_MAX`; those that are being judged with what is said of that.
    pub fn views(&self, on_trial: &[Trial]) -> Vec<ChangeView> {
        let on_trial = on_trial.iter().map(|trial| {
            let reason = format!("{} of {} windows", trial.seen, trial.over);
            (trial.decision, GuardView::without(words::ON_TRIAL, reason))
        });
        let trials: BTreeMap<u64, GuardView> = on_trial.chain(self.unjudged.clone()).collect();
        let shown = self.made.iter().skip(self.not_shown());
        shown.map(|made| made.view(trials.get(&made.decision))).collect()
    }

    /// How many changes are too old to be shown.
    pub fn not_shown(&self) -> usize {
        self.made.len().saturating_sub(SHOWN_MAX)
    }

    /// Gives a change another outcome. False of one that is not known here.
    pub(super) fn settle(&mut self, change: Change, outcome: &Outcome) -> bool {
        let of = self.made.iter_mut().filter(|made| made.change() == change);
        of.map(|made| made.settle(outcome.clone())).count() > 0
    }

    pub(super) fn judge(&mut self, decision: u64, judgement: Judgement, guard: &GuardView) {
        let of = self.made.iter_mut().filter(|made| made.decision == decision);
        of.for_each(|made| made.judge(judgement, guard));
    }
}
