//! How processes agree on an iteration. At first the probe at the iteration's begin only reads the number
//! that the program gives to each iteration. Once every process was seen twice, an iteration shortly after
//! all of them is chosen, and each process is stopped there ([`gather`]). If a process was too fast, nothing
//! is written, all are let go, and a later iteration is tried. Numbers that do not count in the same way in
//! all processes are refused. Keeps no journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use plan::Bytes;
use thiserror::Error;

use super::Refusal;
use super::waiting::PlaceWait;
use crate::journal::{Mechanism, WriteHold};
use crate::process::Pid;
use crate::rendezvous::{
    ACTION_NS_MAX, ANSWER_NS_MAX, Gathered, HoldError, HoldRequest, HoldTicket, KeyedHits, LEAD, NextAttempt,
    ProcessWrite, Progress, Rendezvous, Scattered, Then, gather,
};
use crate::sync::{HoldStatistics, KeyPlace, ResolvedPoint};
use crate::writable_place::WritablePlace;
use crate::write::Hooks;

const LEAD_MAX: i64 = 4_096;
/// Attempts in which a process had passed the iteration.
const TRIES_MAX: u32 = 64;
/// Attempts in which the processes that had arrived were stopped up to the bound.
const WAITS_MAX: u32 = 2;

/// A process that takes part.
pub(super) struct Participant {
    point: ResolvedPoint,
    key: KeyPlace,
    place: Arc<WritablePlace>,
    change: (Bytes, Bytes),
    passage: HoldStatistics,
}

/// All processes on the way to the same iteration.
pub(super) struct Assembly {
    members: Vec<Participant>,
    tickets: Vec<HoldTicket>,
    hooks: Hooks,
    wait: PlaceWait,
    called_off: Arc<AtomicBool>,
    /// The running attempt, in a separate thread.
    attempt: Option<JoinHandle<Gathered>>,
    lead: i64,
    tries: u32,
    /// Attempts in which the first to arrive waited without success.
    waits: u32,
}

/// The result, and how each process was held.
pub(super) struct Assembled {
    pub(super) result: Result<(), AssemblyError>,
    pub(super) holds: Vec<WriteHold>,
}

/// Why nothing was written in any of the processes.
#[derive(Debug, Error)]
pub(super) enum AssemblyError {
    #[error("process {pid}: {error}")]
    Participant { pid: Pid, error: Refusal },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Hold(#[from] HoldError),
    #[error(transparent)]
    Scattered(Scattered),
    #[error("{scattered}; {error}")]
    NotArmed { scattered: Scattered, error: HoldError },
    #[error("it was called off")]
    CalledOff,
    #[error("process {0} has ended")]
    Ended(Pid),
    /// Some were not seen twice in time.
    #[error("{place} was not reached within {waited} by process {}", absent.join(", "))]
    Absent {
        place: String,
        waited: String,
        absent: Vec<String>,
    },
    #[error("nothing can be held here")]
    NoHolds,
}

impl Assembly {
    pub(super) fn start(
        members: Vec<Participant>,
        rendezvous: &mut dyn Rendezvous,
        hooks: Hooks,
        wait: PlaceWait,
    ) -> Result<Assembly, HoldError> {
        let mut assembly = Assembly {
            members,
            tickets: Vec::new(),
            hooks,
            wait,
            called_off: Arc::default(),
            attempt: None,
            lead: LEAD,
            tries: 0,
            waits: 0,
        };
        assembly.arm(rendezvous)?;
        Ok(assembly)
    }

    fn arm(&mut self, rendezvous: &mut dyn Rendezvous) -> Result<(), HoldError> {
        self.tries += 1;
        for member in &self.members {
            let request = HoldRequest {
                point: member.point.clone(),
                answer_ns_max: ANSWER_NS_MAX,
                action_ns_max: ACTION_NS_MAX,
                misses_max: 1,
                store: None,
                key: Some(member.key),
            };
            match rendezvous.arm(&request, Box::new(|_| Then::Nothing)) {
                Ok(ticket) => self.tickets.push(ticket),
                Err(error) => {
                    self.disarm(rendezvous);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn disarm(&mut self, rendezvous: &mut dyn Rendezvous) {
        for (member, ticket) in self.members.iter_mut().zip(self.tickets.drain(..)) {
            member.add(&rendezvous.disarm(ticket));
        }
    }

    pub(super) fn poll(&mut self, rendezvous: &mut dyn Rendezvous) -> Option<Assembled> {
        let is_over = Instant::now() >= self.wait.until;
        let Some(attempt) = self.attempt.take() else {
            return self.look(rendezvous, is_over);
        };
        if !attempt.is_finished() {
            if is_over {
                self.call_off();
            }
            self.attempt = Some(attempt);
            return None;
        }
        let gathered = attempt.join().unwrap_or_else(|_| Gathered {
            result: Err(Scattered::Panicked),
            held_ns: Vec::new(),
        });
        self.disarm(rendezvous);
        for (member, held_ns) in self.members.iter_mut().zip(&gathered.held_ns) {
            member.passage.hold_ns = *held_ns;
        }
        match gathered.result {
            Ok(()) => Some(self.over(Ok(()))),
            Err(scattered) if self.may_try(scattered.again()) && !is_over => {
                for (member, held_ns) in self.members.iter_mut().zip(&gathered.held_ns) {
                    member.passage.misses += 1;
                    member.passage.missed_ns += *held_ns;
                }
                self.lead = (self.lead * 2).min(LEAD_MAX);
                let error = self.arm(rendezvous).err()?;
                Some(self.over(Err(AssemblyError::NotArmed { scattered, error })))
            }
            Err(scattered) => Some(self.over(Err(AssemblyError::Scattered(scattered)))),
        }
    }

    /// Cancels it: a running attempt lets all processes go within its bounds.
    pub(super) fn call_off(&self) {
        self.called_off.store(true, Ordering::Relaxed);
    }

    /// Starts an attempt once every process was seen twice.
    fn look(&mut self, rendezvous: &mut dyn Rendezvous, is_over: bool) -> Option<Assembled> {
        let keyed_hits = rendezvous.keyed_hits();
        let is_seen = |ticket: &HoldTicket| keyed_hits.seen(*ticket).hits >= 2;
        let reason = if self.called_off.load(Ordering::Relaxed) {
            Some(AssemblyError::CalledOff)
        } else if let Some(ended) = self.members.iter().find(|member| !member.pid().is_alive()) {
            Some(AssemblyError::Ended(ended.pid()))
        } else if is_over {
            Some(self.absent(&*keyed_hits))
        } else {
            None
        };
        if let Some(reason) = reason {
            self.disarm(rendezvous);
            return Some(self.over(Err(reason)));
        }
        if self.tickets.iter().all(is_seen) {
            self.attempt = Some(self.begin(keyed_hits));
        }
        None
    }

    fn begin(&self, keyed_hits: Arc<dyn KeyedHits>) -> JoinHandle<Gathered> {
        let part = |(member, ticket): (&Participant, &HoldTicket)| ProcessWrite {
            place: Arc::clone(&member.place),
            change: member.change,
            ticket: *ticket,
        };
        let parts: Vec<ProcessWrite> = self.members.iter().zip(&self.tickets).map(part).collect();
        let (lead, hooks, called_off) = (self.lead, self.hooks, Arc::clone(&self.called_off));
        std::thread::spawn(move || gather(&parts, &*keyed_hits, lead, &called_off, hooks))
    }

    fn may_try(&mut self, again: NextAttempt) -> bool {
        self.waits += u32::from(again == NextAttempt::AfterWaiting);
        again != NextAttempt::Never && self.tries < TRIES_MAX && self.waits < WAITS_MAX
    }

    /// Describes the processes that were not seen twice in time.
    fn absent(&self, keyed_hits: &dyn KeyedHits) -> AssemblyError {
        let of = self.members.iter().zip(&self.tickets);
        let absent = of
            .filter(|(_, ticket)| keyed_hits.seen(**ticket).hits < 2)
            .map(|(member, _)| member.pid().to_string());
        let place = self
            .members
            .first()
            .map(|member| member.point.place().to_string());
        AssemblyError::Absent {
            place: place.unwrap_or_default(),
            waited: self.wait.length(),
            absent: absent.collect(),
        }
    }

    pub(super) fn over(&self, result: Result<(), AssemblyError>) -> Assembled {
        let hold = |member: &Participant| WriteHold::at(Mechanism::Stop, member.passage);
        Assembled {
            result,
            holds: self.members.iter().map(hold).collect(),
        }
    }
}

impl Participant {
    pub(super) fn new(
        point: ResolvedPoint,
        key: KeyPlace,
        place: Arc<WritablePlace>,
        change: (Bytes, Bytes),
    ) -> Participant {
        Participant {
            point,
            key,
            place,
            change,
            passage: HoldStatistics::default(),
        }
    }

    fn pid(&self) -> Pid {
        self.place.pid()
    }

    fn add(&mut self, progress: &Progress) {
        let (Progress::Pending(passage)
        | Progress::Done(passage)
        | Progress::Late(passage)
        | Progress::Missed(passage)
        | Progress::GoneBy(passage)
        | Progress::Stored { passage, .. }) = *progress;
        self.passage = HoldStatistics {
            hits: self.passage.hits + passage.hits,
            misses: self.passage.misses,
            missed_ns: self.passage.missed_ns,
            ..passage
        };
    }
}
