//! What rules decide, as the session takes it. Actions for the actuator stand apart from probes that are
//! switched.

use rules::DecisionId;
use std::collections::BTreeSet;

use plan::{Action, Meeting, SyncPoint};
use profile::GuardView;

use crate::changes::ProbeSwitch;

/// Something that follows from the windows of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A condition holds, with its present numbers.
    Found {
        rule: String,
        text: String,
        /// What to start the program with next time.
        next_start: Option<String>,
        /// It did not hold before.
        is_new: bool,
    },
    /// A condition holds no longer.
    Gone { rule: String },
    /// Something is to be written.
    Decided(Box<ResolvedDecision>),
    /// A change was judged.
    Judged {
        decision: DecisionId,
        rule: String,
        guard: GuardView,
        keeps: bool,
        /// The slots of the processes of which it is said; none is all of the decision.
        slots: Option<BTreeSet<u32>>,
    },
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedDecision {
    pub id: DecisionId,
    pub rule: String,
    /// The numbers it was made from.
    pub because: Vec<String>,
    /// What the rule promises of it.
    pub expect: Option<String>,
    /// All that is to be done, in words.
    pub steps: Vec<String>,
    /// What to do, by process.
    pub changes: Vec<ResolvedAction>,
    /// Where in the program; at once when it does not matter.
    pub at: Option<SyncPoint>,
    /// Where all processes do it at the same iteration, or none does; or why they cannot agree on one.
    pub together: Option<Result<Meeting, String>>,
    /// It was reverted to be compared, and is made once more.
    pub again: bool,
    /// Probes to switch, by process.
    pub switches: Vec<ProbeSwitch>,
    /// When the window began and ended that it was decided on; none of a first value.
    pub window_ns: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedAction {
    pub slot: u32,
    pub action: Action,
}

impl ResolvedAction {
    /// In words: `call flush(3)`; of a `set` the variable alone.
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
