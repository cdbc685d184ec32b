//! Acting: what the rules decide and what the actuator answers goes into `changes`, and what follows from it is carried out: orders, lines, results
//! for the rules. Decides nothing. Switches of probes, which need nobody else, are done in `switching`.

use std::{collections::BTreeSet, time::Duration};

use plan::MarkKind;
use tuner::{actuator::ChangeNumber, process::Pid};

use super::{
    Session, actuator_queue,
    changes::{Change, Effect, Effects, Event, Machine, NotDone, Order, Process, Trial},
};
use crate::{
    clock::monotonic_ns,
    format::duration,
    rulebook::{Act, Decision, Time},
    snapshot::{GuardView, Reaction, outcome::KEPT},
};

/// So long the receipt of a value is waited for where nobody else wants the CPU: no longer than hits are looked for at a time.
const RECEIPT: Duration = Duration::from_millis(2);

/// When a decision passed where, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    begun_ns: u64,
    evaluated_ns: u64,
    ordered_ns: u64,
}

impl Path {
    pub(super) fn reaction(&self, (from, to): (u64, u64), done_ns: u64) -> Reaction {
        // Where both have one CPU it is written before the order has been given to the end.
        let ordered_ns = self.ordered_ns.min(done_ns);
        Reaction {
            window_ns: to.saturating_sub(from),
            update_ns: self.begun_ns.saturating_sub(to),
            evaluate_ns: self.evaluated_ns.saturating_sub(self.begun_ns),
            order_ns: ordered_ns.saturating_sub(self.evaluated_ns),
            write_ns: done_ns.saturating_sub(ordered_ns),
        }
    }
}

impl Session {
    /// Closes windows that are over and does what the rules say.
    pub(super) fn evaluate(&mut self, begun_ns: u64) {
        let acts = self.rules.tick(begun_ns);
        let evaluated_ns = monotonic_ns();
        for act in newest_first(acts) {
            match act {
                Act::Decided(decision) => {
                    let id = decision.id;
                    self.decided(decision);
                    if let Some(ordered) = self.actuation.ordered.get_mut(&id) {
                        ordered.path = Some(Path {
                            begun_ns,
                            evaluated_ns,
                            ordered_ns: monotonic_ns(),
                        });
                    }
                    // Nobody else wants that CPU, but for the actuator.
                    let longest = self.options.busy_poll.then_some(RECEIPT);
                    if let Some(queue) = &mut self.actuation.queue {
                        queue.see_to_receipt(longest);
                    }
                }
                other => self.take_note_of(other),
            }
        }
        self.give_up();
    }

    /// What the rules wait for no longer, for it grew stale or its rule was switched or removed, is not to be done any more.
    pub(super) fn give_up(&mut self) {
        let given_up: Vec<u64> = (self.changes.waiting())
            .filter(|decision| !self.rules.awaits(*decision))
            .collect();
        for decision in given_up {
            self.change(Event::GaveUp(decision));
        }
    }

    /// The same at the end of the session, when nothing new is begun.
    pub(super) fn evaluate_last(&mut self) {
        for act in newest_first(self.rules.tick(monotonic_ns())) {
            self.take_note_of(act);
        }
    }

    pub(super) fn take_note_of(&mut self, act: Act) {
        match act {
            Act::Found {
                rule,
                text,
                next_start,
                is_new,
            } => self.found(rule, text, next_start, is_new),
            Act::Gone { rule } => self.changes.findings.close(&rule),
            Act::Judged {
                decision,
                rule,
                guard,
                slots,
            } => self.judged(decision, rule, guard, slots),
            Act::Decided(_) => {}
        }
    }

    fn decided(&mut self, decision: Decision) {
        if self.actuation.queue.is_none() {
            let refused = Err(NotDone::for_good("this session does not write"));
            self.rules.receipt(decision.id, refused, monotonic_ns());
            return;
        }
        let (id, rule) = (decision.id, decision.rule.clone());
        match self.resolve(decision) {
            Ok((decided, ordered)) => {
                self.actuation.ordered.insert(id, ordered);
                self.change(Event::Decided(decided));
                self.forget_answered(id);
            }
            Err(reason) => self.change(Event::NotOrdered {
                decision: id,
                rule,
                reason,
            }),
        }
    }

    /// What was ordered is needed until it is answered.
    pub(super) fn forget_answered(&mut self, decision: u64) {
        if !self.changes.is_waiting(decision) {
            self.actuation.ordered.remove(&decision);
        }
    }

    /// How long an iteration took before a decision and takes since, in words; none where there is no loop.
    fn step_around(&self, decision: u64) -> Option<String> {
        let at = self.changes.carried_out(decision)?;
        let now = Duration::from_nanos(monotonic_ns().saturating_sub(self.start.armed_ns));
        let (before, after) = self.calls().iteration()?.around(at, now.saturating_sub(at))?;
        Some(format!("one step {} -> {}", duration(before), duration(after)))
    }

    fn judged(&mut self, decision: u64, rule: String, mut guard: GuardView, slots: Option<BTreeSet<u32>>) {
        // A duration is in the user's unit already. Where the number of workers changes, so does what a step is found by: the time of a step
        // would then be another thing before and after.
        if !guard.text.contains(".duration")
            && let Some(step) = self.step_around(decision)
        {
            guard.text = format!("{step}; {}", guard.text);
        }
        let keeps = guard.verdict == KEPT;
        let kind = if keeps { MarkKind::Kept } else { MarkKind::Undone };
        self.rules.record_mark(kind, &rule, &guard.text, monotonic_ns());
        self.change(Event::Judged {
            decision,
            rule,
            guard,
            keeps,
            slots,
        });
    }

    /// Takes an event of the changes in, and does what follows from it.
    pub(super) fn change(&mut self, event: Event) {
        let effects = self.changes.on(event, Time(monotonic_ns()));
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Effects) {
        for effect in effects {
            match effect {
                Effect::Order(machine, order) => self.order(machine, order),
                Effect::Say(notice) => {
                    self.screen.say(&format!("{}  {notice}", time_of_day()));
                    if let Some((kind, name, text)) = notice.mark() {
                        self.mark(kind, name, text);
                    }
                }
                Effect::Result(decision, result) => {
                    self.rules.receipt(decision, result, monotonic_ns());
                }
                Effect::Switch(decision, switches) => {
                    let result = self.switch_probes(&switches);
                    self.change(Event::Switched(decision, result));
                }
                Effect::SwitchBack(switches) => self.switch_back(&switches),
                // What is neither confirmed nor undone now is put back at the end.
                Effect::NoRoom(_, order) => tracing::warn!(?order, "too many orders wait"),
                // `leave` waits for the actuator.
                Effect::Finish => {}
            }
        }
    }

    fn order(&mut self, machine: Machine, order: Order) {
        let has_room = match (&self.actuation.queue, self.actuator_orders(&order)) {
            (Some(queue), Ok(orders)) => orders.into_iter().all(|order| queue.order(order).is_ok()),
            (None, _) => true,
            (_, Err(())) => false,
        };
        if !has_room {
            self.change(Event::NoRoom(machine, order));
        }
    }

    /// Marks this moment in the trace and in the recording, if they are written.
    pub(super) fn mark(&mut self, kind: MarkKind, name: &str, text: &str) {
        let now_ns = monotonic_ns();
        if let Some(trace) = self.screen.trace() {
            trace.mark(kind.name(), name, text, now_ns);
        }
        // A verdict is recorded with its rule, where it is judged.
        if kind != MarkKind::Verdict {
            self.rules.record_mark(kind, name, text, now_ns);
        }
    }

    /// How far the changes are judged that are on trial.
    pub(super) fn trials(&self) -> Vec<Trial> {
        let trials = self.rules.on_trial().into_iter();
        trials
            .map(|(decision, seen, over)| Trial { decision, seen, over })
            .collect()
    }

    /// A process that has ended or runs another program needs nothing any more of what was decided for it, and holds nothing.
    pub(super) fn look_whether_ended(&mut self, process: Process) {
        let member = self.target.job.members.get(process.slot as usize);
        if member.is_some_and(|member| !member.process.pid.is_alive() || member.space.is_gone()) {
            self.change(Event::Ended(process));
        }
    }
}

/// As the changes name a change of this machine.
pub(super) fn here(pid: Pid, number: u64) -> Change {
    Change {
        machine: Machine::HERE,
        pid,
        number,
    }
}

/// None where there is nothing to take back: an order, be it empty, keeps the next one from being sent past the thread.
pub(super) fn undo(changes: &[Change]) -> Option<actuator_queue::Order> {
    let number = |change: &Change| ChangeNumber {
        pid: change.pid,
        change: change.number,
    };
    (!changes.is_empty()).then(|| actuator_queue::Order::Undo(changes.iter().map(number).collect()))
}

/// What is to be taken back goes before all else, and what was done last before what it may rest on: a function of a library before
/// the library.
fn newest_first(acts: Vec<Act>) -> Vec<Act> {
    let (mut judged, others): (Vec<Act>, Vec<Act>) = acts
        .into_iter()
        .partition(|act| matches!(act, Act::Judged { .. }));
    judged.sort_by_key(|act| match act {
        Act::Judged { decision, .. } => std::cmp::Reverse(*decision),
        _ => std::cmp::Reverse(0),
    });
    judged.into_iter().chain(others).collect()
}

/// The time of day (UTC, as in the journal), for lines that stay on the screen.
pub(super) fn time_of_day() -> String {
    let now = tuner::clock::now().wall;
    // RFC 3339: the time stands between T and the fraction.
    now.split(['T', '.']).nth(1).unwrap_or(&now).to_owned()
}
