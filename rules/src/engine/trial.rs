//! A trial: compares windows with a change with windows without it until its effect is known.
//!
//! First, the windows before the change are compared with those after it. If that is inconclusive, or if the
//! program's pace may have jumped by itself, the change is reverted and made again until pairs of runs decide
//! ([`alternation`]).

mod alternation;
mod judgement;
#[cfg(test)]
mod rates;
mod statistics;

use std::collections::BTreeSet;

use self::alternation::{Alternation, Next, Sides};
use self::judgement::{Judgement, ObjectiveAim, has_ceased, is_believable};
use super::output::{Decision, Verdict};
use crate::guard::Guard;
use crate::ids::{DecisionId, RuleId};
use crate::value::{Cell, ProcessId, Scalar};

/// Consecutive windows without a value of the objective that a trial tolerates, as a multiple of the guard's
/// `over`.
pub(super) const PATIENCE: u32 = 3;
/// Maximum number of windows after a change that is not repeated, as a multiple of `over`.
const AFTER_MAX: usize = 4;
/// The program without the change is unlike that before it if its objective differs by this factor.
const UNLIKE: f64 = 2.0;
/// Number of windows before a change that are remembered.
pub(super) const HISTORY_MAX: usize = 60;

/// The least and the greatest number of windows from a change to its verdict, with those that are left out.
pub(super) fn windows_to_verdict(guard: &Guard) -> (usize, usize) {
    let over = guard.over as usize;
    let first = over + 1;
    let run = alternation::run_size(guard.over) + 1;
    let most = match guard.repeats() {
        true => first + alternation::PAIRS_MAX * 2 * run,
        false => AFTER_MAX * over + 1,
    };
    (first, most)
}

/// The changes being judged: one, or several of a tune that acts during its trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Each with the processes that it changed.
    pub(super) decisions: Vec<(DecisionId, BTreeSet<ProcessId>)>,
    /// The objective in the known windows before the change, and after it.
    history: Vec<f64>,
    after: Vec<f64>,
    /// `was` of the guard, in the last window before the change.
    pub(super) was: Option<Cell>,
    /// The window in which the change was made is still open.
    pub(super) disturbed: bool,
    /// Windows without a value of the objective, since the last one with a value.
    without: u32,
    /// The decision that is repeated after a revert; `None` if the trial only compares before and after.
    again: Option<Decision>,
    alternation: Option<Alternation>,
    /// The result of the first comparison, for display; empty before it.
    compared: String,
    /// The mean of the objective before the first change, where a comparison in turns follows.
    mean_before: Option<f64>,
    /// The change is reverted at present.
    pub(super) is_reverted: bool,
    /// The verdict on a change that must be made again to stay.
    found: Option<Verdict>,
}

/// The result of a window of a trial.
#[derive(Debug)]
pub(super) enum Step {
    Wait,
    /// Revert the change for some windows.
    Revert(Verdict),
    /// Make the change again; the decision has no number yet.
    Again(Decision),
    /// The newest decision's verdict first: changes are reverted in that order.
    Over(Vec<Verdict>),
}

impl Trial {
    pub(super) fn new(
        history: Vec<f64>,
        was: Option<Cell>,
        guard: Option<&Guard>,
        decision: &Decision,
    ) -> Trial {
        Trial {
            history,
            was,
            again: guard.filter(|guard| guard.repeats()).map(|_| decision.clone()),
            ..Trial::default()
        }
    }

    pub(super) fn add(&mut self, decision: DecisionId, changed: BTreeSet<ProcessId>) {
        self.is_reverted = false;
        self.decisions.push((decision, changed));
        self.disturbed = true;
    }

    /// Handles the end of a process.
    pub(super) fn forget(&mut self, process: ProcessId) {
        if let Some(decision) = &mut self.again {
            decision.changes.retain(|change| change.process != process);
        }
    }

    pub(super) fn processes(&self) -> BTreeSet<ProcessId> {
        let again = self.again.iter().flat_map(|decision| &decision.changes);
        let decided = self.decisions.iter().flat_map(|(_, changed)| changed);
        again
            .map(|change| change.process)
            .chain(decided.copied())
            .collect()
    }

    /// The result of the first comparison as an addition to a text; empty before it.
    pub(super) fn first_result(&self) -> String {
        match self.compared.as_str() {
            "" => String::new(),
            compared => format!("; first comparison: {compared}"),
        }
    }

    /// Windows of the present run: seen and needed.
    pub(super) fn progress(&self, guard: &Guard) -> (usize, usize) {
        match &self.alternation {
            Some(alternation) => (alternation.seen(), alternation.size()),
            None => (self.after.len(), self.needed(guard)),
        }
    }

    /// Extended by another `over` windows while the result is unknown.
    fn needed(&self, guard: &Guard) -> usize {
        let over = guard.over as usize;
        (self.after.len() / over.max(1) + 1) * over
    }

    pub(super) fn window(&mut self, objective: &Cell, guard: &Guard, (rule, index): (RuleId, usize)) -> Step {
        if let (Some(found), false) = (&self.found, self.is_reverted) {
            let (decision, verdict) = (self.newest().unwrap_or(found.decision), found.clone());
            return self.over(&Verdict { decision, ..verdict });
        }
        if std::mem::take(&mut self.disturbed) {
            return Step::Wait;
        }
        let Some(newest) = self.newest() else {
            return Step::Wait;
        };
        let verdict = || Verdict::revert(newest, rule, index, Some(guard));
        let Ok(Scalar::Number(value)) = objective else {
            let mut verdict = verdict();
            if let Err(reason) = objective {
                let objective = &guard.objective_text;
                verdict.text = format!("could not be judged: {objective} has no value: {reason}");
            }
            self.without += 1;
            return match self.without >= guard.over.saturating_mul(PATIENCE) {
                true => self.over(&verdict),
                false => Step::Wait,
            };
        };
        self.without = 0;
        if self.alternation.is_some() {
            return self.alternated(*value, verdict, guard);
        }
        let needed = self.needed(guard);
        self.after.push(*value);
        match self.after.len() < needed {
            true => Step::Wait,
            false => self.first_judged(verdict(), guard),
        }
    }

    /// The verdicts on a trial that waits for its windows in vain.
    pub(super) fn given_up(&self, (rule, index): (RuleId, usize), guard: &Guard, why: &str) -> Vec<Verdict> {
        let Some(newest) = self.newest() else {
            return Vec::new();
        };
        let mut verdict = Verdict::revert(newest, rule, index, Some(guard));
        verdict.text = format!("could not be judged: {why}");
        self.verdicts(&verdict)
    }

    fn newest(&self) -> Option<DecisionId> {
        let newest = self.decisions.last().map(|(decision, _)| *decision);
        newest.or_else(|| self.again.as_ref().map(|decision| decision.id))
    }

    /// Compares the windows before the change with those after it.
    fn first_judged(&mut self, verdict: Verdict, guard: &Guard) -> Step {
        let over = guard.over as usize;
        let before = self.history.get(self.history.len().saturating_sub(over)..);
        let before = before.unwrap_or_default();
        let found = ObjectiveAim::of(guard).compare(before, &self.after);
        let seen = match (before.len(), self.after.len()) {
            (before, after) if before == after => format!("{after} windows each"),
            (before, after) => format!("{before} then {after} windows"),
        };
        let is_known = match found.verdict {
            _ if guard.keeps_unless_worse => true,
            plan::GuardEffect::Inconclusive => self.again.is_some() && found.seems_worse(),
            plan::GuardEffect::NoEffect | plan::GuardEffect::Worse => true,
            plan::GuardEffect::Confirmed => {
                self.again.is_none() || is_believable(&found, &self.history, over)
            }
        };
        let is_last = self.again.is_none() && self.after.len() >= AFTER_MAX * over;
        let repeats = (found.verdict == plan::GuardEffect::Confirmed).then(|| Sides {
            without: before.to_vec(),
            with: self.after.clone(),
        });
        if guard.maximize && has_ceased(before, &self.after) {
            let (objective, found) = (&guard.objective_text, found.text(guard, &seen));
            let why = "what it counts no longer happens, so the program's pace is not known";
            let text = format!("could not be judged: {objective}: {found}: {why}");
            return self.over(&Verdict { text, ..verdict });
        }
        let verdict = judged(verdict, &found, guard, &seen);
        match &self.again {
            _ if is_known || is_last => self.over(&named(verdict)),
            None => Step::Wait,
            Some(decision) => {
                let alternation =
                    Alternation::new(guard.over, decision.rule.0 as u64, &self.history, repeats);
                let with = alternation.begins_with();
                self.alternation = Some(alternation);
                self.compared.clone_from(&verdict.text);
                self.mean_before = Some(found.before);
                self.run(with, verdict)
            }
        }
    }

    /// Handles a window of a run with or without the change.
    fn alternated(&mut self, value: f64, verdict: impl Fn() -> Verdict, guard: &Guard) -> Step {
        let Some(alternation) = &mut self.alternation else {
            return Step::Wait;
        };
        let with = match alternation.window(value) {
            Next::Wait => return Step::Wait,
            Next::Run { with } => with,
            Next::Judge => {
                let (found, seen) = alternation.judge(ObjectiveAim::of(guard));
                if found.verdict != plan::GuardEffect::Inconclusive || alternation.is_last() {
                    let verdict = named(judged(verdict(), &found, guard, &seen));
                    let text = verdict.text.clone() + &self.unlike_before(&found, guard);
                    return self.decided(Verdict { text, ..verdict });
                }
                alternation.begins_with()
            }
        };
        self.run(with, verdict())
    }

    /// An addition to the verdict where the program without the change is not as it was before the first change: the
    /// gain is then not that over the program as it was found.
    fn unlike_before(&self, found: &Judgement, guard: &Guard) -> String {
        let is_far = |one: f64, other: f64| one.abs() > UNLIKE * other.abs();
        let unlike = |before: &f64| is_far(*before, found.before) || is_far(found.before, *before);
        let before = self.mean_before.filter(unlike);
        before.map_or_else(String::new, |before| {
            format!("; before the first change it was {}", guard.shown(before))
        })
    }

    /// A change that stays but is reverted at present is made again.
    fn decided(&mut self, verdict: Verdict) -> Step {
        match &self.again {
            Some(decision) if verdict.keep && self.is_reverted => {
                self.found = Some(verdict);
                Step::Again(decision.clone())
            }
            _ => self.over(&verdict),
        }
    }

    /// Begins the next run. One window is left out before each run, even if nothing is switched, so that runs
    /// differ only by the lot.
    fn run(&mut self, with: bool, verdict: Verdict) -> Step {
        self.disturbed = true;
        match (with, self.is_reverted, &self.again) {
            (true, true, Some(decision)) => Step::Again(decision.clone()),
            (false, false, _) => {
                self.is_reverted = true;
                self.decisions.clear();
                Step::Revert(Verdict {
                    compares: true,
                    keep: false,
                    verdict: None,
                    text: self.compared.clone(),
                    ..verdict
                })
            }
            _ => Step::Wait,
        }
    }

    fn over(&self, verdict: &Verdict) -> Step {
        Step::Over(self.verdicts(verdict))
    }

    /// The verdict on the newest decision, and the same for those that are judged with it.
    fn verdicts(&self, verdict: &Verdict) -> Vec<Verdict> {
        let together = |(decision, _): &(DecisionId, BTreeSet<ProcessId>)| Verdict {
            decision: *decision,
            means: None,
            ratio: None,
            interval: None,
            text: format!("judged together with decision {}", verdict.decision.0),
            ..verdict.clone()
        };
        let earlier = self.decisions.iter().rev().skip(1).map(together);
        std::iter::once(verdict.clone()).chain(earlier).collect()
    }
}

/// Adds the result; its text does not name it yet.
fn judged(verdict: Verdict, found: &Judgement, guard: &Guard, seen: &str) -> Verdict {
    Verdict {
        verdict: Some(match found.verdict {
            plan::GuardEffect::Inconclusive if !found.is_bearable && guard.keeps_unless_worse => {
                plan::GuardEffect::Worse
            }
            known => known,
        }),
        keep: match guard.keeps_unless_worse {
            true => found.is_bearable,
            false => found.verdict == plan::GuardEffect::Confirmed,
        },
        means: Some((found.before, found.after)),
        ratio: found.ratio,
        interval: found.interval,
        text: format!("{}: {}", guard.objective_text, found.text(guard, seen)),
        ..verdict
    }
}

/// Names the result in the text.
fn named(verdict: Verdict) -> Verdict {
    let known = verdict.verdict.map_or("", plan::GuardEffect::name);
    Verdict {
        text: format!("{}, {known}", verdict.text),
        ..verdict
    }
}
