//! Decides whether a tune acts at the close of a window, with what changes, or why it does not.

use std::collections::BTreeSet;

use plan::{Action, Mode};
use syntax::quantity::quantity;
use syntax::unit::Dimension;

use super::Engine;
use super::holds::Condition;
use super::output::{Decision, FindingState, Output, ProcessAction, Standing};
use super::phase::Phase;
use super::trial::Trial;
use super::tune::{Outbox, TuneEvaluation, TuneState};
use super::tune_status::not_evaluated;
use super::variables::Variables;
use crate::change::Change as Wanted;
use crate::explain::why_false;
use crate::guard::Guard;
use crate::ids::{DecisionId, ProbeId, RuleId};
use crate::rule::{Trigger, Tune};
use crate::value::{Cell, ProcessId, WhyMissing};
use crate::window::Window;

impl Engine {
    /// Whether a hit of this probe may immediately lead to a decision of the rule: the rule applies, and a
    /// tune is triggered by the probe or by a window that closes there.
    pub fn may_decide_at(&self, rule: RuleId, probe: ProbeId) -> bool {
        let applies = |running: &&super::Running| running.mode == Mode::Applying && !running.is_removed;
        let Some(running) = self.rules.get(rule.0).filter(applies) else {
            return false;
        };
        let ends_at = |window: usize| {
            let boundaries = running.rule.windows.get(window).and_then(Window::boundaries);
            boundaries.is_some_and(|boundaries| boundaries.closes_at() == Some(probe.0))
        };
        let acting = running.rule.tunes.iter().filter(|tune| tune.action.is_some());
        let mut triggers = acting.map(|tune| tune.trigger);
        triggers.any(|trigger| match trigger {
            Trigger::Window(window) => ends_at(window),
            Trigger::Hit { probe: at, .. } => at == probe.0,
        })
    }
}

impl TuneState {
    /// Why the condition by itself keeps the tune from acting, if it does.
    pub(super) fn not_yet(
        &self,
        turn: &TuneEvaluation<'_>,
        tune: &Tune,
        condition: &Cell,
    ) -> Option<(Standing, String)> {
        match condition {
            Err(why) => Some((Standing::NoValue, not_evaluated(why.reason()))),
            Ok(_) if self.needless.is_some() => {
                Some((Standing::Quiet, self.needless.clone().unwrap_or_default()))
            }
            Ok(_) if self.held.held() == 0 => {
                let why = |when| why_false(turn.rule, when, turn.context());
                Some((Standing::Quiet, tune.when.as_ref().map_or_else(String::new, why)))
            }
            Ok(_) if self.held.held() < tune.holds_for => Some((
                Standing::Counting,
                format!(
                    "its condition has held for {} of {} windows",
                    self.held.held(),
                    tune.holds_for
                ),
            )),
            Ok(_) => None,
        }
    }

    /// Why no change is needed although the condition holds: every process already has the value, not written
    /// by this tune. Such a tune has no finding either.
    pub(super) fn needless(
        &self,
        turn: &TuneEvaluation<'_>,
        tune: &Tune,
        condition: &Condition,
        variables: &Variables,
    ) -> Option<String> {
        let wanted = tune.action.as_ref()?;
        if !matches!(self.phase, Phase::Watching) || !condition.holds() {
            return None;
        }
        let members = turn.window.roles.get(wanted.role)?;
        let values = wanted.values(turn.context());
        let has_already = |process: &ProcessId| {
            let action = wanted.action_for(turn.context(), &values, *process).ok()?;
            let change = ProcessAction {
                process: *process,
                action,
            };
            self.has_already(turn, &change, variables)
                .then_some(change.action)
        };
        let actions: Option<Vec<Action>> = members.iter().map(has_already).collect();
        let actions = actions.filter(|actions| !actions.is_empty())?;
        let is_one = actions.iter().all(|action| *action == actions[0]);
        let is = match (&actions[0], is_one) {
            (Action::Set(set), true) => format!("{} is {}", set.variable, set.value),
            _ => format!("{} is as it would be set", wanted.action.target()),
        };
        let scope = match actions.len() {
            1 => String::new(),
            several => format!(" in all {several} processes"),
        };
        Some(format!("nothing to change: {is}{} already", scope))
    }

    /// Whether the process already holds the value of the change, not written by this tune.
    fn has_already(&self, turn: &TuneEvaluation<'_>, change: &ProcessAction, variables: &Variables) -> bool {
        !self.done.contains_key(&change.process) && variables.has(change, turn.window.span.0)
    }

    /// Makes a decision, or records why not.
    pub(super) fn decide(
        &mut self,
        turn: &TuneEvaluation<'_>,
        tune: &Tune,
        action: &Wanted,
        condition: &Condition,
        outbox: &mut Outbox<'_>,
    ) {
        let applied = self
            .finding
            .as_ref()
            .is_some_and(|finding| finding.state == FindingState::Applied);
        if let Some((standing, why)) = self.not_yet(turn, tune, &condition.overall) {
            return if applied {
                self.stand(Standing::Applied, "applied")
            } else {
                self.stand(standing, why)
            };
        }
        let changes = match self.changes(turn, tune, action, &outbox.variables) {
            Ok(changes) if changes.is_empty() && applied => return self.stand(Standing::Applied, "applied"),
            Ok(changes) if changes.is_empty() => {
                let (standing, why) = self.nothing_to_do(turn, tune, action);
                return self.stand(standing, why);
            }
            Ok(changes) => changes,
            Err(reason) => return self.stand(Standing::NoValue, format!("no change: {reason}")),
        };
        // Switching a probe changes no program: rules in advising mode do it too.
        if turn.mode != Mode::Applying && !matches!(action.action, Action::Switch(_)) {
            return self.stand(Standing::Advising, "advising: its condition holds");
        }
        if let Some((standing, why)) = self.held_back(turn, tune, action, outbox) {
            return self.stand(standing, why);
        }
        if tune.occupies_the_trial() {
            outbox.busy = Some(turn.rule.name.clone());
        }
        *outbox.decisions += 1;
        let decision = Decision {
            id: DecisionId(*outbox.decisions),
            rule: turn.id,
            rule_name: turn.rule.name.clone(),
            tune: turn.index,
            because: turn.because(tune),
            changes: changes.clone(),
            expect: tune
                .expect
                .as_ref()
                .map(|expect| turn.context().eval(expect).show(expect.type_of)),
            at: tune.at.clone(),
            together: turn.rule.together(tune),
            again: false,
            window: matches!(tune.trigger, Trigger::Window(_)).then_some(turn.window.span),
        };
        let trial = self.trial_of(turn, tune, &decision);
        self.phase = Phase::Pending {
            waited: 0,
            decision: decision.id,
            changes,
            trial,
        };
        outbox.outputs.push(Output::Decision(decision));
    }

    /// The trial of the decision; it continues the present trial, if there is one.
    fn trial_of(&mut self, turn: &TuneEvaluation<'_>, tune: &Tune, decision: &Decision) -> Trial {
        if let Phase::Trial(trial) = std::mem::replace(&mut self.phase, Phase::Watching) {
            return trial;
        }
        let was = tune.guard().and_then(|guard| turn.was(guard));
        let history = self.before.iter().copied().collect();
        if was.is_none() {
            self.before.clear();
        }
        Trial::new(history, was, tune.guard(), decision)
    }

    fn nothing_to_do(&self, turn: &TuneEvaluation<'_>, tune: &Tune, wanted: &Wanted) -> (Standing, String) {
        if !self.done.is_empty() {
            let why = match tune.switches() {
                true => "the probes that it needs are on",
                false => "what it would do is in force",
            };
            return (Standing::Applied, why.to_string());
        }
        let role = turn
            .rule
            .roles
            .get(wanted.role)
            .map_or("", |role| role.name.as_str());
        let why = format!("nothing to change: no new process has the role {role}");
        (Standing::NoValue, why)
    }

    /// Why it does not act now although a change is due.
    fn held_back(
        &self,
        turn: &TuneEvaluation<'_>,
        tune: &Tune,
        action: &Wanted,
        outbox: &mut Outbox<'_>,
    ) -> Option<(Standing, String)> {
        if let Some(why) = outbox.claim(turn.rule, action) {
            return Some((Standing::GivesWay, why));
        }
        if let Some(why) = self.must_wait(turn, tune) {
            return Some((Standing::Waiting, why));
        }
        // The current trial may be its own.
        let on_trial = matches!(self.phase, Phase::Trial(_));
        let busy = outbox.busy.as_deref();
        let rule = busy.filter(|_| tune.occupies_the_trial() && !on_trial)?;
        Some((
            Standing::GivesWay,
            format!("another change is on trial, of {rule}"),
        ))
    }

    fn must_wait(&self, turn: &TuneEvaluation<'_>, tune: &Tune) -> Option<String> {
        if let Some(first) = &turn.first {
            return Some(format!("after {first}, which has not been applied"));
        }
        if turn.now < self.quiet_until {
            let left = self.quiet_until.since(turn.now) as f64 / 1e9;
            return Some(format!("cooldown: {} left", quantity(left, Dimension::TIME)));
        }
        if tune.revert_after && !self.has_room() {
            return Some("it has as many changes in force as can be reverted together".to_string());
        }
        let known = self.before.len();
        let needs = |guard: &&Guard| known < guard.needs_before() && !matches!(self.phase, Phase::Trial(_));
        let guard = tune.guard().filter(needs)?;
        let (objective, wanted) = (&guard.objective_text, guard.needs_before());
        Some(format!(
            "the guard needs {objective} before the change: {known} of {wanted} windows"
        ))
    }

    /// The changes, or why they cannot be determined. Left out are processes that were changed already, for
    /// which the condition has not held long enough, or that have the value already; a change at a meeting
    /// includes all processes.
    fn changes(
        &self,
        turn: &TuneEvaluation<'_>,
        tune: &Tune,
        wanted: &Wanted,
        variables: &Variables,
    ) -> Result<Vec<ProcessAction>, WhyMissing> {
        let no_process = BTreeSet::new();
        let members = turn.window.roles.get(wanted.role).unwrap_or(&no_process);
        let values = wanted.values(turn.context());
        let acts_once = wanted.guard.as_ref().is_some_and(|guard| guard.was.is_none());
        let mut changes = Vec::new();
        for &process in members {
            if self.held.held_for(process) < tune.holds_for {
                continue;
            }
            let action = wanted.action_for(turn.context(), &values, process)?;
            wanted.permits(turn.context(), &action)?;
            let again = acts_once && self.acted.contains(&process);
            let is_done = again || self.done.get(&process) == Some(&action);
            let change = ProcessAction { process, action };
            let has_it = turn.rule.together(tune).is_none() && self.has_already(turn, &change, variables);
            if !is_done && !has_it {
                changes.push(change);
            }
        }
        Ok(changes)
    }
}
