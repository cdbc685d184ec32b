//! Whether a tune acts at the close of a window, with what changes, and if not, why not.

use std::collections::BTreeSet;

use super::output::{Change, Decision, DecisionId, FindingState, Mode, Output, Standing};
use super::tune::{Outbox, Phase, TuneState, Turn};
use crate::eval::{Context, boolean};
use crate::explain::why_false;
use crate::rule::{Action, Tune};
use crate::unit::{Dimension, human};
use crate::value::{Cell, Key, Value};

impl TuneState {
    /// Why the condition alone keeps the tune from acting, if it does.
    pub(super) fn not_yet(
        &self,
        turn: &Turn<'_>,
        tune: &Tune,
        condition: &Cell,
    ) -> Option<(Standing, String)> {
        match condition {
            Err(reason) => Some((Standing::NoValue, format!("no value: {reason}"))),
            Ok(_) if self.held == 0 => {
                Some((Standing::Quiet, why_false(turn.rule, &tune.when, turn.context())))
            }
            Ok(_) if self.held < tune.holds_for => Some((
                Standing::Waiting,
                format!("for: {} of {} windows", self.held, tune.holds_for),
            )),
            Ok(_) => None,
        }
    }

    /// Decides, or says why not yet.
    pub(super) fn decide(
        &mut self,
        turn: &Turn<'_>,
        tune: &Tune,
        action: &Action,
        condition: &Cell,
        outbox: &mut Outbox<'_>,
    ) {
        let applied = self
            .finding
            .as_ref()
            .is_some_and(|finding| finding.state == FindingState::Applied);
        if let Some((standing, why)) = self.not_yet(turn, tune, condition) {
            return if applied {
                self.stand(Standing::Applied, "applied")
            } else {
                self.stand(standing, why)
            };
        }
        let changes = match self.changes(turn, action) {
            Ok(changes) if changes.is_empty() && applied => return self.stand(Standing::Applied, "applied"),
            Ok(changes) if changes.is_empty() => {
                let role = turn
                    .rule
                    .roles
                    .get(action.role)
                    .map_or("", |role| role.name.as_str());
                return self.stand(
                    Standing::NoValue,
                    format!("nothing to change: no new process has the role {role}"),
                );
            }
            Ok(changes) => changes,
            Err(reason) => return self.stand(Standing::NoValue, format!("no value: {reason}")),
        };
        if turn.mode != Mode::Applying {
            return self.stand(Standing::Advising, "advising: its condition holds");
        }
        if let Some(why) = self.must_wait(turn, action, outbox.busy && !tune.independent) {
            return self.stand(Standing::Waiting, why);
        }
        outbox.busy |= !tune.independent;
        *outbox.decisions += 1;
        let decision = DecisionId(*outbox.decisions);
        outbox.outputs.push(Output::Decision(Decision {
            id: decision,
            rule: turn.id,
            rule_name: turn.rule.name.clone(),
            tune: turn.place,
            because: turn.because(tune),
            changes: changes.clone(),
            expect: tune
                .expect
                .as_ref()
                .map(|expect| turn.context().eval(expect).show(expect.of)),
            at: tune.at.clone(),
            together: tune.together.clone(),
        }));
        self.phase = Phase::Pending {
            waited: 0,
            decision,
            before: self.before.drain(..).collect(),
            changes,
        };
    }

    fn must_wait(&self, turn: &Turn<'_>, action: &Action, busy: bool) -> Option<String> {
        if let Some(first) = &turn.first {
            return Some(format!("after {first}, which has not been applied"));
        }
        if turn.now < self.quiet_until {
            let left = self.quiet_until.since(turn.now) as f64 / 1e9;
            return Some(format!("cooldown: {} left", human(left, Dimension::TIME, false)));
        }
        let (known, wanted) = (self.before.len(), action.guard.over as usize);
        if known < wanted {
            let objective = &action.guard.objective_text;
            return Some(format!(
                "the guard needs {objective} before the change: {known} of {wanted} windows"
            ));
        }
        busy.then(|| "another change is on trial".to_string())
    }

    /// What is to be written, or why it cannot be said. A value for a process that was changed already is left out.
    fn changes(&self, turn: &Turn<'_>, action: &Action) -> Result<Vec<Change>, String> {
        let nobody = BTreeSet::new();
        let members = turn.window.roles.get(action.role).unwrap_or(&nobody);
        let value = turn.context().eval(&action.value);
        let mut changes = Vec::new();
        for &process in members {
            let wanted = match &value {
                Value::Single(cell) => cell.clone()?,
                Value::Table(rows) => rows
                    .get(&Key::Process(process))
                    .cloned()
                    .ok_or("a process has no row")??,
            };
            if let Some((range, text)) = &action.range {
                let context = Context {
                    proposed: Some(&wanted),
                    ..turn.context()
                };
                if !boolean(&context.eval(range).single()?)? {
                    return Err(format!("{wanted} is outside the range {text}"));
                }
            }
            if !self.acted.contains(&process) && self.written.get(&process) != Some(&wanted) {
                changes.push(Change {
                    process,
                    variable: action.variable.clone(),
                    value: wanted,
                });
            }
        }
        Ok(changes)
    }
}
