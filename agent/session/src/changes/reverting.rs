//! The verdict of a guard while its changes are being reverted, and once the result is known.

use rules::DecisionId;
use std::collections::{BTreeMap, BTreeSet};

use profile::GuardView;
use profile::outcome::GuardVerdict;

use super::event::ChangeId;

/// The result of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Kept,
    /// It is being reverted.
    Reverting,
    Reverted,
    /// It could not be reverted.
    NotReverted,
}

/// Verdicts of guards whose changes are being reverted, or could not be.
#[derive(Debug, Default)]
pub(super) struct Reverting {
    verdicts: BTreeMap<DecisionId, PendingVerdict>,
    decisions: BTreeMap<ChangeId, DecisionId>,
}

#[derive(Debug)]
struct PendingVerdict {
    guard: GuardView,
    waiting: BTreeSet<ChangeId>,
    failed: BTreeMap<ChangeId, String>,
}

impl PendingVerdict {
    /// `None` while the result of some change is unknown.
    fn known(&self) -> Option<(Judgement, GuardView)> {
        if !self.waiting.is_empty() {
            return None;
        }
        let Some(reason) = self.failed.values().next() else {
            return Some((Judgement::Reverted, self.guard.clone()));
        };
        let guard = GuardView {
            verdict: GuardVerdict::NotReverted,
            reason: Some(reason.clone()),
            ..self.guard.clone()
        };
        Some((Judgement::NotReverted, guard))
    }
}

impl Reverting {
    /// Whether the result of some change of a decision is unknown.
    pub(super) fn is_open(&self, decision: DecisionId) -> bool {
        let verdict = self.verdicts.get(&decision);
        verdict.is_some_and(|verdict| !verdict.waiting.is_empty())
    }

    pub(super) fn forget(&mut self, decision: DecisionId) {
        let changes = self.verdicts.remove(&decision).map(|verdict| verdict.failed);
        for change in changes.into_iter().flatten().map(|(change, _)| change) {
            self.decisions.remove(&change);
        }
    }

    /// The verdict for a decision whose changes are now being reverted; final at once if there are none.
    pub(super) fn begin(
        &mut self,
        decision: DecisionId,
        guard: GuardView,
        changes: &[ChangeId],
    ) -> (Judgement, GuardView) {
        if changes.is_empty() {
            return (Judgement::Reverted, guard);
        }
        let shown = GuardView {
            verdict: GuardVerdict::Reverting,
            ..guard.clone()
        };
        let of = changes.iter().map(|change| (*change, decision));
        self.decisions.extend(of);
        let verdict = self.verdicts.entry(decision).or_insert_with(|| PendingVerdict {
            guard,
            waiting: BTreeSet::new(),
            failed: BTreeMap::new(),
        });
        verdict.waiting.extend(changes.iter().copied());
        (Judgement::Reverting, shown)
    }

    /// Records that a change was reverted, or could not be for this reason. Returns the new verdict of its
    /// guard, if it is final or has changed.
    pub(super) fn answered(
        &mut self,
        change: ChangeId,
        failed: Option<&str>,
    ) -> Option<(DecisionId, Judgement, GuardView)> {
        let decision = *self.decisions.get(&change)?;
        let verdict = self.verdicts.get_mut(&decision)?;
        let is_new = verdict.waiting.remove(&change);
        let had_failed = verdict.failed.remove(&change).is_some();
        match failed {
            Some(reason) => {
                verdict.failed.insert(change, reason.to_owned());
                if had_failed && !is_new {
                    return None;
                }
            }
            None => drop(self.decisions.remove(&change)),
        }
        let (judgement, guard) = verdict.known()?;
        if verdict.failed.is_empty() {
            self.verdicts.remove(&decision);
        }
        Some((decision, judgement, guard))
    }
}
