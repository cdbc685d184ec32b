//! What the rules found and what was changed in this session. Pure bookkeeping: asks nobody and changes nothing.

use std::{collections::BTreeMap, time::Duration};

use tuner::process::Pid;

use super::{
    again::Again,
    standing::{Standing, Undoing},
};
use crate::{
    cost::Held,
    rulebook::NotDone,
    snapshot::{
        ChangeView, FindingView, GuardView,
        outcome::{GONE, KEPT, NOBODY_LEFT, UNDOING, UNDONE},
    },
};

/// So many changes are shown, the newest; the journal has them all.
const SHOWN_MAX: usize = 10_000;

/// A change that was made, with what is needed to keep it or to take it back.
#[derive(Clone, Debug)]
struct Made {
    decision: u64,
    pid: Pid,
    number: u64,
    view: ChangeView,
    standing: Standing,
}

impl Made {
    fn is_in_force(&self) -> bool {
        self.number != 0 && self.standing == Standing::InForce
    }

    fn verdict(&self) -> &'static str {
        self.view.guard.as_ref().map_or("", |guard| guard.verdict)
    }
}

/// A decision whose receipts are not all in.
#[derive(Clone, Debug, Default)]
struct Pending {
    waiting: usize,
    is_written: bool,
    /// A process that was to have it has ended.
    gone: bool,
    refused: Option<NotDone>,
    /// The rules wait for it no longer, and whoever carries it out was told so.
    given_up: bool,
}

/// How one process came by a decision.
enum Came {
    Written,
    Gone,
    Refused(NotDone),
}

/// All findings and changes.
#[derive(Debug, Default)]
pub struct Ledger {
    findings: Vec<FindingView>,
    made: Vec<Made>,
    pending: BTreeMap<u64, Pending>,
    /// What is to be taken back and could not be yet.
    pub(super) again: Again,
    /// Guards whose changes are being taken back.
    undoing: Undoing,
}

/// How a decision came out once every process has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Every process has it.
    Out,
    /// At least one process has not, for this reason.
    Refused(NotDone),
}

impl Ledger {
    /// A condition holds now, or its numbers changed.
    pub fn open_finding(&mut self, finding: FindingView) {
        match self.findings.iter_mut().find(|known| known.rule == finding.rule) {
            // What was repaired stays listed as it was found; its numbers now are those of the repaired program.
            Some(known) if known.repaired => {}
            // It was found when it was first found.
            Some(known) => {
                *known = FindingView {
                    at: known.at,
                    ..finding
                }
            }
            None => self.findings.push(finding),
        }
    }

    /// Whether a rule has found something that is not repaired.
    pub fn has_open_finding(&self, rule: &str) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.rule == rule && !finding.repaired)
    }

    /// A condition holds no longer. What was repaired stays listed.
    pub fn close_finding(&mut self, rule: &str) {
        self.findings
            .retain(|finding| finding.rule != rule || finding.repaired);
    }

    /// A decision waits for this many processes.
    pub fn await_receipts(&mut self, decision: u64, processes: usize) {
        let pending = Pending {
            waiting: processes,
            ..Pending::default()
        };
        self.pending.insert(decision, pending);
    }

    /// Decisions whose receipts are waited for though the rules wait for them no longer; each once.
    pub fn give_up(&mut self, is_awaited: impl Fn(u64) -> bool) -> Vec<u64> {
        let pending = self.pending.iter_mut();
        let given_up = pending.filter(|(decision, pending)| !pending.given_up && !is_awaited(**decision));
        given_up
            .map(|(decision, pending)| {
                pending.given_up = true;
                *decision
            })
            .collect()
    }

    /// One process has it.
    pub fn written(
        &mut self,
        decision: u64,
        pid: Pid,
        view: ChangeView,
        standing: Standing,
    ) -> Option<Carried> {
        let number = view.number;
        self.made.push(Made {
            decision,
            pid,
            number,
            view,
            standing,
        });
        self.count_down(decision, Came::Written)
    }

    /// One process has it not; whether it may have it later.
    pub fn refused(&mut self, decision: u64, view: ChangeView, pid: Pid, may_pass: bool) -> Option<Carried> {
        let reason = view.outcome.clone();
        self.not_made(decision, view, pid);
        self.count_down(decision, Came::Refused(NotDone { reason, may_pass }))
    }

    /// One process has ended, and needs nothing any more: the others are to have it all the same.
    pub fn gone(&mut self, decision: u64, view: ChangeView, pid: Pid) -> Option<Carried> {
        let outcome = GONE.to_owned();
        self.not_made(decision, ChangeView { outcome, ..view }, pid);
        self.count_down(decision, Came::Gone)
    }

    fn not_made(&mut self, decision: u64, view: ChangeView, pid: Pid) {
        self.made.push(Made {
            decision,
            pid,
            number: 0,
            view,
            standing: Standing::NotMade,
        });
    }

    fn count_down(&mut self, decision: u64, came: Came) -> Option<Carried> {
        let pending = self.pending.get_mut(&decision)?;
        pending.waiting = pending.waiting.saturating_sub(1);
        match came {
            Came::Written => pending.is_written = true,
            Came::Gone => pending.gone = true,
            // What will not pass counts, whatever else there is.
            Came::Refused(why) if pending.refused.as_ref().is_none_or(|known| known.may_pass) => {
                pending.refused = Some(why);
            }
            Came::Refused(_) => {}
        }
        if pending.waiting > 0 {
            return None;
        }
        let pending = self.pending.remove(&decision)?;
        let nobody_left = pending.gone && !pending.is_written;
        let nobody_left = nobody_left.then(|| NotDone::for_good(NOBODY_LEFT));
        let refused = pending.refused.or(nobody_left);
        Some(refused.map_or(Carried::Out, Carried::Refused))
    }

    /// The changes of a decision that are in force.
    pub fn of_decision(&self, decision: u64) -> Vec<(Pid, u64)> {
        let of = self.made.iter().filter(|made| made.decision == decision);
        of.filter(|made| made.is_in_force())
            .map(|made| (made.pid, made.number))
            .collect()
    }

    /// When a decision was carried out, since the probes were armed.
    pub fn carried_out(&self, decision: u64) -> Option<Duration> {
        let of = self.made.iter().filter(|made| made.decision == decision);
        of.map(|made| made.view.at).min()
    }

    /// The rules whose repairs were taken back.
    pub fn repairs_ended(&self) -> Vec<String> {
        let is_back = |rule: &str| {
            let of = self.made.iter().filter(|made| made.view.rule == rule);
            let of: Vec<Standing> = of.map(|made| made.standing).collect();
            of.contains(&Standing::Back) && !of.contains(&Standing::Kept)
        };
        let repaired = self.findings.iter().filter(|finding| finding.repaired);
        repaired
            .map(|finding| finding.rule.clone())
            .filter(|rule| is_back(rule))
            .collect()
    }

    /// With what command the repair of a rule stays.
    pub fn stays_with(&mut self, rule: &str, command: String) {
        if let Some(finding) = self.findings.iter_mut().find(|finding| finding.rule == rule) {
            finding.now = Some(command);
        }
    }

    /// The changes of a rule that are in force and that nobody takes back already, in the order in which they were made.
    pub fn in_force_of(&self, rule: &str) -> Vec<(Pid, u64)> {
        let of = self
            .made
            .iter()
            .filter(|made| made.view.rule == rule && made.is_in_force());
        let left = of.filter(|made| ![UNDOING, UNDONE].contains(&made.verdict()));
        left.map(|made| (made.pid, made.number)).collect()
    }

    /// A rule is gone, and nothing of it is in force.
    pub fn forget_findings(&mut self, rule: &str) {
        self.findings.retain(|finding| finding.rule != rule);
    }

    /// What the guard says of a decision.
    pub fn judge(&mut self, decision: u64, rule: &str, guard: &GuardView) {
        let mut has_changed = false;
        for made in self.made.iter_mut().filter(|made| made.decision == decision) {
            made.view.guard = Some(guard.clone());
            has_changed |= made.number != 0;
        }
        if guard.verdict == KEPT && has_changed {
            self.repaired(rule);
        }
    }

    /// The guard has these changes of a decision taken back. What is to be said, if that is known at once.
    pub fn undo(
        &mut self,
        decision: u64,
        rule: &str,
        guard: GuardView,
        changes: &[(Pid, u64)],
    ) -> Option<String> {
        let shown = self.undoing.begin(decision, guard, changes);
        self.judge(decision, rule, &shown);
        changes.is_empty().then_some(shown.text)
    }

    /// A change was taken back or, for this reason, could not be: what its guard says of that, once it is known of all its changes.
    pub fn heard_of_undo(&mut self, change: (Pid, u64), failed: Option<&str>) -> Option<String> {
        let (decision, guard) = self.undoing.heard(change, failed)?;
        for made in self.made.iter_mut().filter(|made| made.decision == decision) {
            made.view.guard = Some(guard.clone());
        }
        Some(guard.text)
    }

    /// The finding of a rule was repaired.
    pub fn repaired(&mut self, rule: &str) {
        for finding in self.findings.iter_mut().filter(|finding| finding.rule == rule) {
            finding.repaired = true;
            finding.now = None;
        }
    }

    /// A change was taken back, or could not be. False of one that is not known here.
    pub fn set_outcome(&mut self, pid: Pid, number: u64, outcome: &str, standing: Standing) -> bool {
        let changes = self.made.iter_mut();
        let mut is_known = false;
        for made in changes.filter(|made| made.pid == pid && made.number == number) {
            made.view.outcome = outcome.to_owned();
            made.standing = standing;
            is_known = true;
        }
        is_known
    }

    /// A change that was to stay was left in force. False of one that is not known here.
    pub fn set_kept(&mut self, pid: Pid, number: u64) -> bool {
        let changes = self.made.iter_mut();
        let mut is_known = false;
        for made in changes.filter(|made| made.pid == pid && made.number == number) {
            made.standing = Standing::Kept;
            is_known = true;
        }
        is_known
    }

    /// Everything that was made, with its process and in words.
    pub fn standings(&self) -> impl Iterator<Item = (Pid, Standing, &str)> {
        let made = self.made.iter().filter(|made| made.number != 0);
        made.map(|made| (made.pid, made.standing, made.view.variable.as_str()))
    }

    /// Changes in force, and those of them that the guard confirmed.
    pub fn in_force(&self) -> (usize, usize) {
        let in_force = || self.made.iter().filter(|made| made.is_in_force());
        let confirmed = in_force().filter(|made| made.verdict() == KEPT);
        (in_force().count(), confirmed.count())
    }

    /// How long threads stood for changes, by action.
    pub fn held(&self) -> BTreeMap<&'static str, Held> {
        let mut held: BTreeMap<&'static str, Held> = BTreeMap::new();
        for made in &self.made {
            let of = held.entry(made.view.action).or_default();
            of.changes += 1;
            of.ns += made.view.hold_ns;
        }
        held
    }

    /// Whether a decision still waits for receipts.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// As shown.
    pub fn findings(&self) -> Vec<FindingView> {
        self.findings.clone()
    }

    /// As shown; those that are being judged with what is said of that.
    pub fn changes(&self, trials: &BTreeMap<u64, GuardView>) -> Vec<ChangeView> {
        let view = |made: &Made| {
            let trial = trials.get(&made.decision).filter(|_| made.number != 0);
            let guard = made.view.guard.clone().or_else(|| trial.cloned());
            ChangeView {
                guard,
                ..made.view.clone()
            }
        };
        self.made.iter().skip(self.not_shown()).map(view).collect()
    }

    /// How many changes are too old to be shown.
    pub fn not_shown(&self) -> usize {
        self.made.len().saturating_sub(SHOWN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::outcome::{REVERTED, WRITTEN};

    fn change(number: u64, outcome: &str) -> ChangeView {
        ChangeView {
            number,
            outcome: outcome.into(),
            ..ChangeView::default()
        }
    }

    fn pid(number: i32) -> Pid {
        Pid {
            number,
            start_time: 1,
        }
    }

    #[test]
    fn a_decision_is_carried_out_when_every_process_has_answered() {
        let mut ledger = Ledger::default();
        ledger.await_receipts(7, 2);
        assert_eq!(
            ledger.written(7, pid(1), change(1, WRITTEN), Standing::InForce),
            None
        );
        assert!(ledger.is_waiting());
        assert_eq!(
            ledger.written(7, pid(2), change(1, WRITTEN), Standing::InForce),
            Some(Carried::Out)
        );
        assert!(!ledger.is_waiting());
        assert_eq!(ledger.of_decision(7), [(pid(1), 1), (pid(2), 1)]);
        assert_eq!(ledger.in_force(), (2, 0));
    }

    #[test]
    fn one_refusal_refuses_the_decision_and_leaves_the_written_ones_to_be_taken_back() {
        let mut ledger = Ledger::default();
        ledger.await_receipts(7, 2);
        assert_eq!(ledger.refused(7, change(0, "read-only"), pid(1), false), None);
        assert_eq!(
            ledger.written(7, pid(2), change(4, WRITTEN), Standing::InForce),
            Some(Carried::Refused(NotDone::for_good("read-only")))
        );
        assert_eq!(ledger.of_decision(7), [(pid(2), 4)]);
        ledger.set_outcome(pid(2), 4, REVERTED, Standing::Back);
        assert_eq!(ledger.in_force(), (0, 0));
    }

    #[test]
    fn a_process_that_ended_does_not_keep_a_decision_from_the_others() {
        let mut ledger = Ledger::default();
        ledger.await_receipts(7, 2);
        assert_eq!(ledger.gone(7, change(0, "no such process"), pid(1)), None);
        assert_eq!(
            ledger.written(7, pid(2), change(4, WRITTEN), Standing::InForce),
            Some(Carried::Out)
        );
        assert_eq!(ledger.changes(&BTreeMap::new())[0].outcome, GONE);
        ledger.await_receipts(8, 1);
        let nobody = Carried::Refused(NotDone::for_good(NOBODY_LEFT));
        assert_eq!(ledger.gone(8, change(0, "no such process"), pid(1)), Some(nobody));
        ledger.await_receipts(9, 3);
        ledger.gone(9, change(0, "no such process"), pid(1));
        ledger.refused(9, change(0, "read-only"), pid(2), false);
        assert_eq!(
            ledger.written(9, pid(3), change(5, WRITTEN), Standing::InForce),
            Some(Carried::Refused(NotDone::for_good("read-only")))
        );
    }

    #[test]
    fn a_refusal_that_will_not_pass_counts_before_those_that_may() {
        let mut ledger = Ledger::default();
        ledger.await_receipts(7, 3);
        ledger.refused(7, change(0, "no thread suits"), pid(1), true);
        ledger.refused(7, change(0, "read-only"), pid(2), false);
        assert_eq!(
            ledger.refused(7, change(0, "no thread suits"), pid(3), true),
            Some(Carried::Refused(NotDone::for_good("read-only")))
        );
        ledger.await_receipts(8, 1);
        let refused = ledger.refused(8, change(0, "no thread suits"), pid(1), true);
        assert!(matches!(
            refused,
            Some(Carried::Refused(NotDone { may_pass: true, .. }))
        ));
    }

    #[test]
    fn a_decision_that_nobody_waits_for_is_given_up_once() {
        let mut ledger = Ledger::default();
        ledger.await_receipts(7, 1);
        ledger.await_receipts(8, 1);
        assert_eq!(ledger.give_up(|decision| decision == 8), [7]);
        assert!(ledger.give_up(|decision| decision == 8).is_empty());
        assert_eq!(ledger.give_up(|_| false), [8]);
    }

    #[test]
    fn the_newest_changes_are_shown_and_the_others_counted() {
        let mut ledger = Ledger::default();
        let all = SHOWN_MAX as u64 + 3;
        for number in 1..=all {
            ledger.written(number, pid(1), change(number, WRITTEN), Standing::InForce);
        }
        let shown = ledger.changes(&BTreeMap::new());
        let ends = (shown.first(), shown.last());
        assert_eq!(ends, (Some(&change(4, WRITTEN)), Some(&change(all, WRITTEN))));
        assert_eq!((shown.len(), ledger.not_shown()), (SHOWN_MAX, 3));
        assert_eq!(
            ledger.in_force().0,
            all as usize,
            "what is not shown is in force all the same"
        );
    }

    #[test]
    fn what_was_repaired_stays_listed_as_it_was_found() {
        let mut ledger = Ledger::default();
        let finding = |text: &str| FindingView {
            rule: "r".into(),
            text: text.into(),
            ..FindingView::default()
        };
        ledger.open_finding(finding("6 ranks"));
        ledger.await_receipts(1, 1);
        let made = ChangeView {
            rule: "r".into(),
            ..change(1, WRITTEN)
        };
        ledger.written(1, pid(1), made, Standing::InForce);
        ledger.judge(
            1,
            "r",
            &GuardView {
                verdict: KEPT,
                ..GuardView::default()
            },
        );
        ledger.open_finding(finding("other numbers"));
        ledger.close_finding("r");
        assert_eq!(ledger.findings()[0].text, "6 ranks");
        assert!(ledger.findings()[0].repaired);
        assert_eq!(ledger.in_force(), (1, 1));
        assert!(ledger.repairs_ended().is_empty(), "it is in force");
        ledger.set_outcome(pid(1), 1, REVERTED, Standing::Back);
        assert_eq!(ledger.repairs_ended(), ["r"]);
        ledger.stays_with("r", "attach x --keep".into());
        assert_eq!(ledger.findings()[0].now.as_deref(), Some("attach x --keep"));
    }
}
