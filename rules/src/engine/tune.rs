//! The state of one tune from window to window: condition, finding, decision, trial, verdict.
//!
//! A tune with a guard acts once while its condition holds and does not repeat a change on a process. If the
//! guard states what a change is compared with (`was`), the tune also acts during a trial, and the changes of
//! a trial are judged together. A tune without a guard acts whenever its action differs from its last one,
//! and nothing is judged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plan::{Action, Mode};

use super::holds::{Condition, Held};
use super::output::{
    DecisionOutcome, Finding, FindingState, Output, ProcessAction, Standing, TrialProgress, Verdict,
};
use super::phase::Phase;
use super::trial::{HISTORY_MAX, Trial};
use super::tune_trial::Silence;
pub(super) use super::turn::{Outbox, TuneEvaluation};
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};
use crate::rule::{Filled, Trigger, Tune};
use crate::value::{Cell, ProcessId, Scalar, Time};

/// Decisions in force that must be reverted together; at this number the tune makes no further decision.
const KEPT_MAX: usize = 1000;

#[derive(Clone, Debug, Default)]
pub(super) struct TuneState {
    pub(super) phase: Phase,
    /// For how many consecutive evaluations the condition was true, or false.
    pub(super) held: Held,
    pub(super) finding: Option<Finding>,
    /// The objective in the last windows without a change, the newest last.
    pub(super) before: VecDeque<f64>,
    /// Processes changed since the condition became true.
    pub(super) acted: BTreeSet<ProcessId>,
    pub(super) done: BTreeMap<ProcessId, Action>,
    /// Decisions of first values with the values they write; empty after their receipts.
    begun: BTreeMap<DecisionId, Vec<ProcessAction>>,
    /// Processes that were given their first value, or no longer need one.
    initial: BTreeSet<ProcessId>,
    /// Decisions that give late processes a value that was judged and kept in the others; and those of them
    /// that were applied, to be reported as confirmed.
    late: BTreeSet<DecisionId>,
    confirmed: Vec<DecisionId>,
    /// Whether a window with a value has closed for it.
    pub(super) has_turned: bool,
    /// Whether a change of it was kept and is in force.
    pub(super) applied: bool,
    /// Decisions in force while the condition holds, with the processes they changed; to be reverted.
    pub(super) kept: Vec<(DecisionId, BTreeSet<ProcessId>)>,
    /// Number of decisions given up because they were stale.
    given_up: u64,
    /// Changes reverted since the last one that was kept.
    pub(super) reverted: u32,
    /// Decisions that met an obstacle, since the last one that was carried out.
    hindered: u32,
    pub(super) quiet_until: Time,
    pub(super) silence: Silence,
    /// Why no action is needed although the condition holds.
    pub(super) needless: Option<String>,
    /// As `needless`, but found by trying; kept until the condition fails.
    there: Option<String>,
    pub(super) standing: Standing,
    pub(super) why: String,
}

impl TuneState {
    pub(super) fn new() -> TuneState {
        TuneState {
            standing: Standing::Waiting,
            why: "the first window has not closed".to_string(),
            ..TuneState::default()
        }
    }

    pub(super) fn needs_initial(&self, process: ProcessId) -> bool {
        !self.has_turned && !self.initial.contains(&process)
    }

    /// Registers a decision of first values.
    pub(super) fn begin(&mut self, decision: DecisionId, changes: Vec<ProcessAction>) {
        self.initial.extend(changes.iter().map(|change| change.process));
        self.begun.insert(decision, changes);
    }

    /// Registers such a decision for a late process; what a guard judged in the others is not judged again.
    pub(super) fn begin_late(&mut self, decision: DecisionId, changes: Vec<ProcessAction>, tune: &Tune) {
        if tune.guard().is_some() {
            self.late.insert(decision);
        }
        self.begin(decision, changes);
    }

    /// The action that was decided for all processes alike and remains in force after the condition has
    /// ended: a process that joins later and was given nothing yet gets it too.
    pub(super) fn in_force(&self, tune: &Tune) -> Option<&Action> {
        let holds = self.held.held() > 0;
        let is_settled =
            matches!(self.phase, Phase::Watching) && self.applied && !holds && !tune.revert_after;
        let mut done = self.done.values().filter(|_| is_settled);
        let first = done.next()?;
        done.all(|action| action == first).then_some(first)
    }

    pub(super) fn was_given_nothing(&self, process: ProcessId) -> bool {
        !self.initial.contains(&process) && !self.done.contains_key(&process)
    }

    /// Decisions that were carried out and stay; each is returned once.
    pub(super) fn take_confirmed(&mut self) -> Vec<DecisionId> {
        std::mem::take(&mut self.confirmed)
    }

    /// Whether a decision of it is in force, other than first values.
    pub(super) fn is_applied(&self) -> bool {
        matches!(self.phase, Phase::Trial(_)) || self.applied
    }

    /// Whether its condition holds or its change is in force.
    pub(super) fn has_claim(&self) -> bool {
        self.is_busy() || self.applied || self.held.held() > 0
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Pending { .. } | Phase::Trial(_))
    }

    /// The changes that are being judged.
    pub(super) fn on_trial(&self, tune: &Tune) -> Vec<TrialProgress> {
        let (Phase::Trial(trial), Some(guard)) = (&self.phase, tune.guard()) else {
            return Vec::new();
        };
        let (seen, needed) = trial.progress(guard);
        let progress = |decision| TrialProgress {
            decision,
            seen,
            over: needed as u32,
        };
        let decisions = trial.decisions.iter();
        decisions.map(|(decision, _)| progress(*decision)).collect()
    }

    /// Whether a change is being judged, including the time in which it is reverted for the comparison.
    pub(super) fn is_judging(&self) -> bool {
        match &self.phase {
            Phase::Trial(_) => true,
            Phase::Pending { trial, .. } => trial.is_reverted,
            Phase::Watching | Phase::OnHold { .. } => false,
        }
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        self.acted.remove(&process);
        self.done.remove(&process);
        self.initial.remove(&process);
        self.held.forget(process);
        if let Phase::Trial(trial) = &mut self.phase {
            trial.forget(process);
        }
    }

    pub(super) fn status(&self, mode: Mode, tune: &Tune) -> (Standing, String) {
        match (&self.phase, mode) {
            (Phase::Pending { decision, .. }, _) => (
                Standing::Pending,
                format!("decision {} was sent, not yet confirmed", decision.0),
            ),
            (Phase::Trial(trial), _) if trial.disturbed => (
                Standing::OnTrial,
                format!(
                    "on trial: waiting for the first window after the change{}",
                    trial.first_result()
                ),
            ),
            (Phase::Trial(trial), _) => {
                let (seen, needed) = tune.guard().map_or((0, 0), |guard| trial.progress(guard));
                let how = if trial.is_reverted {
                    "on trial, reverted to compare"
                } else {
                    "on trial"
                };
                let before = trial.first_result();
                (
                    Standing::OnTrial,
                    format!("{how}: {seen} of {needed} windows{before}"),
                )
            }
            (_, Mode::Off) => (Standing::Off, "the rule is off".to_string()),
            (Phase::OnHold { reason, left: None }, _) => (Standing::OnHold, format!("on hold: {reason}")),
            (
                Phase::OnHold {
                    reason,
                    left: Some(left),
                },
                _,
            ) => (
                Standing::OnHold,
                format!("on hold for {left} more windows: {reason}"),
            ),
            (Phase::Watching, _) => (self.standing, self.why.clone()),
        }
    }

    /// Handles the close of the window of the tune's formulas.
    pub(super) fn window_closed(&mut self, turn: &TuneEvaluation<'_>, outbox: &mut Outbox<'_>) {
        let Some(tune) = turn.rule.tunes.get(turn.index) else {
            return;
        };
        self.silence.window(turn.window.span.0, turn.now);
        let looked = matches!(tune.trigger, Trigger::Window(_)).then(|| self.look(turn, tune, outbox));
        let Some(change) = &tune.action else { return };
        let condition = looked.as_ref().and_then(Option::as_ref);
        let objective = tune.guard().map(|guard| self.objective(turn, guard));
        if let (Some(guard), Phase::Trial(Trial { disturbed: false, .. })) = (tune.guard(), &self.phase)
            && guard.was.is_some()
        {
            // Later changes are compared with the recent history, which includes trials.
            let as_it_is = turn.objective(guard, turn.was(guard));
            self.remember(guard, &as_it_is);
        }
        match (&mut self.phase, tune.guard().zip(objective)) {
            (Phase::Watching, guarded) => {
                if let Some((guard, objective)) = guarded {
                    self.remember(guard, &objective);
                }
                if let Some(condition) = condition {
                    self.decide(turn, tune, change, condition, outbox);
                }
            }
            (Phase::Trial(trial), Some((guard, objective))) => {
                let was_disturbed = trial.disturbed;
                let over = self.try_on(turn, guard, &objective, outbox);
                outbox.end_trial(over && tune.occupies_the_trial());
                // At least every second window of a trial is judged.
                if let (Some(condition), false, Some(_)) = (condition, over || was_disturbed, &guard.was) {
                    self.decide(turn, tune, change, condition, outbox);
                }
            }
            (Phase::Pending { .. }, _) => {
                let over = self.grow_stale(tune.stale);
                outbox.end_trial(over && tune.occupies_the_trial());
            }
            (Phase::OnHold { left: Some(left), .. }, _) => {
                *left -= 1;
                if *left == 0 {
                    self.phase = Phase::Watching;
                    self.acted.clear();
                }
            }
            (Phase::OnHold { .. } | Phase::Trial(_), _) => {}
        }
        if looked.is_some() {
            self.revert_after(turn, tune, &mut outbox.outputs);
        }
    }

    /// Handles a hit that triggers the tune; the window has its values up to that hit.
    pub(super) fn hit(&mut self, turn: &TuneEvaluation<'_>, outbox: &mut Outbox<'_>) {
        let Some(tune) = turn.rule.tunes.get(turn.index) else {
            return;
        };
        let condition = self.look(turn, tune, outbox);
        if let (Some(change), Some(condition), Phase::Watching) = (&tune.action, &condition, &self.phase) {
            self.decide(turn, tune, change, condition, outbox);
        }
        self.revert_after(turn, tune, &mut outbox.outputs);
    }

    /// Evaluates the condition and updates the finding. `None` while processes are missing.
    fn look(&mut self, turn: &TuneEvaluation<'_>, tune: &Tune, outbox: &mut Outbox<'_>) -> Option<Condition> {
        if let Some(why) = turn.rule.lacks_processes(&turn.window.roles) {
            self.held = Held::default();
            self.stand(Standing::Waiting, why);
            return None;
        }
        let mut condition = Condition::of(tune, turn.context());
        if condition.overall.as_ref().is_ok_and(|_| !condition.holds()) {
            self.there = None;
        }
        let needless = self.needless(turn, tune, &condition, &outbox.variables);
        self.needless = needless
            .or_else(|| self.there.clone())
            .or_else(|| turn.needless.clone());
        if self.needless.is_some() {
            condition = Condition::never();
        }
        // A window without a value does not show an improvement.
        self.has_turned |= condition.overall.is_ok();
        self.held.count(&condition);
        if !self.is_busy() {
            self.acted.retain(|process| !condition.fails_for(*process));
        }
        if tune.has_finding() {
            self.update_finding(turn, tune, &condition.overall, &mut outbox.outputs);
        }
        if tune.action.is_none() {
            self.advise(turn, tune, &condition.overall);
        }
        Some(condition)
    }

    /// Gives up a decision based on old values; its receipt will be ignored. True if so.
    fn grow_stale(&mut self, stale: Option<u32>) -> bool {
        let (Phase::Pending { waited, trial, .. }, Some(stale)) = (&mut self.phase, stale) else {
            return false;
        };
        *waited += 1;
        if *waited <= stale {
            return false;
        }
        let trial = std::mem::take(trial);
        let is_over = trial.decisions.is_empty();
        self.not_made_again(&trial);
        self.phase = if is_over {
            Phase::Watching
        } else {
            Phase::Trial(trial)
        };
        self.given_up += 1;
        let why = format!(
            "{} given up as stale: no receipt within {stale} windows",
            self.given_up
        );
        self.stand(Standing::Waiting, why);
        is_over
    }

    /// Reverts the changes in force when the condition has failed for as long as it had to hold; for a
    /// condition on each process, in the processes for which it failed.
    fn revert_after(&mut self, turn: &TuneEvaluation<'_>, tune: &Tune, out: &mut Vec<Output>) {
        if !tune.revert_after || !matches!(self.phase, Phase::Watching) {
            return;
        }
        let mut reverted = BTreeSet::new();
        // The newest first: each change is reverted to what it found.
        for (decision, processes) in self.kept.iter_mut().rev() {
            let failed = |process: &ProcessId| self.held.failed_for(*process) >= tune.holds_for;
            let failed: BTreeSet<ProcessId> = processes.iter().copied().filter(failed).collect();
            if failed.is_empty() {
                continue;
            }
            let mut verdict = Verdict::revert(*decision, turn.id, turn.index, tune.guard());
            verdict.processes = (failed.len() < processes.len()).then(|| failed.clone());
            verdict.text = "its condition no longer holds".to_string();
            verdict.ended = true;
            out.push(Output::Verdict(verdict));
            processes.retain(|process| !failed.contains(process));
            reverted.extend(failed);
        }
        if reverted.is_empty() {
            return;
        }
        self.kept.retain(|(_, processes)| !processes.is_empty());
        self.done.retain(|process, _| !reverted.contains(process));
        self.acted.retain(|process| !reverted.contains(process));
        self.before.clear();
        if !self.kept.is_empty() {
            return;
        }
        self.applied = false;
        if self.finding.take().is_some() {
            let (rule, tune) = (turn.id, turn.index);
            out.push(Output::FindingClosed { rule, tune });
        }
        self.stand(
            Standing::Quiet,
            "its condition no longer holds, and what it did was reverted",
        );
    }

    /// Opens the finding after the condition held for `for` windows, and closes it after as many without;
    /// none changes nothing. The finding stays as it is while a change is judged and after it was kept,
    /// because the change itself may end the condition.
    fn update_finding(
        &mut self,
        turn: &TuneEvaluation<'_>,
        tune: &Tune,
        condition: &Cell,
        out: &mut Vec<Output>,
    ) {
        let state = self.finding.as_ref().map(|finding| finding.state);
        // A change may end its condition before its receipt arrives.
        if self.is_busy() || state == Some(FindingState::Applied) || condition.is_err() {
            return;
        }
        if self.held.held() >= tune.holds_for {
            let text = |finding: &Filled| finding.fill(turn.context());
            let command = |start: &Filled| start.fill_to_copy(turn.context());
            let finding = tune.finding.as_ref();
            let text = finding.map_or_else(|| turn.rule.about.clone(), text);
            let finding = Finding {
                rule: turn.id,
                rule_name: turn.rule.name.clone(),
                tune: turn.index,
                text,
                next_start: tune.next_start.as_ref().map(command),
                because: turn.because(tune),
                state: FindingState::Open,
            };
            if self.finding.is_none() {
                out.push(Output::FindingOpened(finding.clone()));
            }
            self.finding = Some(finding);
        } else if self.finding.is_some() && self.held.failed() >= tune.holds_for {
            self.finding = None;
            let (rule, tune) = (turn.id, turn.index);
            out.push(Output::FindingClosed { rule, tune });
        }
    }

    /// The objective of this window, relative to the values before the change, if there is one.
    fn objective(&self, turn: &TuneEvaluation<'_>, guard: &Guard) -> Cell {
        let was = match &self.phase {
            Phase::Trial(trial) => trial.was.clone(),
            _ => turn.was(guard),
        };
        turn.objective(guard, was)
    }

    fn remember(&mut self, guard: &Guard, objective: &Cell) {
        if let Ok(Scalar::Number(value)) = objective {
            self.before.push_back(*value);
            let most = if guard.repeats() { HISTORY_MAX } else { 0 };
            while self.before.len() > most.max(guard.over as usize) {
                self.before.pop_front();
            }
        }
    }

    fn advise(&mut self, turn: &TuneEvaluation<'_>, tune: &Tune, condition: &Cell) {
        if let Some((standing, why)) = self.not_yet(turn, tune, condition) {
            return self.stand(standing, why);
        }
        self.stand(Standing::Advising, "advising: its condition holds");
    }

    pub(super) fn stand(&mut self, standing: Standing, why: impl Into<String>) {
        self.standing = standing;
        self.why = why.into();
    }

    pub(super) fn awaits(&self, decision: DecisionId) -> bool {
        let is_pending =
            matches!(&self.phase, Phase::Pending { decision: pending, .. } if *pending == decision);
        is_pending || self.begun.contains_key(&decision)
    }

    /// Starts the trial, keeps a change without a guard, or puts the tune on hold. True if the decision was
    /// this tune's.
    pub(super) fn receipt(
        &mut self,
        decision: DecisionId,
        outcome: &DecisionOutcome,
        tune: &Tune,
        now: Time,
    ) -> bool {
        if let Some(changes) = self.begun.remove(&decision) {
            let is_late = self.late.remove(&decision);
            if matches!(outcome, DecisionOutcome::Applied | DecisionOutcome::There(_)) {
                self.confirmed.extend(is_late.then_some(decision));
                let done = changes.into_iter().map(|change| (change.process, change.action));
                self.done.extend(done);
            }
            return true;
        }
        let Phase::Pending {
            decision: pending,
            trial,
            changes,
            ..
        } = &mut self.phase
        else {
            return false;
        };
        if *pending != decision {
            return false;
        }
        let trial = std::mem::take(trial);
        let changes = std::mem::take(changes);
        if *outcome != DecisionOutcome::Applied {
            self.not_made_again(&trial);
        }
        self.phase = match outcome {
            // Without a change there is nothing to judge.
            DecisionOutcome::There(reason) if trial.decisions.is_empty() && tune.acts_once() => {
                self.there = Some(reason.clone());
                Phase::Watching
            }
            DecisionOutcome::Applied | DecisionOutcome::There(_) => {
                let changed: BTreeSet<ProcessId> = changes.iter().map(|change| change.process).collect();
                self.hindered = 0;
                self.acted.extend(&changed);
                let done = changes.into_iter().map(|change| (change.process, change.action));
                self.done.extend(done);
                self.quiet_until = Time(now.0.saturating_add(tune.cooldown));
                self.applied(decision, changed, trial, tune, now)
            }
            // Earlier decisions of the trial are in force and still to be judged.
            _ if !trial.decisions.is_empty() => Phase::Trial(trial),
            DecisionOutcome::Refused(reason) => Phase::on_hold(format!("refused: {reason}")),
            DecisionOutcome::Failed(reason) => Phase::on_hold(format!("failed: {reason}")),
            DecisionOutcome::Hindered(reason) => {
                self.hindered += 1;
                Phase::hindered(reason, self.hindered - 1)
            }
        };
        true
    }

    /// The phase after a change was made: a trial, or watching if there is no guard.
    fn applied(
        &mut self,
        decision: DecisionId,
        changed: BTreeSet<ProcessId>,
        mut trial: Trial,
        tune: &Tune,
        now: Time,
    ) -> Phase {
        if tune.guard().is_some() {
            self.set_finding(FindingState::OnTrial);
            trial.add(decision, changed);
            self.silence.begin(now);
            return Phase::Trial(trial);
        }
        self.applied = true;
        if tune.revert_after {
            self.kept.push((decision, changed));
        }
        self.set_finding(FindingState::Applied);
        self.stand(Standing::Applied, "applied; nothing judges it");
        Phase::Watching
    }

    /// Whether one more decision to be reverted can be remembered.
    pub(super) fn has_room(&self) -> bool {
        self.kept.len() < KEPT_MAX
    }

    pub(super) fn set_finding(&mut self, state: FindingState) {
        if let Some(finding) = &mut self.finding {
            finding.state = state;
        }
    }

    /// Handles a change of the rule's mode; see [`super::Engine::set_mode`].
    pub(super) fn set_mode(&mut self, rule: RuleId, index: usize, mode: Mode, tune: &Tune) -> Vec<Output> {
        let mut out = Vec::new();
        let open = self.phase.open();
        if mode != Mode::Applying && self.is_busy() {
            let text = "the rule was switched before its change was judged";
            self.end_trial(false, false, text.to_string(), None);
            out.extend(open.into_iter().map(|decision| {
                Output::Verdict(Verdict {
                    text: text.to_string(),
                    ..Verdict::revert(decision, rule, index, tune.guard())
                })
            }));
        }
        if mode == Mode::Applying && matches!(self.phase, Phase::OnHold { .. }) {
            self.phase = Phase::Watching;
            self.acted.clear();
        }
        if mode == Mode::Off {
            self.held = Held::default();
            self.before.clear();
            let applied = self
                .finding
                .as_ref()
                .is_some_and(|finding| finding.state == FindingState::Applied);
            if !applied && self.finding.take().is_some() {
                out.push(Output::FindingClosed { rule, tune: index });
            }
        }
        out
    }
}
