//! One write that waits for its sync point, and the ways in which it can be made there, cheapest first: by
//! the probe itself, while the probe holds the thread, while the thread is stopped. If one method gets no answer
//! in time, the next one is tried.

use std::sync::{Arc, Mutex, PoisonError};

use plan::{Bytes, SyncPoint};

use crate::journal::{Mechanism, WriteHold};
use crate::rendezvous::{
    ACTION_NS_MAX, ANSWER_NS_MAX, HeldAction, HoldError, HoldRequest, HoldTicket, MISSES_MAX, Progress,
    Rendezvous, STOP_ANSWER_NS_MAX, StopResult, Stopping, Store, Then,
};
use crate::sync::{HoldStatistics, ResolvedPoint};
use crate::writable_place::WritablePlace;
use crate::write::{self, Hooks, WriteError};

/// Options of the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteOptions {
    pub(super) answer_ns_max: u64,
    /// Stop the thread even if another method suffices.
    pub(super) by_stop: bool,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            answer_ns_max: ANSWER_NS_MAX,
            by_stop: false,
        }
    }
}

/// A write that waits.
pub(super) struct Armed {
    point: ResolvedPoint,
    target: Arc<WritablePlace>,
    /// The expected and the new value.
    change: (Bytes, Bytes),
    answer_ns_max: u64,
    pub(super) ticket: HoldTicket,
    method: HoldMethod,
    /// Hits and misses of the ways that were given up.
    before: HoldStatistics,
    written: Arc<Written>,
    stopped: Arc<StopResult<Result<Bytes, WriteError>>>,
}

/// The writer, and how the thread is kept at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldMethod {
    Store,
    Hold,
    Stop,
}

/// The result of the action, once it was called.
type Written = Mutex<Option<Result<Bytes, WriteError>>>;

/// How a waiting write ended.
pub(super) enum WriteEnd {
    /// It was done at the sync point.
    There(Result<Bytes, WriteError>, WriteHold),
    /// It was done after the program had continued: the instant is unknown.
    Late(WriteHold),
    /// It was not done.
    Never(WriteHold),
}

impl Armed {
    pub(super) fn new(
        point: ResolvedPoint,
        target: Arc<WritablePlace>,
        change: (Bytes, Bytes),
        how: WriteOptions,
        rendezvous: &mut dyn Rendezvous,
        hooks: Hooks,
    ) -> Result<Armed, HoldError> {
        // A probe cannot check whether a library is still at its place; the program itself is, as long as it
        // runs.
        let stores = target.stays()
            && rendezvous.store_refusal().is_none()
            && matches!(change.1.as_slice().len(), 1 | 8);
        let mut armed = Armed {
            point,
            target,
            change,
            answer_ns_max: how.answer_ns_max,
            ticket: HoldTicket(0),
            method: match (how.by_stop, stores) {
                (true, _) => HoldMethod::Stop,
                (false, true) => HoldMethod::Store,
                (false, false) => HoldMethod::Hold,
            },
            before: HoldStatistics::default(),
            written: Arc::default(),
            stopped: Arc::default(),
        };
        armed.arm(rendezvous, hooks)?;
        Ok(armed)
    }

    pub(super) fn target(&self) -> &WritablePlace {
        &self.target
    }

    pub(super) fn place(&self) -> &SyncPoint {
        self.point.place()
    }

    fn arm(&mut self, rendezvous: &mut dyn Rendezvous, hooks: Hooks) -> Result<(), HoldError> {
        let (expected, new) = self.change;
        let store = (self.method == HoldMethod::Store).then(|| Store {
            address: self.target.location().address,
            expected: expected.word(),
            value: new.word(),
            width: new.as_slice().len() as u64,
        });
        let request = HoldRequest {
            point: self.point.clone(),
            answer_ns_max: match self.method {
                HoldMethod::Stop => self.answer_ns_max.max(STOP_ANSWER_NS_MAX),
                HoldMethod::Store | HoldMethod::Hold => self.answer_ns_max,
            },
            action_ns_max: ACTION_NS_MAX,
            misses_max: MISSES_MAX,
            store,
            key: None,
        };
        self.ticket = rendezvous.arm(&request, self.action(hooks))?;
        Ok(())
    }

    fn action(&self, hooks: Hooks) -> HeldAction {
        let (expected, new) = self.change;
        let target = Arc::clone(&self.target);
        let commit = move || hooks.around(|| write::commit(&target, expected, new, hooks.before_store));
        if self.method == HoldMethod::Stop {
            let reported = Arc::clone(&self.stopped);
            return Stopping::action(self.target.pid(), reported, move |_| commit());
        }
        let written = Arc::clone(&self.written);
        Box::new(move |_| {
            *written.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit());
            Then::Nothing
        })
    }

    /// How it ended; `None` if it has not.
    pub(super) fn poll(&mut self, rendezvous: &mut dyn Rendezvous, hooks: Hooks) -> Option<WriteEnd> {
        let progress = rendezvous.progress(self.ticket);
        let next = match progress {
            Progress::Pending(_) => return None,
            // A probe cannot write the page (not resident, or shared until the first write).
            Progress::Missed(_) if self.method == HoldMethod::Store => HoldMethod::Hold,
            // Answers are repeatedly late: a stopped thread can wait for a late one.
            Progress::Missed(_) if self.method == HoldMethod::Hold => HoldMethod::Stop,
            progress => return Some(self.over(progress)),
        };
        if let Progress::Missed(passage) = progress {
            self.before = self.summed(passage);
        }
        self.method = next;
        match self.arm(rendezvous, hooks) {
            Ok(()) => None,
            Err(_) => Some(WriteEnd::Never(WriteHold::at(Mechanism::Rendezvous, self.before))),
        }
    }

    /// Adds the hits and misses of the earlier ways.
    fn summed(&self, passage: HoldStatistics) -> HoldStatistics {
        HoldStatistics {
            hits: passage.hits + self.before.hits,
            misses: passage.misses + self.before.misses,
            passed: passage.passed + self.before.passed,
            missed_ns: passage.missed_ns + self.before.missed_ns,
            ..passage
        }
    }

    pub(super) fn over(&self, progress: Progress) -> WriteEnd {
        match progress {
            Progress::Pending(passage) | Progress::Missed(passage) | Progress::GoneBy(passage) => {
                WriteEnd::Never(WriteHold::at(self.mechanism(), self.summed(passage)))
            }
            Progress::Late(passage) | Progress::Done(passage) if self.method == HoldMethod::Stop => {
                self.after_stop(self.summed(passage))
            }
            Progress::Late(passage) => {
                WriteEnd::Late(WriteHold::at(Mechanism::Rendezvous, self.summed(passage)))
            }
            Progress::Done(passage) => {
                let hold = WriteHold::at(Mechanism::Rendezvous, self.summed(passage));
                let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).take();
                match written {
                    Some(written) => WriteEnd::There(written, hold),
                    // The action panicked before the write.
                    None => WriteEnd::Never(hold),
                }
            }
            Progress::Stored {
                found,
                written,
                passage,
            } => self.stored(found, written, passage),
        }
    }

    fn after_stop(&self, passage: HoldStatistics) -> WriteEnd {
        let reported = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take();
        let held = |hold_ns| WriteHold::at(Mechanism::Stop, HoldStatistics { hold_ns, ..passage });
        match reported {
            Some((Ok(written), hold_ns)) => WriteEnd::There(written, held(hold_ns)),
            Some((Err(error), hold_ns)) => WriteEnd::There(Err(error.into()), held(hold_ns)),
            // It panicked, or the thread that runs it has ended.
            None => WriteEnd::Never(held(passage.hold_ns)),
        }
    }

    fn stored(&self, found: u64, written: bool, passage: HoldStatistics) -> WriteEnd {
        let size = self.change.1.as_slice().len();
        let found = Bytes::new(&found.to_le_bytes()[..size]).unwrap_or(self.change.0);
        let result = match written {
            true => Ok(found),
            false => Err(WriteError::Unexpected {
                pid: self.target.pid(),
                symbol: self.target.location().symbol.clone(),
                value_type: self.target.value_type(),
                found,
                expected: self.change.0,
            }),
        };
        WriteEnd::There(result, WriteHold::at(Mechanism::Store, passage))
    }

    fn mechanism(&self) -> Mechanism {
        match self.method {
            HoldMethod::Stop => Mechanism::Stop,
            HoldMethod::Store | HoldMethod::Hold => Mechanism::Rendezvous,
        }
    }
}
