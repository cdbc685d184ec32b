//! Sends orders to the actuator and receives receipts, both bounded. The actuator's answers take from
//! microseconds to milliseconds, and the event loop must not wait for them: a separate thread
//! (`actuator_queue/thread.rs`) communicates with it.
//!
//! A value to be written at once, while nothing else is in progress, is sent to the actuator by the ordering
//! thread, and only its receipt is awaited by the queue's thread: waking that thread first would take as long
//! as the write itself. A caller with a spare CPU waits for the receipt too, so that the thread need not
//! wake.

use crate::rulebook::DecisionId;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use plan::SyncPoint;
use tokio::sync::mpsc;
use tuner::actuator::{
    ActCommand, ChangeNumber, ClientError, GetCommand, RevertSummary, SentSet, SetCommand, SetWarmUp,
    TogetherCommand,
};
use tuner::{ActionReceipt, Pid, RevertReceipt};

use crate::actuator::Actuator;

mod thread;

/// Maximum number of queued orders; a decision makes one for each rank.
const ORDERS_MAX: usize = 8192;

/// Maximum time for a process to reach a sync point; then the change is given up.
pub(super) const SYNC_WAIT: Duration = Duration::from_secs(60);
/// The same in one of several copies of a library, which may be one that the program does not use.
const COPY_WAIT: Duration = Duration::from_secs(2);
/// Minimum interval between warm-ups of the actuator, each of which takes it 20 to 50 us.
const EXPECT_EVERY_NS: u64 = 2_000_000;

#[derive(Clone, Debug)]
pub(crate) enum ProcessTask {
    Set(Box<SetCommand>),
    /// Calls a function, loads a library, changes code or binds threads.
    Act(Box<ActCommand>),
}

/// Where something is done, and how long the process has to get there.
#[derive(Clone, Debug)]
pub(crate) struct SyncWait {
    pub(super) point: SyncPoint,
    within: Duration,
}

impl SyncWait {
    pub(super) fn at(point: SyncPoint) -> SyncWait {
        SyncWait {
            point,
            within: SYNC_WAIT,
        }
    }

    pub(super) fn at_copy(point: SyncPoint) -> SyncWait {
        SyncWait {
            point,
            within: COPY_WAIT,
        }
    }
}

#[derive(Debug)]
pub(crate) enum QueuedOrder {
    /// Do something in one process, for a decision.
    Do {
        decision: DecisionId,
        /// The index of the part of the decision.
        part: usize,
        task: ProcessTask,
        /// `None` for at once.
        at: Option<SyncWait>,
    },
    /// Write a variable of each of several processes at the same iteration, for a decision.
    Together {
        decision: DecisionId,
        /// The number of parts of the decision, in the order of the sets.
        parts: usize,
        /// The values and the sync point.
        command: Box<TogetherCommand>,
    },
    /// A variable may be written later: look up its address and type now. There is no receipt.
    LookUp(Box<GetCommand>),
    /// Collect the receipt of an order that has bypassed the thread. Not an order itself.
    TakeReceipt,
    /// Cancel the parts of a decision that still wait for their sync points.
    GiveUp(DecisionId),
    /// The guard keeps this change.
    Confirm(Pid, u64),
    /// Revert these changes, in the order of their numbers.
    Revert(Vec<ChangeNumber>),
}

#[derive(Debug)]
pub(crate) enum Done {
    /// For [`ProcessTask::Set`].
    Set(tuner::Receipt),
    /// For [`ProcessTask::Act`].
    Acted(ActionReceipt),
}

#[derive(Debug)]
pub(crate) enum OrderReceipt {
    /// For [`QueuedOrder::Do`].
    Done {
        decision: DecisionId,
        /// The index of the part of the decision.
        part: usize,
        result: Result<Box<Done>, ClientError>,
    },
    /// For [`QueuedOrder::Confirm`].
    Confirmed(Pid, u64, Result<(), ClientError>),
    /// For [`QueuedOrder::Revert`].
    Reverted(Pid, u64, Result<RevertReceipt, ClientError>),
}

/// Shared between the thread and its users.
struct Shared {
    /// Orders that are not done yet, sent or not; orders that wait for a sync point count as done.
    under_way: AtomicUsize,
    /// Locked during communication with the actuator.
    talk: Mutex<ActuatorChannel>,
}

struct ActuatorChannel {
    /// `None` when its session was ended.
    actuator: Option<Actuator>,
    /// The order that has bypassed the thread.
    sent: Option<SentOrder>,
    /// Time of the last warm-up.
    expected_ns: u64,
}

struct SentOrder {
    decision: DecisionId,
    part: usize,
    set: Result<SentSet, ClientError>,
}

impl Shared {
    fn talk(&self) -> MutexGuard<'_, ActuatorChannel> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a value to be written at once, if nothing else is in progress. Does not block: unread warm-ups
    /// of the actuator leave room for it.
    fn send(&self, order: QueuedOrder) -> QueuedOrder {
        let QueuedOrder::Do {
            decision,
            part,
            task: ProcessTask::Set(command),
            at: None,
        } = order
        else {
            return order;
        };
        let back = |command| QueuedOrder::Do {
            decision,
            part,
            task: ProcessTask::Set(command),
            at: None,
        };
        if self.under_way.load(Ordering::Acquire) > 0 {
            return back(command);
        }
        // Locked while sync points are collected.
        let Ok(mut talk) = self.talk.try_lock() else {
            return back(command);
        };
        let ActuatorChannel {
            actuator: Some(actuator),
            sent: sent @ None,
            ..
        } = &mut *talk
        else {
            return back(command);
        };
        let set = actuator.client.send_set(*command);
        *sent = Some(SentOrder { decision, part, set });
        QueuedOrder::TakeReceipt
    }

    /// The receipt of the order that was sent, if it comes in time and the thread has not taken it.
    fn receipt_within(&self, longest: Duration) -> Option<OrderReceipt> {
        let mut talk = self.talk.try_lock().ok()?;
        let client = &talk.actuator.as_ref()?.client;
        let is_there = talk.sent.is_some() && client.is_answered_within(longest);
        is_there.then(|| talk.take_receipt()).flatten()
    }
}

impl ActuatorChannel {
    /// Waits for the result of the order that has bypassed the thread.
    fn take_receipt(&mut self) -> Option<OrderReceipt> {
        let SentOrder { decision, part, set } = self.sent.take()?;
        let client = self.actuator.as_mut().map(|actuator| &mut actuator.client);
        let result = set.and_then(|set| client.ok_or(ClientError::Ended)?.receipt(set));
        Some(OrderReceipt::Done {
            decision,
            part,
            result: result.map(|receipt| Box::new(Done::Set(receipt))),
        })
    }
}

/// The thread, and the channels to and from it.
pub(crate) struct ActuatorQueue {
    shared: Arc<Shared>,
    pub(super) pid: i32,
    orders: SyncSender<QueuedOrder>,
    receipts: mpsc::Receiver<OrderReceipt>,
    /// Receipts that have bypassed the thread.
    taken: VecDeque<OrderReceipt>,
    thread: JoinHandle<Result<RevertSummary, ClientError>>,
}

impl ActuatorQueue {
    /// Takes over a running actuator.
    pub(crate) fn new(actuator: Actuator) -> ActuatorQueue {
        let pid = actuator.pid();
        let (orders, incoming) = sync_channel(ORDERS_MAX);
        let (outgoing, receipts) = mpsc::channel(ORDERS_MAX);
        let talk = Mutex::new(ActuatorChannel {
            actuator: Some(actuator),
            sent: None,
            expected_ns: 0,
        });
        let under_way = AtomicUsize::new(0);
        let shared = Arc::new(Shared { under_way, talk });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || thread::serve(&of_thread, &incoming, &outgoing));
        ActuatorQueue {
            pid,
            shared,
            orders,
            receipts,
            taken: VecDeque::new(),
            thread,
        }
    }

    /// An order may follow at once, perhaps similar to `like`: the actuator wakes up while the decision is
    /// made, warms up for the order, and polls for it without sleeping for `look_out`. Does nothing if an
    /// order is in progress, or if called again within a short time.
    pub(crate) fn expect(&self, now_ns: u64, look_out: Duration, like: Option<SetWarmUp>) {
        if self.is_busy() {
            return;
        }
        let Ok(mut talk) = self.shared.talk.try_lock() else {
            return;
        };
        let ActuatorChannel {
            actuator: Some(actuator),
            sent: None,
            expected_ns,
        } = &mut *talk
        else {
            return;
        };
        if now_ns.saturating_sub(*expected_ns) >= EXPECT_EVERY_NS {
            *expected_ns = now_ns;
            // If the actuator is gone, the order will report it.
            let _ = actuator.client.expect(look_out, like);
        }
    }

    /// Whether orders are in progress, or receipts were not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.under_way.load(Ordering::Acquire) > 0 || !self.taken.is_empty()
    }

    /// Sends an order. Returns it if too many are queued or the thread has ended. If it may have bypassed the
    /// thread, [`ActuatorQueue::see_to_receipt`] must be called.
    pub(crate) fn order(&self, order: QueuedOrder) -> Result<(), QueuedOrder> {
        use std::sync::mpsc::TrySendError;
        let order = self.shared.send(order);
        self.shared.under_way.fetch_add(1, Ordering::AcqRel);
        if matches!(order, QueuedOrder::TakeReceipt) {
            return Ok(());
        }
        self.orders.try_send(order).map_err(|error| {
            self.shared.under_way.fetch_sub(1, Ordering::AcqRel);
            match error {
                TrySendError::Full(order) | TrySendError::Disconnected(order) => order,
            }
        })
    }

    /// Waits up to `longest` for the receipt of an order that has bypassed the thread, if there is one;
    /// afterwards the thread collects it.
    pub(crate) fn see_to_receipt(&mut self, longest: Option<Duration>) {
        if self.shared.talk.try_lock().is_ok_and(|talk| talk.sent.is_none()) {
            return;
        }
        match longest.and_then(|longest| self.shared.receipt_within(longest)) {
            Some(receipt) => {
                self.taken.push_back(receipt);
                self.shared.under_way.fetch_sub(1, Ordering::AcqRel);
            }
            // If the queue is full, the thread will collect the receipt anyway.
            None => drop(self.orders.try_send(QueuedOrder::TakeReceipt)),
        }
    }

    /// The next receipt; `None` when the thread has ended.
    pub(crate) async fn receipt(&mut self) -> Option<OrderReceipt> {
        // Receipts of the thread are older than those that have bypassed it.
        let earlier = self.receipts.try_recv().ok();
        match earlier.or_else(|| self.taken.pop_front()) {
            Some(receipt) => Some(receipt),
            None => self.receipts.recv().await,
        }
    }

    /// Ends the actuator's session once all orders are carried out. Orders that wait for sync points are
    /// cancelled; the outstanding receipts are returned with the last answer.
    pub(crate) async fn finish(mut self) -> (Vec<OrderReceipt>, Result<RevertSummary, ClientError>) {
        drop(self.orders);
        let mut last = Vec::from(self.taken);
        while let Some(receipt) = self.receipts.recv().await {
            last.push(receipt);
        }
        (last, self.thread.join().unwrap_or(Err(ClientError::Ended)))
    }
}
