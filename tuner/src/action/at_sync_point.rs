//! Calls a function in the thread that has reached a sync point, while it is there.
//!
//! The probe holds the thread in the kernel, and the thread is stopped one instruction behind
//! ([`crate::rendezvous::Stopping`]). It is then sent to call as in `call`. If it was let go before the stop
//! was requested, nothing is called. Such a call is reverted in the same way, by the same thread: any other
//! thread that reaches the point is let go.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use plan::{CallRequest, SyncPoint};

use super::call::{self, CallPlan};
use super::progress::{self, CallState, Progress};
use super::{ActionOutcome, ActionReceipt, Reason};
use crate::clock;
use crate::error::ActionError;
use crate::journal::{ActionRecord, CallRecord, Mechanism, Outcome, RevertOutcome, WriteHold};
use crate::place::ProcessMemory;
use crate::process::Process;
use crate::ptrace::{self, HeldThread};
use crate::remote::{RemoteSetup, StackView, Worker};
use crate::rendezvous::{HeldAction, StopResult, Stopping};
use crate::sync::HoldStatistics;
use crate::writer::{Writer, WriterError};

/// A call that is announced in the journal, to be made at a sync point.
pub(crate) struct CallAtSyncPoint {
    change: u64,
    /// It is the inverse of that change.
    reverts: bool,
    prepared: Arc<PreparedCall>,
    at: clock::Instant,
    entered: Option<Entered>,
}

/// What the thread that makes the call needs.
struct PreparedCall {
    process: Process,
    memory: ProcessMemory,
    setup: Arc<RemoteSetup>,
    plan: CallPlan,
    action: CallRecord,
    underway: fn(),
    reported: Arc<StopResult<Result<i32, ActionError>>>,
}

/// A thread that was sent into the function.
#[derive(Debug, Clone, Copy)]
struct Entered {
    tid: i32,
    since: Instant,
    /// Nanoseconds for which it was held in the kernel and stopped.
    hold_ns: u64,
}

/// The state of a call whose sync point was reached.
pub(crate) enum Reached {
    /// The thread has not returned.
    UnderWay,
    /// The thread could not make the call, for this reason: nothing was called, and the point may be armed again.
    Unsuitable(ActionError),
    /// It is over, and recorded.
    Over(Box<Result<ActionReceipt, WriterError>>),
}

impl PreparedCall {
    /// Sends the stopped thread to call, and returns its number.
    fn send(&self, thread: &mut HeldThread) -> Result<i32, ActionError> {
        let (memory, tid) = (&self.memory, thread.tid());
        if self.plan.thread.is_some_and(|only| only != tid) {
            return Err(ActionError::OtherThread {
                pid: self.process.pid,
                tid,
            });
        }
        let view = StackView::of(thread, memory, &self.setup.gate)?;
        let kept = self.setup.keeps_from_calling(&view, memory);
        if let Some(why) = kept.or_else(|| self.plan.is_in_region(&view, memory)) {
            let pid = self.process.pid;
            return Err(ActionError::NoThread {
                pid,
                waited_ms: 0,
                why,
            });
        }
        let task = self.plan.task(&self.action);
        let worker = Worker::begin(thread, memory, &self.setup.gate, task)?;
        call::enter(
            worker,
            &self.process,
            memory,
            &self.action,
            &self.plan,
            self.underway,
        )?;
        Ok(tid)
    }
}

impl Writer {
    /// Announces a call that is to be made at a sync point.
    pub(crate) fn announce_call(
        &mut self,
        request: CallRequest,
        reason: Reason,
        sync: SyncPoint,
    ) -> Result<CallAtSyncPoint, WriterError> {
        let at = clock::now();
        ptrace::refuse_traced(self.process().pid).map_err(ActionError::from)?;
        let space = self.space()?;
        let plan = CallPlan::new(&space, request)?;
        let (mut action, setup, memory) = self.prepare(&space, &plan)?;
        action.sync = Some(sync);
        let change = self.announce(ActionRecord::Call(action.clone()), reason, at.clone())?;
        let prepared = Arc::new(self.prepared(plan, action, setup, memory));
        Ok(CallAtSyncPoint {
            change,
            reverts: false,
            prepared,
            at,
            entered: None,
        })
    }

    /// Announces that a call made at a sync point is going to be reverted there.
    pub(crate) fn announce_inverse(&mut self, change: u64) -> Result<CallAtSyncPoint, WriterError> {
        let at = clock::now();
        let known = self.in_force(change)?;
        let ActionRecord::Call(action) = &known.intent.action else {
            return Err(WriterError::NoSyncPoint { change });
        };
        ptrace::refuse_traced(self.process().pid).map_err(ActionError::from)?;
        let space = self.space()?;
        let plan = self.inverse_of(&space, &known, action)?;
        let (mut call, setup, memory) = self.prepare(&space, &plan)?;
        call.sync.clone_from(&action.sync);
        self.announce_revert(change, Some(call.arena))?;
        let prepared = Arc::new(self.prepared(plan, call, setup, memory));
        Ok(CallAtSyncPoint {
            change,
            reverts: true,
            prepared,
            at,
            entered: None,
        })
    }

    fn prepared(
        &self,
        plan: CallPlan,
        action: CallRecord,
        setup: Arc<RemoteSetup>,
        memory: ProcessMemory,
    ) -> PreparedCall {
        PreparedCall {
            process: self.process().clone(),
            memory,
            setup,
            plan,
            action,
            underway: self.hooks.underway,
            reported: Arc::default(),
        }
    }

    /// Records that the sync point was not reached and nothing was called.
    pub(crate) fn abandon_call(
        &mut self,
        call: &CallAtSyncPoint,
        why: &str,
        hold: Option<WriteHold>,
    ) -> Result<(), WriterError> {
        match call.reverts {
            false => self.record_outcome(call.change, Outcome::NotWritten(why.to_owned()), hold),
            true => self.record_revert(call.change, RevertOutcome::Failed(why.to_owned()), false, hold),
        }
    }

    /// The state of a call whose sync point was reached.
    pub(crate) fn look_at_call(&mut self, call: &mut CallAtSyncPoint, passage: HoldStatistics) -> Reached {
        let prepared = Arc::clone(&call.prepared);
        let reported = || {
            prepared
                .reported
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        };
        let entered = match call.entered {
            Some(entered) => entered,
            None => {
                match reported()
                    .map(|(reported, hold_ns)| (reported.unwrap_or_else(|error| Err(error.into())), hold_ns))
                {
                    Some((Ok(tid), hold_ns)) => {
                        (self.hooks.after_write)();
                        let since = Instant::now();
                        *call.entered.insert(Entered { tid, since, hold_ns })
                    }
                    Some((
                        Err(error @ (ActionError::OtherThread { .. } | ActionError::NoThread { .. })),
                        _,
                    )) => {
                        return Reached::Unsuitable(error);
                    }
                    Some((Err(error), hold_ns)) => {
                        return self.not_entered(call, error, HoldStatistics { hold_ns, ..passage });
                    }
                    // It panicked.
                    None => return self.not_entered(call, no_thread(prepared.process.pid), passage),
                }
            }
        };
        let state = match progress::look(&prepared.memory, &prepared.action) {
            Err(error) => Err(error.into()),
            Ok(Progress::Returned(answer)) => Ok(CallState::Returned(answer)),
            Ok(_) if entered.since.elapsed() <= prepared.plan.wait => return Reached::UnderWay,
            Ok(_) => self.state(&prepared.action, &prepared.setup, &prepared.memory),
        };
        Reached::Over(Box::new(match state {
            Err(error) => Err(error.into()),
            Ok(state) => self.conclude_call(call, entered, &state, passage),
        }))
    }

    fn not_entered(
        &mut self,
        call: &CallAtSyncPoint,
        error: ActionError,
        passage: HoldStatistics,
    ) -> Reached {
        let hold = WriteHold::at(Mechanism::Stop, passage);
        let recorded = self.abandon_call(call, &error.to_string(), Some(hold));
        Reached::Over(Box::new(Err(recorded.err().unwrap_or(error.into()))))
    }

    fn conclude_call(
        &mut self,
        call: &CallAtSyncPoint,
        entered: Entered,
        state: &CallState,
        passage: HoldStatistics,
    ) -> Result<ActionReceipt, WriterError> {
        let prepared = &call.prepared;
        let passage = HoldStatistics {
            hold_ns: entered.hold_ns,
            ..passage
        };
        let hold = WriteHold::at(Mechanism::Stop, passage);
        let left = || ActionError::Left {
            pid: prepared.process.pid,
            call: prepared.action.symbol.clone(),
        };
        let is_left = matches!(state, CallState::Left(_)) && call.reverts;
        let outcome = match state.answer(&prepared.action) {
            None if is_left || matches!(state, CallState::NotMade) => {
                self.abandon_call(call, &left().to_string(), Some(hold))?;
                return Err(left().into());
            }
            None => ActionOutcome::Running,
            Some(answer) => {
                match call.reverts {
                    false => self.record_answer(call.change, &prepared.action, answer, Some(hold))?,
                    true => self.record_revert(call.change, RevertOutcome::Reverted, false, Some(hold))?,
                }
                if matches!(state, CallState::Returned(_)) {
                    self.leave(&prepared.action.arena, entered.tid, &prepared.setup);
                }
                answer.outcome(&prepared.action)
            }
        };
        let text = format!("call {}", prepared.plan.text);
        Ok(ActionReceipt::new(
            call.change,
            text,
            outcome,
            hold,
            call.at.clone(),
        ))
    }
}

impl CallAtSyncPoint {
    /// The change that it makes or reverts.
    pub(crate) fn change(&self) -> u64 {
        self.change
    }

    /// Shown form of the call: `f(1)`.
    pub(crate) fn symbol(&self) -> &str {
        &self.prepared.action.symbol
    }

    /// Runs while a thread is held at the point.
    pub(crate) fn action(&self) -> HeldAction {
        let prepared = Arc::clone(&self.prepared);
        let (pid, reported) = (prepared.process.pid, Arc::clone(&prepared.reported));
        Stopping::action(pid, reported, move |thread: &mut HeldThread| {
            prepared.send(thread)
        })
    }
}

fn no_thread(pid: crate::process::Pid) -> ActionError {
    ActionError::NoThread {
        pid,
        waited_ms: 0,
        why: "no worker released the thread that was held".to_owned(),
    }
}
