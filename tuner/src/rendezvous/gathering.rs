//! Holds threads of several processes at the same iteration and then makes all of the writes, or none.
//!
//! We trace the thread of each process that begins iterations, without stopping it. At the chosen iteration
//! the probe sends it a signal: the kernel stops it for that, one instruction behind, and reports the stop to
//! us. Once all have stopped, the writes are made one after the other, and reverted if one fails; then each
//! thread continues without having received the signal. If a thread does not arrive within the bound after
//! the first, nothing is written. One thread of ours does all this and ends afterwards, so that the kernel
//! releases any thread that we could not.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plan::Bytes;

use super::{HoldTicket, MEETING_SIGNAL, Meetings, STOP_WAIT};
use crate::clock::monotonic_ns;
use crate::process::Pid;
use crate::ptrace::HeldThread;
use crate::slot::Slot;
use crate::write::{self, Hooks};

/// How long the first thread waits for the last. Ranks that wait for each other in every iteration differ by
/// at most one.
const GATHER_WAIT: Duration = Duration::from_secs(2);
/// Interval at which threads are polled; signals of the program itself are passed on by us.
const LOOK: Duration = Duration::from_micros(50);
/// Distance of the chosen iteration from the newest one; doubled after each attempt for which a process was
/// too fast.
pub(crate) const LEAD: i64 = 2;
/// The bit of the signal in a mask.
const SIGNAL_BIT: u64 = 1 << (MEETING_SIGNAL - 1);

/// The write in one of the processes.
pub(crate) struct Part {
    pub(crate) slot: Arc<Slot>,
    /// The expected and the new value.
    pub(crate) change: (Bytes, Bytes),
    pub(crate) ticket: HoldTicket,
}

/// Why nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scattered {
    pub(crate) reason: String,
    pub(crate) again: NextAttempt,
}

/// Whether another iteration may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAttempt {
    /// A process was too fast.
    AtOnce,
    /// Some threads stopped, and the others did not arrive in time.
    AfterWaiting,
    /// No.
    Never,
}

/// The result of an attempt, and how long each process was stopped, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) result: Result<(), Scattered>,
    pub(crate) held_ns: Vec<u64>,
}

/// One attempt, `lead` iterations after the newest one. Returns when all threads run again.
pub(crate) fn gather(
    parts: &[Part],
    meetings: &dyn Meetings,
    lead: i64,
    called_off: &AtomicBool,
    hooks: Hooks,
) -> Gathered {
    let mut gathering = Gathering {
        meetings,
        called_off,
        members: Vec::new(),
        held_ns: vec![0; parts.len()],
        first: None,
    };
    let result = gathering
        .seize(parts)
        .and_then(|()| gathering.choose(parts, lead))
        .and_then(|()| gathering.await_all(parts))
        .and_then(|()| write_all(parts, hooks));
    gathering.let_go(parts);
    Gathered {
        result,
        held_ns: gathering.held_ns,
    }
}

struct Gathering<'a> {
    meetings: &'a dyn Meetings,
    called_off: &'a AtomicBool,
    /// In the order of the parts.
    members: Vec<Member>,
    held_ns: Vec<u64>,
    /// When the first arrived.
    first: Option<Instant>,
}

struct Member {
    thread: HeldThread,
    has_arrived: bool,
}

impl Gathering<'_> {
    fn seize(&mut self, parts: &[Part]) -> Result<(), Scattered> {
        for part in parts {
            let tid = self.meetings.seen(part.ticket).thread.cast_signed();
            let pid = part.slot.pid();
            if let Some(why) = unfit(pid, tid) {
                return Err(never(why));
            }
            let thread = HeldThread::seize(pid, tid).map_err(|error| never(error.to_string()))?;
            self.members.push(Member {
                thread,
                has_arrived: false,
            });
        }
        Ok(())
    }

    /// Chooses an iteration that no process has begun.
    fn choose(&self, parts: &[Part], lead: i64) -> Result<(), Scattered> {
        let seen: Vec<_> = parts.iter().map(|part| self.meetings.seen(part.ticket)).collect();
        let first = seen.first().copied().unwrap_or_default();
        let step = first.step;
        let alike = |last: i64, other: i64| other == step && last.wrapping_sub(first.last) % step == 0;
        if step <= 0 || !seen.iter().all(|seen| alike(seen.last, seen.step)) {
            let reason = "the numbers of the iterations do not count up alike in all processes";
            return Err(never(reason.to_owned()));
        }
        let newest = seen.iter().map(|seen| seen.last).max().unwrap_or(0);
        let number = step
            .checked_mul(lead)
            .and_then(|earlier| newest.checked_add(earlier));
        let number = number.ok_or_else(|| never("the numbers of the iterations are too large".to_owned()))?;
        parts
            .iter()
            .for_each(|part| self.meetings.want(part.ticket, number));
        Ok(())
    }

    fn await_all(&mut self, parts: &[Part]) -> Result<(), Scattered> {
        loop {
            for (member, part) in self.members.iter_mut().zip(parts) {
                let pid = part.slot.pid();
                let seen = self.meetings.seen(part.ticket);
                let signal = member.thread.signal().map_err(|error| never(error.to_string()))?;
                match signal {
                    Some(MEETING_SIGNAL) if seen.met_at_ns.is_some() => {
                        member.has_arrived = true;
                        self.first.get_or_insert_with(Instant::now);
                    }
                    Some(other) => member
                        .thread
                        .pass(other)
                        .map_err(|error| never(error.to_string()))?,
                    None => {}
                }
                if seen.has_passed {
                    let reason = format!("process {pid} had passed the iteration already");
                    let again = NextAttempt::AtOnce;
                    return Err(Scattered { reason, again });
                }
            }
            let arrived = self.members.iter().filter(|member| member.has_arrived).count();
            if arrived == parts.len() {
                return Ok(());
            }
            if let Some(part) = parts.iter().find(|part| !part.slot.pid().is_alive()) {
                return Err(never(format!("process {} has ended", part.slot.pid())));
            }
            if self.called_off.load(Ordering::Relaxed) {
                return Err(never("it took too long, or was called off".to_owned()));
            }
            if self.first.is_some_and(|first| first.elapsed() > GATHER_WAIT) {
                let (all, wait) = (parts.len(), GATHER_WAIT.as_secs());
                let reason =
                    format!("{arrived} of {all} processes were at the same iteration after {wait} s");
                let again = NextAttempt::AfterWaiting;
                return Err(Scattered { reason, again });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Resumes all threads and stops further signals.
    fn let_go(&mut self, parts: &[Part]) {
        let under_way: Vec<bool> = parts
            .iter()
            .map(|part| {
                !self.meetings.forgo(part.ticket) && self.meetings.seen(part.ticket).met_at_ns.is_some()
            })
            .collect();
        let until = Instant::now() + STOP_WAIT;
        for (place, member) in self.members.iter_mut().enumerate() {
            // A thread that was sent the signal just before is about to stop for it.
            let stops = under_way.get(place).copied().unwrap_or(false);
            while stops && !member.has_arrived && Instant::now() < until {
                match member.thread.signal() {
                    Ok(Some(MEETING_SIGNAL)) => member.has_arrived = true,
                    Ok(Some(other)) => drop(member.thread.pass(other)),
                    Ok(None) => std::thread::sleep(LOOK),
                    Err(_) => break,
                }
            }
        }
        for (place, member) in self.members.drain(..).enumerate() {
            // Detached without the signal.
            drop(member.thread);
            let since = parts
                .get(place)
                .and_then(|part| self.meetings.seen(part.ticket).met_at_ns);
            if let (Some(held_ns), Some(since)) = (self.held_ns.get_mut(place), since) {
                *held_ns = monotonic_ns().saturating_sub(since);
            }
        }
    }
}

/// Why a thread cannot be stopped by the signal.
fn unfit(pid: Pid, tid: i32) -> Option<String> {
    let text = fs::read_to_string(pid.proc_path(&format!("task/{tid}/status"))).ok()?;
    let blocked = text.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    let mask = u64::from_str_radix(blocked.trim(), 16).ok()?;
    (mask & SIGNAL_BIT != 0)
        .then(|| format!("thread {tid} of process {pid} blocks SIGURG, by which it would be stopped"))
}

fn never(reason: String) -> Scattered {
    let again = NextAttempt::Never;
    Scattered { reason, again }
}

fn write_all(parts: &[Part], hooks: Hooks) -> Result<(), Scattered> {
    if let Some(part) = parts.iter().find(|part| !part.slot.pid().is_alive()) {
        return Err(never(format!("process {} has ended", part.slot.pid())));
    }
    (hooks.after_intent)();
    for (place, part) in parts.iter().enumerate() {
        if let Err(reason) = part.write() {
            let before = parts.get(..place).unwrap_or_default();
            return Err(never(reason + &revert_writes(before)));
        }
        (hooks.underway)();
    }
    (hooks.after_write)();
    Ok(())
}

impl Part {
    fn write(&self) -> Result<(), String> {
        let (expected, new) = self.change;
        match write::commit(&self.slot, expected, new, || {}) {
            Ok(found) if found == new => Ok(()),
            Ok(found) => Err(format!(
                "process {} wrote {found} at the same time",
                self.slot.pid()
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Reverts the writes, and describes those that could not be reverted.
fn revert_writes(parts: &[Part]) -> String {
    let back = |part: &Part| {
        let (old, new) = part.change;
        let pid = part.slot.pid();
        match write::commit(&part.slot, new, old, || {}) {
            Ok(found) if found == old => None,
            _ if !pid.is_alive() => None,
            Ok(found) => Some(format!("; process {pid} COULD NOT BE REVERTED: it holds {found}")),
            Err(error) => Some(format!("; process {pid} COULD NOT BE REVERTED: {error}")),
        }
    };
    parts.iter().rev().filter_map(back).collect()
}
