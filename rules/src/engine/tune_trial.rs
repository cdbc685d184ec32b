//! The steps of a tune's trial, and what follows its end.

use syntax::quantity::duration;

use super::output::{Decision, FindingState, Output, Standing};
use super::phase::Phase;
use super::trial::{PATIENCE, Step, Trial};
use super::tune::{Outbox, TuneEvaluation, TuneState};
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};
use crate::rule::Tune;
use crate::value::{Cell, Time};

/// A trial for which no window closes for this time, in nanoseconds, is given up: the change could stay for any time
/// without a verdict.
const SILENCE_NS: u64 = 10_000_000_000;

/// For how long no window has been evaluated for a tune.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    since: Time,
    /// Time from the window before to the end of the last one, in nanoseconds.
    window_ns: u64,
    /// Windows that `discard` left out since the last one.
    discarded: u32,
}

impl Silence {
    /// A window was evaluated that began at this time.
    pub(super) fn window(&mut self, began: Time, now: Time) {
        *self = Silence {
            since: now,
            window_ns: now.since(self.since.min(began)),
            discarded: 0,
        };
    }

    pub(super) fn window_discarded(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    /// A trial begins, or goes on with another change.
    pub(super) fn begin(&mut self, now: Time) {
        (self.since, self.discarded) = (now, 0);
    }

    /// Why a trial need not wait for its windows any longer, if so.
    fn why_over(&self, now: Time, guard: &Guard) -> Option<String> {
        let windows = guard.over.saturating_mul(PATIENCE);
        if self.discarded >= windows {
            return Some(format!("the last {} windows were discarded", self.discarded));
        }
        let silent_ns = now.since(self.since);
        let wait_ns = SILENCE_NS.max(self.window_ns.saturating_mul(windows.into()));
        (silent_ns > wait_ns).then(|| format!("no window has closed for {}", duration(silent_ns as f64)))
    }
}

impl TuneState {
    /// Ends a trial whose windows no longer close, or cannot be used; returns its verdicts.
    pub(super) fn end_silent_trial(
        &mut self,
        (rule, index): (RuleId, usize),
        tune: &Tune,
        now: Time,
    ) -> Vec<Output> {
        let (Phase::Trial(trial), Some(guard)) = (&self.phase, tune.guard()) else {
            return Vec::new();
        };
        let Some(why) = self.silence.why_over(now, guard) else {
            return Vec::new();
        };
        let verdicts = trial.given_up((rule, index), guard, &why);
        let text = verdicts.first().map(|verdict| verdict.text.clone());
        self.end_trial(false, false, text.unwrap_or_default(), Some(guard));
        verdicts.into_iter().map(Output::Verdict).collect()
    }

    /// A change that was reverted for the comparison could not be made again.
    pub(super) fn not_made_again(&mut self, trial: &Trial) {
        if trial.is_reverted {
            let processes = trial.processes();
            self.done.retain(|process, _| !processes.contains(process));
            self.set_finding(FindingState::Open);
        }
    }

    /// Adds a window to the trial and judges if there are enough. True if the trial is over.
    pub(super) fn try_on(
        &mut self,
        turn: &TuneEvaluation<'_>,
        guard: &Guard,
        objective: &Cell,
        outbox: &mut Outbox<'_>,
    ) -> bool {
        let Phase::Trial(trial) = &mut self.phase else {
            return false;
        };
        let verdicts = match trial.window(objective, guard, (turn.id, turn.index)) {
            Step::Wait => return false,
            Step::Revert(verdict) => {
                outbox.outputs.push(Output::Verdict(verdict));
                return false;
            }
            Step::Again(decision) => {
                let trial = std::mem::take(trial);
                self.decide_again(decision, trial, outbox);
                return false;
            }
            Step::Over(verdicts) => verdicts,
        };
        let tune = turn.rule.tunes.get(turn.index);
        let revert_after = tune.is_some_and(|tune| tune.revert_after);
        if let Some(verdict) = verdicts.first() {
            self.end_trial(verdict.keep, revert_after, verdict.text.clone(), Some(guard));
        }
        outbox.outputs.extend(verdicts.into_iter().map(Output::Verdict));
        true
    }

    /// Makes a change again that was reverted for the comparison.
    fn decide_again(&mut self, decision: Decision, trial: Trial, outbox: &mut Outbox<'_>) {
        *outbox.decisions += 1;
        let id = DecisionId(*outbox.decisions);
        self.phase = Phase::Pending {
            waited: 0,
            decision: id,
            changes: decision.changes.clone(),
            trial,
        };
        outbox.outputs.push(Output::Decision(Decision {
            id,
            window: None,
            again: true,
            ..decision
        }));
    }

    pub(super) fn end_trial(&mut self, keep: bool, revert_after: bool, text: String, guard: Option<&Guard>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Watching);
        if guard.is_none_or(|guard| guard.was.is_none()) {
            self.before.clear();
        }
        let trial = match phase {
            Phase::Trial(trial) | Phase::Pending { trial, .. } => trial,
            _ => Trial::default(),
        };
        if keep {
            self.applied = true;
            self.reverted = 0;
            if revert_after {
                self.kept.extend(trial.decisions);
            }
            self.set_finding(FindingState::Applied);
            self.stand(Standing::Applied, "applied");
            return;
        }
        for process in trial.processes() {
            self.done.remove(&process);
        }
        self.set_finding(FindingState::Open);
        self.phase = Phase::after_revert(text, guard, self.reverted);
        self.reverted = self.reverted.saturating_add(1);
    }
}
