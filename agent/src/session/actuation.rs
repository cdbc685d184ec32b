//! The connection to the actuator, and the orders sent to it. Decides nothing.

use crate::rulebook::{DecisionId, RuleBook};
use std::{collections::BTreeMap, time::Duration};

use job::monotonic_ns;
use tuner::Pid;
use tuner::actuator::{ChangeNumber, SetWarmUp};

use super::{
    actuator_queue::{self, ActuatorQueue, OrderReceipt},
    changes::{ChangeEvent, ChangeId, Changes, Decided, MachineId, Order},
    intake::DECISION,
    options::Options,
    orders::{DecisionTimes, OrderError, Ordered, pid_here, pid_of},
    receipts,
};

/// Maximum time for which hits are polled before requests and the clock are handled.
pub(super) const POLL: Duration = Duration::from_millis(2);

/// The connection to the actuator.
pub(super) struct Actuation {
    /// `None` in a session that does not write.
    pub(super) queue: Option<ActuatorQueue>,
    /// The actuator's work for decisions that are not answered.
    pub(super) ordered: BTreeMap<DecisionId, Ordered>,
    /// Poll for hits without sleeping, on dedicated CPUs; `has_second_cpu` if there are at least two.
    busy_poll: bool,
    has_second_cpu: bool,
}

impl Actuation {
    /// The state before there is an actuator.
    pub(super) fn new(options: &Options) -> Actuation {
        Actuation {
            queue: None,
            ordered: BTreeMap::new(),
            busy_poll: options.busy_poll,
            has_second_cpu: options.has_second_cpu,
        }
    }

    /// Whether anything can be changed.
    pub(super) fn may_order(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether decisions should be predicted.
    pub(super) fn predicts(&self) -> bool {
        self.may_order() && !self.busy_poll
    }

    /// Whether to poll for hits without sleeping. While a change is in progress, the actuator needs the CPU.
    pub(super) fn polls(&self, rules: &RuleBook) -> bool {
        self.busy_poll
            && rules.has_probed_windows()
            && !self.queue.as_ref().is_some_and(ActuatorQueue::is_busy)
    }

    /// How long the actuator polls while hits are polled for: it need not sleep either if it has a second
    /// CPU.
    pub(super) fn look_out(&self) -> Duration {
        match self.has_second_cpu {
            true => POLL + DECISION,
            false => Duration::ZERO,
        }
    }

    /// A decision is about to be made. With busy polling, waking the actuator on the same CPU would delay it.
    pub(super) fn expect_at_once(&self) {
        if !self.busy_poll {
            self.expect(Duration::ZERO, None);
        }
    }

    /// An order may follow at once, perhaps similar to `like`: the actuator polls for it for `look_out`
    /// without sleeping.
    pub(super) fn expect(&self, look_out: Duration, like: Option<SetWarmUp>) {
        if let Some(queue) = &self.queue {
            queue.expect(monotonic_ns(), look_out, like);
        }
    }

    /// Converts a resolved decision to an event of the changes; keeps the actuator's work for it.
    pub(super) fn resolved(
        &mut self,
        decision: DecisionId,
        rule: String,
        resolved: Result<(Decided, Ordered), OrderError>,
    ) -> ChangeEvent {
        match resolved {
            Ok((decided, ordered)) => {
                self.ordered.insert(decision, ordered);
                ChangeEvent::Decided(decided)
            }
            Err(error) => ChangeEvent::NotOrdered {
                decision,
                rule,
                reason: error.to_string(),
            },
        }
    }

    /// Sends an order; returns false if there is no room for it.
    pub(super) fn order(&self, order: &Order) -> bool {
        match (&self.queue, self.actuator_orders(order)) {
            (Some(queue), Some(orders)) => orders.into_iter().all(|order| queue.order(order).is_ok()),
            (None, _) => true,
            (_, None) => false,
        }
    }

    /// A decision was ordered: stores its times. If only the actuator needs the CPU, waits for the receipt,
    /// at most as long as hits are polled for at a time.
    pub(super) fn ordered(&mut self, decision: DecisionId, begun_ns: u64, evaluated_ns: u64) {
        let path = DecisionTimes {
            begun_ns,
            evaluated_ns,
            ordered_ns: monotonic_ns(),
        };
        if let Some(ordered) = self.ordered.get_mut(&decision) {
            ordered.path = Some(path);
        }
        if let Some(queue) = &mut self.queue {
            queue.see_to_receipt(self.busy_poll.then_some(POLL));
        }
    }

    /// Removes the work for decisions that have been answered.
    pub(super) fn forget_answered(&mut self, changes: &Changes) {
        self.ordered.retain(|decision, _| changes.is_waiting(*decision));
    }

    /// Converts an answer of the actuator to an event of the changes; `None` if no change waits for it.
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
            OrderReceipt::Reverted(pid, number, result) => {
                Some(ChangeEvent::Reverted(here(pid, number), receipts::revert(result)))
            }
        }
    }

    /// The orders to the actuator of this machine; `None` if the decision is unknown by now.
    fn actuator_orders(&self, order: &Order) -> Option<Vec<actuator_queue::QueuedOrder>> {
        let single = match order {
            Order::Do {
                decision,
                part,
                replaces,
            } => {
                let work = self.ordered.get(decision)?.work(*part)?;
                let task = actuator_queue::QueuedOrder::Do {
                    decision: *decision,
                    part: *part,
                    task: work.task.clone(),
                    at: work.at.clone(),
                };
                return Some(revert(replaces).into_iter().chain([task]).collect());
            }
            Order::Together { decision } => {
                let ordered = self.ordered.get(decision)?;
                actuator_queue::QueuedOrder::Together {
                    decision: *decision,
                    parts: ordered.work.len(),
                    command: ordered.together.clone()?,
                }
            }
            Order::GiveUp(decision) => actuator_queue::QueuedOrder::GiveUp(*decision),
            Order::Confirm(change) => actuator_queue::QueuedOrder::Confirm(pid_of(change.pid), change.number),
            Order::Revert(changes) => return Some(revert(changes).into_iter().collect()),
        };
        Some(vec![single])
    }
}

/// The id of a change on this machine.
pub(super) fn here(pid: Pid, number: u64) -> ChangeId {
    ChangeId {
        machine: MachineId::HERE,
        pid: pid_here(pid),
        number,
    }
}

/// `None` if there is nothing to revert: any queued order, even an empty one, prevents the next one from
/// bypassing the thread.
fn revert(changes: &[ChangeId]) -> Option<actuator_queue::QueuedOrder> {
    let number = |change: &ChangeId| ChangeNumber {
        pid: pid_of(change.pid),
        change: change.number,
    };
    (!changes.is_empty()).then(|| actuator_queue::QueuedOrder::Revert(changes.iter().map(number).collect()))
}
