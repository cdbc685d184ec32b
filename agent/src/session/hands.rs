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
    action::ActionReceipt,
    actuator::{
        ActCommand, ArmActCommand, ArmCommand, ClientError, Collected, Farewell, Refusal, RefusalKind,
        SetCommand, TogetherCommand,
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

/// What one process is to do.
#[derive(Clone, Debug)]
pub enum Task {
    /// A variable gets a value.
    Set(Box<SetCommand>),
    /// A function is called, a library loaded, code changed, threads bound.
    Act(Box<ActCommand>),
}

/// What the actuator is to do.
#[derive(Debug)]
pub enum Order {
    /// Something for a decision.
    Do {
        /// The decision.
        decision: u64,
        /// Which of what is done for it.
        part: usize,
        /// What to do.
        task: Task,
        /// Where in the program; at once when none is given.
        at: Option<SyncPlace>,
    },
    /// Write a variable of each of several processes at the same iteration, for a decision.
    Together {
        /// The decision.
        decision: u64,
        /// How many: the parts of the decision are in the order of the sets.
        parts: usize,
        /// What to write, and where.
        command: Box<TogetherCommand>,
    },
    /// The guard keeps this change.
    Confirm(Pid, u64),
    /// The guard takes this change back.
    Undo(Pid, u64),
}

/// What was done.
#[derive(Debug)]
pub enum Done {
    /// Of [`Task::Set`].
    Set(tuner::writer::Receipt),
    /// Of [`Task::Act`].
    Acted(ActionReceipt),
}

/// What became of an order.
#[derive(Debug)]
pub enum Receipt {
    /// Of [`Order::Do`].
    Done {
        /// The decision.
        decision: u64,
        /// Which of what is done for it.
        part: usize,
        /// What was done, or why not.
        result: Result<Box<Done>, ClientError>,
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

    /// Ends the actuator's session once all orders are carried out. What waits for its sync point waits no longer; the receipts that
    /// were not fetched come with the farewell.
    pub async fn finish(mut self) -> (Vec<Receipt>, Result<Farewell, ClientError>) {
        drop(self.orders);
        let mut last = Vec::new();
        while let Some(receipt) = self.receipts.recv().await {
            last.push(receipt);
        }
        (last, self.thread.join().unwrap_or(Err(ClientError::Ended)))
    }
}

fn serve(
    mut actuator: Actuator,
    orders: &Receiver<Order>,
    receipts: &mpsc::Sender<Receipt>,
) -> Result<Farewell, ClientError> {
    // Where nobody listens any more, the orders are still carried out.
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
                parts,
                command,
            }) => {
                let refused = arm_together(&mut actuator, (decision, parts), *command, &mut waiting);
                refused.into_iter().for_each(tell);
            }
            Ok(order) => {
                if let Some(receipt) = carry_out(&mut actuator, order, &mut waiting) {
                    tell(receipt);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                for ticket in waiting.keys() {
                    // Where this fails the actuator is gone, and so is what waited.
                    let _ = actuator.client.disarm(*ticket);
                }
                if !waiting.is_empty() {
                    collect(&mut actuator, &mut waiting).into_iter().for_each(tell);
                }
                return actuator.finish();
            }
        }
        if !waiting.is_empty() {
            collect(&mut actuator, &mut waiting).into_iter().for_each(tell);
        }
    }
}

/// What waits for sync points that were not reached yet: by ticket, the decision and the part.
type Waiting = BTreeMap<u64, (u64, usize)>;

/// A receipt for each process if it was refused, else they come later.
fn arm_together(
    actuator: &mut Actuator,
    (decision, parts): (u64, usize),
    command: TogetherCommand,
    waiting: &mut Waiting,
) -> Vec<Receipt> {
    match actuator.client.together(command) {
        Ok(tickets) => {
            let parts = (0..parts).map(|part| (decision, part));
            waiting.extend(tickets.into_iter().zip(parts));
            Vec::new()
        }
        Err(error) => {
            let reason = error.to_string();
            let refused = |part| Receipt::Done {
                decision,
                part,
                result: Err(ClientError::Refused(Refusal {
                    kind: RefusalKind::Refused,
                    message: reason.clone(),
                })),
            };
            (0..parts).map(refused).collect()
        }
    }
}

/// The receipt, unless it comes later.
fn carry_out(actuator: &mut Actuator, order: Order, waiting: &mut Waiting) -> Option<Receipt> {
    let client = &mut actuator.client;
    let (decision, part, result) = match order {
        Order::Do {
            decision,
            part,
            task,
            at: None,
        } => {
            let done = match task {
                Task::Set(command) => client.set(*command).map(Done::Set),
                Task::Act(command) => client.act(*command).map(Done::Acted),
            };
            (decision, part, done)
        }
        Order::Do {
            decision,
            part,
            task,
            at: Some(at),
        } => {
            let within_ms = SYNC_WAIT.as_millis() as u64;
            let answer_ns_max = None;
            let armed = match task {
                Task::Set(set) => client.arm(ArmCommand {
                    set: *set,
                    at,
                    within_ms,
                    answer_ns_max,
                    by_stop: false,
                }),
                Task::Act(act) => client.arm_act(ArmActCommand {
                    act: *act,
                    at,
                    within_ms,
                    answer_ns_max,
                }),
            };
            match armed {
                Ok(ticket) => {
                    waiting.insert(ticket, (decision, part));
                    return None;
                }
                Err(error) => (decision, part, Err(error)),
            }
        }
        // Has a receipt for each process.
        Order::Together { .. } => return None,
        Order::Confirm(pid, change) => {
            return Some(Receipt::Confirmed(pid, change, client.confirm(pid, change)));
        }
        Order::Undo(pid, change) => return Some(Receipt::Undone(pid, change, client.undo(pid, change))),
    };
    Some(Receipt::Done {
        decision,
        part,
        result: result.map(Box::new),
    })
}

/// The receipts of those that have reached their sync points, or never will.
fn collect(actuator: &mut Actuator, waiting: &mut Waiting) -> Vec<Receipt> {
    let Collected { finished, acted, .. } = match actuator.client.collect() {
        Ok(collected) => collected,
        // The actuator is gone, and takes back what it has begun.
        Err(error) => {
            tracing::warn!(%error, "the changes that waited for their sync points are lost");
            let lost = std::mem::take(waiting).into_values();
            return lost
                .map(|(decision, part)| Receipt::Done {
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
        Some(Receipt::Done {
            decision,
            part,
            result: result.map(Box::new).map_err(ClientError::Refused),
        })
    };
    set.chain(acted).filter_map(receipt).collect()
}
