//! The phase of a tune: watching, pending decision, trial, or on hold.

use syntax::unit::Dimension;

use super::output::{ProcessAction, Verdict};
use super::trial::Trial;
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};

/// Initial number of windows after which an obstacle to a change is assumed to be gone.
const UNTIL_GONE: u32 = 20;
/// Maximum number of doublings of the time until a retry.
const DOUBLINGS_MAX: u32 = 10;

#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    #[default]
    Watching,
    /// A decision was made; its receipt is outstanding.
    Pending {
        waited: u32,
        decision: DecisionId,
        changes: Vec<ProcessAction>,
        /// The trial of the decision, with the earlier decisions that are judged together with it.
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
    /// Permanently, unless the rule is switched.
    pub(super) fn on_hold(reason: String) -> Phase {
        Phase::OnHold { reason, left: None }
    }

    /// Temporarily: the obstacle may disappear. `hindered` is the number of preceding consecutive obstacles.
    pub(super) fn hindered(reason: &str, hindered: u32) -> Phase {
        Phase::OnHold {
            reason: format!("could not be done: {reason}"),
            left: Some(UNTIL_GONE << hindered.min(DOUBLINGS_MAX)),
        }
    }

    /// After a revert; `reverted` is the number of preceding consecutive reverts.
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
    /// Reverts without a comparison; the caller sets the text.
    pub(super) fn revert(decision: DecisionId, rule: RuleId, tune: usize, guard: Option<&Guard>) -> Verdict {
        let dimension = guard.map_or(Dimension::NONE, |guard| guard.objective.type_of.dimension());
        Verdict {
            decision,
            rule,
            tune,
            dimension,
            ..Verdict::default()
        }
    }
}
