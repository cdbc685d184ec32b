//! The changes that wait for their sync points.
//!
//! [`Rendezvous`] holds the program; `armed` defines the write, which is decided before anything is armed.
//! Nothing here waits for the program; `reverting` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plan::{Bytes, SyncPoint};

use super::armed::{Armed, WriteEnd, WriteOptions};
use super::calling::WaitingCall;
use super::session::{Session, keep_newest};
use super::together::WaitingGroup;
use super::{ActuatorRefusalKind, ArmCommand, Collected, REPLY_BYTES_MAX, Refusal, ServeOptions};
use crate::action::ActionReceipt;
use crate::journal::RevertOutcome;
use crate::process::Pid;
use crate::rendezvous::{ANSWER_NS_MAX, Progress, Rendezvous};
use crate::space::AddressSpace;
use crate::sync::{HoldStatistics, ResolvedPoint};
use crate::writable_place::WritablePlace;
use crate::write::WriteError;
use crate::writer::{Announced, Receipt};

/// Bound on the changes that wait at once.
pub(super) const WAITING_MAX: usize = 256;
/// How often a change is announced anew because the program had written the variable before the sync point
/// was reached.
const RENEWALS_MAX: u32 = 3;
/// The longest time that a change may wait.
pub(super) const WITHIN_MAX: Duration = Duration::from_secs(24 * 3600);

/// The waiting changes, and the rendezvous.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) options: ServeOptions,
    rendezvous: Option<Box<dyn Rendezvous>>,
    sets: BTreeMap<u64, WaitingSet>,
    pub(super) groups: Vec<WaitingGroup>,
    pub(super) finished: Vec<(u64, Result<Receipt, Refusal>)>,
    pub(super) calls: BTreeMap<u64, WaitingCall>,
    /// Results of calls that were not collected yet.
    pub(super) called: Vec<(u64, Result<ActionReceipt, Refusal>)>,
    newest: u64,
}

struct WaitingSet {
    command: ArmCommand,
    announced: Announced,
    armed: Armed,
    wait: PlaceWait,
    renewals: u32,
}

/// The time in which a place must be reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceWait {
    since: Instant,
    pub(super) until: Instant,
}

impl PlaceWait {
    /// A wait that begins now.
    pub(super) fn lasting(duration: Duration) -> PlaceWait {
        let since = Instant::now();
        PlaceWait {
            since,
            until: since + duration,
        }
    }

    /// The time in which the place must be reached, in words.
    pub(super) fn length(self) -> String {
        in_words(self.until.saturating_duration_since(self.since))
    }

    /// How long it was waited for a place that a process did not reach, and why not longer.
    fn in_vain(self, place: &SyncPoint, is_alive: bool, now: Instant) -> String {
        match (is_alive, now < self.until) {
            (false, _) => format!("the program ended before it reached {place}"),
            (true, false) => format!("the program did not reach {place} within {}", self.length()),
            (true, true) => {
                let waited = in_words(now.saturating_duration_since(self.since));
                format!("the program had not reached {place} after {waited}, when the change was withdrawn")
            }
        }
    }
}

fn in_words(duration: Duration) -> String {
    match duration.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms => format!("{} s", (ms as f64 / 100.0).round() / 10.0),
    }
}

impl Waiting {
    pub(super) fn new(options: ServeOptions) -> Waiting {
        Waiting {
            options,
            ..Waiting::default()
        }
    }

    pub(super) fn rendezvous(&mut self) -> Result<&mut dyn Rendezvous, Refusal> {
        if self.rendezvous.is_none() {
            let make = self.options.rendezvous;
            let made = make.map_or_else(|| Err("no rule of this session needed a place when it began, so it gave up the right to probe".into()), |make| make());
            self.rendezvous =
                Some(made.map_err(|reason| refused(format!("cannot act at a sync point: {reason}")))?);
        }
        match &mut self.rendezvous {
            Some(rendezvous) => Ok(rendezvous.as_mut()),
            None => unreachable!("it was made above"),
        }
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Number of changes that wait; those of a group count separately.
    pub(super) fn count(&self) -> usize {
        self.sets.len() + self.calls.len() + self.groups.iter().map(WaitingGroup::len).sum::<usize>()
    }

    pub(super) fn arm(
        &mut self,
        point: ResolvedPoint,
        place: Arc<WritablePlace>,
        change: (Bytes, Bytes),
        how: WriteOptions,
    ) -> Result<Armed, Refusal> {
        let hooks = self.options.hooks;
        Armed::new(point, place, change, how, self.rendezvous()?, hooks).map_err(refused)
    }

    pub(super) fn poll(&mut self, armed: &mut Armed) -> Option<WriteEnd> {
        let hooks = self.options.hooks;
        armed.poll(self.rendezvous().ok()?, hooks)
    }

    pub(super) fn stop(&mut self, armed: &Armed) -> WriteEnd {
        match self.rendezvous() {
            Ok(rendezvous) => armed.over(rendezvous.disarm(armed.ticket)),
            Err(_) => armed.over(Progress::Missed(HoldStatistics::default())),
        }
    }
}

/// The result of arming a set.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum ArmedSet {
    Waits(WaitingSet),
    /// The variable already has the value.
    There(Receipt),
}

impl Session {
    /// Announces a set and arms it. Returns its ticket.
    pub(super) fn arm(&mut self, command: ArmCommand) -> Result<u64, Refusal> {
        if self.waiting.count() >= WAITING_MAX {
            return Err(refused(format!(
                "{WAITING_MAX} changes wait for their sync points already"
            )));
        }
        let result = self.arm_until(command, None, 0)?;
        let ticket = self.waiting.next_ticket();
        match result {
            ArmedSet::Waits(set) => drop(self.waiting.sets.insert(ticket, set)),
            ArmedSet::There(receipt) => self.waiting.finished.push((ticket, Ok(receipt))),
        }
        Ok(ticket)
    }

    /// Its time is counted from now, unless it has waited before (`until`).
    fn arm_until(
        &mut self,
        command: ArmCommand,
        wait: Option<PlaceWait>,
        renewals: u32,
    ) -> Result<ArmedSet, Refusal> {
        let pid = command.set.pid;
        let (place, request) = self.prepare(command.set.clone())?;
        let point = self.point(pid, &command.at)?;
        let announced = self
            .writer(pid)?
            .announce_set(&place, request, Some(command.at.clone()), None)?;
        if announced.change.is_none() {
            let there = Ok(announced.new);
            return Ok(ArmedSet::There(
                self.writer(pid)?.conclude(&announced, there, None)?,
            ));
        }
        let how = WriteOptions {
            answer_ns_max: command.answer_ns_max.unwrap_or(ANSWER_NS_MAX),
            by_stop: command.by_stop,
        };
        let change = (announced.old, announced.new);
        let within = Duration::from_millis(command.within_ms).min(WITHIN_MAX);
        match self.waiting.arm(point, Arc::new(place), change, how) {
            Ok(armed) => Ok(ArmedSet::Waits(WaitingSet {
                wait: wait.unwrap_or_else(|| PlaceWait::lasting(within)),
                command,
                announced,
                armed,
                renewals,
            })),
            Err(refusal) => {
                self.writer(pid)?.abandon(&announced, &refusal.message, None)?;
                Err(refusal)
            }
        }
    }

    pub(super) fn point(&self, pid: Pid, place: &SyncPoint) -> Result<ResolvedPoint, Refusal> {
        let space = AddressSpace::read(&self.open(pid)?, &self.images())?;
        Ok(ResolvedPoint::resolve(&space, place)?)
    }

    /// The results of waiting sets.
    pub(super) fn collect(&mut self) -> Collected {
        let tickets: Vec<u64> = self.waiting.sets.keys().copied().collect();
        for ticket in tickets {
            let Some(mut set) = self.waiting.sets.remove(&ticket) else {
                continue;
            };
            let pid = set.command.set.pid;
            let over = match self.waiting.poll(&mut set.armed) {
                Some(over) => Some(over),
                None if Instant::now() >= set.wait.until || !pid.is_alive() => {
                    Some(self.waiting.stop(&set.armed))
                }
                None => None,
            };
            match over {
                None => drop(self.waiting.sets.insert(ticket, set)),
                Some(over) => self.finish_set(ticket, set, over),
            }
        }
        self.collect_groups();
        let mut finished = std::mem::take(&mut self.waiting.finished);
        // The oldest go first; the rest is returned next time.
        finished.reverse();
        let mut rest = finished.clone();
        let omitted = keep_newest(&mut finished, REPLY_BYTES_MAX / 2);
        rest.truncate(omitted);
        rest.reverse();
        finished.reverse();
        self.waiting.finished = rest;
        let acted = self.collect_calls();
        Collected {
            left: self.waiting.count() + self.waiting.finished.len(),
            finished,
            acted,
        }
    }

    fn finish_set(&mut self, ticket: u64, set: WaitingSet, over: WriteEnd) {
        let is_renewed = set.renewals < RENEWALS_MAX
            && set.command.set.expect_old.is_none()
            && matches!(&over, WriteEnd::There(Err(WriteError::Unexpected { .. }), _));
        let (command, wait, renewals) = (set.command.clone(), set.wait, set.renewals + 1);
        let mut result = self.conclude(set, over);
        if is_renewed {
            match self.arm_until(command, Some(wait), renewals) {
                Ok(ArmedSet::Waits(again)) => {
                    self.waiting.sets.insert(ticket, again);
                    return;
                }
                Ok(ArmedSet::There(receipt)) => result = Ok(receipt),
                Err(refusal) => result = Err(refusal),
            }
        }
        self.waiting.finished.push((ticket, result));
    }

    /// Records the outcome of a set that waited.
    fn conclude(&mut self, set: WaitingSet, over: WriteEnd) -> Result<Receipt, Refusal> {
        let (pid, place) = (set.command.set.pid, &set.command.at);
        let writer = self.writer(pid)?;
        match over {
            WriteEnd::There(written, hold) => Ok(writer.conclude(&set.announced, written, Some(hold))?),
            WriteEnd::Late(hold) => {
                let found = set.armed.target().read().map_err(WriteError::from);
                let receipt = writer.conclude(&set.announced, found, Some(hold))?;
                let reverted = receipt.change.map(|change| writer.revert(change));
                let now = match reverted {
                    Some(Ok(reverted)) if reverted.outcome == RevertOutcome::Reverted => {
                        "it was reverted".to_owned()
                    }
                    Some(Ok(reverted)) => format!("it could not be reverted: {:?}", reverted.outcome),
                    Some(Err(error)) => format!("it could not be reverted: {error}"),
                    None => "nothing was changed".to_owned(),
                };
                Err(refused(format!(
                    "the program had to be let go from {place} while it was being written, so that the instant is not known; {now}"
                )))
            }
            WriteEnd::Never(hold) => {
                let passage = hold.passage.unwrap_or_default();
                let why = not_reached(place, &passage, (set.wait, pid));
                writer.abandon(&set.announced, &why, Some(hold))?;
                Err(not_now(why, &passage))
            }
        }
    }

    pub(super) fn disarm(&mut self, ticket: u64) {
        if let Some(set) = self.waiting.sets.remove(&ticket) {
            let over = self.waiting.stop(&set.armed);
            let result = self.conclude(set, over);
            self.waiting.finished.push((ticket, result));
        } else {
            self.disarm_call(ticket);
        }
        self.disarm_groups(|group| group.has_ticket(ticket));
    }

    pub(super) fn disarm_all(&mut self, of: impl Fn(Pid) -> bool) {
        self.disarm_calls(&of);
        self.disarm_groups(|group| group.pids().any(&of));
        let is_it = |(ticket, set): (&u64, &WaitingSet)| of(set.command.set.pid).then_some(*ticket);
        let tickets: Vec<u64> = self.waiting.sets.iter().filter_map(is_it).collect();
        tickets.into_iter().for_each(|ticket| self.disarm(ticket));
    }
}

pub(super) fn refused(message: impl ToString) -> Refusal {
    Refusal {
        kind: ActuatorRefusalKind::Refused,
        message: message.to_string(),
    }
}

/// A refusal of a request that may succeed later.
pub(super) fn not_now(message: String, passage: &HoldStatistics) -> Refusal {
    let kind = match passage.hits {
        0 => ActuatorRefusalKind::NotReached,
        _ => ActuatorRefusalKind::Busy,
    };
    Refusal { kind, message }
}

pub(super) fn not_reached(place: &SyncPoint, passage: &HoldStatistics, waited: (PlaceWait, Pid)) -> String {
    format!("{}: nothing was written", in_vain(place, passage, waited))
}

/// Describes how the program passed a place at which nothing was done.
pub(super) fn in_vain(place: &SyncPoint, passage: &HoldStatistics, (wait, pid): (PlaceWait, Pid)) -> String {
    match (passage.hits, passage.misses) {
        (0, _) => wait.in_vain(place, pid.is_alive(), Instant::now()),
        (hits, misses) => {
            format!("{place} was reached {hits} times; holding the process there failed {misses} times")
        }
    }
}
