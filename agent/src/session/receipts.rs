//! Converts answers of the actuator for the changes. Decides nothing.

use plan::{SyncPoint, Value};
use profile::error::ErrorText;
use tuner::actuator::{self, ActuatorRefusalKind, ChangeNumber, ClientError, Refusal};
use tuner::journal::{self, RevertOutcome};
use tuner::{ActionOutcome, ActionReceipt};

use super::{
    actuation::here,
    actuator_queue::Done,
    changes::{ChangeOutcome, MachineReverts, NotDone, NotTried, OrderAnswer, RevertResult, ShownChange},
    leave::ActuatorEnd,
    orders::{Ordered, ProcessWork, pid_here},
};
use crate::actuator::{hold_text, passage_text};

/// The result of a part of a decision.
pub(super) fn answer(ordered: &Ordered, part: usize, result: Result<Done, ClientError>) -> OrderAnswer {
    let at = ordered.at(part);
    match result {
        Ok(Done::Set(receipt)) => {
            let mut answer = answer_of_set(at, &receipt);
            if let Some(shown) = &mut answer.shown {
                shown.reaction = ordered.reaction(receipt.done_ns);
            }
            answer
        }
        Ok(Done::Acted(receipt)) => answer_of_act(at, &receipt, ordered.work(part)),
        Err(ClientError::Refused(Refusal {
            kind: ActuatorRefusalKind::NotReached,
            message,
        })) => OrderAnswer {
            outcome: ChangeOutcome::NotReached(message),
            may_pass: true,
            shown: None,
        },
        Err(error) if may_pass(&error) => OrderAnswer::not_done(NotDone::for_now(error.to_string())),
        Err(error) => OrderAnswer::not_done(NotDone::for_good(error.to_string())),
    }
}

/// Whether a retry may succeed: another writer is active, or the machine has failed.
fn may_pass(error: &ClientError) -> bool {
    use ActuatorRefusalKind::{Busy, Failed, NotReached};
    matches!(error, ClientError::Refused(refusal) if matches!(refusal.kind, Busy | Failed | NotReached))
}

pub(super) fn revert(result: Result<tuner::RevertReceipt, ClientError>) -> RevertResult {
    match result {
        Ok(reverted) => result_of(reverted.outcome),
        Err(error) => RevertResult::Failed {
            reason: error.to_string(),
            may_pass: may_pass(&error),
        },
    }
}

pub(super) fn result_of(outcome: RevertOutcome) -> RevertResult {
    match outcome {
        RevertOutcome::Reverted => RevertResult::Reverted,
        RevertOutcome::ChangedSince(_) => RevertResult::ChangedSince,
        RevertOutcome::Failed(reason) => RevertResult::Failed {
            reason,
            may_pass: true,
        },
    }
}

/// The result of a set.
fn answer_of_set(at: Option<&SyncPoint>, receipt: &tuner::Receipt) -> OrderAnswer {
    let show =
        |bytes| Value::from_bytes(receipt.value_type, bytes).map_or_else(|_| "?".into(), |v| v.to_string());
    let shown = ShownChange {
        number: receipt.change.unwrap_or(0),
        old: Some(show(receipt.old)),
        new: Some(show(receipt.new)),
        mechanism: match (at, &receipt.passage) {
            (Some(place), Some(passage)) => {
                let is_written = !matches!(receipt.outcome, journal::Outcome::NotWritten(_));
                passage_text(place, receipt.mechanism, passage, is_written)
            }
            _ => "plain write".into(),
        },
        hold_ns: receipt.hold_ns,
        ..ShownChange::default()
    };
    let outcome = match (&receipt.outcome, receipt.change) {
        (journal::Outcome::Applied, Some(_)) => ChangeOutcome::Written,
        (journal::Outcome::Applied, None) => ChangeOutcome::AlreadyThere,
        (journal::Outcome::NotWritten(reason), _) => ChangeOutcome::Refused(format!("not written: {reason}")),
        (journal::Outcome::Overwritten(_), _) => {
            ChangeOutcome::Refused("the program wrote it at the same time".into())
        }
    };
    OrderAnswer {
        outcome,
        may_pass: false,
        shown: Some(Box::new(shown)),
    }
}

/// The result of an action. For a call without an inverse, the rule may state that nothing needs to be
/// reverted.
fn answer_of_act(at: Option<&SyncPoint>, receipt: &ActionReceipt, work: Option<&ProcessWork>) -> OrderAnswer {
    let mut shown = ShownChange {
        number: receipt.change,
        variable: Some(receipt.text.clone()),
        mechanism: match (at, &receipt.passage) {
            (Some(place), Some(passage)) => passage_text(place, receipt.mechanism, passage, true),
            _ => hold_text(receipt.mechanism, receipt.hold_ns),
        },
        hold_ns: receipt.hold_ns,
        ..ShownChange::default()
    };
    let outcome = match &receipt.outcome {
        ActionOutcome::InForce => ChangeOutcome::InForce,
        ActionOutcome::Returned {
            result, was, back, ..
        } => {
            shown.new = Some(result.clone());
            shown.old = Some(was.clone().unwrap_or_default());
            let needless = work.and_then(|work| work.needless_where.as_ref());
            let is_there = needless.is_some() && needless == was.as_ref();
            let leaves_nothing = work.is_some_and(|work| work.leaves_nothing);
            match (back, leaves_nothing) {
                (Some(_), _) if is_there => ChangeOutcome::AlreadyThere,
                (Some(_), _) => ChangeOutcome::InForce,
                (None, true) => ChangeOutcome::Over(result.clone()),
                (None, false) => ChangeOutcome::Stays(result.clone()),
            }
        }
        ActionOutcome::Running => ChangeOutcome::Running,
    };
    OrderAnswer {
        outcome,
        may_pass: false,
        shown: Some(Box::new(shown)),
    }
}

/// The reverts of an actuator at its end.
pub(super) fn actuator_end(summary: &actuator::RevertSummary) -> ActuatorEnd {
    let of = |number: &ChangeNumber| here(number.pid, number.change);
    let reverted = summary.reverted.iter();
    let reverted: Vec<_> = reverted
        .map(|(pid, reverted)| (here(*pid, reverted.change), result_of(reverted.outcome.clone())))
        .collect();
    // The changes in an ended process are gone.
    let has_ended = |refusal: &Refusal| refusal.kind == ActuatorRefusalKind::Ended;
    let refusals = summary.failed.iter().map(|(_, refusal)| refusal);
    let mut refusals = refusals.chain(summary.refused.iter().map(|(_, refusal)| refusal));
    let is_failed = |(_, result): &(_, RevertResult)| matches!(result, RevertResult::Failed { .. });
    let failed = summary.failed.iter();
    let refused = summary.refused.iter();
    ActuatorEnd {
        has_failed: reverted.iter().any(is_failed) || refusals.any(|refusal| !has_ended(refusal)),
        refused: refused
            .map(|(pid, refusal)| (pid_here(*pid), refusal.to_string()))
            .collect(),
        reverts: MachineReverts {
            reverted,
            failed: failed
                .map(|(number, refusal)| NotTried {
                    change: of(number),
                    why: ErrorText::of(refusal),
                    has_ended: has_ended(refusal),
                })
                .collect(),
            kept: summary.kept.iter().map(of).collect(),
        },
    }
}

#[cfg(test)]
mod tests;
