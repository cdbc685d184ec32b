//! The thread that talks to the actuator: orders in, receipts out, both bounded. The actuator's answers take from
//! microseconds to milliseconds, and the event loop must not wait for them.

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

use tokio::sync::mpsc;
use tuner::{
    actuator::{ClientError, Farewell, SetCommand},
    process::Pid,
    writer::Undone,
};

use crate::actuator::Actuator;

/// Orders that may wait; a decision makes one for each rank.
const ORDERS_MAX: usize = 8192;

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
    while let Ok(order) = orders.recv() {
        let receipt = match order {
            Order::Set {
                decision,
                slot,
                command,
            } => Receipt::Set {
                decision,
                slot,
                result: actuator.client.set(*command).map(Box::new),
            },
            Order::Confirm(pid, change) => {
                Receipt::Confirmed(pid, change, actuator.client.confirm(pid, change))
            }
            Order::Undo(pid, change) => Receipt::Undone(pid, change, actuator.client.undo(pid, change)),
        };
        // Nobody listens any more once the session ends; the orders are still carried out.
        let _ = receipts.blocking_send(receipt);
    }
    actuator.finish()
}
