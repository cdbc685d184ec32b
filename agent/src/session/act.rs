//! Acting: what the rules decide goes to the actuator. What it answers is taken in `receipts`; switches of probes, which need nobody else, are
//! done in `switching`.

use std::{collections::BTreeSet, time::Duration};

use tuner::{actuator::ChangeNumber, process::Pid, sync::SyncPlace};

use super::{
    Session,
    hands::Order,
    orders::{Ordered, Part},
};
use crate::{
    clock::monotonic_ns,
    format::duration,
    rulebook::{Act, Decision, NotDone},
    snapshot::{ChangeView, GuardView, Reaction, outcome::KEPT},
};

/// So many decisions are carried out in one session: each is remembered to the end, for it may have to be taken back.
const DECISIONS_MAX: usize = 100_000;

/// So long the receipt of a value is waited for where nobody else wants the CPU: no longer than hits are looked for at a time.
const RECEIPT: Duration = Duration::from_millis(2);

/// None where there is nothing to take back: an order, be it empty, keeps the next one from being sent past the thread.
fn undo(changes: Vec<(Pid, u64)>) -> Option<Order> {
    let number = |(pid, change)| ChangeNumber { pid, change };
    (!changes.is_empty()).then(|| Order::Undo(changes.into_iter().map(number).collect()))
}

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
                    self.carry_out(decision);
                    if let Some(ordered) = self.decisions.get_mut(&id) {
                        ordered.path = Some(Path {
                            begun_ns,
                            evaluated_ns,
                            ordered_ns: monotonic_ns(),
                        });
                    }
                    // Nobody else wants that CPU, but for the actuator.
                    let longest = self.options.busy_poll.then_some(RECEIPT);
                    if let Some(hands) = &mut self.hands {
                        hands.see_to_receipt(longest);
                    }
                }
                other => self.take_note_of(other),
            }
        }
        self.give_up();
    }

    /// What the rules wait for no longer, for it grew stale or its rule was switched or removed, is not to be done any more.
    pub(super) fn give_up(&mut self) {
        let Some(hands) = &self.hands else { return };
        for decision in self.ledger.give_up(|decision| self.rules.awaits(decision)) {
            // Else it is undone when it is done.
            let _ = hands.order(Order::GiveUp(decision));
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
            Act::Gone { rule } => self.ledger.close_finding(&rule),
            Act::Judged {
                decision,
                rule,
                guard,
                slots,
            } => self.judged(decision, &rule, guard, slots.as_ref()),
            Act::Decided(_) => {}
        }
    }

    fn carry_out(&mut self, decision: Decision) {
        let Some(hands) = &self.hands else {
            self.rules.receipt(
                decision.id,
                Err(NotDone::for_good("this session does not write")),
                monotonic_ns(),
            );
            return;
        };
        if self.decisions.len() >= DECISIONS_MAX {
            let reason =
                format!("this session has decided {DECISIONS_MAX} times, its bound; a new one goes on");
            return self.refuse(&decision, reason);
        }
        let at = decision.at.as_deref().map(str::parse::<SyncPlace>).transpose();
        let at = match (decision.refused.clone(), at) {
            (None, Ok(at)) => at,
            (refused, at) => {
                let reason = refused
                    .or_else(|| at.err().map(|error| error.to_string()))
                    .unwrap_or_default();
                return self.refuse(&decision, reason);
            }
        };
        if !decision.switches.is_empty() {
            return self.carry_out_switches(decision);
        }
        if let Some(meeting) = decision.together.clone() {
            return self.carry_out_together(decision, meeting);
        }
        let parts = match self.parts(&decision) {
            Ok(parts) => parts,
            Err(reason) => return self.refuse(&decision, reason),
        };
        self.ledger.await_receipts(decision.id, parts.len());
        let mut refused = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            // The same code cannot be changed twice: what this rule did there before goes first.
            let before = self.before(&decision, part);
            let order = part.order(decision.id, place, at.clone());
            let undone = undo(before).map_or(Ok(()), |order| hands.order(order));
            if undone.and_then(|()| hands.order(order)).is_err() {
                refused.push(part.clone());
            }
        }
        let id = decision.id;
        self.decisions.insert(id, Ordered::new(decision, parts));
        for part in refused {
            let outcome = "too many orders wait".into();
            let view = ChangeView { outcome, ..part.view };
            let carried = self.ledger.refused(id, view, part.pid, true);
            self.carried(id, carried);
        }
    }

    /// What the same tune did to the same code of a process before, and is in force.
    fn before(&self, decision: &Decision, part: &Part) -> Vec<(Pid, u64)> {
        if !matches!(part.view.action, "set_arg" | "insert_call") {
            return Vec::new();
        }
        let is_same = |known: &Part| known.pid == part.pid && known.label == part.label;
        let earlier = self
            .decisions
            .iter()
            .filter(|(_, known)| known.decision.rule == decision.rule && known.parts.iter().any(is_same));
        let made = earlier.flat_map(|(id, _)| self.ledger.of_decision(*id));
        made.filter(|(pid, _)| *pid == part.pid).collect()
    }

    pub(super) fn refuse(&mut self, decision: &Decision, reason: String) {
        let (time, rule) = (time_of_day(), &decision.rule);
        self.painter.say(&format!("{time}  {rule}   not done: {reason}"));
        let refused = Err(NotDone::for_good(reason));
        self.rules.receipt(decision.id, refused, monotonic_ns());
    }

    /// How long an iteration took before a decision and takes since, in words; none where there is no loop.
    fn step_around(&self, decision: u64) -> Option<String> {
        let at = self.ledger.carried_out(decision)?;
        let now = Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns));
        let (before, after) = self.iteration()?.around(at, now.saturating_sub(at))?;
        Some(format!("one step {} -> {}", duration(before), duration(after)))
    }

    fn judged(&mut self, decision: u64, rule: &str, mut guard: GuardView, slots: Option<&BTreeSet<u32>>) {
        if let Some(step) = self.step_around(decision) {
            guard.text = format!("{step}; {}", guard.text);
        }
        let mut changes = self.ledger.of_decision(decision);
        if let Some(slots) = slots {
            let pids: Vec<Pid> = slots.iter().filter_map(|slot| self.pid_of(*slot)).collect();
            changes.retain(|(pid, _)| pids.contains(pid));
        }
        let kind = if guard.verdict == KEPT { "kept" } else { "undone" };
        self.rules.record_mark(kind, rule, &guard.text, monotonic_ns());
        if guard.verdict == KEPT {
            self.ledger.judge(decision, rule, &guard);
            self.say_of_guard(&guard.text);
            self.order_confirm(changes);
        } else {
            // That it is undone is said when it is.
            if let Some(text) = self.ledger.undo(decision, rule, guard, &changes) {
                self.say_of_guard(&text);
            }
            self.order_undo(changes);
            self.switch_back(decision, slots);
        }
    }

    pub(super) fn say_of_guard(&mut self, text: &str) {
        self.painter.say(&format!("{}  guard    {text}", time_of_day()));
        self.mark("verdict", "guard", text);
    }

    /// Marks this moment in the trace, if one is written.
    pub(super) fn mark(&mut self, kind: &str, name: &str, text: &str) {
        let now_ns = monotonic_ns();
        if let Some(trace) = &mut self.outputs.trace {
            trace.mark(kind, name, text, now_ns);
        }
        // A verdict is recorded with its rule.
        if kind != "verdict" {
            self.rules.record_mark(kind, name, text, now_ns);
        }
    }

    fn order_confirm(&self, changes: Vec<(Pid, u64)>) {
        for (pid, change) in changes {
            self.order_if_room(Order::Confirm(pid, change));
        }
    }

    pub(super) fn order_undo(&mut self, changes: Vec<(Pid, u64)>) {
        let Some(order) = undo(changes.clone()) else {
            return;
        };
        if !self.order_if_room(order) {
            for change in changes {
                self.could_not_undo(change, "too many orders wait");
            }
        }
    }

    /// Tells, where a guard had it taken back.
    pub(super) fn could_not_undo(&mut self, change: (Pid, u64), reason: &str) {
        if let Some(text) = self.ledger.heard_of_undo(change, Some(reason)) {
            self.say_of_guard(&text);
        }
    }

    fn order_if_room(&self, order: Order) -> bool {
        let Some(hands) = &self.hands else { return true };
        match hands.order(order) {
            Ok(()) => true,
            Err(order) => {
                // What is neither confirmed nor undone now is put back at the end.
                tracing::warn!(?order, "too many orders wait");
                false
            }
        }
    }
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
