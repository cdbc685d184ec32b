//! The thread that talks to the actuator: orders in, receipts out, both bounded. The actuator's answers take from
//! microseconds to milliseconds, and the event loop must not wait for them. A change at a sync point is armed here, and its
//! receipt fetched when the program was there.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::mpsc;
use tuner::{
    actuator::{
        ArmCommand, ClientError, Collected, Farewell, Refusal, RefusalKind, SetCommand, TogetherCommand,
    },
    process::Pid,
    sync::SyncPlace,
    writer::Undone,
};

use crate::actuator::Actuator;

/// Orders that may wait; a decision makes one for each rank.
const ORDERS_MAX: usize = 8192;

/// How long a process may take to reach a sync point; then the change is given up.
pub(super) const SYNC_WAIT: Duration = Duration::from_secs(60);
/// How often it is asked whether sync points were reached, while any is waited for. Until then the probe stays.
const COLLECT_EVERY: Duration = Duration::from_millis(5);

/// What the actuator is to do.
#[derive(Debug)]
pub enum Order {
    /// Write a variable of a process, for a decision.
    Set {
        /// The decision.
        decision: u64,
        /// The process's slot.
        slot: u32,
        /// What to write.
        command: Box<SetCommand>,
        /// Where in the program; at once when none is given.
        at: Option<SyncPlace>,
    },
    /// Write a variable of each of several processes at the same iteration, for a decision.
    Together {
        /// The decision.
        decision: u64,
        /// The processes' slots, in the order of the sets.
        slots: Vec<u32>,
        /// What to write, and where.
        command: Box<TogetherCommand>,
    },
    /// The guard keeps this change.
    Confirm(Pid, u64),
    /// The guard takes this change back.
    Undo(Pid, u64),
}

/// What became of an order.
#[derive(Debug)]
pub enum Receipt {
    /// Of [`Order::Set`].
    Set {
        /// The decision.
        decision: u64,
        /// The process's slot.
        slot: u32,
        /// What was written, or why not.
        result: Result<Box<tuner::writer::Receipt>, ClientError>,
    },
    /// Of [`Order::Confirm`].
    Confirmed(Pid, u64, Result<(), ClientError>),
    /// Of [`Order::Undo`].
    Undone(Pid, u64, Result<Undone, ClientError>),
}

/// The thread, and the ways to and from it.
pub struct Hands {
    orders: SyncSender<Order>,
    receipts: mpsc::Receiver<Receipt>,
    thread: JoinHandle<Result<Farewell, ClientError>>,
}

impl Hands {
    /// Takes over a running actuator.
    pub fn new(actuator: Actuator) -> Hands {
        let (orders, incoming) = sync_channel(ORDERS_MAX);
        let (outgoing, receipts) = mpsc::channel(ORDERS_MAX);
        let thread = std::thread::spawn(move || serve(actuator, &incoming, &outgoing));
        Hands {
            orders,
            receipts,
            thread,
        }
    }

    /// Passes an order on. It is refused, and given back, when too many wait already or the thread has ended.
    pub fn order(&self, order: Order) -> Result<(), Order> {
        use std::sync::mpsc::TrySendError;
        self.orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(order) | TrySendError::Disconnected(order) => order,
        })
    }

    /// The next receipt; `None` when the thread has ended.
    pub async fn receipt(&mut self) -> Option<Receipt> {
        self.receipts.recv().await
    }

    /// Ends the actuator's session once all orders are carried out. Receipts that were not fetched are lost.
    pub fn finish(self) -> Result<Farewell, ClientError> {
        drop(self.orders);
        drop(self.receipts);
        self.thread.join().unwrap_or(Err(ClientError::Ended))
    }
}

fn serve(
    mut actuator: Actuator,
    orders: &Receiver<Order>,
    receipts: &mpsc::Sender<Receipt>,
) -> Result<Farewell, ClientError> {
    // Nobody listens any more once the session ends; the orders are still carried out.
    let tell = |receipt| drop(receipts.blocking_send(receipt));
    let mut waiting = BTreeMap::new();
    loop {
        let order = match waiting.is_empty() {
            true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => orders.recv_timeout(COLLECT_EVERY),
        };
        match order {
            Ok(Order::Together {
                decision,
                slots,
                command,
            }) => {
                let refused = arm_together(&mut actuator, (decision, slots), *command, &mut waiting);
                refused.into_iter().for_each(tell);
            }
            Ok(order) => {
                if let Some(receipt) = carry_out(&mut actuator, order, &mut waiting) {
                    tell(receipt);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // What waits still is taken back with the session.
            Err(RecvTimeoutError::Disconnected) => return actuator.finish(),
        }
        if !waiting.is_empty() {
            collect(&mut actuator, &mut waiting).into_iter().for_each(tell);
        }
    }
}

/// Changes at sync points that were not reached yet: by ticket, the decision and the slot.
type Waiting = BTreeMap<u64, (u64, u32)>;

/// A receipt for each process if it was refused, else they come later.
fn arm_together(
    actuator: &mut Actuator,
    (decision, slots): (u64, Vec<u32>),
    command: TogetherCommand,
    waiting: &mut Waiting,
) -> Vec<Receipt> {
    match actuator.client.together(command) {
        Ok(tickets) => {
            waiting.extend(
                tickets
                    .into_iter()
                    .zip(slots.into_iter().map(|slot| (decision, slot))),
            );
            Vec::new()
        }
        Err(error) => {
            let reason = error.to_string();
            let refused = |slot| Receipt::Set {
                decision,
                slot,
                result: Err(ClientError::Refused(Refusal {
                    kind: RefusalKind::Refused,
                    message: reason.clone(),
                })),
            };
            slots.into_iter().map(refused).collect()
        }
    }
}

/// The receipt, unless it comes later.
fn carry_out(actuator: &mut Actuator, order: Order, waiting: &mut Waiting) -> Option<Receipt> {
    let client = &mut actuator.client;
    let (decision, slot, result) = match order {
        Order::Set {
            decision,
            slot,
            command,
            at: None,
        } => (decision, slot, client.set(*command).map(Box::new)),
        Order::Set {
            decision,
            slot,
            command,
            at: Some(at),
        } => {
            let armed = client.arm(ArmCommand {
                set: *command,
                at,
                within_ms: SYNC_WAIT.as_millis() as u64,
                answer_ns_max: None,
                by_stop: false,
            });
            match armed {
                Ok(ticket) => {
                    waiting.insert(ticket, (decision, slot));
                    return None;
                }
                Err(error) => (decision, slot, Err(error)),
            }
        }
        // Has a receipt for each process.
        Order::Together { .. } => return None,
        Order::Confirm(pid, change) => {
            return Some(Receipt::Confirmed(pid, change, client.confirm(pid, change)));
        }
        Order::Undo(pid, change) => return Some(Receipt::Undone(pid, change, client.undo(pid, change))),
    };
    Some(Receipt::Set {
        decision,
        slot,
        result,
    })
}

/// The receipts of those that have reached their sync points, or never will.
fn collect(actuator: &mut Actuator, waiting: &mut Waiting) -> Vec<Receipt> {
    let collected = match actuator.client.collect() {
        Ok(Collected { finished, .. }) => finished,
        // The actuator is gone, and takes back what it has begun.
        Err(error) => {
            tracing::warn!(%error, "the changes that waited for their sync points are lost");
            let lost = std::mem::take(waiting).into_values();
            return lost
                .map(|(decision, slot)| Receipt::Set {
                    decision,
                    slot,
                    result: Err(ClientError::Ended),
                })
                .collect();
        }
    };
    let receipt = |(ticket, result): (u64, Result<_, _>)| {
        let (decision, slot) = waiting.remove(&ticket)?;
        Some(Receipt::Set {
            decision,
            slot,
            result: result.map(Box::new).map_err(ClientError::Refused),
        })
    };
    collected.into_iter().filter_map(receipt).collect()
}
