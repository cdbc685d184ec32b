//! Acting: what the rules decide goes to the actuator, what it answers goes back to the rules and into the ledger.

use std::{collections::BTreeSet, time::Duration};

use tuner::{
    action::{ActionOutcome, ActionReceipt},
    actuator::{ClientError, RefusalKind},
    journal::{Outcome, RevertOutcome},
    process::Pid,
    sync::SyncPlace,
    value::Value,
};

use super::{
    Session,
    hands::{Done, Order, Receipt},
    ledger::{Carried, IN_FORCE, KEPT, NotDone, REVERTED, THERE, WRITTEN},
    orders::{Ordered, Part, file_name},
};
use crate::{
    actuator::{hold_text, passage_text},
    clock::monotonic_ns,
    discover::Member,
    format::plural,
    rulebook::{Act, Decision, Deed, Switch},
    snapshot::{ChangeView, FindingView, GuardView, Reaction},
};

/// So many decisions are carried out in one session: each is remembered to the end, for it may have to be taken back.
const DECISIONS_MAX: usize = 100_000;

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
    fn reaction(&self, (from, to): (u64, u64), done_ns: u64) -> Reaction {
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

/// What is said of changes that a session without probes would make.
const UNJUDGED: &str =
    "nobody judges it where there are no probes, and it is put back when that session ends";

/// And of those that a session which may write does not make.
const UNNAMED: &str =
    "it is not done here: rules that change code or load libraries apply when they are named";

impl Session {
    /// Closes windows that are over and does what the rules say.
    pub(super) fn evaluate(&mut self) {
        let begun_ns = monotonic_ns();
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

    /// Where the copies are that a rule would write, for each variable that has several in a process.
    fn copies_in(&self, rule: &str) -> Vec<String> {
        let copies = |variable: String| {
            let of = |member: &Member| member.copies_at_start(&variable);
            let paths: BTreeSet<String> = self.job.members.iter().flat_map(of).collect();
            let files: Vec<&str> = paths.iter().map(|path| file_name(path)).collect();
            (files.len() > 1).then(|| format!("{variable} is in {}", files.join(" and in ")))
        };
        let variables = self.rules.written_everywhere(rule).into_iter();
        variables.filter_map(copies).collect()
    }

    fn found(&mut self, rule: String, text: String, next_start: Option<String>, is_new: bool) {
        if is_new {
            self.painter.say(&format!("finding  {rule}   {text}"));
        }
        let mut effects = self.rules.effects(&rule);
        effects.extend(self.copies_in(&rule));
        let must_name = self.rules.never_applying().contains(&rule);
        // One that has to be named does not act in a session that applies the others either.
        let advises = !self.options.applies || must_name;
        let now = (advises && !effects.is_empty()).then(|| self.how_it_would_act(&rule, must_name, effects));
        self.ledger.open_finding(FindingView {
            rule,
            text,
            now,
            next_start,
            repaired: false,
        });
    }

    /// The command with which a rule would act, and what it would do then.
    fn how_it_would_act(&self, rule: &str, must_name: bool, effects: Vec<String>) -> String {
        let named = if must_name {
            format!("={rule}")
        } else {
            String::new()
        };
        let attach = format!("attach {} --apply{named}", self.options.typed);
        // Who has no probes now has what it takes for the rules that do without, and nothing of theirs could be kept.
        let (command, unjudged) = match self.probes.kernel() {
            Some(_) => (crate::commands::as_root(&format!("{attach} --keep")), None),
            None => (crate::commands::as_we_are(&attach), Some(UNJUDGED.to_owned())),
        };
        let unnamed = self.options.applies.then(|| UNNAMED.to_owned());
        let lines = std::iter::once(command).chain(effects);
        lines
            .chain(unjudged)
            .chain(unnamed)
            .collect::<Vec<_>>()
            .join("\n")
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
            let undone = before
                .into_iter()
                .try_for_each(|(pid, change)| hands.order(Order::Undo(pid, change)));
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

    /// An answer of the actuator.
    pub(super) fn receive(&mut self, receipt: Receipt) {
        match receipt {
            Receipt::Done {
                decision,
                part,
                result,
            } => self.receive_done(decision, part, result.map(|done| *done)),
            Receipt::Confirmed(pid, change, Err(error)) => {
                tracing::warn!(%error, %pid, change, "a change could not be confirmed and will be put back at the end");
            }
            Receipt::Confirmed(_, _, Ok(())) => {}
            Receipt::Undone(pid, change, result) => {
                let outcome = match result.map(|undone| undone.outcome) {
                    Ok(RevertOutcome::Reverted) => self.is_back((pid, change), REVERTED),
                    Ok(RevertOutcome::ChangedSince(_)) => {
                        self.is_back((pid, change), "left alone: the program changed it since")
                    }
                    Ok(RevertOutcome::Failed(reason)) => self.is_not_back((pid, change), &reason, true),
                    Err(error) => self.is_not_back((pid, change), &error.to_string(), may_pass(&error)),
                };
                self.ledger.set_outcome(pid, change, &outcome);
            }
        }
    }

    fn receive_done(&mut self, decision: u64, part: usize, result: Result<Done, ClientError>) {
        let Some(known) = self.decisions.get(&decision) else {
            return;
        };
        let Some(part) = known.parts.get(part).cloned() else {
            return;
        };
        let Part {
            pid, mut view, slot, ..
        } = part;
        let meeting = known.decision.together.as_ref();
        let is_together = meeting.is_some();
        let at = known.decision.at.as_deref();
        let at = at.or(meeting.map(|meeting| meeting.place.as_str()));
        let at = at.and_then(|place| place.parse().ok());
        let may_pass = result.as_ref().is_err_and(may_pass);
        let is_done = match result {
            Ok(Done::Set(receipt)) => {
                let path = known.path.zip(known.decision.window_ns);
                view.reaction = path.map(|(path, window_ns)| path.reaction(window_ns, receipt.done_ns));
                show_set(&mut view, at.as_ref(), &receipt)
            }
            Ok(Done::Acted(receipt)) => {
                show_act(&mut view, at.as_ref(), &receipt);
                true
            }
            Err(error) => {
                view.outcome = error.to_string();
                false
            }
        };
        let carried = match is_done {
            true => self.ledger.written(decision, pid, view),
            // Together it is all of them or none.
            false if !is_together && self.has_gone(pid, slot) => self.ledger.gone(decision, view, pid),
            false => self.ledger.refused(decision, view, pid, may_pass),
        };
        self.carried(decision, carried);
    }

    /// The process has ended or runs another program: it needs nothing any more of what was decided for it.
    fn has_gone(&self, pid: Pid, slot: u32) -> bool {
        let member = self.job.members.get(slot as usize);
        !pid.is_alive() || member.is_some_and(|member| member.space.is_gone())
    }

    /// Every process has answered: tell the rules, and put back what a refused decision has written.
    pub(super) fn carried(&mut self, decision: u64, carried: Option<Carried>) {
        let Some(carried) = carried else { return };
        let written = self.ledger.of_decision(decision);
        let known = self.decisions.get(&decision);
        let (rule, promise) = known
            .map(|known| (known.decision.rule.clone(), known.decision.expect.clone()))
            .unwrap_or_default();
        match carried {
            Carried::Out => {
                let promise = promise.map_or_else(String::new, |expect| format!(", promised {expect}"));
                let text = format!("{}{promise}", self.done_text(decision, written.len()));
                self.painter.say(&format!("{}  {rule}   {text}", time_of_day()));
                if !self.rules.receipt(decision, Ok(()), monotonic_ns()) {
                    self.painter.say(&format!(
                        "{}  {rule}   too late for its window: undone",
                        time_of_day()
                    ));
                    self.order_each(written, Order::Undo);
                }
            }
            Carried::Refused(why) => {
                let text = format!("{}  {rule}   not done: {}", time_of_day(), why.reason);
                // What was given up nobody waits for.
                if self.rules.receipt(decision, Err(why), monotonic_ns()) {
                    self.painter.say(&text);
                }
                self.order_each(written, Order::Undo);
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
        if guard.verdict != KEPT {
            for call in self.ledger.calls_of(decision) {
                self.painter.say(&format!(
                    "{}  {rule}   {call} cannot be taken back",
                    time_of_day()
                ));
            }
        }
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
        let outcome = outcome.map_err(NotDone::for_good);
        self.rules.receipt(decision.id, outcome, monotonic_ns());
        let (id, parts) = (decision.id, Vec::new());
        self.decisions.insert(id, Ordered::new(decision, parts));
    }

    /// What is counted up to now belongs to the state before.
    fn switch_probes(&mut self, switches: &[Switch]) -> Result<(), String> {
        let in_words = |error: crate::kernel::KernelError| error.to_string();
        self.take_all_hits().map_err(in_words)?;
        self.read().map_err(in_words)?;
        self.rules.switch_probes(switches);
        let living = self.processes.iter().filter(|process| process.is_watched());
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
            .map(|known| known.decision.switches.as_slice());
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

    pub(super) fn order_each(&mut self, changes: Vec<(Pid, u64)>, order: impl Fn(Pid, u64) -> Order) {
        let Some(hands) = &self.hands else { return };
        for (pid, change) in changes {
            if hands.order(order(pid, change)).is_err() {
                // What is neither confirmed nor undone now is put back at the end.
                tracing::warn!(%pid, change, "too many orders wait");
            }
        }
    }

    /// What was done, in one line for all processes.
    fn done_text(&self, decision: u64, written: usize) -> String {
        let known = self.decisions.get(&decision);
        let first = known.and_then(|known| known.decision.changes.first());
        match (known, first.map(|change| &change.deed)) {
            (None, _) | (_, None | Some(Deed::Write(_))) => {
                format!("{} written and read back", plural(written, "change"))
            }
            (Some(known), Some(_)) => switched(&known.decision.asked),
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

/// Somebody is in the way, or the machine has failed: later it may be otherwise.
fn may_pass(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if matches!(refusal.kind, RefusalKind::Busy | RefusalKind::Failed))
}

/// What a set did; false when the value is not there.
fn show_set(view: &mut ChangeView, at: Option<&SyncPlace>, receipt: &tuner::writer::Receipt) -> bool {
    let show =
        |bytes| Value::from_bytes(receipt.value_type, bytes).map_or_else(|_| "?".into(), |v| v.to_string());
    view.number = receipt.change.unwrap_or(0);
    view.old = show(receipt.old);
    view.new = show(receipt.new);
    view.mechanism = match (at, &receipt.passage) {
        (Some(place), Some(passage)) => passage_text(place, receipt.mechanism, passage),
        _ => "plain write".into(),
    };
    view.hold_ns = receipt.hold_ns;
    view.outcome = match (&receipt.outcome, receipt.change) {
        (Outcome::Applied, Some(_)) => WRITTEN.into(),
        (Outcome::Applied, None) => THERE.into(),
        (Outcome::NotWritten(reason), _) => format!("not written: {reason}"),
        (Outcome::Overwritten(_), _) => "the program wrote it at the same time".into(),
    };
    matches!(receipt.outcome, Outcome::Applied)
}

/// What an action did.
fn show_act(view: &mut ChangeView, at: Option<&SyncPlace>, receipt: &ActionReceipt) {
    view.number = receipt.change;
    view.variable.clone_from(&receipt.text);
    view.mechanism = match (at, &receipt.passage) {
        (Some(place), Some(passage)) => passage_text(place, receipt.mechanism, passage),
        _ => hold_text(receipt.mechanism, receipt.hold_ns),
    };
    view.hold_ns = receipt.hold_ns;
    view.outcome = match &receipt.outcome {
        ActionOutcome::InForce => IN_FORCE.into(),
        ActionOutcome::Returned { result, .. } => {
            view.new.clone_from(result);
            format!("returned {result}; a call cannot be taken back")
        }
        ActionOutcome::Running => "has not returned yet, and goes on; the journal tells later".into(),
    };
}

/// What was switched, in one line for all processes.
fn switched(asked: &[String]) -> String {
    let what = asked.first().map_or("", String::as_str);
    let what = what.split(" in process").next().unwrap_or(what);
    format!("{what}: done in {}", plural(asked.len(), "process"))
}

/// The time of day (UTC, as in the journal), for lines that stay on the screen.
pub(super) fn time_of_day() -> String {
    let now = tuner::clock::now().wall;
    // RFC 3339: the time stands between T and the fraction.
    now.split(['T', '.']).nth(1).unwrap_or(&now).to_owned()
}
