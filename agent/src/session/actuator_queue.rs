//! Orders to the actuator in, receipts out, both bounded. The actuator's answers take from microseconds to
//! milliseconds, and the event loop must not wait for them: a thread of its own (`actuator_queue/thread.rs`)
//! talks to it.
//!
//! A value that is to be written at once while nothing else is under way is sent to the actuator by the
//! ordering thread, and only its receipt is waited for here: waking this thread first would take as long as
//! the write itself. A caller with a CPU to spare waits for the receipt too, and the thread sleeps on.

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

/// Orders that may wait; a decision makes one for each rank.
const ORDERS_MAX: usize = 8192;

/// How long a process may take to reach a sync point; then the change is given up.
pub(super) const SYNC_WAIT: Duration = Duration::from_secs(60);
/// The actuator is woken for an order that may come no more often than this: it takes it 20 to 50 us.
const EXPECT_EVERY_NS: u64 = 2_000_000;

#[derive(Clone, Debug)]
pub(crate) enum ProcessTask {
    Set(Box<SetCommand>),
    /// A function is called, a library loaded, code changed, threads bound.
    Act(Box<ActCommand>),
}

#[derive(Debug)]
pub(crate) enum QueuedOrder {
    /// Something for a decision.
    Do {
        decision: DecisionId,
        /// Which of what is done for it.
        part: usize,
        task: ProcessTask,
        /// Where in the program; at once when none is given.
        at: Option<SyncPoint>,
    },
    /// Write a variable of each of several processes at the same iteration, for a decision.
    Together {
        decision: DecisionId,
        /// How many: the parts of the decision are in the order of the sets.
        parts: usize,
        /// What to write, and where.
        command: Box<TogetherCommand>,
    },
    /// A variable may be written later: its address and type are looked up now. There is no receipt.
    LookUp(Box<GetCommand>),
    /// The receipt of what was sent already. No order of its own.
    TakeReceipt,
    /// What of a decision still waits for its place is to wait no longer.
    GiveUp(DecisionId),
    /// The guard keeps this change.
    Confirm(Pid, u64),
    /// These changes are reverted, in the order of their numbers.
    Revert(Vec<ChangeNumber>),
}

#[derive(Debug)]
pub(crate) enum Done {
    /// Of [`ProcessTask::Set`].
    Set(tuner::Receipt),
    /// Of [`ProcessTask::Act`].
    Acted(ActionReceipt),
}

#[derive(Debug)]
pub(crate) enum OrderReceipt {
    /// Of [`QueuedOrder::Do`].
    Done {
        decision: DecisionId,
        /// Which of what is done for it.
        part: usize,
        result: Result<Box<Done>, ClientError>,
    },
    /// Of [`QueuedOrder::Confirm`].
    Confirmed(Pid, u64, Result<(), ClientError>),
    /// Of [`QueuedOrder::Revert`].
    Reverted(Pid, u64, Result<RevertReceipt, ClientError>),
}

/// What the thread and those who order share.
struct Shared {
    /// Orders that are not done yet, sent or not; what waits for its sync point is.
    under_way: AtomicUsize,
    /// Held while the actuator is talked to.
    talk: Mutex<ActuatorChannel>,
}

struct ActuatorChannel {
    /// None when its session was ended.
    actuator: Option<Actuator>,
    /// What was sent past the thread.
    sent: Option<SentOrder>,
    /// When the last warm-up was sent.
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

    /// Sends a value that is to be written at once, if nothing else is under way. Does not block: unread
    /// warm-ups of the actuator leave room for it.
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
        // Held while sync points are collected.
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

    /// The receipt of what was sent, if it comes in time and the thread has not taken it.
    fn receipt_within(&self, longest: Duration) -> Option<OrderReceipt> {
        let mut talk = self.talk.try_lock().ok()?;
        let client = &talk.actuator.as_ref()?.client;
        let is_there = talk.sent.is_some() && client.is_answered_within(longest);
        is_there.then(|| talk.take_receipt()).flatten()
    }
}

impl ActuatorChannel {
    /// Waits for what came of what was sent past the thread.
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

/// The thread, and the ways to and from it.
pub(crate) struct ActuatorQueue {
    shared: Arc<Shared>,
    orders: SyncSender<QueuedOrder>,
    receipts: mpsc::Receiver<OrderReceipt>,
    /// Those that were taken past the thread.
    taken: VecDeque<OrderReceipt>,
    thread: JoinHandle<Result<RevertSummary, ClientError>>,
}

impl ActuatorQueue {
    /// Takes over a running actuator.
    pub(crate) fn new(actuator: Actuator) -> ActuatorQueue {
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
            shared,
            orders,
            receipts,
            taken: VecDeque::new(),
            thread,
        }
    }

    /// An order may come at once, perhaps this one: the actuator wakes up while it is decided on, warms it
    /// up, and polls for it without sleeping for this long. Does nothing if anything is under way, or if it
    /// was called a moment ago.
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
            // That the actuator is gone is reported with the order.
            let _ = actuator.client.expect(look_out, like);
        }
    }

    /// Orders are under way, or receipts were not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.under_way.load(Ordering::Acquire) > 0 || !self.taken.is_empty()
    }

    /// Passes an order on. It is refused, and given back, when too many wait already or the thread has ended.
    /// Of one that was sent past the thread [`ActuatorQueue::see_to_receipt`] must be called.
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

    /// Waits up to `longest` for the receipt of an order that was sent past the thread, if there is one; after
    /// that the thread collects it.
    pub(crate) fn see_to_receipt(&mut self, longest: Option<Duration>) {
        if self.shared.talk.try_lock().is_ok_and(|talk| talk.sent.is_none()) {
            return;
        }
        match longest.and_then(|longest| self.shared.receipt_within(longest)) {
            Some(receipt) => {
                self.taken.push_back(receipt);
                self.shared.under_way.fetch_sub(1, Ordering::AcqRel);
            }
            // A thread that has too much to do comes by it anyway.
            None => drop(self.orders.try_send(QueuedOrder::TakeReceipt)),
        }
    }

    /// The next receipt; `None` when the thread has ended.
    pub(crate) async fn receipt(&mut self) -> Option<OrderReceipt> {
        // What the thread did was done before anything was sent past it.
        let earlier = self.receipts.try_recv().ok();
        match earlier.or_else(|| self.taken.pop_front()) {
            Some(receipt) => Some(receipt),
            None => self.receipts.recv().await,
        }
    }

    /// Ends the actuator's session once all orders are carried out. What waits for its sync point waits no
    /// longer; the receipts that were not fetched come with the last answer.
    pub(crate) async fn finish(mut self) -> (Vec<OrderReceipt>, Result<RevertSummary, ClientError>) {
        drop(self.orders);
        let mut last = Vec::from(self.taken);
        while let Some(receipt) = self.receipts.recv().await {
            last.push(receipt);
        }
        (last, self.thread.join().unwrap_or(Err(ClientError::Ended)))
    }
}
