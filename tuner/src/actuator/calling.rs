//! Calls that wait for their sync points, and calls that revert them there. They are held as in `waiting`;
//! `action::there` defines what the held thread does.

use std::time::{Duration, Instant};

use plan::{Action, SyncPoint};

use super::reverting::REVERT_LOOK;
use super::session::Session;
use super::waiting::{PlaceWait, WAITING_MAX, WITHIN_MAX, in_vain, not_now, refused};
use super::{ArmActCommand, Refusal};
use crate::action::{ActionOutcome, ActionReceipt, CallAtSyncPoint, Reached};
use crate::error::ActionError;
use crate::journal::{Mechanism, RevertOutcome, WriteHold};
use crate::process::Pid;
use crate::rendezvous::{ACTION_NS_MAX, HoldRequest, HoldTicket, MISSES_MAX, Progress, STOP_ANSWER_NS_MAX};
use crate::revert::RevertReceipt;
use crate::sync::HoldStatistics;

/// Time to wait for a running call when the session ends.
const LAST_LOOKS: Duration = Duration::from_secs(2);
const LAST_LOOK: Duration = Duration::from_millis(1);

/// Bound on trying to revert calls elsewhere after [`REVERT_WAIT`](super::reverting::REVERT_WAIT), for all
/// processes together; each is tried for the second time at least.
const ELSEWHERE_WAIT: Duration = Duration::from_secs(2);
const ELSEWHERE_WAIT_MIN: Duration = Duration::from_millis(50);

/// Threads that may reach a call's sync point without being able to make the call before it is given up: each of them is
/// stopped. Words that are left on a stack may look as if a thread were in the allocator, and are others the next time.
const UNSUITABLE_MAX: u64 = 256;

/// A call that waits, or is being made.
pub(super) struct WaitingCall {
    pid: Pid,
    at: SyncPoint,
    call: CallAtSyncPoint,
    ticket: HoldTicket,
    wait: PlaceWait,
    /// How the sync point was reached, once it was.
    reached: Option<HoldStatistics>,
    answer_ns_max: u64,
    /// Number of threads that have reached the point and could not make the call, and the reason for the last one.
    unsuitable: (u64, Option<ActionError>),
}

/// A call that is being reverted at its sync point.
pub(super) struct InverseAtSyncPoint(WaitingCall);

impl Session {
    /// Announces a call and arms it. Returns its ticket.
    pub(super) fn arm_act(&mut self, command: ArmActCommand) -> Result<u64, Refusal> {
        if self.waiting.count() >= WAITING_MAX {
            return Err(refused(format!(
                "{WAITING_MAX} changes wait for their sync points already"
            )));
        }
        let Action::Call(request) = command.act.action else {
            return Err(refused("only a call has a place in the program".to_owned()));
        };
        let pid = command.act.pid;
        // Before anything is resolved: a missing right to write must be reported first.
        self.writer(pid)?;
        self.point(pid, &command.at)?;
        self.waiting.rendezvous()?;
        let call = self
            .writer(pid)?
            .announce_call(request, command.act.reason, command.at.clone())?;
        let within = Duration::from_millis(command.within_ms).min(WITHIN_MAX);
        let waiting = self.wait_there(
            pid,
            command.at,
            call,
            PlaceWait::lasting(within),
            command.answer_ns_max,
        )?;
        let number = self.waiting.next_ticket();
        self.waiting.calls.insert(number, waiting);
        Ok(number)
    }

    /// Arms an announced call; a failure is recorded.
    fn wait_there(
        &mut self,
        pid: Pid,
        at: SyncPoint,
        call: CallAtSyncPoint,
        wait: PlaceWait,
        answer_ns_max: Option<u64>,
    ) -> Result<WaitingCall, Refusal> {
        let answer_ns_max = answer_ns_max.unwrap_or(0).max(STOP_ANSWER_NS_MAX);
        match self.hold_for(pid, &at, &call, answer_ns_max) {
            Ok(ticket) => Ok(WaitingCall {
                pid,
                at,
                call,
                ticket,
                wait,
                reached: None,
                answer_ns_max,
                unsuitable: (0, None),
            }),
            Err(refusal) => {
                self.writer(pid)?.abandon_call(&call, &refusal.message, None)?;
                Err(refusal)
            }
        }
    }

    fn hold_for(
        &mut self,
        pid: Pid,
        at: &SyncPoint,
        call: &CallAtSyncPoint,
        answer_ns_max: u64,
    ) -> Result<HoldTicket, Refusal> {
        let request = HoldRequest {
            point: self.point(pid, at)?,
            answer_ns_max,
            action_ns_max: ACTION_NS_MAX,
            misses_max: MISSES_MAX,
            store: None,
            key: None,
        };
        let rendezvous = self.waiting.rendezvous();
        rendezvous.and_then(|by| by.arm(&request, call.action()).map_err(refused))
    }

    /// Announces that a call is reverted at its sync point, and arms the inverse.
    pub(super) fn arm_inverse(
        &mut self,
        pid: Pid,
        change: u64,
        at: SyncPoint,
        wait: PlaceWait,
    ) -> Result<InverseAtSyncPoint, Refusal> {
        self.waiting.rendezvous()?;
        let call = self.writer(pid)?.announce_inverse(change)?;
        let waiting = self.wait_there(pid, at, call, wait, None)?;
        Ok(InverseAtSyncPoint(waiting))
    }

    /// Waits until the inverse was made, or its time is over.
    pub(super) fn wait_for_inverse(
        &mut self,
        InverseAtSyncPoint(mut call): InverseAtSyncPoint,
    ) -> Result<RevertReceipt, Refusal> {
        let result = loop {
            let is_late = Instant::now() >= call.wait.until || !call.pid.is_alive();
            match self.look_at(&mut call, is_late) {
                Some(result) => break result,
                None => std::thread::sleep(REVERT_LOOK),
            }
        };
        let outcome = match result.map(|receipt| receipt.outcome) {
            Ok(ActionOutcome::Running) => {
                RevertOutcome::Failed(format!("{} has not returned yet", call.call.symbol()))
            }
            Ok(_) => RevertOutcome::Reverted,
            Err(refusal) => self.revert_elsewhere(&call, refusal)?,
        };
        let change = call.call.change();
        let known = self.writer(call.pid)?.known(change)?;
        Ok(RevertReceipt {
            change,
            symbol: known.intent.action.symbol().to_owned(),
            outcome,
        })
    }

    /// Reverts a call that was not reverted at its sync point, for this reason: the change may be why the program
    /// does not come there any more.
    fn revert_elsewhere(&mut self, call: &WaitingCall, refusal: Refusal) -> Result<RevertOutcome, Refusal> {
        let at_point = refusal.message;
        if !call.pid.is_alive() {
            return Ok(RevertOutcome::Failed(at_point));
        }
        let rest = (call.wait.until + ELSEWHERE_WAIT).saturating_duration_since(Instant::now());
        let within = rest.clamp(ELSEWHERE_WAIT_MIN, ELSEWHERE_WAIT);
        let writer = self.writer(call.pid)?;
        let why = match writer.call_inverse_elsewhere(call.call.change(), within) {
            Ok(None) => return Ok(RevertOutcome::Failed(at_point)),
            Ok(Some(RevertOutcome::Failed(why))) => why,
            Ok(Some(outcome)) => return Ok(outcome),
            Err(error) => error.to_string(),
        };
        Ok(RevertOutcome::Failed(format!("{at_point}; elsewhere: {why}")))
    }

    /// Returns the results of calls that are over; each once.
    pub(super) fn collect_calls(&mut self) -> Vec<(u64, Result<ActionReceipt, Refusal>)> {
        let tickets: Vec<u64> = self.waiting.calls.keys().copied().collect();
        for number in tickets {
            let Some(mut call) = self.waiting.calls.remove(&number) else {
                continue;
            };
            let is_late = Instant::now() >= call.wait.until || !call.pid.is_alive();
            match self.look_at(&mut call, is_late) {
                None => drop(self.waiting.calls.insert(number, call)),
                Some(result) => self.waiting.called.push((number, result)),
            }
        }
        std::mem::take(&mut self.waiting.called)
    }

    /// The result of a call; `None` while it waits or is being made. With `gives_up` it no longer waits for
    /// the sync point.
    fn look_at(&mut self, call: &mut WaitingCall, gives_up: bool) -> Option<Result<ActionReceipt, Refusal>> {
        let passage = match call.reached {
            Some(passage) => passage,
            None => {
                let rendezvous = self.waiting.rendezvous().ok()?;
                let progress = match (rendezvous.progress(call.ticket), gives_up) {
                    (Progress::Pending(_), false) => return None,
                    (Progress::Pending(_), true) => rendezvous.disarm(call.ticket),
                    (progress, _) => progress,
                };
                match progress {
                    // If the thread was let go too early, the action has reported that.
                    Progress::Done(passage) | Progress::Late(passage) => *call.reached.insert(passage),
                    Progress::Pending(passage)
                    | Progress::Missed(passage)
                    | Progress::GoneBy(passage)
                    | Progress::Stored { passage, .. } => return Some(Err(self.not_called(call, passage))),
                }
            }
        };
        let writer = match self.writer(call.pid) {
            Ok(writer) => writer,
            Err(refusal) => return Some(Err(refusal)),
        };
        match writer.look_at_call(&mut call.call, passage) {
            Reached::UnderWay => None,
            Reached::Unsuitable(why) => {
                call.unsuitable = (call.unsuitable.0 + 1, Some(why));
                if gives_up || call.unsuitable.0 >= UNSUITABLE_MAX {
                    return Some(Err(self.not_called(call, passage)));
                }
                match self.hold_for(call.pid, &call.at, &call.call, call.answer_ns_max) {
                    Ok(ticket) => {
                        (call.ticket, call.reached) = (ticket, None);
                        None
                    }
                    Err(refusal) => Some(Err(self.abandoned(call, refusal, None))),
                }
            }
            Reached::Over(result) => Some((*result).map_err(Refusal::from)),
        }
    }

    fn not_called(&mut self, call: &WaitingCall, passage: HoldStatistics) -> Refusal {
        let why = match &call.unsuitable {
            (_, None) => in_vain(&call.at, &passage, (call.wait, call.pid)),
            (times, Some(ActionError::NoThread { why, .. })) => format!(
                "no thread that reached {} could make the call, in {times} attempts; the last one: {why}",
                call.at
            ),
            (times, Some(_)) => format!(
                "the thread that is to make the call did not reach {}, others did {times} times",
                call.at
            ),
        };
        let refusal = not_now(format!("{why}: nothing was called"), &passage);
        self.abandoned(call, refusal, Some(WriteHold::at(Mechanism::Stop, passage)))
    }

    /// Records why a call was not made.
    fn abandoned(&mut self, call: &WaitingCall, refusal: Refusal, hold: Option<WriteHold>) -> Refusal {
        let written = self
            .writer(call.pid)
            .and_then(|writer| Ok(writer.abandon_call(&call.call, &refusal.message, hold)?));
        written.err().unwrap_or(refusal)
    }

    /// Cancels a waiting call. Waits a little for one that is being made.
    pub(super) fn disarm_call(&mut self, number: u64) {
        let Some(mut call) = self.waiting.calls.remove(&number) else {
            return;
        };
        let began = Instant::now();
        // After that, the next inspection of the process finds the result: the thread needs no supervision.
        while began.elapsed() <= LAST_LOOKS {
            if let Some(result) = self.look_at(&mut call, true) {
                self.waiting.called.push((number, result));
                return;
            }
            std::thread::sleep(LAST_LOOK);
        }
    }

    pub(super) fn disarm_calls(&mut self, of: impl Fn(Pid) -> bool) {
        let calls = self.waiting.calls.iter();
        let tickets: Vec<u64> = calls
            .filter_map(|(number, call)| of(call.pid).then_some(*number))
            .collect();
        tickets.into_iter().for_each(|number| self.disarm_call(number));
    }
}
