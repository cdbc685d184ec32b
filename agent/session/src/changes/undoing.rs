//! What a guard says while its changes are being taken back, and once it is known whether they were.

use std::collections::{BTreeMap, BTreeSet};

use super::event::Change;
use profile::snapshot::{
    GuardView,
    outcome::{NOT_UNDONE, UNDOING},
};

/// How the verdicts of rules end that take a change back.
const ENDINGS: [&str; 2] = ["; undone", "; reverted to compare"];

/// What a guard has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It stays.
    Kept,
    /// It is being taken back.
    Undoing,
    /// It was taken back.
    Undone,
    /// It could not be taken back.
    NotUndone,
}

/// Verdicts of guards whose changes are being taken back, by decision.
#[derive(Debug, Default)]
pub(super) struct Undoing(BTreeMap<u64, Verdict>);

#[derive(Debug)]
struct Verdict {
    guard: GuardView,
    waiting: BTreeSet<Change>,
    failed: BTreeMap<Change, String>,
}

impl Verdict {
    /// None while it is not known of every change.
    fn known(&self) -> Option<(Judgement, GuardView)> {
        if !self.waiting.is_empty() {
            return None;
        }
        let Some(reason) = self.failed.values().next() else {
            return Some((Judgement::Undone, self.guard.clone()));
        };
        let guard = GuardView {
            verdict: NOT_UNDONE,
            text: ended(&self.guard.text, &format!("; not undone: {reason}")),
            ..self.guard.clone()
        };
        Some((Judgement::NotUndone, guard))
    }
}

/// What a verdict says, with another end.
fn ended(text: &str, end: &str) -> String {
    let kept = ENDINGS.iter().find_map(|ending| text.strip_suffix(ending));
    format!("{}{end}", kept.unwrap_or(text))
}

impl Undoing {
    /// What a guard says of a decision whose changes are now taken back: at once where there are none.
    pub(super) fn begin(
        &mut self,
        decision: u64,
        guard: GuardView,
        changes: &[Change],
    ) -> (Judgement, GuardView) {
        if changes.is_empty() {
            return (Judgement::Undone, guard);
        }
        let shown = GuardView {
            verdict: UNDOING,
            text: ended(&guard.text, "; being undone"),
            ..guard.clone()
        };
        let verdict = self.0.entry(decision).or_insert_with(|| Verdict {
            guard,
            waiting: BTreeSet::new(),
            failed: BTreeMap::new(),
        });
        verdict.waiting.extend(changes.iter().copied());
        (Judgement::Undoing, shown)
    }

    /// A change was taken back, or could not be, for this reason: what its guard says now, if that is known and was not said before.
    pub(super) fn answered(
        &mut self,
        change: Change,
        failed: Option<&str>,
    ) -> Option<(u64, Judgement, GuardView)> {
        let mut verdicts = self.0.iter_mut();
        let (decision, verdict) = verdicts
            .find(|(_, verdict)| verdict.waiting.contains(&change) || verdict.failed.contains_key(&change))?;
        let decision = *decision;
        let is_new = verdict.waiting.remove(&change);
        let had_failed = verdict.failed.remove(&change).is_some();
        if let Some(reason) = failed {
            verdict.failed.insert(change, reason.to_owned());
            if had_failed && !is_new {
                return None;
            }
        }
        let (judgement, guard) = verdict.known()?;
        if verdict.failed.is_empty() {
            self.0.remove(&decision);
        }
        Some((decision, judgement, guard))
    }
}
