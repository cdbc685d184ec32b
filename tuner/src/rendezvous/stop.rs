//! Stops the held thread, so that it stays at the sync point when the hold is over: one instruction behind
//! the probed one.
//!
//! PTRACE_SEIZE and PTRACE_INTERRUPT are sent while the probe holds the thread, which stops on its way back
//! to the program. It stays stopped until it is let go, or until the thread that answered ends: the kernel
//! releases it then. This module does not know what is done meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::{HeldAction, STOP_WAIT, ThreadAtSync};
use crate::clock::monotonic_ns;
use crate::process::Pid;
use crate::ptrace::{HeldThread, PtraceError};

/// What remains to be done after an action.
pub enum Then {
    Nothing,
    /// Polled by the thread that called the action, once the held thread was let go.
    Watch(Box<dyn PendingAction>),
}

/// Work that takes longer than a hold.
pub trait PendingAction {
    fn look(&mut self) -> PendingState;

    /// The held thread was let go before the action had returned: it stops at an unknown place, and must not
    /// be used.
    fn too_late(&mut self);
}

/// The state of a pending action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingState {
    /// It continues, and the action is not over.
    Waits,
    /// The action is over, but a request of ours to the kernel is pending: it is polled until that is done.
    Lingers,
    Over,
}

/// The result of a stop, once known: the result of the work, or why the thread could not be stopped, and the
/// nanoseconds for which it was held and stopped.
pub(crate) type StopResult<T> = Mutex<Option<(Result<T, PtraceError>, u64)>>;

/// A thread that is requested to stop, and the work to do once it has.
pub(crate) struct Stopping<T, W> {
    pid: Pid,
    /// `None` once it was let go.
    thread: Option<HeldThread>,
    /// `None` once it was done or cancelled.
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
            match HeldThread::request_stop(pid, held.thread.cast_signed()) {
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
