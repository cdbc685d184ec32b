//! What acts: the way to the actuator, and what was ordered there. Decides nothing.

use std::{collections::BTreeMap, time::Duration};

use tuner::{
    actuator::{ChangeNumber, SetWarmUp},
    process::Pid,
};

use super::{
    actuator_queue::{self, ActuatorQueue, OrderReceipt},
    changes::{ChangeEvent, ChangeId, Changes, MachineId, Order},
    orders::{Ordered, Path, pid_here, pid_of},
    receipts,
};
use crate::clock::monotonic_ns;

/// The way to the actuator.
#[derive(Default)]
pub(super) struct Actuation {
    /// None in a session that does not write.
    pub(super) queue: Option<ActuatorQueue>,
    /// What the actuator is to do for decisions that are not answered.
    pub(super) ordered: BTreeMap<u64, Ordered>,
}

impl Actuation {
    /// Orders are under way, or receipts were not read.
    pub(super) fn is_busy(&self) -> bool {
        self.queue.as_ref().is_some_and(ActuatorQueue::is_busy)
    }

    /// An order may come at once, perhaps this one: the actuator looks out for it for so long without sleeping.
    pub(super) fn expect(&self, look_out: Duration, like: Option<SetWarmUp>) {
        if let Some(queue) = &self.queue {
            queue.expect(monotonic_ns(), look_out, like);
        }
    }

    /// Passes an order on; false where there is no room for it.
    pub(super) fn order(&self, order: &Order) -> bool {
        match (&self.queue, self.actuator_orders(order)) {
            (Some(queue), Ok(orders)) => orders.into_iter().all(|order| queue.order(order).is_ok()),
            (None, _) => true,
            (_, Err(())) => false,
        }
    }

    /// A decision was ordered: the way it took, and its receipt if that comes within `longest`.
    pub(super) fn ordered(&mut self, decision: u64, path: Path, longest: Option<Duration>) {
        if let Some(ordered) = self.ordered.get_mut(&decision) {
            ordered.path = Some(path);
        }
        if let Some(queue) = &mut self.queue {
            queue.see_to_receipt(longest);
        }
    }

    /// What was ordered is needed until it is answered.
    pub(super) fn forget_answered(&mut self, decision: u64, changes: &Changes) {
        if !changes.is_waiting(decision) {
            self.ordered.remove(&decision);
        }
    }

    /// An answer of the actuator, as the changes take it; none where nobody waits for it.
    pub(super) fn answered(&self, receipt: OrderReceipt) -> Option<ChangeEvent> {
        match receipt {
            OrderReceipt::Done {
                decision,
                part,
                result,
            } => {
                let answer = receipts::answer(self.ordered.get(&decision)?, part, result.map(|done| *done));
                Some(ChangeEvent::Receipt {
                    decision,
                    part,
                    answer,
                })
            }
            OrderReceipt::Confirmed(pid, change, Err(error)) => {
                tracing::warn!(%error, %pid, change, "a change could not be confirmed and will be reverted at the end");
                None
            }
            OrderReceipt::Confirmed(_, _, Ok(())) => None,
            OrderReceipt::Undone(pid, number, result) => {
                Some(ChangeEvent::Undone(here(pid, number), receipts::undo(result)))
            }
        }
    }

    /// What is sent to the actuator of this machine for an order.
    fn actuator_orders(&self, order: &Order) -> Result<Vec<actuator_queue::QueuedOrder>, ()> {
        let single = match order {
            Order::Do {
                decision,
                part,
                replaces,
            } => {
                let ordered = self.ordered.get(decision).ok_or(())?;
                let task = actuator_queue::QueuedOrder::Do {
                    decision: *decision,
                    part: *part,
                    task: ordered.work.get(*part).ok_or(())?.task.clone(),
                    at: ordered.at.clone(),
                };
                return Ok(undo(replaces).into_iter().chain([task]).collect());
            }
            Order::Together { decision } => {
                let ordered = self.ordered.get(decision).ok_or(())?;
                actuator_queue::QueuedOrder::Together {
                    decision: *decision,
                    parts: ordered.work.len(),
                    command: ordered.together.clone().ok_or(())?,
                }
            }
            Order::GiveUp(decision) => actuator_queue::QueuedOrder::GiveUp(*decision),
            Order::Confirm(change) => actuator_queue::QueuedOrder::Confirm(pid_of(change.pid), change.number),
            Order::Undo(changes) => return Ok(undo(changes).into_iter().collect()),
        };
        Ok(vec![single])
    }
}

/// As the changes name a change of this machine.
pub(super) fn here(pid: Pid, number: u64) -> ChangeId {
    ChangeId {
        machine: MachineId::HERE,
        pid: pid_here(pid),
        number,
    }
}

/// None where there is nothing to take back: an order, be it empty, keeps the next one from being sent past the thread.
fn undo(changes: &[ChangeId]) -> Option<actuator_queue::QueuedOrder> {
    let number = |change: &ChangeId| ChangeNumber {
        pid: pid_of(change.pid),
        change: change.number,
    };
    (!changes.is_empty()).then(|| actuator_queue::QueuedOrder::Undo(changes.iter().map(number).collect()))
}
