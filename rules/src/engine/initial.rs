//! What a tune writes at the start, until its first window has shown something better. No guard judges it: there is
//! nothing before it to compare with.

use super::output::{Change, Decision, DecisionId, Mode, Output, RuleId};
use super::tune::TuneState;
use super::{Engine, Running};
use crate::action::Action;
use crate::deed::Deed;
use crate::eval::{Context, WindowData};
use crate::rule::Tune;
use crate::value::ProcessId;

impl Engine {
    /// The first values of the tunes that have one and no window yet.
    pub(super) fn write_initial(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        for index in 0..self.rules.len() {
            let there = |process: &ProcessId| {
                self.processes
                    .get(process)
                    .is_some_and(|known| known.left.is_none())
            };
            let Some(running) = self
                .rules
                .get(index)
                .filter(|running| running.mode == Mode::Applying)
            else {
                continue;
            };
            let mut found = Vec::new();
            for (place, (tune, state)) in running.rule.tunes.iter().zip(&running.tunes).enumerate() {
                let changes = running.initial(tune, state, there);
                if !changes.is_empty() {
                    found.push((place, changes));
                }
            }
            for (place, changes) in found {
                self.decisions += 1;
                let id = DecisionId(self.decisions);
                out.extend(self.initial_decision(RuleId(index), place, id, changes));
            }
        }
        out
    }

    fn initial_decision(
        &mut self,
        rule: RuleId,
        place: usize,
        id: DecisionId,
        changes: Vec<Change>,
    ) -> Option<Output> {
        let running = self.rules.get_mut(rule.0)?;
        let tune = running.rule.tunes.get(place)?;
        running.tunes.get_mut(place)?.begin(id, changes.clone());
        Some(Output::Decision(Decision {
            id,
            rule,
            rule_name: running.rule.name.clone(),
            tune: place,
            because: vec![("initial".to_string(), "no window has closed".to_string())],
            changes,
            expect: None,
            at: tune.at.clone(),
            together: tune.together.clone(),
        }))
    }
}

impl Running {
    fn initial(&self, tune: &Tune, state: &TuneState, there: impl Fn(&ProcessId) -> bool) -> Vec<Change> {
        let (Some(wanted), Some(value)) = (&tune.action, &tune.initial) else {
            return Vec::new();
        };
        let Deed::Set {
            variable, everywhere, ..
        } = &wanted.deed
        else {
            return Vec::new();
        };
        let action = Action::Set {
            variable: variable.clone(),
            everywhere: *everywhere,
            value: value.clone(),
        };
        // A range may speak of counts of roles, which are known before any window.
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
        let members = self.roles.get(wanted.role).into_iter().flatten();
        let members = members.filter(|process| there(process) && state.needs_initial(**process));
        let change = |process: &ProcessId| Change {
            process: *process,
            action: action.clone(),
        };
        members.map(change).collect()
    }
}
