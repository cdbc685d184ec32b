//! All changes of a session in the order of their receipts, indexed by decision and by number. Settled
//! changes are dropped and only counted if there are more than are shown: a session may last for weeks.

use rules::DecisionId;
use std::collections::BTreeMap;

use super::{
    event::{ChangeId, MemberProcess},
    made::{Made, SHOWN_MAX},
    outcome::Standing,
    summary::Left,
};
use profile::cost::HoldTotals;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    made: BTreeMap<u64, Made>,
    next: u64,
    of_decision: BTreeMap<DecisionId, Vec<u64>>,
    of_change: BTreeMap<ChangeId, u64>,
    /// Number of changes at which settled ones are next searched; 0 before the first time.
    checked_at: usize,
    dropped: Dropped,
    /// Changes that were reverted to be compared and are not made again yet.
    compared: BTreeMap<(String, MemberProcess), Made>,
}

/// What is kept of dropped changes.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Counts by standing, and by whether the process had ended.
    standing: BTreeMap<(Standing, bool), usize>,
    held: BTreeMap<&'static str, HoldTotals>,
}

impl Dropped {
    /// For the last line of the session.
    pub(super) fn left(&self) -> impl Iterator<Item = Left> {
        let made = (self.standing.iter()).filter(|((standing, _), _)| *standing != Standing::NotMade);
        made.map(|((standing, is_gone), count)| Left {
            standing: *standing,
            is_gone: *is_gone,
            text: String::new(),
            remains: None,
            count: *count,
        })
    }
}

impl Ledger {
    pub(super) fn push(&mut self, mut made: Made) {
        let number = self.next;
        self.next += 1;
        if let Some(before) = self.compared.remove(&(made.rule().to_owned(), made.process)) {
            made.is_made_again(&before);
        }
        self.of_decision.entry(made.decision).or_default().push(number);
        if made.is_made() {
            self.of_change.insert(made.change(), number);
        }
        self.made.insert(number, made);
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Made> {
        self.made.values()
    }

    /// Number of all changes, including dropped ones.
    pub(super) fn len(&self) -> usize {
        self.made.len() + self.dropped.standing.values().sum::<usize>()
    }

    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = &Made> {
        self.made.values().skip(self.made.len().saturating_sub(count))
    }

    pub(super) fn of_decision(&self, decision: DecisionId) -> impl Iterator<Item = &Made> {
        let numbers = self.of_decision.get(&decision).into_iter().flatten();
        numbers.filter_map(|number| self.made.get(number))
    }

    pub(super) fn change_decision(&mut self, decision: DecisionId, mut change: impl FnMut(&mut Made)) {
        for number in self.of_decision.get(&decision).into_iter().flatten() {
            self.made.get_mut(number).into_iter().for_each(&mut change);
        }
    }

    pub(super) fn find(&self, change: ChangeId) -> Option<&Made> {
        self.made.get(self.of_change.get(&change)?)
    }

    pub(super) fn find_mut(&mut self, change: ChangeId) -> Option<&mut Made> {
        self.made.get_mut(self.of_change.get(&change)?)
    }

    pub(super) fn dropped(&self) -> &Dropped {
        &self.dropped
    }

    /// Changes that were reverted to be compared and are not made again yet.
    pub(super) fn compared(&self) -> impl Iterator<Item = &Made> {
        self.compared.values()
    }

    pub(super) fn compared_mut(&mut self) -> impl Iterator<Item = &mut Made> {
        self.compared.values_mut()
    }

    /// How long threads were held for changes, by action.
    pub(super) fn held(&self) -> BTreeMap<&'static str, HoldTotals> {
        let mut held = self.dropped.held.clone();
        self.iter().for_each(|made| made.add_hold(&mut held));
        held
    }

    /// Drops a decision that was reverted to be compared. Its hold times are kept, and its changes until they
    /// are made again.
    pub(super) fn withdraw(&mut self, decision: DecisionId) {
        for number in self.of_decision.remove(&decision).into_iter().flatten() {
            if let Some(made) = self.made.remove(&number) {
                self.of_change.remove(&made.change());
                made.add_hold(&mut self.dropped.held);
                if made.is_made() {
                    let of = (made.rule().to_owned(), made.process);
                    self.compared.insert(of, made);
                }
            }
        }
    }

    /// Drops the decisions that are settled and too old to be shown, and returns them. Searches once for as
    /// many new changes as are shown, so that the cost of a receipt does not grow with the length of a
    /// session.
    pub(super) fn drop_settled(
        &mut self,
        is_settled: impl Fn(DecisionId) -> bool,
        has_ended: impl Fn(&Made) -> bool,
    ) -> Vec<DecisionId> {
        if self.made.len() < self.checked_at.max(2 * SHOWN_MAX) {
            return Vec::new();
        }
        let shown_from = self.made.keys().nth(self.made.len() - SHOWN_MAX).copied();
        let is_over = |made: &Made| made.is_settled() || has_ended(made);
        let is_old = |numbers: &[u64]| numbers.last() < shown_from.as_ref();
        let gone = self.of_decision.iter().filter(|(decision, numbers)| {
            is_old(numbers) && is_settled(**decision) && self.of_decision(**decision).all(is_over)
        });
        let gone: Vec<DecisionId> = gone.map(|(decision, _)| *decision).collect();
        for decision in &gone {
            for number in self.of_decision.remove(decision).into_iter().flatten() {
                let Some(made) = self.made.remove(&number) else {
                    continue;
                };
                self.of_change.remove(&made.change());
                made.add_hold(&mut self.dropped.held);
                let stood = (made.standing(), has_ended(&made));
                *self.dropped.standing.entry(stood).or_default() += 1;
            }
        }
        self.checked_at = self.made.len() + SHOWN_MAX;
        gone
    }
}
