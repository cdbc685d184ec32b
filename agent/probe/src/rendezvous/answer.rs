//! The two threads that answer a probe which holds a thread of the program. Each is bound to its own CPU, and
//! the probe wakes the one that is not on its own CPU. If an action has stopped a thread of the program, the
//! thread that answered also controls it: the kernel accepts requests from that thread only. While an action
//! is pending the threads have real-time priority, so that a busy CPU does not delay them; they sleep while
//! no thread is held.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
};

use abi::HoldState;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity},
};
use tuner::rendezvous::{
    HeldAction, HoldTicket, KeyedHits, PendingAction, PendingState, SeenHits, Then, ThreadAtSync,
};

use crate::kernel::{Records, Ring, set_real_time};

/// The interval for checking a thread that was requested to stop: it stops within microseconds, and is
/// released soon.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 30_000,
};

/// The pending actions, and the records that say when one is due.
pub(super) struct HeldActions {
    records: Arc<Records>,
    actions: Vec<Mutex<Option<HeldAction>>>,
    /// For each record, whether its action is still supervised and so not over.
    watched: Vec<AtomicBool>,
}

/// An action that needs supervision, by the thread that called it.
struct Watched {
    index: u32,
    pending: Box<dyn PendingAction>,
    is_over: bool,
}

impl HeldActions {
    pub(super) fn new(records: Arc<Records>) -> HeldActions {
        HeldActions {
            records,
            actions: (0..abi::HOLDS_MAX).map(|_| Mutex::new(None)).collect(),
            watched: (0..abi::HOLDS_MAX).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    pub(super) fn put(&self, index: u32, action: HeldAction) {
        if let Some(place) = self.actions.get(index as usize) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(action);
        }
    }

    /// Removes an action if it was not called; waits for one that is being called.
    pub(super) fn take(&self, index: u32) {
        if let Some(place) = self.actions.get(index as usize) {
            place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Whether no action with this number is being called or supervised.
    pub(super) fn is_free(&self, index: u32) -> bool {
        let place = self.actions.get(index as usize);
        let is_called = place.is_some_and(|place| matches!(place.try_lock(), Err(TryLockError::WouldBlock)));
        // In this order: the caller of an action marks it as watched before it releases the lock.
        !is_called && !self.is_watched(index)
    }

    fn is_watched(&self, index: u32) -> bool {
        let watched = self.watched.get(index as usize);
        watched.is_some_and(|watched| watched.load(Ordering::Acquire))
    }

    fn set_watched(&self, index: u32, is_watched: bool) {
        if let Some(watched) = self.watched.get(index as usize) {
            watched.store(is_watched, Ordering::Release);
        }
    }

    /// A thread is held: calls the action, unless the thread was released. Returns what needs supervision.
    fn answer(&self, index: u32) -> Option<Watched> {
        let place = self.actions.get(index as usize)?;
        // The lock is kept until the state says that the action is over: only a free record is reused.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.records.step(index, HoldState::Held, HoldState::Writing) {
            return None;
        }
        let hold = self.records.get(index).unwrap_or_default();
        let held = ThreadAtSync {
            thread: u32::try_from(hold.thread).unwrap_or(0),
            since_ns: hold.held_at_ns,
        };
        // A panic must neither leave the thread held to the bound nor end the answering thread.
        let call =
            |action: HeldAction| catch_unwind(AssertUnwindSafe(|| action(&held))).unwrap_or(Then::Nothing);
        let then = place.take().map_or(Then::Nothing, call);
        let pending = match then {
            Then::Nothing => None,
            Then::Watch(pending) => Some(pending),
        };
        self.set_watched(index, pending.is_some());
        let in_time = self.records.step(index, HoldState::Writing, HoldState::Done);
        let mut watched = pending.map(|pending| Watched {
            index,
            pending,
            is_over: false,
        })?;
        if !in_time {
            let _ = catch_unwind(AssertUnwindSafe(|| watched.pending.too_late()));
        }
        Some(watched)
    }

    /// Checks a supervised action; returns whether it still needs supervision.
    fn look_after(&self, watched: &mut Watched) -> bool {
        let look = catch_unwind(AssertUnwindSafe(|| watched.pending.look())).unwrap_or(PendingState::Over);
        if !watched.is_over && look != PendingState::Waits {
            watched.is_over = true;
            self.set_watched(watched.index, false);
        }
        look != PendingState::Over
    }
}

impl KeyedHits for HeldActions {
    fn want(&self, ticket: HoldTicket, number: i64) {
        self.records.want(ticket.0, number);
    }

    fn seen(&self, ticket: HoldTicket) -> SeenHits {
        let hold = self.records.get(ticket.0).unwrap_or_default();
        let is_met = hold.state == HoldState::Done as u64;
        SeenHits {
            hits: hold.hits,
            thread: u32::try_from(hold.thread).unwrap_or(0),
            has_passed: hold.state == HoldState::GoneBy as u64,
            met_at_ns: is_met.then_some(hold.held_at_ns),
            last: hold.key_last.cast_signed(),
            step: hold.key_step.cast_signed(),
        }
    }

    fn forgo(&self, ticket: HoldTicket) -> bool {
        self.records.step(ticket.0, HoldState::Armed, HoldState::Idle)
    }
}

/// The answering threads. Dropping it ends them.
pub(super) struct AnswerThreads {
    threads: Vec<(JoinHandle<()>, Pid)>,
    quit: Arc<OwnedFd>,
}

impl AnswerThreads {
    pub(super) fn start(
        held_actions: &Arc<HeldActions>,
        wakers: [Ring; 2],
        cpus: [u32; 2],
    ) -> io::Result<AnswerThreads> {
        let quit = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut answer_threads = AnswerThreads {
            threads: Vec::new(),
            quit,
        };
        for (waker, cpu) in wakers.into_iter().zip(cpus) {
            let (held_actions, quit) = (Arc::clone(held_actions), Arc::clone(&answer_threads.quit));
            let (sender, receiver) = channel();
            let thread = std::thread::Builder::new()
                .name(format!("answer-{cpu}"))
                .spawn(move || run(&held_actions, waker, cpu, &quit, &sender))?;
            // A thread that ends before it has sent its number could not be bound to its CPU.
            let number = receiver.recv().map_err(io::Error::other)??;
            answer_threads.threads.push((thread, number));
        }
        Ok(answer_threads)
    }

    /// Switches real-time priority; returns whether all threads have it now.
    pub(super) fn set_real_time(&self, real_time: bool) -> bool {
        let mut refused = None;
        for (_, number) in &self.threads {
            refused = set_real_time(*number, real_time).err().or(refused);
        }
        if let Some(error) = &refused {
            tracing::warn!(%error, "the threads that answer have no real-time priority");
        }
        real_time && refused.is_none()
    }
}

impl Drop for AnswerThreads {
    fn drop(&mut self) {
        // A counter of 8 bytes, which cannot be full.
        let _ = rustix::io::write(&*self.quit, &1_u64.to_ne_bytes());
        for (thread, _) in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(
    held_actions: &HeldActions,
    mut waker: Ring,
    cpu: u32,
    quit: &OwnedFd,
    started: &Sender<io::Result<Pid>>,
) {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    let bound = sched_setaffinity(None, &only)
        .map(|()| gettid())
        .map_err(io::Error::from);
    let failed = bound.is_err();
    if started.send(bound).is_err() || failed {
        return;
    }
    // The kernel releases stopped threads when this thread ends.
    let mut watched: Vec<Watched> = Vec::new();
    loop {
        let is_over = {
            let wait = (!watched.is_empty()).then_some(POLL_INTERVAL);
            let mut events = [
                PollFd::new(&waker, PollFlags::IN),
                PollFd::from_borrowed_fd(quit.as_fd(), PollFlags::IN),
            ];
            // An interrupted wait is treated as a timeout.
            let _ = poll(&mut events, wait.as_ref());
            !events[1].revents().is_empty()
        };
        while let Some(record) = waker.take() {
            let index = record.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
            if let Some(index) = index.and_then(|index| u32::try_from(index).ok()) {
                watched.extend(held_actions.answer(index));
            }
        }
        watched.retain_mut(|one| held_actions.look_after(one));
        if is_over {
            return;
        }
    }
}

/// Two CPUs to which a thread of ours may be bound: the first and the last, so that they are rarely two
/// halves of one core. `None` if there is only one.
pub(super) fn two_cpus() -> io::Result<Option<[u32; 2]>> {
    // On a separate thread, since the query changes the mask: it requests all CPUs, and the kernel leaves
    // those of our cpuset.
    let read_affinity = || -> io::Result<CpuSet> {
        let mut all = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        sched_setaffinity(None, &all)?;
        Ok(sched_getaffinity(None)?)
    };
    let requested = std::thread::scope(|scope| scope.spawn(read_affinity).join());
    let allowed = requested.map_err(|_| io::Error::other("the thread that looks for CPUs ended"))??;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next();
    Ok(match (first, cpus.next_back()) {
        (Some(first), Some(last)) => Some([first as u32, last as u32]),
        _ => None,
    })
}
