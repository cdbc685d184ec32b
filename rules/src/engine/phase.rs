//! Where a tune stands between deciding and knowing: a decision on its way, a trial, a hold after one.

use std::collections::BTreeSet;

use super::output::{ProcessAction, Verdict};
use super::trial::judge;
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};
use crate::unit::Dimension;
use crate::value::{Cell, ProcessId, Scalar};

/// How many windows without a value of the objective a trial bears, as a multiple of the guard's `over`.
const PATIENCE: u32 = 3;
/// Windows until what was in the way of a change is taken to be gone, at first.
const UNTIL_GONE: u32 = 20;
/// How often the time until a new attempt doubles.
const MOST_DOUBLINGS: u32 = 10;

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
            left: Some(UNTIL_GONE << hindered.min(MOST_DOUBLINGS)),
        }
    }

    /// After an undo; `undone` is how many there were in a row before.
    pub(super) fn after_undo(reason: String, guard: Option<&Guard>, undone: u32) -> Phase {
        let retry = guard.and_then(|guard| guard.retry);
        let left = retry.map(|windows| windows.saturating_mul(1 << undone.min(MOST_DOUBLINGS)));
        Phase::OnHold { reason, left }
    }

    /// The decisions that nobody has judged, the newest first.
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

/// Changes being judged: one, or those that a tune made that follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// With the processes that each changed.
    pub(super) decisions: Vec<(DecisionId, BTreeSet<ProcessId>)>,
    /// The objective in the windows before and after.
    pub(super) before: Vec<f64>,
    pub(super) after: Vec<f64>,
    /// `was` of the guard, in the last window before.
    pub(super) was: Option<Cell>,
    /// The window in which the change was made is still open.
    pub(super) disturbed: bool,
    /// Windows in which the objective had no value.
    pub(super) without: u32,
}

impl Trial {
    pub(super) fn add(&mut self, decision: DecisionId, changed: BTreeSet<ProcessId>) {
        self.decisions.push((decision, changed));
        self.disturbed = true;
    }

    /// Adds a window; the verdicts when there are enough, the newest decision's first: changes are put back in that order.
    pub(super) fn window(
        &mut self,
        objective: &Cell,
        guard: &Guard,
        (rule, place): (RuleId, usize),
    ) -> Option<Vec<Verdict>> {
        if std::mem::take(&mut self.disturbed) {
            return None;
        }
        let mut decisions = self.decisions.iter().rev().map(|(decision, _)| *decision);
        let newest = decisions.next()?;
        let mut verdict = Verdict::undo(newest, rule, place, Some(guard));
        match objective {
            Ok(Scalar::Number(value)) => self.after.push(*value),
            Ok(_) => self.without += 1,
            Err(reason) => {
                self.without += 1;
                verdict.text = format!(
                    "could not be judged: {} has no value: {reason}; undone",
                    guard.objective_text
                );
            }
        }
        if self.after.len() >= guard.over as usize {
            let found = judge(&self.before, &self.after, guard.maximize, guard.margin);
            verdict.keep = found.keep;
            verdict.means = Some((found.before, found.after));
            verdict.ratio = found.ratio;
            verdict.text = format!("{}: {}", guard.objective_text, found.text(guard));
        } else if self.without < guard.over.saturating_mul(PATIENCE) {
            return None;
        }
        let end = if verdict.keep { "kept" } else { "undone" };
        let together = |decision| Verdict {
            decision,
            means: None,
            ratio: None,
            text: format!("judged together with decision {}; {end}", newest.0),
            ..verdict.clone()
        };
        let earlier: Vec<Verdict> = decisions.map(together).collect();
        Some(std::iter::once(verdict.clone()).chain(earlier).collect())
    }
}

impl Verdict {
    /// To undo without having compared; the text is still to be said.
    pub(super) fn undo(decision: DecisionId, rule: RuleId, tune: usize, guard: Option<&Guard>) -> Verdict {
        let dimension = guard.map_or(Dimension::NONE, |guard| guard.objective.of.dimension());
        Verdict {
            decision,
            rule,
            tune,
            keep: false,
            ended: false,
            processes: None,
            means: None,
            dimension,
            ratio: None,
            text: String::new(),
        }
    }
}
