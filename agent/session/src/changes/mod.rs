//! The changes of a session: decisions, orders, receipts, verdicts of guards, reverts and retry, as a pure state
//! machine. Events carry all data, time is an argument, effects are values. It calls no kernel and no clock:
//! the owner carries out the effects. Every process and every order names its machine.

mod event;
mod findings;
mod judging;
mod ledger;
mod made;
mod outcome;
mod retry;
mod reverting;
mod summary;
mod switch;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use self::{
    event::{
        ActuatorPid, ChangeEffect, ChangeEffects, ChangeEvent, ChangeId, ChangeNotice, Decided, Ending,
        Execution, JudgedDecision, MachineId, MachineReverts, MemberProcess, NotTried, Order, OrderAnswer,
        OrderPart, RevertResult, ShownChange,
    },
    outcome::NotDone,
    switch::ProbeSwitch,
};
use self::{
    findings::Findings, ledger::Ledger, made::Made, retry::Retry, reverting::Reverting, summary::Left,
};
use plan::Keyword;
use profile::cost::HoldTotals;
use profile::error::ErrorText;
use profile::format::plural;
pub use profile::outcome::ChangeOutcome;
use profile::{GuardView, outcome as words};
use rules::{DecisionId, Time};

/// Most decisions in force at a time: each is kept, because it may have to be reverted.
const DECISIONS_MAX: usize = 100_000;

/// The reason of a refusal if the queue is full.
const NO_ROOM: &str = "too many orders wait";

/// An ordered decision, and the state of its parts.
#[derive(Debug, Default)]
struct OrderedDecision {
    decided: Decided,
    /// Parts without a receipt.
    waiting: BTreeSet<usize>,
    is_written: bool,
    /// Number of parts whose process already had it.
    there: usize,
    /// A process of one of its parts has ended.
    is_gone: bool,
    refused: Option<NotDone>,
    /// Processes that did not reach the place in one of several copies of a library: that copy may not be in use.
    not_reached: Vec<(MemberProcess, NotDone)>,
    /// Processes in which a part was done.
    done_in: BTreeSet<MemberProcess>,
    /// The rules no longer wait for it.
    is_given_up: bool,
}

impl OrderedDecision {
    /// The call in another copy of a library that follows this part, in the same process.
    fn next_copy(&self, number: usize) -> Option<usize> {
        let parts = &self.decided.parts;
        let of = parts.get(number).filter(|part| part.is_copy)?;
        let mut later = self.waiting.range(number + 1..).copied();
        later.find(|later| parts.get(*later).is_some_and(|part| part.process == of.process))
    }

    /// A permanent reason counts, whatever other reasons there are.
    fn refuse(&mut self, why: NotDone) {
        if self.refused.as_ref().is_none_or(|why| why.may_pass) {
            self.refused = Some(why);
        }
    }
}

/// All decisions of a session and their results.
#[derive(Debug, Default)]
pub struct Changes {
    pub findings: Findings,
    made: Ledger,
    decisions: BTreeMap<DecisionId, OrderedDecision>,
    /// Decisions without all their receipts.
    waiting: BTreeSet<DecisionId>,
    /// At most as many as there are slots on the kernel side.
    ended: BTreeSet<MemberProcess>,
    retry: Retry,
    /// Guards whose changes are being reverted.
    reverting: Reverting,
    /// What is shown for changes that no guard has judged, once the session is over.
    unjudged: BTreeMap<DecisionId, GuardView>,
    /// Changes of unknown processes, such as forked ones.
    strangers: Vec<Left>,
    /// Nothing is ordered any more: the actuator reverts unconfirmed changes.
    stopped: Option<Ending>,
    /// By rule: what to do to get a verdict next time, as a suffix; empty until the session is over.
    too_short: BTreeMap<String, String>,
}

impl Changes {
    /// Takes an event; returns the effects to carry out, in this order.
    pub fn on(&mut self, event: ChangeEvent, now: Time) -> ChangeEffects {
        let effects = self.take(event, now);
        self.drop_settled();
        effects
    }

    fn take(&mut self, event: ChangeEvent, now: Time) -> ChangeEffects {
        match event {
            ChangeEvent::Decided(decided) => self.decided(decided),
            ChangeEvent::NotOrdered {
                decision,
                rule,
                reason,
            } => refuse(decision, rule, reason),
            ChangeEvent::Receipt {
                decision,
                part,
                answer,
            } => self.receipt(decision, part, answer),
            ChangeEvent::NoRoom(machine, order) => self.no_room(machine, order, now),
            ChangeEvent::Switched(decision, result) => self.switched(decision, result),
            ChangeEvent::GaveUp(decision) => self.gave_up(decision),
            ChangeEvent::Judged(judged) => self.judged(judged),
            ChangeEvent::Reverted(change, result) => self.reverted(change, result, now),
            ChangeEvent::Removed { rule, keeps } => self.removed(&rule, keeps),
            ChangeEvent::Ended(process) => {
                self.end(process);
                ChangeEffects::new()
            }
            ChangeEvent::Tick => {
                let due = self.retry.due(now);
                self.revert(&due)
            }
            ChangeEvent::Stop {
                ending,
                on_trial,
                time_to_verdict,
            } => self.stop(ending, on_trial, &time_to_verdict),
            ChangeEvent::ActuatorEnded(machine, reverts) => self.actuator_ended(machine, reverts),
            ChangeEvent::Summary {
                unknown,
                undo,
                program,
            } => vec![ChangeEffect::Summary(self.summary(unknown, &undo, &program))],
        }
    }

    /// An answer of the actuator, after the events that must precede it: that the process of a failed part
    /// has ended, and that the rules no longer wait for the decision.
    pub fn with_causes(
        &self,
        event: ChangeEvent,
        has_ended: impl Fn(MemberProcess) -> bool,
        awaits: impl Fn(DecisionId) -> bool,
    ) -> Vec<ChangeEvent> {
        let ended = self.failed_in(&event).filter(|process| has_ended(*process));
        let given_up = match &event {
            ChangeEvent::Receipt { decision, .. } if !awaits(*decision) => {
                Some(ChangeEvent::GaveUp(*decision))
            }
            _ => None,
        };
        let before = ended.map(ChangeEvent::Ended).into_iter().chain(given_up);
        before.chain([event]).collect()
    }

    /// The process of a failed part, if the event reports one: the process may have ended.
    fn failed_in(&self, event: &ChangeEvent) -> Option<MemberProcess> {
        match event {
            ChangeEvent::Receipt {
                decision,
                part,
                answer,
            } if !answer.outcome.is_done() => Some(self.part(*decision, *part)?.process),
            ChangeEvent::Reverted(change, RevertResult::Failed { .. }) => self.process_of(*change),
            _ => None,
        }
    }

    fn decided(&mut self, decided: Decided) -> ChangeEffects {
        let (id, rule) = (decided.id, decided.rule.clone());
        if self.stopped.is_some() {
            return refuse(id, rule, "the session has ended".to_owned());
        }
        if self.decisions.len() >= DECISIONS_MAX {
            let reason = format!(
                "{DECISIONS_MAX} decisions of this session are in force, the maximum; start a new session"
            );
            return refuse(id, rule, reason);
        }
        let parts: Vec<(usize, MemberProcess)> =
            (decided.parts.iter().map(|part| part.process).enumerate()).collect();
        let mut effects = match &decided.how {
            Execution::Switch(switches) => vec![ChangeEffect::Switch(id, switches.clone())],
            _ if parts.is_empty() => return refuse(id, rule, words::NO_PROCESS_LEFT.to_owned()),
            Execution::Barred(_) => ChangeEffects::new(),
            Execution::Together if decided.parts.iter().any(|part| self.has_ended(part.process)) => {
                ChangeEffects::new()
            }
            Execution::Together => together(&decided),
            Execution::Each => self.each(&decided),
        };
        let refusal = match &decided.how {
            Execution::Barred(reason) => Some(reason.clone()),
            Execution::Together if effects.is_empty() => Some(words::GONE.to_owned()),
            _ => None,
        };
        let is_each = matches!(decided.how, Execution::Each);
        let known = OrderedDecision {
            waiting: parts.iter().map(|(number, _)| *number).collect(),
            decided,
            ..OrderedDecision::default()
        };
        self.waiting.extend((!parts.is_empty()).then_some(id));
        self.decisions.insert(id, known);
        for (number, process) in parts {
            if let Some(reason) = &refusal {
                effects.extend(self.receipt(id, number, OrderAnswer::not_done(NotDone::for_good(reason))));
            } else if is_each && self.has_ended(process) {
                effects.extend(self.receipt(
                    id,
                    number,
                    OrderAnswer::not_done(NotDone::for_good(words::GONE)),
                ));
            }
        }
        effects
    }

    fn each(&self, decided: &Decided) -> ChangeEffects {
        let parts = decided.parts.iter().enumerate();
        let living = parts.filter(|(_, part)| !self.has_ended(part.process));
        // One thread of a process after the other is stopped.
        let first = living.filter(|(number, part)| {
            let mut before = decided.parts.iter().take(*number);
            !part.is_copy || !before.any(|other| other.process == part.process)
        });
        first
            .map(|(number, part)| self.order(decided, number, part))
            .collect()
    }

    fn order(&self, decided: &Decided, part: usize, of: &OrderPart) -> ChangeEffect {
        let order = Order::Do {
            decision: decided.id,
            part,
            replaces: self.replaced_by(&decided.rule, of),
        };
        ChangeEffect::Order(of.process.machine, order)
    }

    /// Orders the call in the next copy of a library, unless the decision is given up or the process has ended.
    fn order_copy(&mut self, decision: DecisionId, number: usize) -> ChangeEffects {
        let Some(known) = self.decisions.get(&decision) else {
            return ChangeEffects::new();
        };
        let is_wanted = self.stopped.is_none() && !known.is_given_up;
        let part = known.decided.parts.get(number).filter(|_| is_wanted);
        if let Some(part) = part.filter(|part| !self.has_ended(part.process)) {
            return vec![self.order(&known.decided, number, part)];
        }
        let given_up = NotDone::for_good("the decision was given up");
        self.receipt(decision, number, OrderAnswer::not_done(given_up))
    }

    /// Changes that the same rule made to the same code of a process and that are in force: the same code
    /// cannot be changed twice.
    fn replaced_by(&self, rule: &str, part: &OrderPart) -> Vec<ChangeId> {
        if !matches!(part.view.action, Keyword::SetArgument | Keyword::InsertCall) {
            return Vec::new();
        }
        let is_same = |known: &OrderPart| known.process == part.process && known.label == part.label;
        let earlier = self.decisions.iter();
        let earlier = earlier
            .filter(|(_, known)| known.decided.rule == rule && known.decided.parts.iter().any(is_same));
        let made = earlier.flat_map(|(id, _)| self.in_force_of_decision(*id));
        made.filter(|made| made.process == part.process)
            .map(Made::change)
            .collect()
    }

    fn receipt(&mut self, decision: DecisionId, number: usize, answer: OrderAnswer) -> ChangeEffects {
        let Some(known) = self.decisions.get_mut(&decision) else {
            return ChangeEffects::new();
        };
        let part = known.decided.parts.get(number).cloned();
        let Some(part) = part.filter(|_| known.waiting.remove(&number)) else {
            return ChangeEffects::new();
        };
        // A joint decision is carried out in all processes or in none.
        let is_together = matches!(known.decided.how, Execution::Together | Execution::Barred(_));
        let OrderAnswer {
            outcome,
            may_pass,
            shown,
        } = answer;
        let outcome = match outcome.is_done() {
            true => {
                known.is_written = true;
                known.done_in.insert(part.process);
                known.there += usize::from(outcome == ChangeOutcome::AlreadyThere);
                outcome
            }
            false if !is_together && self.ended.contains(&part.process) => {
                known.is_gone = true;
                ChangeOutcome::Gone
            }
            false => {
                let why = NotDone {
                    reason: outcome.to_string(),
                    may_pass,
                    is_there: false,
                };
                match outcome {
                    ChangeOutcome::NotReached(_) if part.is_copy => {
                        known.not_reached.push((part.process, why))
                    }
                    _ => known.refuse(why),
                }
                outcome
            }
        };
        let is_last = known.waiting.is_empty();
        let next = known.next_copy(number);
        self.made.push(Made::new(decision, part, outcome, shown));
        match (is_last, next) {
            (true, _) => self.answered(decision),
            (false, Some(next)) => self.order_copy(decision, next),
            (false, None) => ChangeEffects::new(),
        }
    }

    /// Every process has answered: reports to the rules, and reverts what was written for a refused decision.
    fn answered(&mut self, decision: DecisionId) -> ChangeEffects {
        self.waiting.remove(&decision);
        let written: Vec<ChangeId> = self.in_force_of_decision(decision).map(Made::change).collect();
        let Some(known) = self.decisions.get_mut(&decision) else {
            return ChangeEffects::new();
        };
        let rule = known.decided.rule.clone();
        let no_process_left = known.is_gone && !known.is_written;
        let no_process_left = no_process_left.then(|| NotDone::for_good(words::NO_PROCESS_LEFT));
        let mut parts = known.decided.parts.len();
        for (process, why) in std::mem::take(&mut known.not_reached) {
            match known.done_in.contains(&process) {
                true => parts -= 1,
                false => known.refuse(why),
            }
        }
        let there = known.there > 0 && known.there == parts;
        let there = there.then(|| NotDone::there(known.done_in.len()));
        let is_awaited = !known.is_given_up;
        let Some(why) = known.refused.take().or(no_process_left).or(there) else {
            let text = known.decided.done_text(written.len());
            let done = ChangeNotice::Done {
                rule: rule.clone(),
                text,
            };
            let said = (!known.decided.again).then_some(ChangeEffect::Say(done));
            let mut effects: ChangeEffects = said.into_iter().collect();
            if is_awaited {
                effects.push(ChangeEffect::Result(decision, Ok(())));
                return effects;
            }
            effects.push(ChangeEffect::Say(ChangeNotice::TooLate { rule }));
            effects.extend(self.revert(&written));
            return effects;
        };
        let mut effects = ChangeEffects::new();
        // A decision that was given up has no recipient.
        if is_awaited {
            let reason = why.reason.clone();
            effects.push(ChangeEffect::Result(decision, Err(why)));
            effects.push(ChangeEffect::Say(ChangeNotice::NotDone { rule, reason }));
        }
        effects.extend(self.revert(&written));
        effects
    }

    fn no_room(&mut self, machine: MachineId, order: Order, now: Time) -> ChangeEffects {
        match order {
            Order::Do { decision, part, .. } => {
                self.receipt(decision, part, OrderAnswer::not_done(NotDone::for_now(NO_ROOM)))
            }
            Order::Together { decision } => {
                let known = self.decisions.get(&decision);
                let parts = known.map_or(0, |known| known.decided.parts.len());
                let refused = || OrderAnswer::not_done(NotDone::for_good(NO_ROOM));
                (0..parts)
                    .flat_map(|part| self.receipt(decision, part, refused()))
                    .collect()
            }
            Order::Revert(changes) => changes
                .into_iter()
                .flat_map(|change| {
                    let (reason, may_pass) = (NO_ROOM.to_owned(), true);
                    self.reverted(change, RevertResult::Failed { reason, may_pass }, now)
                })
                .collect(),
            // An unconfirmed change is reverted at the end; a given-up decision, when it is done.
            Order::Confirm(_) | Order::GiveUp(_) => vec![ChangeEffect::NoRoom(machine, order)],
        }
    }

    /// Probes belong to the session: nothing is written, and the result is immediate.
    fn switched(&mut self, decision: DecisionId, result: Result<(), ErrorText>) -> ChangeEffects {
        let Some(known) = self.decisions.get(&decision) else {
            return ChangeEffects::new();
        };
        let rule = known.decided.rule.clone();
        let result = result.map_err(|error| error.to_string());
        let said = match &result {
            Ok(()) => ChangeNotice::Switched {
                rule,
                text: known.decided.done_text(0),
            },
            Err(reason) => ChangeNotice::NotDone {
                rule,
                reason: reason.clone(),
            },
        };
        if result.is_err() {
            self.decisions.remove(&decision);
        }
        let result = result.map_err(NotDone::for_good);
        vec![ChangeEffect::Say(said), ChangeEffect::Result(decision, result)]
    }

    fn gave_up(&mut self, decision: DecisionId) -> ChangeEffects {
        let known = self.decisions.get_mut(&decision);
        let Some(known) = known.filter(|known| !known.waiting.is_empty() && !known.is_given_up) else {
            return ChangeEffects::new();
        };
        known.is_given_up = true;
        let machines: BTreeSet<MachineId> = (known.decided.parts.iter())
            .map(|part| part.process.machine)
            .collect();
        let machines = machines.into_iter().filter(|_| self.stopped.is_none());
        machines
            .map(|machine| ChangeEffect::Order(machine, Order::GiveUp(decision)))
            .collect()
    }

    /// Orders the revert of these changes, except those that are gone with their processes.
    fn revert(&self, changes: &[ChangeId]) -> ChangeEffects {
        let mut by_machine: BTreeMap<MachineId, Vec<ChangeId>> = BTreeMap::new();
        for change in changes.iter().filter(|change| !self.is_gone(**change)) {
            by_machine.entry(change.machine).or_default().push(*change);
        }
        // After the stop the actuator reverts all unconfirmed changes.
        let orders = by_machine.into_iter().filter(|_| self.stopped.is_none());
        orders
            .map(|(machine, changes)| ChangeEffect::Order(machine, Order::Revert(changes)))
            .collect()
    }

    /// Records that the process has ended or runs another program: its changes no longer exist.
    fn end(&mut self, process: MemberProcess) {
        self.ended.insert(process);
        let of = self.made.iter().filter(|made| made.process == process);
        for change in of.map(Made::change) {
            self.retry.over(change);
        }
    }

    fn has_ended(&self, process: MemberProcess) -> bool {
        self.ended.contains(&process)
    }

    fn is_gone(&self, change: ChangeId) -> bool {
        let made = self.made.find(change);
        made.is_some_and(|made| self.has_ended(made.process))
    }

    fn in_force_of_decision(&self, decision: DecisionId) -> impl Iterator<Item = &Made> {
        let of = self.made.of_decision(decision);
        of.filter(|made| made.is_in_force())
    }

    /// The decisions that wait for receipts. If the rules are known to wait for none, [`ChangeEvent::GaveUp`]
    /// is not needed.
    pub fn waiting(&self) -> impl Iterator<Item = DecisionId> {
        self.waiting.iter().copied()
    }

    pub fn is_waiting(&self, decision: DecisionId) -> bool {
        self.waiting.contains(&decision)
    }

    pub fn part(&self, decision: DecisionId, part: usize) -> Option<&OrderPart> {
        self.decisions.get(&decision)?.decided.parts.get(part)
    }

    /// The process in which a change was made.
    pub(crate) fn process_of(&self, change: ChangeId) -> Option<MemberProcess> {
        self.made.find(change).map(|made| made.process)
    }

    /// When a decision was carried out, since the probes were armed; `None` if it was reverted to be compared
    /// since, because the time after it is then not all under the change.
    pub fn carried_out(&self, decision: DecisionId) -> Option<Duration> {
        let of_decision = || self.made.of_decision(decision);
        if of_decision().any(Made::was_compared) {
            return None;
        }
        of_decision().map(Made::at).min()
    }

    /// Whether all changes in force are confirmed, and no order or retry is open.
    pub fn is_settled(&self) -> bool {
        let in_force = || self.made.iter().filter(|made| made.is_in_force());
        let is_quiet = self.waiting().next().is_none() && self.retry.is_empty();
        is_quiet && in_force().next().is_some() && in_force().all(Made::is_confirmed)
    }

    /// How long threads were held for changes, by action.
    pub fn held(&self) -> BTreeMap<&'static str, HoldTotals> {
        self.made.held()
    }

    /// Drops a decision that was reverted to be compared.
    fn forget_compared(&mut self, decision: DecisionId) {
        self.made.withdraw(decision);
        self.decisions.remove(&decision);
        self.reverting.forget(decision);
    }

    /// Drops decisions that were reverted, refused or ended with their processes, if there are many.
    fn drop_settled(&mut self) {
        let (waiting, reverting, ended) = (&self.waiting, &self.reverting, &self.ended);
        let is_settled = |decision: DecisionId| !waiting.contains(&decision) && !reverting.is_open(decision);
        let gone = self
            .made
            .drop_settled(is_settled, |made| ended.contains(&made.process));
        for decision in gone {
            self.decisions.remove(&decision);
            self.reverting.forget(decision);
        }
    }
}

/// Orders of a joint decision: one for every machine that has any of its processes.
fn together(decided: &Decided) -> ChangeEffects {
    let machines: BTreeSet<MachineId> = (decided.parts.iter()).map(|part| part.process.machine).collect();
    let decision = decided.id;
    machines
        .into_iter()
        .map(|machine| ChangeEffect::Order(machine, Order::Together { decision }))
        .collect()
}

fn refuse(decision: DecisionId, rule: String, reason: String) -> ChangeEffects {
    let said = ChangeNotice::NotDone {
        rule,
        reason: reason.clone(),
    };
    vec![
        ChangeEffect::Say(said),
        ChangeEffect::Result(decision, Err(NotDone::for_good(reason))),
    ]
}

impl Decided {
    /// What was done, in one line for all processes.
    fn done_text(&self, written: usize) -> String {
        let done = match &self.summary {
            Some(summary) => summary.clone(),
            None => format!("{} written and read back", plural(written, "change")),
        };
        match (&self.expect, &self.how) {
            (Some(prediction), Execution::Each | Execution::Together) => {
                format!("{done}, predicted {prediction}")
            }
            _ => done,
        }
    }
}
