//! The thread that communicates with the actuator: carries out orders one by one and reports the result of
//! each. A change at a sync point is armed here, and its receipt is collected after the program has reached
//! it.

use crate::rulebook::DecisionId;
use std::{
    collections::BTreeMap,
    sync::{
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use tokio::sync::mpsc;
use tuner::actuator::{
    ActuatorClient, ActuatorRefusalKind, ArmActCommand, ArmCommand, ChangeNumber, ClientError, Collected,
    Refusal, RevertSummary, TogetherCommand,
};

use super::{Done, OrderReceipt, ProcessTask, QueuedOrder, Shared, SyncWait};
use crate::actuator::Actuator;

/// The interval for checking whether sync points were reached, while there are any. The probe stays until
/// then.
const COLLECT_EVERY: Duration = Duration::from_millis(5);

pub(super) fn serve(
    shared: &Shared,
    orders: &Receiver<QueuedOrder>,
    receipts: &mpsc::Sender<OrderReceipt>,
) -> Result<RevertSummary, ClientError> {
    // If the receiver is gone, the orders are still carried out.
    let report = |receipt| drop(receipts.blocking_send(receipt));
    let mut waiting = BTreeMap::new();
    loop {
        let order = match waiting.is_empty() {
            true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => orders.recv_timeout(COLLECT_EVERY),
        };
        let mut talk = shared.talk();
        // An order that has bypassed the queue is older than those in it.
        let mut receipts: Vec<OrderReceipt> = talk.take_receipt().into_iter().collect();
        let taken = receipts.len();
        let Some(actuator) = talk.actuator.as_mut() else {
            return Err(ClientError::Ended);
        };
        let is_order = order
            .as_ref()
            .is_ok_and(|order| !matches!(order, QueuedOrder::TakeReceipt));
        let is_over = matches!(order, Err(RecvTimeoutError::Disconnected));
        match order {
            Ok(order) => receipts.extend(carry_out(actuator, order, &mut waiting)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                cancel(&mut actuator.client, waiting.keys());
            }
        }
        if !waiting.is_empty() {
            receipts.extend(collect(actuator, &mut waiting));
        }
        let ended = is_over.then(|| talk.actuator.take()).flatten();
        drop(talk);
        shared
            .under_way
            .fetch_sub(taken + usize::from(is_order), Ordering::AcqRel);
        receipts.into_iter().for_each(report);
        if let Some(actuator) = ended {
            return actuator.finish();
        }
    }
}

/// Changes that wait for sync points: decision and part by ticket.
type PendingParts = BTreeMap<u64, (DecisionId, usize)>;

/// Returns a receipt for each process if the command was refused; otherwise they come later.
fn arm_together(
    client: &mut ActuatorClient,
    decision: DecisionId,
    parts: usize,
    command: TogetherCommand,
    waiting: &mut PendingParts,
) -> Vec<OrderReceipt> {
    match client.together(command) {
        Ok(tickets) => {
            let parts = (0..parts).map(|part| (decision, part));
            waiting.extend(tickets.into_iter().zip(parts));
            Vec::new()
        }
        Err(error) => {
            let reason = error.to_string();
            let refused = |part| OrderReceipt::Done {
                decision,
                part,
                result: Err(ClientError::Refused(Refusal {
                    kind: ActuatorRefusalKind::Refused,
                    message: reason.clone(),
                })),
            };
            (0..parts).map(refused).collect()
        }
    }
}

/// Cancels waiting changes. Their receipts are collected like all others.
fn cancel<'a>(client: &mut ActuatorClient, tickets: impl Iterator<Item = &'a u64>) {
    for ticket in tickets {
        // If this fails, the actuator is gone, and so are the waiting changes.
        let _ = client.disarm(*ticket);
    }
}

/// Begins to wait for the place of a change.
fn arm(client: &mut ActuatorClient, task: ProcessTask, wait: SyncWait) -> Result<u64, ClientError> {
    let within_ms = wait.within.as_millis() as u64;
    match task {
        ProcessTask::Set(set) => client.arm(ArmCommand {
            set: *set,
            at: wait.point,
            within_ms,
            answer_ns_max: None,
            by_stop: false,
        }),
        ProcessTask::Act(act) => client.arm_act(ArmActCommand {
            act: *act,
            at: wait.point,
            within_ms,
            answer_ns_max: None,
        }),
    }
}

/// Returns the receipts, except those that come later.
fn carry_out(actuator: &mut Actuator, order: QueuedOrder, waiting: &mut PendingParts) -> Vec<OrderReceipt> {
    let client = &mut actuator.client;
    let (decision, part, result) = match order {
        QueuedOrder::Do {
            decision,
            part,
            task,
            at: None,
        } => {
            let done = match task {
                ProcessTask::Set(command) => client.set(*command).map(Done::Set),
                ProcessTask::Act(command) => client.act(*command).map(Done::Acted),
            };
            (decision, part, done)
        }
        QueuedOrder::Do {
            decision,
            part,
            task,
            at: Some(wait),
        } => match arm(client, task, wait) {
            Ok(ticket) => {
                waiting.insert(ticket, (decision, part));
                return Vec::new();
            }
            Err(error) => (decision, part, Err(error)),
        },
        QueuedOrder::Together {
            decision,
            parts,
            command,
        } => return arm_together(client, decision, parts, *command, waiting),
        QueuedOrder::LookUp(command) => {
            // An error will be reported when the variable is written.
            let _ = client.get(*command);
            return Vec::new();
        }
        QueuedOrder::GiveUp(decision) => {
            cancel(
                client,
                waiting
                    .iter()
                    .filter(|(_, (of, _))| *of == decision)
                    .map(|(ticket, _)| ticket),
            );
            return Vec::new();
        }
        // It has been taken above.
        QueuedOrder::TakeReceipt => return Vec::new(),
        QueuedOrder::Confirm(pid, change) => {
            return vec![OrderReceipt::Confirmed(pid, change, client.confirm(pid, change))];
        }
        QueuedOrder::Revert(changes) => return revert(client, &changes),
    };
    vec![OrderReceipt::Done {
        decision,
        part,
        result: result.map(Box::new),
    }]
}

fn revert(client: &mut ActuatorClient, changes: &[ChangeNumber]) -> Vec<OrderReceipt> {
    // Skipped reverts in processes that were forked meanwhile are reported at the end of the session.
    let (results, _) = client.revert_each(changes);
    let receipts = changes.iter().zip(results);
    receipts
        .map(|(number, result)| OrderReceipt::Reverted(number.pid, number.change, result))
        .collect()
}

/// The receipts of changes that have reached their sync points, or never will.
fn collect(actuator: &mut Actuator, waiting: &mut PendingParts) -> Vec<OrderReceipt> {
    let Collected { finished, acted, .. } = match actuator.client.collect() {
        Ok(collected) => collected,
        // The actuator is gone, and reverts what it has begun.
        Err(error) => {
            tracing::warn!(%error, "the changes that waited for their sync points are lost");
            let lost = std::mem::take(waiting).into_values();
            return lost
                .map(|(decision, part)| OrderReceipt::Done {
                    decision,
                    part,
                    result: Err(ClientError::Ended),
                })
                .collect();
        }
    };
    let set = finished
        .into_iter()
        .map(|(ticket, result)| (ticket, result.map(Done::Set)));
    let acted = acted
        .into_iter()
        .map(|(ticket, result)| (ticket, result.map(Done::Acted)));
    let receipt = |(ticket, result): (u64, Result<Done, _>)| {
        let (decision, part) = waiting.remove(&ticket)?;
        Some(OrderReceipt::Done {
            decision,
            part,
            result: result.map(Box::new).map_err(ClientError::Refused),
        })
    };
    set.chain(acted).filter_map(receipt).collect()
}
