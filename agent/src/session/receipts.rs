//! What the actuator answers: into the ledger, to the rules, and onto the screen. Orders only that what a refused decision has written is put
//! back.

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
    act::time_of_day,
    hands::{Done, Receipt},
    ledger::Carried,
    orders::Part,
    standing::Standing,
    switching::switched,
};
use crate::{
    actuator::{hold_text, passage_text},
    clock::monotonic_ns,
    format::plural,
    rulebook::Deed,
    snapshot::{
        ChangeView,
        outcome::{IN_FORCE, LEFT_ALONE, REVERTED, THERE, WRITTEN},
    },
};

impl Session {
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
                let made = (pid, change);
                let (failed, outcome, standing) = match result.map(|undone| undone.outcome) {
                    Ok(RevertOutcome::Reverted) => (None, self.is_back(made, REVERTED), Standing::Back),
                    Ok(RevertOutcome::ChangedSince(_)) => (
                        Some("the program changed it since".to_owned()),
                        self.is_back(made, LEFT_ALONE),
                        Standing::LeftAlone,
                    ),
                    Ok(RevertOutcome::Failed(reason)) => self.not_undone(made, reason, true),
                    Err(error) => {
                        let may_pass = may_pass(&error);
                        self.not_undone(made, error.to_string(), may_pass)
                    }
                };
                self.ledger.set_outcome(pid, change, &outcome, standing);
                if let Some(text) = self.ledger.heard_of_undo(made, failed.as_deref()) {
                    self.say_of_guard(&text);
                }
            }
        }
    }

    /// It stays in force; what will not pass is not tried again.
    fn not_undone(
        &mut self,
        made: (Pid, u64),
        reason: String,
        may_pass: bool,
    ) -> (Option<String>, String, Standing) {
        let outcome = self.is_not_back(made, &reason, may_pass);
        (Some(reason), outcome, Standing::NotBack)
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
        } = part.clone();
        let meeting = known.decision.together.as_ref();
        let is_together = meeting.is_some();
        let at = known.decision.at.as_deref();
        let at = at.or(meeting.map(|meeting| meeting.place.as_str()));
        let at = at.and_then(|place| place.parse().ok());
        let leaves_nothing = part.leaves_nothing;
        let may_pass = result.as_ref().is_err_and(may_pass);
        let done = match result {
            Ok(Done::Set(receipt)) => {
                let path = known.path.zip(known.decision.window_ns);
                view.reaction = path.map(|(path, window_ns)| path.reaction(window_ns, receipt.done_ns));
                show_set(&mut view, at.as_ref(), &receipt)
            }
            Ok(Done::Acted(receipt)) => Some(show_act(&mut view, at.as_ref(), &receipt, leaves_nothing)),
            Err(error) => {
                view.outcome = error.to_string();
                None
            }
        };
        let carried = match done {
            Some(standing) => self.ledger.written(decision, pid, view, standing),
            // Together it is all of them or none.
            None if !is_together && self.has_gone(pid, slot) => self.ledger.gone(decision, view, pid),
            None => self.ledger.refused(decision, view, pid, may_pass),
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
                self.mark("change", &rule, &text);
                if !self.rules.receipt(decision, Ok(()), monotonic_ns()) {
                    self.painter.say(&format!(
                        "{}  {rule}   too late for its window: undone",
                        time_of_day()
                    ));
                    self.order_undo(written);
                }
            }
            Carried::Refused(why) => {
                let text = format!("{}  {rule}   not done: {}", time_of_day(), why.reason);
                // What was given up nobody waits for.
                if self.rules.receipt(decision, Err(why), monotonic_ns()) {
                    self.painter.say(&text);
                }
                self.order_undo(written);
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

/// Somebody is in the way, or the machine has failed: later it may be otherwise.
fn may_pass(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if matches!(refusal.kind, RefusalKind::Busy | RefusalKind::Failed))
}

/// What a set did; none when the value is not there.
fn show_set(
    view: &mut ChangeView,
    at: Option<&SyncPlace>,
    receipt: &tuner::writer::Receipt,
) -> Option<Standing> {
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
    match (&receipt.outcome, receipt.change) {
        (Outcome::Applied, Some(_)) => Some(Standing::InForce),
        (Outcome::Applied, None) => Some(Standing::NotMade),
        _ => None,
    }
}

/// What an action did. Of a call without an inverse the rule may say that nothing is left to be taken back.
fn show_act(
    view: &mut ChangeView,
    at: Option<&SyncPlace>,
    receipt: &ActionReceipt,
    leaves_nothing: bool,
) -> Standing {
    view.number = receipt.change;
    view.variable.clone_from(&receipt.text);
    view.mechanism = match (at, &receipt.passage) {
        (Some(place), Some(passage)) => passage_text(place, receipt.mechanism, passage),
        _ => hold_text(receipt.mechanism, receipt.hold_ns),
    };
    view.hold_ns = receipt.hold_ns;
    let (outcome, standing) = match &receipt.outcome {
        ActionOutcome::InForce => (IN_FORCE.into(), Standing::InForce),
        ActionOutcome::Returned {
            result, was, back, ..
        } => {
            view.new.clone_from(result);
            view.old = was.clone().unwrap_or_default();
            match (back, leaves_nothing) {
                (Some(_), _) => (IN_FORCE.into(), Standing::InForce),
                (None, true) => (
                    format!("returned {result}; nothing is left to be taken back"),
                    Standing::Over,
                ),
                (None, false) => (
                    format!("returned {result}; it has no inverse and stays"),
                    Standing::Stays,
                ),
            }
        }
        ActionOutcome::Running => (
            "has not returned yet, and goes on; the journal tells later".into(),
            Standing::Running,
        ),
    };
    view.outcome = outcome;
    standing
}
