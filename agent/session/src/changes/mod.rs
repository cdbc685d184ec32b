//! What is changed in a session: decisions, orders, receipts, verdicts of guards, undo and retry, as a pure state machine. Events carry all
//! data, time is an argument, effects are values. It asks no kernel and no clock, and orders nothing by itself: whoever owns it carries
//! the effects out. Every process and every order names its machine.

mod event;
mod findings;
mod judging;
mod last_words;
mod made;
mod outcome;
mod retry;
mod switch;
#[cfg(test)]
mod tests;
mod undoing;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use self::{
    event::{
        Answer, Change, Decided, Effect, Effects, Ending, Event, Farewell, How, Machine, Notice, Order, Part,
        Pid, Process, Shown, Trial, Undo,
    },
    outcome::{NotDone, Outcome},
    switch::Switch,
};
use self::{findings::Findings, last_words::Left, made::Made, retry::Retry, undoing::Undoing};
use profile::{
    cost::Held,
    format::plural,
    snapshot::{GuardView, outcome as words},
};
use rules::Time;

/// So many decisions are carried out in one session: each is remembered to the end, for it may have to be taken back.
const DECISIONS_MAX: usize = 100_000;

/// Why an order is refused when the queue is full.
const NO_ROOM: &str = "too many orders wait";

/// A decision that was ordered, and what is known of its parts.
#[derive(Debug)]
struct Known {
    decided: Decided,
    /// Parts without a receipt.
    waiting: BTreeSet<usize>,
    is_written: bool,
    /// In so many of them it was there already.
    there: usize,
    /// A process that was to have it has ended.
    is_gone: bool,
    refused: Option<NotDone>,
    /// The rules wait for it no longer.
    is_given_up: bool,
}

/// All decisions of a session and what became of them.
#[derive(Debug, Default)]
pub struct Changes {
    /// What the rules found.
    pub findings: Findings,
    made: Vec<Made>,
    decisions: BTreeMap<u64, Known>,
    /// Those of them whose receipts are not all in.
    waiting: BTreeSet<u64>,
    ended: BTreeSet<Process>,
    retry: Retry,
    /// Guards whose changes are being taken back.
    undoing: Undoing,
    /// What is said of changes that no guard has judged, once the session is over.
    unjudged: BTreeMap<u64, GuardView>,
    /// Changes of processes that are not known here, as of forked ones.
    strangers: Vec<Left>,
    /// Nothing is ordered any more: the actuator puts back what is not confirmed.
    is_stopped: bool,
}

impl Changes {
    /// Takes an event in and says what is to be done, in this order.
    pub fn on(&mut self, event: Event, now: Time) -> Effects {
        match event {
            Event::Decided(decided) => self.decided(decided),
            Event::NotOrdered {
                decision,
                rule,
                reason,
            } => refuse(decision, rule, reason),
            Event::Receipt {
                decision,
                part,
                answer,
            } => self.receipt(decision, part, answer),
            Event::NoRoom(machine, order) => self.no_room(machine, order, now),
            Event::Switched(decision, result) => self.switched(decision, result),
            Event::GaveUp(decision) => self.gave_up(decision),
            Event::Judged {
                decision,
                rule,
                guard,
                keeps,
                slots,
            } => self.judged(decision, &rule, guard, keeps, slots.as_ref()),
            Event::Undone(change, undo) => self.undone(change, undo, now),
            Event::Removed { rule, keeps } => self.removed(&rule, keeps),
            Event::Ended(process) => {
                self.end(process);
                Effects::new()
            }
            Event::Tick => {
                let due = self.retry.due(now);
                self.undo(&due)
            }
            Event::Stop { ending, on_trial } => self.stop(ending, on_trial),
            Event::Farewell(machine, farewell) => self.farewell(machine, farewell),
            Event::LastWords {
                unknown,
                undo,
                program,
            } => vec![Effect::LastWords(self.last_words(unknown, &undo, &program))],
        }
    }

    /// The process in which something was not done, if the event says that: it may have ended.
    pub fn failed_in(&self, event: &Event) -> Option<Process> {
        match event {
            Event::Receipt {
                decision,
                part,
                answer,
            } if !answer.outcome.is_done() => Some(self.part(*decision, *part)?.process),
            Event::Undone(change, Undo::Failed { .. }) => self.process_of(*change),
            _ => None,
        }
    }

    fn decided(&mut self, decided: Decided) -> Effects {
        let (id, rule) = (decided.id, decided.rule.clone());
        if self.is_stopped {
            return refuse(id, rule, "the session has ended".to_owned());
        }
        if self.decisions.len() >= DECISIONS_MAX {
            let reason =
                format!("this session has made {DECISIONS_MAX} decisions, the maximum; start a new session");
            return refuse(id, rule, reason);
        }
        let parts: Vec<(usize, Process)> =
            (decided.parts.iter().map(|part| part.process).enumerate()).collect();
        let mut effects = match &decided.how {
            How::Switch(switches) => vec![Effect::Switch(id, switches.clone())],
            _ if parts.is_empty() => return refuse(id, rule, words::NOBODY_LEFT.to_owned()),
            How::Barred(_) => Effects::new(),
            How::Together if decided.parts.iter().any(|part| self.has_ended(part.process)) => Effects::new(),
            How::Together => together(&decided),
            How::Each => self.each(&decided),
        };
        let refusal = match &decided.how {
            How::Barred(reason) => Some(reason.clone()),
            How::Together if effects.is_empty() => Some(words::GONE.to_owned()),
            _ => None,
        };
        let is_each = matches!(decided.how, How::Each);
        let known = Known {
            waiting: parts.iter().map(|(number, _)| *number).collect(),
            decided,
            is_written: false,
            there: 0,
            is_gone: false,
            refused: None,
            is_given_up: false,
        };
        self.waiting.extend((!parts.is_empty()).then_some(id));
        self.decisions.insert(id, known);
        for (number, process) in parts {
            if let Some(reason) = &refusal {
                effects.extend(self.receipt(id, number, Answer::not_done(reason.clone(), false)));
            } else if is_each && self.has_ended(process) {
                effects.extend(self.receipt(id, number, Answer::not_done(words::GONE.to_owned(), false)));
            }
        }
        effects
    }

    fn each(&self, decided: &Decided) -> Effects {
        let parts = decided.parts.iter().enumerate();
        let living = parts.filter(|(_, part)| !self.has_ended(part.process));
        living
            .map(|(number, part)| {
                let order = Order::Do {
                    decision: decided.id,
                    part: number,
                    replaces: self.replaced_by(&decided.rule, part),
                };
                Effect::Order(part.process.machine, order)
            })
            .collect()
    }

    /// What the same rule did to the same code of a process before, and is in force: the same code cannot be changed twice.
    fn replaced_by(&self, rule: &str, part: &Part) -> Vec<Change> {
        if !matches!(part.view.action, "set_arg" | "insert_call") {
            return Vec::new();
        }
        let is_same = |known: &Part| known.process == part.process && known.label == part.label;
        let earlier = self.decisions.iter();
        let earlier = earlier
            .filter(|(_, known)| known.decided.rule == rule && known.decided.parts.iter().any(is_same));
        let made = earlier.flat_map(|(id, _)| self.in_force_of_decision(*id));
        made.filter(|made| made.process == part.process)
            .map(Made::change)
            .collect()
    }

    fn receipt(&mut self, decision: u64, number: usize, answer: Answer) -> Effects {
        let Some(known) = self.decisions.get_mut(&decision) else {
            return Effects::new();
        };
        let part = known.decided.parts.get(number).cloned();
        let Some(part) = part.filter(|_| known.waiting.remove(&number)) else {
            return Effects::new();
        };
        // Together it is all of them or none.
        let is_together = matches!(known.decided.how, How::Together | How::Barred(_));
        let Answer {
            outcome,
            may_pass,
            shown,
        } = answer;
        let outcome = match outcome.is_done() {
            true => {
                known.is_written = true;
                known.there += usize::from(outcome == Outcome::AlreadyThere);
                outcome
            }
            false if !is_together && self.ended.contains(&part.process) => {
                known.is_gone = true;
                Outcome::Gone
            }
            false => {
                // What will not pass counts, whatever else there is.
                if known.refused.as_ref().is_none_or(|why| why.may_pass) {
                    let reason = outcome.to_string();
                    known.refused = Some(NotDone {
                        reason,
                        may_pass,
                        is_there: false,
                    });
                }
                outcome
            }
        };
        let is_last = known.waiting.is_empty();
        self.made.push(Made::new(decision, part, outcome, shown));
        match is_last {
            true => self.answered(decision),
            false => Effects::new(),
        }
    }

    /// Every process has answered: tells the rules, and puts back what a refused decision has written.
    fn answered(&mut self, decision: u64) -> Effects {
        self.waiting.remove(&decision);
        let written: Vec<Change> = self.in_force_of_decision(decision).map(Made::change).collect();
        let Some(known) = self.decisions.get_mut(&decision) else {
            return Effects::new();
        };
        let rule = known.decided.rule.clone();
        let nobody_left = known.is_gone && !known.is_written;
        let nobody_left = nobody_left.then(|| NotDone::for_good(words::NOBODY_LEFT));
        let parts = known.decided.parts.len();
        let there = (known.there > 0 && known.there == parts).then(|| NotDone::there(parts));
        let is_awaited = !known.is_given_up;
        let Some(why) = known.refused.take().or(nobody_left).or(there) else {
            let text = known.decided.done_text(written.len());
            let mut effects = vec![Effect::Say(Notice::Done {
                rule: rule.clone(),
                text,
            })];
            if is_awaited {
                effects.push(Effect::Result(decision, Ok(())));
                return effects;
            }
            effects.push(Effect::Say(Notice::TooLate { rule }));
            effects.extend(self.undo(&written));
            return effects;
        };
        let mut effects = Effects::new();
        // What was given up nobody waits for.
        if is_awaited {
            let reason = why.reason.clone();
            effects.push(Effect::Result(decision, Err(why)));
            effects.push(Effect::Say(Notice::NotDone { rule, reason }));
        }
        effects.extend(self.undo(&written));
        effects
    }

    fn no_room(&mut self, machine: Machine, order: Order, now: Time) -> Effects {
        match order {
            Order::Do { decision, part, .. } => {
                self.receipt(decision, part, Answer::not_done(NO_ROOM.to_owned(), true))
            }
            Order::Together { decision } => {
                let known = self.decisions.get(&decision);
                let parts = known.map_or(0, |known| known.decided.parts.len());
                let refused = || Answer::not_done(NO_ROOM.to_owned(), false);
                (0..parts)
                    .flat_map(|part| self.receipt(decision, part, refused()))
                    .collect()
            }
            Order::Undo(changes) => changes
                .into_iter()
                .flat_map(|change| {
                    let (reason, may_pass) = (NO_ROOM.to_owned(), true);
                    self.undone(change, Undo::Failed { reason, may_pass }, now)
                })
                .collect(),
            // What is neither confirmed nor undone now is put back at the end, and what was given up when it is done.
            Order::Confirm(_) | Order::GiveUp(_) => vec![Effect::NoRoom(machine, order)],
        }
    }

    /// Probes are the session's own: nothing is written, and it is done at once.
    fn switched(&mut self, decision: u64, result: Result<(), String>) -> Effects {
        let Some(known) = self.decisions.get(&decision) else {
            return Effects::new();
        };
        let rule = known.decided.rule.clone();
        let said = match &result {
            Ok(()) => Notice::Switched {
                rule,
                text: known.decided.done_text(0),
            },
            Err(reason) => Notice::NotDone {
                rule,
                reason: reason.clone(),
            },
        };
        let result = result.map_err(NotDone::for_good);
        vec![Effect::Say(said), Effect::Result(decision, result)]
    }

    fn gave_up(&mut self, decision: u64) -> Effects {
        let known = self.decisions.get_mut(&decision);
        let Some(known) = known.filter(|known| !known.waiting.is_empty() && !known.is_given_up) else {
            return Effects::new();
        };
        known.is_given_up = true;
        let machines: BTreeSet<Machine> = (known.decided.parts.iter())
            .map(|part| part.process.machine)
            .collect();
        let machines = machines.into_iter().filter(|_| !self.is_stopped);
        machines
            .map(|machine| Effect::Order(machine, Order::GiveUp(decision)))
            .collect()
    }

    /// Orders that these are taken back, but for those that are gone with their processes.
    fn undo(&self, changes: &[Change]) -> Effects {
        let mut by_machine: BTreeMap<Machine, Vec<Change>> = BTreeMap::new();
        for change in changes.iter().filter(|change| !self.is_gone(**change)) {
            by_machine.entry(change.machine).or_default().push(*change);
        }
        // Once it is stopped the actuator takes back whatever is not confirmed.
        let orders = by_machine.into_iter().filter(|_| !self.is_stopped);
        orders
            .map(|(machine, changes)| Effect::Order(machine, Order::Undo(changes)))
            .collect()
    }

    /// The process has ended or runs another program: nothing of what was changed in it is anywhere.
    fn end(&mut self, process: Process) {
        self.ended.insert(process);
        let of = self.made.iter().filter(|made| made.process == process);
        for change in of.map(Made::change) {
            self.retry.over(change);
        }
    }

    fn has_ended(&self, process: Process) -> bool {
        self.ended.contains(&process)
    }

    fn is_gone(&self, change: Change) -> bool {
        let made = self.made.iter().find(|made| made.change() == change);
        made.is_some_and(|made| self.has_ended(made.process))
    }

    fn in_force_of_decision(&self, decision: u64) -> impl Iterator<Item = &Made> {
        let of = self.made.iter().filter(move |made| made.decision == decision);
        of.filter(|made| made.is_in_force())
    }

    /// The decisions that wait for receipts. Whoever knows that the rules wait for one no longer says [`Event::GaveUp`].
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().copied()
    }

    /// Whether a decision waits for receipts.
    pub fn is_waiting(&self, decision: u64) -> bool {
        self.waiting.contains(&decision)
    }

    /// A part of a decision.
    pub fn part(&self, decision: u64, part: usize) -> Option<&Part> {
        self.decisions.get(&decision)?.decided.parts.get(part)
    }

    /// The process in which a change was made.
    pub fn process_of(&self, change: Change) -> Option<Process> {
        let made = self.made.iter().find(|made| made.change() == change);
        made.map(|made| made.process)
    }

    /// When a decision was carried out, since the probes were armed.
    pub fn carried_out(&self, decision: u64) -> Option<Duration> {
        let of = self.made.iter().filter(|made| made.decision == decision);
        of.map(Made::at).min()
    }

    /// Everything that was changed is confirmed, and nothing is under way.
    pub fn is_settled(&self) -> bool {
        let in_force = || self.made.iter().filter(|made| made.is_in_force());
        let is_quiet = self.waiting().next().is_none() && self.retry.is_empty();
        is_quiet && in_force().next().is_some() && in_force().all(Made::is_confirmed)
    }

    /// How long threads were held for changes, by action.
    pub fn held(&self) -> BTreeMap<&'static str, Held> {
        let mut held: BTreeMap<&'static str, Held> = BTreeMap::new();
        self.made.iter().for_each(|made| made.add_hold(&mut held));
        held
    }
}

/// Ranks on every machine that has any of them.
fn together(decided: &Decided) -> Effects {
    let machines: BTreeSet<Machine> = (decided.parts.iter()).map(|part| part.process.machine).collect();
    let decision = decided.id;
    machines
        .into_iter()
        .map(|machine| Effect::Order(machine, Order::Together { decision }))
        .collect()
}

fn refuse(decision: u64, rule: String, reason: String) -> Effects {
    let said = Notice::NotDone {
        rule,
        reason: reason.clone(),
    };
    vec![
        Effect::Say(said),
        Effect::Result(decision, Err(NotDone::for_good(reason))),
    ]
}

impl Decided {
    /// What was done, in one line for all processes.
    fn done_text(&self, written: usize) -> String {
        let done = match &self.summary {
            Some(summary) => summary.clone(),
            None => format!("{} written and read back", plural(written, "change")),
        };
        match (&self.promise, &self.how) {
            (Some(promise), How::Each | How::Together) => format!("{done}, promised {promise}"),
            _ => done,
        }
    }
}
