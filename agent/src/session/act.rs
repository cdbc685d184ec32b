//! Acting: what the rules decide goes to the actuator, what it answers goes back to the rules and into the ledger.

use std::collections::BTreeSet;

use tuner::{
    actuator::SetCommand,
    journal::{Outcome, RevertOutcome},
    process::Pid,
    sync::SyncPlace,
    value::{Value, ValueType},
};

use super::{
    Session,
    hands::{Order, Receipt},
    ledger::{Carried, KEPT, REVERTED, WRITTEN},
};
use crate::{
    actuator::passage_text,
    clock::monotonic_ns,
    format::plural,
    rulebook::{Act, Decision, Switch, Write},
    snapshot::{ChangeView, FindingView, GuardView, Reaction},
};

/// When a decision passed where, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    window_ns: (u64, u64),
    begun_ns: u64,
    evaluated_ns: u64,
    ordered_ns: u64,
}

impl Path {
    fn until(&self, done_ns: u64) -> Reaction {
        let (from, to) = self.window_ns;
        Reaction {
            window_ns: to.saturating_sub(from),
            update_ns: self.begun_ns.saturating_sub(to),
            evaluate_ns: self.evaluated_ns.saturating_sub(self.begun_ns),
            order_ns: self.ordered_ns.saturating_sub(self.evaluated_ns),
            write_ns: done_ns.saturating_sub(self.ordered_ns),
        }
    }
}

impl Session {
    /// Closes windows that are over and does what the rules say.
    pub(super) fn evaluate(&mut self) {
        let begun_ns = monotonic_ns();
        let acts = self.rules.tick(begun_ns);
        let evaluated_ns = monotonic_ns();
        for act in acts {
            match act {
                Act::Decided(decision) => {
                    let id = decision.id;
                    let window_ns = decision.window_ns;
                    self.carry_out(decision);
                    if let (Some(window_ns), true) = (window_ns, self.decisions.contains_key(&id)) {
                        let path = Path {
                            window_ns,
                            begun_ns,
                            evaluated_ns,
                            ordered_ns: monotonic_ns(),
                        };
                        self.paths.insert(id, path);
                    }
                }
                other => self.take_note_of(other),
            }
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

    fn found(&mut self, rule: String, text: String, next_start: Option<String>, is_new: bool) {
        if is_new && !self.painter.is_screen() {
            self.painter.say(&format!("finding  {rule}   {text}"));
        }
        let effects = self.rules.effects(&rule);
        let now = (!self.options.applies && !effects.is_empty()).then(|| {
            let must_name = self.rules.never_applying().contains(&rule);
            let named = if must_name {
                format!("={rule}")
            } else {
                String::new()
            };
            let command =
                crate::commands::with_sudo(&format!("attach {} --apply{named} --keep", self.options.typed));
            std::iter::once(command)
                .chain(effects)
                .collect::<Vec<_>>()
                .join("\n")
        });
        self.ledger.open_finding(FindingView {
            rule,
            text,
            now,
            next_start,
            repaired: false,
        });
    }

    fn carry_out(&mut self, decision: Decision) {
        let Some(hands) = &self.hands else {
            self.rules.receipt(
                decision.id,
                Err("this session does not write".into()),
                monotonic_ns(),
            );
            return;
        };
        let at = decision.at.as_deref().map(str::parse::<SyncPlace>).transpose();
        let at = match (decision.refused.clone(), at) {
            (None, Ok(at)) => at,
            (refused, at) => {
                let reason = refused
                    .or_else(|| at.err().map(|error| error.to_string()))
                    .unwrap_or_default();
                let (time, rule) = (time_of_day(), &decision.rule);
                self.painter.say(&format!("{time}  {rule}   not done: {reason}"));
                self.rules.receipt(decision.id, Err(reason), monotonic_ns());
                return;
            }
        };
        if !decision.switches.is_empty() {
            return self.carry_out_switches(decision);
        }
        let target = |write: &Write| Some((self.pid_of(write.slot)?, write.clone()));
        let targets: Vec<(Pid, Write)> = decision.changes.iter().filter_map(target).collect();
        self.ledger.await_receipts(decision.id, targets.len());
        let mut refused = Vec::new();
        for (pid, write) in targets {
            let command = SetCommand {
                pid,
                variable: write.variable.clone(),
                module: None,
                value: write.value.clone(),
                value_type: write.is_boolean.then_some(ValueType::Bool),
                expect_old: None,
                why: decision.because.clone(),
                rule: Some(decision.rule.clone()),
            };
            let order = Order::Set {
                decision: decision.id,
                slot: write.slot,
                command: Box::new(command),
                at: at.clone(),
            };
            if hands.order(order).is_err() {
                refused.push((pid, write));
            }
        }
        for (pid, write) in refused {
            let outcome = "too many orders wait".into();
            let view = ChangeView {
                outcome,
                ..self.change_view(&decision.rule, pid, &write)
            };
            let carried = self.ledger.refused(decision.id, view, pid);
            self.carried(decision.id, carried);
        }
        self.decisions.insert(decision.id, decision);
    }

    /// An answer of the actuator.
    pub(super) fn receive(&mut self, receipt: Receipt) {
        match receipt {
            Receipt::Set {
                decision,
                slot,
                result,
            } => self.receive_set(decision, slot, result.map(|receipt| *receipt)),
            Receipt::Confirmed(pid, change, Err(error)) => {
                tracing::warn!(%error, %pid, change, "a change could not be confirmed and will be put back at the end");
            }
            Receipt::Confirmed(_, _, Ok(())) => {}
            Receipt::Undone(pid, change, result) => {
                let outcome = match result.map(|undone| undone.outcome) {
                    Ok(RevertOutcome::Reverted) => REVERTED.to_owned(),
                    Ok(RevertOutcome::ChangedSince(_)) => {
                        "left alone: the program changed it since".to_owned()
                    }
                    Ok(RevertOutcome::Failed(reason)) => format!("not put back: {reason}"),
                    Err(error) => format!("not put back: {error}"),
                };
                self.ledger.set_outcome(pid, change, &outcome);
            }
        }
    }

    fn receive_set(
        &mut self,
        decision: u64,
        slot: u32,
        result: Result<tuner::writer::Receipt, tuner::actuator::ClientError>,
    ) {
        let Some(known) = self.decisions.get(&decision) else {
            return;
        };
        let Some(write) = known.changes.iter().find(|write| write.slot == slot) else {
            return;
        };
        let Some(pid) = self.pid_of(slot) else { return };
        let mut view = self.change_view(&known.rule, pid, write);
        let carried = match result {
            Ok(receipt) => {
                let show = |bytes| {
                    Value::from_bytes(receipt.value_type, bytes)
                        .map_or_else(|_| "?".into(), |v| v.to_string())
                };
                view.number = receipt.change.unwrap_or(0);
                view.old = show(receipt.old);
                view.new = show(receipt.new);
                let place = known.at.as_deref().and_then(|place| place.parse().ok());
                view.mechanism = match (place, &receipt.passage) {
                    (Some(place), Some(passage)) => passage_text(&place, receipt.mechanism, passage),
                    _ => "plain write".into(),
                };
                view.hold_ns = receipt.hold_ns;
                view.reaction = self.paths.get(&decision).map(|path| path.until(receipt.done_ns));
                view.outcome = match (&receipt.outcome, receipt.change) {
                    (Outcome::Applied, Some(_)) => WRITTEN.into(),
                    (Outcome::Applied, None) => "it was there already".into(),
                    (Outcome::NotWritten(reason), _) => format!("not written: {reason}"),
                    (Outcome::Overwritten(_), _) => "the program wrote it at the same time".into(),
                };
                match receipt.outcome {
                    Outcome::Applied => self.ledger.written(decision, pid, view),
                    Outcome::NotWritten(_) | Outcome::Overwritten(_) => {
                        self.ledger.refused(decision, view, pid)
                    }
                }
            }
            Err(error) => {
                view.outcome = error.to_string();
                self.ledger.refused(decision, view, pid)
            }
        };
        self.carried(decision, carried);
    }

    /// Every process has answered: tell the rules, and put back what a refused decision has written.
    fn carried(&mut self, decision: u64, carried: Option<Carried>) {
        let Some(carried) = carried else { return };
        self.paths.remove(&decision);
        let written = self.ledger.of_decision(decision);
        let rule = self
            .decisions
            .get(&decision)
            .map(|decision| decision.rule.clone())
            .unwrap_or_default();
        match carried {
            Carried::Out => {
                let text = format!("{} written and read back", plural(written.len(), "change"));
                self.painter.say(&format!("{}  {rule}   {text}", time_of_day()));
                if !self.rules.receipt(decision, Ok(()), monotonic_ns()) {
                    self.painter.say(&format!(
                        "{}  {rule}   too late for its window: undone",
                        time_of_day()
                    ));
                    self.order_each(written, Order::Undo);
                }
            }
            Carried::Refused(reason) => {
                self.painter
                    .say(&format!("{}  {rule}   not done: {reason}", time_of_day()));
                self.order_each(written, Order::Undo);
                self.rules.receipt(decision, Err(reason), monotonic_ns());
            }
        }
    }

    fn judged(&mut self, decision: u64, rule: &str, guard: GuardView, slots: Option<&BTreeSet<u32>>) {
        self.painter
            .say(&format!("{}  guard    {}", time_of_day(), guard.text));
        let mut changes = self.ledger.of_decision(decision);
        if let Some(slots) = slots {
            let pids: Vec<Pid> = slots.iter().filter_map(|slot| self.pid_of(*slot)).collect();
            changes.retain(|(pid, _)| pids.contains(pid));
        }
        self.ledger.judge(decision, rule, &guard);
        if guard.verdict == KEPT {
            self.order_each(changes, Order::Confirm);
        } else {
            self.order_each(changes, Order::Undo);
            self.switch_back(decision, slots);
        }
    }

    /// Probes are the session's own: nothing is written, and it is done at once.
    fn carry_out_switches(&mut self, decision: Decision) {
        let text = switched(&decision.asked);
        let outcome = self.switch_probes(&decision.switches);
        let said = outcome
            .as_ref()
            .map_or_else(|error| format!("not done: {error}"), |()| text);
        self.painter
            .say(&format!("{}  {}   {said}", time_of_day(), decision.rule));
        self.rules.receipt(decision.id, outcome, monotonic_ns());
        self.decisions.insert(decision.id, decision);
    }

    /// What is counted up to now belongs to the state before.
    fn switch_probes(&mut self, switches: &[Switch]) -> Result<(), String> {
        let in_words = |error: crate::kernel::KernelError| error.to_string();
        self.take_all_hits().map_err(in_words)?;
        self.read().map_err(in_words)?;
        self.rules.switch_probes(switches);
        let living = self.processes.iter().filter(|process| !process.ended);
        let members =
            living.filter_map(|process| Some((process.slot, self.job.members.get(process.slot as usize)?)));
        let members: Vec<_> = members.collect();
        for (want, on) in self.rules.switched() {
            self.probes.switch(want, on, &members).map_err(in_words)?;
        }
        self.read().map_err(in_words)
    }

    /// Puts switches back that a verdict takes back.
    fn switch_back(&mut self, decision: u64, slots: Option<&BTreeSet<u32>>) {
        let made = self
            .decisions
            .get(&decision)
            .map(|decision| decision.switches.as_slice());
        let back = Switch::back(made.unwrap_or_default(), slots);
        if back.is_empty() {
            return;
        }
        if let Err(error) = self.switch_probes(&back) {
            self.painter.say(&format!(
                "{}  probes could not be switched back: {error}",
                time_of_day()
            ));
        }
    }

    fn order_each(&mut self, changes: Vec<(Pid, u64)>, order: impl Fn(Pid, u64) -> Order) {
        let Some(hands) = &self.hands else { return };
        for (pid, change) in changes {
            if hands.order(order(pid, change)).is_err() {
                // What is neither confirmed nor undone now is put back at the end.
                tracing::warn!(%pid, change, "too many orders wait");
            }
        }
    }

    fn pid_of(&self, slot: u32) -> Option<Pid> {
        self.job
            .members
            .get(slot as usize)
            .map(|member| member.process.pid)
    }

    fn change_view(&self, rule: &str, pid: Pid, write: &Write) -> ChangeView {
        let rank = self
            .processes
            .iter()
            .find(|process| process.slot == write.slot)
            .and_then(|process| process.rank);
        ChangeView {
            rule: rule.to_owned(),
            pid: pid.number,
            rank,
            variable: write.variable.clone(),
            new: write.value.clone(),
            ..ChangeView::default()
        }
    }
}

/// What was switched, in one line for all processes.
fn switched(asked: &[String]) -> String {
    let what = asked.first().map_or("", String::as_str);
    let what = what.split(" in process").next().unwrap_or(what);
    format!("{what}: done in {}", plural(asked.len(), "process"))
}

/// The time of day (UTC, as in the journal), for lines that stay on the screen.
fn time_of_day() -> String {
    let now = tuner::clock::now().wall;
    // RFC 3339: the time stands between T and the fraction.
    now.split(['T', '.']).nth(1).unwrap_or(&now).to_owned()
}
