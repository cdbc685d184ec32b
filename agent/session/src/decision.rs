//! Decisions of the rules as the session takes them: actions for the actuator, and probes to switch.

use plan::{Action, CommonIteration, SyncPoint};
use rules::{DecisionId, WhyUnknown};

use crate::changes::{JudgedDecision, ProbeSwitch};

/// A result of the windows of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A condition holds, with its current numbers.
    Found {
        rule: String,
        text: String,
        /// What to start the program with next time.
        next_start: Option<String>,
        /// It did not hold before.
        is_new: bool,
    },
    /// A condition no longer holds.
    Gone { rule: String },
    /// An action was decided.
    Decided(Box<ResolvedDecision>),
    /// A change was judged.
    Judged(JudgedDecision),
}

/// A decision, resolved to processes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ResolvedDecision {
    pub id: DecisionId,
    pub rule: String,
    /// The numbers that led to it.
    pub because: Vec<String>,
    /// What the rule predicts of it.
    pub expect: Option<String>,
    /// All steps, as text.
    pub steps: Vec<String>,
    /// The actions, by process.
    pub changes: Vec<ResolvedAction>,
    /// The place in the program; `None` if it does not matter.
    pub at: Option<SyncPoint>,
    /// If all processes do it at the same iteration or none does: where; or why they cannot agree on one.
    pub together: Option<Result<CommonIteration, WhyUnknown>>,
    /// It was reverted to be compared, and is made again.
    pub again: bool,
    /// Probes to switch, by process.
    pub switches: Vec<ProbeSwitch>,
    /// Start and end of the window that led to it; `None` for a first value.
    pub window_ns: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedAction {
    pub slot: u32,
    pub action: Action,
}

impl ResolvedAction {
    /// The action as text: `call flush(3)`; for a `set` only the variable.
    pub fn text(&self) -> String {
        match &self.action {
            Action::Set(set) => set.variable.clone(),
            action => action.to_string(),
        }
    }
}

impl From<rules::Decision> for ResolvedDecision {
    fn from(decision: rules::Decision) -> ResolvedDecision {
        let step =
            |change: &rules::ProcessAction| format!("{} in process {}", change.action, change.process.0);
        let steps = decision.changes.iter().map(step).collect();
        let (mut changes, mut switches) = (Vec::new(), Vec::new());
        for change in decision.changes {
            let slot = change.process.0;
            match change.action {
                Action::Switch(switch) => switches.push(ProbeSwitch {
                    rule: decision.rule.0,
                    probe: switch.probe,
                    slot,
                    on: switch.on,
                }),
                action => changes.push(ResolvedAction { slot, action }),
            }
        }
        let because = decision.because.into_iter();
        ResolvedDecision {
            id: decision.id,
            rule: decision.rule_name,
            because: because.map(|(name, value)| format!("{name}: {value}")).collect(),
            expect: decision.expect,
            steps,
            changes,
            at: decision.at,
            together: decision.together,
            again: decision.again,
            switches,
            window_ns: decision.window.map(|(from, to)| (from.0, to.0)),
        }
    }
}
