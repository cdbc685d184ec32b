//! Where a tune stands between deciding and knowing: a decision on its way, a trial, a hold after one.

use super::output::{ProcessAction, Verdict};
use super::trial::Trial;
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};
use crate::unit::Dimension;

/// Windows until what was in the way of a change is taken to be gone, at first.
const UNTIL_GONE: u32 = 20;
/// How often the time until a new attempt doubles.
const DOUBLINGS_MAX: u32 = 10;

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Watching,
    /// A decision was made; its receipt has not come.
    Pending {
        waited: u32,
        decision: DecisionId,
        changes: Vec<ProcessAction>,
        /// What it is to be judged by, with what is judged together with it.
        trial: Trial,
    },
    Trial(Trial),
    OnHold {
        reason: String,
        /// Windows until it may act again.
        left: Option<u32>,
    },
}

impl Phase {
    /// For good, unless the rule is switched.
    pub(super) fn on_hold(reason: String) -> Phase {
        Phase::OnHold { reason, left: None }
    }

    /// For a while: what was in the way may be gone then. `hindered` is how often it was before, in a row.
    pub(super) fn hindered(reason: &str, hindered: u32) -> Phase {
        Phase::OnHold {
            reason: format!("could not be done: {reason}"),
            left: Some(UNTIL_GONE << hindered.min(DOUBLINGS_MAX)),
        }
    }

    /// After an undo; `reverted` is how many there were in a row before.
    pub(super) fn after_revert(reason: String, guard: Option<&Guard>, reverted: u32) -> Phase {
        let retry = guard.and_then(|guard| guard.retry);
        let left = retry.map(|windows| windows.saturating_mul(1 << reverted.min(DOUBLINGS_MAX)));
        Phase::OnHold { reason, left }
    }

    /// The decisions without a verdict, the newest first.
    pub(super) fn open(&self) -> Vec<DecisionId> {
        let (newest, trial) = match self {
            Phase::Pending { decision, trial, .. } => (Some(*decision), trial),
            Phase::Trial(trial) => (None, trial),
            Phase::Watching | Phase::OnHold { .. } => return Vec::new(),
        };
        let earlier = trial.decisions.iter().rev().map(|(decision, _)| *decision);
        newest.into_iter().chain(earlier).collect()
    }
}

impl Verdict {
    /// To undo without having compared; the text is still to be said.
    pub(super) fn revert(decision: DecisionId, rule: RuleId, tune: usize, guard: Option<&Guard>) -> Verdict {
        let dimension = guard.map_or(Dimension::NONE, |guard| guard.objective.of.dimension());
        Verdict {
            decision,
            rule,
            tune,
            keep: false,
            ended: false,
            compares: false,
            verdict: None,
            processes: None,
            means: None,
            dimension,
            ratio: None,
            interval: None,
            text: String::new(),
        }
    }
}
