//! The values that a tune writes at the start, until its first window has a better one. No guard judges them,
//! because there is nothing to compare with. Also, the values that late processes get: those of the other
//! processes of their role.

use plan::{Action, Mode, Set};

use super::Engine;
use super::output::{Decision, Output, ProcessAction, Verdict};
use super::running::Running;
use super::tune::TuneState;
use crate::eval::{Context, WindowData};
use crate::ids::{DecisionId, RuleId};
use crate::rule::Tune;
use crate::value::ProcessId;

/// The kinds of values that are written without a window.
#[derive(Clone, Copy)]
enum InitialWrite {
    /// The first values of the tunes that have one and no window yet.
    Initial,
    Late,
}

impl Engine {
    /// The first values of the tunes that have one and no window yet.
    pub(super) fn write_initial(&mut self) -> Vec<Output> {
        let rules = (0..self.rules.len()).map(RuleId);
        rules
            .flat_map(|rule| self.give(rule, InitialWrite::Initial))
            .collect()
    }

    /// The values for late processes, and the confirmation of those that stay.
    pub(super) fn catch_up(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        for rule in (0..self.rules.len()).map(RuleId) {
            out.extend(self.confirm(rule));
            out.extend(self.give(rule, InitialWrite::Late));
        }
        out
    }

    fn give(&mut self, rule: RuleId, gift: InitialWrite) -> Vec<Output> {
        let running = self.rules.get(rule.0);
        let Some(running) = running.filter(|running| running.mode == Mode::Applying) else {
            return Vec::new();
        };
        let is_there = |process: &ProcessId| {
            let known = self.processes.get(process);
            known.is_some_and(|known| known.left.is_none())
        };
        let changes = |tune, state| match gift {
            InitialWrite::Initial => running.initial(tune, state, is_there),
            InitialWrite::Late => running.late(tune, state, is_there),
        };
        let tunes = running.rule.tunes.iter().zip(&running.tunes).enumerate();
        let found: Vec<(usize, Vec<ProcessAction>)> = tunes
            .map(|(index, (tune, state))| (index, changes(tune, state)))
            .filter(|(_, changes)| !changes.is_empty())
            .collect();
        let Some(running) = self.rules.get_mut(rule.0) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for (index, changes) in found {
            self.decisions += 1;
            let id = DecisionId(self.decisions);
            let (tune, state) = (&running.rule.tunes[index], &mut running.tunes[index]);
            let (what, why) = match gift {
                InitialWrite::Initial => {
                    state.begin(id, changes.clone());
                    ("initial", "no window has closed")
                }
                InitialWrite::Late => {
                    state.begin_late(id, changes.clone(), tune);
                    ("late", "the other processes of its role have it")
                }
            };
            out.push(Output::Decision(Decision {
                id,
                rule,
                rule_name: running.rule.name.clone(),
                tune: index,
                because: vec![(what.to_string(), why.to_string())],
                changes,
                expect: None,
                at: tune.at.clone(),
                together: running.rule.together(tune),
                again: false,
                window: None,
            }));
        }
        out
    }

    /// Confirms in late processes what was judged in the others.
    fn confirm(&mut self, rule: RuleId) -> Vec<Output> {
        let Some(running) = self.rules.get_mut(rule.0) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for (index, (tune, state)) in running.rule.tunes.iter().zip(&mut running.tunes).enumerate() {
            for decision in state.take_confirmed() {
                let mut verdict = Verdict::revert(decision, rule, index, tune.guard());
                verdict.keep = true;
                verdict.text = "as in the other processes of its role".to_string();
                out.push(Output::Verdict(verdict));
            }
        }
        out
    }
}

impl Running {
    /// The change for a late process, if it is equal in all others, in force and stays.
    fn late(
        &self,
        tune: &Tune,
        state: &TuneState,
        is_there: impl Fn(&ProcessId) -> bool,
    ) -> Vec<ProcessAction> {
        let by_process = tune.when.iter().any(|when| when.type_of.table.is_some());
        let Some(wanted) = tune.action.as_ref().filter(|_| !by_process) else {
            return Vec::new();
        };
        let is_for_all = wanted.formulas().all(|value| value.type_of.table.is_none());
        if !matches!(wanted.action, Action::Set(_)) || !is_for_all {
            return Vec::new();
        }
        let Some(action) = state.in_force(tune) else {
            return Vec::new();
        };
        self.to_each(wanted.role, action, |process| {
            is_there(process) && state.was_given_nothing(*process)
        })
    }

    fn initial(
        &self,
        tune: &Tune,
        state: &TuneState,
        is_there: impl Fn(&ProcessId) -> bool,
    ) -> Vec<ProcessAction> {
        let (Some(wanted), Some(value)) = (&tune.action, &tune.initial) else {
            return Vec::new();
        };
        let Action::Set(set) = &wanted.action else {
            return Vec::new();
        };
        let action = Action::Set(Set {
            value: value.clone(),
            ..set.clone()
        });
        // A range may refer to counts of roles, which are known before any window.
        let window = WindowData {
            roles: self.roles.clone(),
            ..WindowData::default()
        };
        let context = Context {
            window: Some(&window),
            ..Context::default()
        };
        if wanted.permits(context, &action).is_err() {
            return Vec::new();
        }
        self.to_each(wanted.role, &action, |process| {
            is_there(process) && state.needs_initial(*process)
        })
    }

    /// An action on the chosen processes of a role.
    fn to_each(
        &self,
        role: usize,
        action: &Action,
        chosen: impl Fn(&ProcessId) -> bool,
    ) -> Vec<ProcessAction> {
        let members = self.roles.get(role).into_iter().flatten();
        let change = |process: &ProcessId| ProcessAction {
            process: *process,
            action: action.clone(),
        };
        members.filter(|process| chosen(process)).map(change).collect()
    }
}
