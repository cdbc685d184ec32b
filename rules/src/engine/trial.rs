//! A trial: windows with the change are compared with windows without it until it is known what it does.
//!
//! First the windows before a change with those after it. Where that does not say enough, or where the program's pace may have jumped by
//! itself, the change is reverted and made again, twice at most, each time for a number of windows drawn by
//! lot: what the change did changes with it, what the program does by itself does not.

mod judgement;
#[cfg(test)]
mod rates;
mod statistics;

use std::collections::BTreeSet;

use self::judgement::{Judgement, Windows, is_believable};
use super::output::{Decision, Verdict};
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};
use crate::value::{Cell, ProcessId, Scalar};

/// How many windows without a value of the objective a trial bears, as a multiple of the guard's `over`.
const PATIENCE: u32 = 3;
/// How often a change is made again at most.
const MOST_REPEATS: u32 = 2;
/// How many windows after the change are seen at most where it is not made again, as a multiple of `over`.
const MOST_AFTER: usize = 4;
/// So many windows before a change are remembered.
pub(super) const HISTORY_MAX: usize = 60;

/// Changes being judged: one, or those that a tune made that follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// With the processes that each changed.
    pub(super) decisions: Vec<(DecisionId, BTreeSet<ProcessId>)>,
    windows: Windows,
    /// The objective in the windows before the change, as far back as it is known.
    history: Vec<f64>,
    /// `was` of the guard, in the last window before.
    pub(super) was: Option<Cell>,
    /// The window in which the change was made is still open.
    pub(super) disturbed: bool,
    /// Windows in which the objective had no value.
    without: u32,
    /// What is decided again after it was reverted; none of what is compared with its time before alone.
    again: Option<Decision>,
    repeats: u32,
    /// The change is reverted for now.
    pub(super) is_reverted: bool,
}

/// What follows from a window of a trial.
#[derive(Debug)]
pub(super) enum Step {
    Wait,
    /// To be reverted for some windows.
    Revert(Verdict),
    /// To be made again; without its number.
    Again(Decision),
    /// The newest decision's first: changes are put back in that order.
    Over(Vec<Verdict>),
}

impl Trial {
    pub(super) fn new(
        history: Vec<f64>,
        was: Option<Cell>,
        guard: Option<&Guard>,
        decision: &Decision,
    ) -> Trial {
        let over = guard.map_or(0, |guard| guard.over as usize);
        let before = history
            .iter()
            .copied()
            .skip(history.len().saturating_sub(over))
            .collect();
        Trial {
            windows: Windows {
                before: vec![before],
                after: Vec::new(),
            },
            history,
            was,
            again: guard.filter(|guard| guard.repeats()).map(|_| decision.clone()),
            ..Trial::default()
        }
    }

    pub(super) fn add(&mut self, decision: DecisionId, changed: BTreeSet<ProcessId>) {
        if self.windows.after.is_empty() || std::mem::take(&mut self.is_reverted) {
            self.windows.after.push(Vec::new());
        }
        self.decisions.push((decision, changed));
        self.disturbed = true;
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, process: ProcessId) {
        if let Some(decision) = &mut self.again {
            decision.changes.retain(|change| change.process != process);
        }
    }

    /// The processes that it is about.
    pub(super) fn processes(&self) -> BTreeSet<ProcessId> {
        let again = self.again.iter().flat_map(|decision| &decision.changes);
        let decided = self.decisions.iter().flat_map(|(_, changed)| changed);
        again
            .map(|change| change.process)
            .chain(decided.copied())
            .collect()
    }

    /// Windows of the present run that were seen, and that are needed.
    pub(super) fn progress(&self, guard: &Guard) -> (usize, usize) {
        let runs = if self.is_reverted {
            &self.windows.before
        } else {
            &self.windows.after
        };
        (runs.last().map_or(0, Vec::len), self.needed(guard))
    }

    fn needed(&self, guard: &Guard) -> usize {
        let over = guard.over as usize;
        match (&self.again, self.repeats) {
            (Some(_), 0) => over,
            (Some(first), repeats) => {
                let number = first
                    .id
                    .0
                    .wrapping_mul(8)
                    .wrapping_add(u64::from(2 * repeats + u32::from(self.is_reverted)));
                over + (mixed(number) % (over as u64 + 1)) as usize
            }
            // It goes on where it is not known.
            (None, _) => (self.windows.count_after() / over.max(1)).max(1) * over,
        }
    }

    pub(super) fn window(&mut self, objective: &Cell, guard: &Guard, (rule, place): (RuleId, usize)) -> Step {
        if std::mem::take(&mut self.disturbed) {
            return Step::Wait;
        }
        let Some(newest) = self.newest() else {
            return Step::Wait;
        };
        let mut verdict = Verdict::undo(newest, rule, place, Some(guard));
        let runs = if self.is_reverted {
            &mut self.windows.before
        } else {
            &mut self.windows.after
        };
        match (objective, runs.last_mut()) {
            (Ok(Scalar::Number(value)), Some(run)) => run.push(*value),
            (Err(reason), _) => {
                self.without += 1;
                verdict.text = format!(
                    "could not be judged: {} has no value: {reason}; undone",
                    guard.objective_text
                );
            }
            _ => self.without += 1,
        }
        if self.without >= guard.over.saturating_mul(PATIENCE) {
            return self.over(&verdict);
        }
        let (seen, needed) = self.progress(guard);
        match (seen < needed || objective.is_err(), self.is_reverted, &self.again) {
            (true, ..) => Step::Wait,
            (false, true, Some(decision)) => Step::Again(decision.clone()),
            (false, ..) => self.judged(verdict, guard),
        }
    }

    fn newest(&self) -> Option<DecisionId> {
        let newest = self.decisions.last().map(|(decision, _)| *decision);
        newest.or_else(|| self.again.as_ref().map(|decision| decision.id))
    }

    fn judged(&mut self, mut verdict: Verdict, guard: &Guard) -> Step {
        let found = self.windows.judge(guard.maximize, guard.margin);
        let counts = (self.windows.count_before(), self.windows.count_after());
        let is_last = self.is_last(guard, counts.1);
        let is_known = self.is_known(&found, guard);
        verdict.verdict = Some(match found.verdict {
            plan::Verdict::Inconclusive if !found.is_bearable => plan::Verdict::Worse,
            known => known,
        });
        verdict.keep = match guard.keeps_unless_worse {
            true => found.is_bearable,
            false => found.verdict == plan::Verdict::Confirmed,
        };
        verdict.means = Some((found.before, found.after));
        verdict.ratio = found.ratio;
        verdict.interval = found.interval;
        let text = format!("{}: {}", guard.objective_text, found.text(guard, counts));
        if is_known || is_last {
            let end = if verdict.keep { "kept" } else { "undone" };
            let known = verdict.verdict.map_or("", plan::Verdict::name);
            verdict.text = format!("{text}, {known}; {end}");
            return self.over(&verdict);
        }
        if self.again.is_none() {
            return Step::Wait;
        }
        self.repeats += 1;
        self.is_reverted = true;
        self.disturbed = true;
        self.decisions.clear();
        self.windows.before.push(Vec::new());
        Step::Revert(Verdict {
            compares: true,
            keep: false,
            verdict: None,
            text: format!("{text}; reverted to compare"),
            ..verdict
        })
    }

    fn is_known(&self, found: &Judgement, guard: &Guard) -> bool {
        match found.verdict {
            _ if guard.keeps_unless_worse => true,
            plan::Verdict::Inconclusive => false,
            plan::Verdict::NoEffect | plan::Verdict::Worse => true,
            plan::Verdict::Confirmed => {
                let is_first = self.again.is_some() && self.repeats == 0;
                !is_first || is_believable(found, &self.history, guard.over as usize)
            }
        }
    }

    fn is_last(&self, guard: &Guard, after: usize) -> bool {
        match self.again {
            Some(_) => self.repeats >= MOST_REPEATS,
            None => after >= MOST_AFTER * guard.over as usize,
        }
    }

    fn over(&self, verdict: &Verdict) -> Step {
        let end = if verdict.keep { "kept" } else { "undone" };
        let together = |(decision, _): &(DecisionId, BTreeSet<ProcessId>)| Verdict {
            decision: *decision,
            means: None,
            ratio: None,
            interval: None,
            text: format!("judged together with decision {}; {end}", verdict.decision.0),
            ..verdict.clone()
        };
        let earlier = self.decisions.iter().rev().skip(1).map(together);
        Step::Over(std::iter::once(verdict.clone()).chain(earlier).collect())
    }
}

/// splitmix64 (Steele, Lea, Flood 2014): the same in a replay, and nothing that a program could follow.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
