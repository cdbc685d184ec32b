//! Stopping the thread that is held, so that it stays where it is when the hold is over: one instruction
//! behind the probed one.
//!
//! PTRACE_SEIZE and PTRACE_INTERRUPT are sent while the probe holds the thread; it takes them on its way back
//! to the program. It stays stopped until it is let go, or until the thread that answered ends: the kernel
//! releases it then. Nothing here knows what is done meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::{HeldAction, STOP_WAIT, ThreadAtSync};
use crate::clock::monotonic_ns;
use crate::process::Pid;
use crate::ptrace::{HeldThread, PtraceError};

/// What an action leaves behind.
pub enum Then {
    Nothing,
    /// It is looked after by the thread that called the action, from when the held thread was let go.
    Watch(Box<dyn PendingAction>),
}

/// Something that takes longer than a hold.
pub trait PendingAction {
    /// Called again and again.
    fn look(&mut self) -> PendingState;

    /// The held thread was let go before the action had returned: where it stops is not known, and nothing
    /// may be done with it.
    fn too_late(&mut self);
}

/// How a vigil stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingState {
    /// It goes on, and the action is not over.
    Waits,
    /// The action is over, but the kernel has a request of ours that is not answered yet: it is looked after
    /// until it is.
    Lingers,
    Over,
}

/// What became of a stop: what the work came to and how long the thread was held and stopped, or why it could
/// not be stopped. `None` until then.
pub(crate) type StopResult<T> = Mutex<Option<(Result<T, PtraceError>, u64)>>;

/// A thread that is requested to stop, and what is done once it has.
pub(crate) struct Stopping<T, W> {
    pid: Pid,
    /// None once it was let go.
    thread: Option<HeldThread>,
    /// None once it was done, or is not to be done any more.
    work: Option<W>,
    reported: Arc<StopResult<T>>,
    since_ns: u64,
    until: Instant,
}

impl<T: Send + 'static, W: FnOnce(&mut HeldThread) -> T + Send + 'static> Stopping<T, W> {
    /// The action that stops the held thread, does `work` with it and lets it go.
    pub(crate) fn action(pid: Pid, reported: Arc<StopResult<T>>, work: W) -> HeldAction {
        Box::new(move |held: &ThreadAtSync| {
            let mut stopping = Stopping {
                pid,
                thread: None,
                work: Some(work),
                reported,
                since_ns: held.since_ns,
                until: Instant::now() + STOP_WAIT,
            };
            match request_stop(pid, held) {
                Ok(thread) => stopping.thread = Some(thread),
                Err(error) => {
                    stopping.report(Err(error));
                    return Then::Nothing;
                }
            }
            Then::Watch(Box::new(stopping))
        })
    }
}

/// Requests the held thread to stop.
pub(crate) fn request_stop(pid: Pid, held: &ThreadAtSync) -> Result<HeldThread, PtraceError> {
    HeldThread::request_stop(pid, held.thread.cast_signed())
}

impl<T, W> Stopping<T, W> {
    fn report(&mut self, result: Result<T, PtraceError>) {
        self.work = None;
        let held_ns = monotonic_ns().saturating_sub(self.since_ns);
        *self.reported.lock().unwrap_or_else(PoisonError::into_inner) = Some((result, held_ns));
    }
}

impl<T, W: FnOnce(&mut HeldThread) -> T> PendingAction for Stopping<T, W> {
    fn look(&mut self) -> PendingState {
        let Some(thread) = &mut self.thread else {
            return PendingState::Over;
        };
        match (thread.look(), self.work.is_some()) {
            (Ok(true), has_work) => {
                let result = self.work.take().map(|work| work(thread));
                self.thread = None;
                if let (true, Some(result)) = (has_work, result) {
                    self.report(Ok(result));
                }
                PendingState::Over
            }
            (Ok(false), true) if Instant::now() > self.until => {
                let error = thread.not_stopped(STOP_WAIT);
                self.report(Err(error));
                PendingState::Lingers
            }
            (Ok(false), true) => PendingState::Waits,
            (Ok(false), false) => PendingState::Lingers,
            (Err(error), has_work) => {
                self.thread = None;
                if has_work {
                    self.report(Err(error));
                }
                PendingState::Over
            }
        }
    }

    fn too_late(&mut self) {
        if self.work.is_some() {
            let tid = self.thread.as_ref().map_or(0, HeldThread::tid);
            let pid = self.pid;
            self.report(Err(PtraceError::LetGo { pid, tid }));
        }
    }
}
