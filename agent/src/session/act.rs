//! Acting: what the rules decide and what the actuator answers goes into `changes`, and what follows from it is carried out: orders, lines, results
//! for the rules. Decides nothing. Switches of probes, which need nobody else, are done in `switching`.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Session,
    changes::{Effect, Effects, Event, NotDone, Process},
    orders::{Path, Resolver},
};
use crate::{
    clock::monotonic_ns,
    format::duration,
    rulebook::{Act, Decision, Time},
    snapshot::{GuardView, outcome::KEPT},
};
use plan::MarkKind;

/// So long the receipt of a value is waited for where nobody else wants the CPU: no longer than hits are looked for at a time.
const RECEIPT: Duration = Duration::from_millis(2);

impl Session {
    /// Closes windows that are over and does what the rules say.
    pub(super) fn evaluate(&mut self, begun_ns: u64) {
        let acts = self.rules.tick(begun_ns);
        let evaluated_ns = monotonic_ns();
        for act in acts {
            match act {
                Act::Decided(decision) => {
                    let id = decision.id;
                    self.decided(decision);
                    let path = Path {
                        begun_ns,
                        evaluated_ns,
                        ordered_ns: monotonic_ns(),
                    };
                    // Nobody else wants that CPU, but for the actuator.
                    let longest = self.options.busy_poll.then_some(RECEIPT);
                    self.actuation.ordered(id, path, longest);
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
        for act in self.rules.tick(monotonic_ns()) {
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
        match self.resolver().resolve(decision) {
            Ok((decided, ordered)) => {
                self.actuation.ordered.insert(id, ordered);
                self.change(Event::Decided(decided));
                self.actuation.forget_answered(id, &self.changes);
            }
            Err(reason) => self.change(Event::NotOrdered {
                decision: id,
                rule,
                reason,
            }),
        }
    }

    /// How long an iteration took before a decision and takes since, in words; none where there is no loop.
    fn step_around(&self, decision: u64) -> Option<String> {
        let at = self.changes.carried_out(decision)?;
        let now = Duration::from_nanos(monotonic_ns().saturating_sub(self.start.armed_ns));
        let (before, after) = self
            .views()
            .calls()
            .iteration()?
            .around(at, now.saturating_sub(at))?;
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
        let effects = self.log.on(&mut self.changes, event, Time(monotonic_ns()));
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Effects) {
        for effect in effects {
            match effect {
                Effect::Order(machine, order) => {
                    if !self.actuation.order(&order) {
                        self.change(Event::NoRoom(machine, order));
                    }
                }
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
                // `leave` waits for the actuator, and says the last words.
                Effect::Finish | Effect::LastWords(_) => {}
            }
        }
    }

    pub(super) fn resolver(&self) -> Resolver<'_> {
        Resolver {
            target: &self.target,
            processes: &self.measuring.profile.processes,
            start: &self.start,
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

    /// A process that has ended or runs another program needs nothing any more of what was decided for it, and holds nothing.
    pub(super) fn look_whether_ended(&mut self, process: Process) {
        if self.target.has_ended(process.slot) {
            self.change(Event::Ended(process));
        }
    }
}

/// The time of day (UTC, as in the journal), for lines that stay on the screen.
pub(super) fn time_of_day() -> String {
    let now = tuner::clock::now().wall;
    // RFC 3339: the time stands between T and the fraction.
    now.split(['T', '.']).nth(1).unwrap_or(&now).to_owned()
}
