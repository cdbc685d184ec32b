//! The calls that wait for their sync points. What holds the program there is the same as for `waiting`; what the held thread does,
//! `action::there`.

use std::time::{Duration, Instant};

use super::session::Session;
use super::waiting::{WAITING_MAX, WITHIN_MAX, in_vain, not_now, refused};
use super::{ArmActCommand, Refusal};
use crate::action::{Action, ActionReceipt, CallThere, Reached};
use crate::journal::Hold;
use crate::process::Pid;
use crate::sync::{
    ACTION_NS_MAX, HoldRequest, MISSES_MAX, Passage, Progress, STOP_ANSWER_NS_MAX, SyncPlace, Ticket,
};
use crate::writer::Mechanism;

/// A call that is to be over when a session ends is waited for so long; its thread is on its way then.
const LAST_LOOKS: Duration = Duration::from_secs(2);
const LAST_LOOK: Duration = Duration::from_millis(1);

/// A call that waits, or is being made.
pub(super) struct WaitingCall {
    pid: Pid,
    at: SyncPlace,
    call: CallThere,
    ticket: Ticket,
    until: Instant,
    /// How the point was reached, once it was.
    reached: Option<Passage>,
}

impl Session {
    /// Announces a call and arms it. The answer is its ticket.
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
        // Before anything is looked up: whoever may not write must be told so first.
        self.writer(pid)?;
        let point = self.point(pid, &command.at)?;
        self.waiting.rendezvous()?;
        let call = self
            .writer(pid)?
            .announce_call(request, command.act.reason, command.at.clone())?;
        let request = HoldRequest {
            point,
            answer_ns_max: command.answer_ns_max.unwrap_or(0).max(STOP_ANSWER_NS_MAX),
            action_ns_max: ACTION_NS_MAX,
            misses_max: MISSES_MAX,
            store: None,
            key: None,
        };
        let rendezvous = self.waiting.rendezvous();
        let armed = rendezvous.and_then(|by| by.arm(&request, call.action()).map_err(refused));
        match armed {
            Ok(ticket) => {
                let waiting = WaitingCall {
                    pid,
                    at: command.at,
                    call,
                    ticket,
                    until: Instant::now() + Duration::from_millis(command.within_ms).min(WITHIN_MAX),
                    reached: None,
                };
                let number = self.waiting.next_ticket();
                self.waiting.calls.insert(number, waiting);
                Ok(number)
            }
            Err(refusal) => {
                self.writer(pid)?.abandon_call(&call, &refusal.message, None)?;
                Err(refusal)
            }
        }
    }

    /// Those that are over are told, once.
    pub(super) fn collect_calls(&mut self) -> Vec<(u64, Result<ActionReceipt, Refusal>)> {
        let tickets: Vec<u64> = self.waiting.calls.keys().copied().collect();
        for number in tickets {
            let Some(mut call) = self.waiting.calls.remove(&number) else {
                continue;
            };
            let is_late = Instant::now() >= call.until || !call.pid.is_alive();
            match self.look_at(&mut call, is_late) {
                None => drop(self.waiting.calls.insert(number, call)),
                Some(result) => self.waiting.called.push((number, result)),
            }
        }
        std::mem::take(&mut self.waiting.called)
    }

    /// What came of a call; none while it waits, or is being made. Who gives up waits no longer for the point.
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
                    // Of one that was let go too early, the action has told.
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
            Reached::Over(result) => Some(result.map_err(Refusal::from)),
        }
    }

    fn not_called(&mut self, call: &WaitingCall, passage: Passage) -> Refusal {
        let why = format!("{}: nothing was called", in_vain(&call.at, &passage));
        let hold = Some(Hold::at(Mechanism::Stop, passage));
        let written = self
            .writer(call.pid)
            .and_then(|writer| Ok(writer.abandon_call(&call.call, &why, hold)?));
        written.err().unwrap_or_else(|| not_now(why))
    }

    /// A call is to wait no longer. One that is being made is waited for a little.
    pub(super) fn disarm_call(&mut self, number: u64) {
        let Some(mut call) = self.waiting.calls.remove(&number) else {
            return;
        };
        let began = Instant::now();
        // After that, the next look at the process tells what came of it: the thread needs nobody.
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
