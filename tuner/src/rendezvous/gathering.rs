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
use thiserror::Error;

use super::{HOLD_SIGNAL, HoldTicket, KeyedHits, STOP_WAIT};
use crate::clock::monotonic_ns;
use crate::process::Pid;
use crate::ptrace::{HeldThread, PtraceError};
use crate::writable_place::WritablePlace;
use crate::write::{self, Hooks, WriteError};

/// How long the first thread waits for the last. Ranks that wait for each other in every iteration differ by
/// at most one.
const GATHER_WAIT: Duration = Duration::from_secs(2);
/// Interval at which threads are polled; signals of the program itself are passed on by us.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Distance of the chosen iteration from the newest one; doubled after each attempt for which a process was
/// too fast.
pub(crate) const LEAD: i64 = 2;
/// The bit of the signal in a mask.
const SIGNAL_BIT: u64 = 1 << (HOLD_SIGNAL - 1);

/// The write in one of the processes.
pub(crate) struct ProcessWrite {
    pub(crate) place: Arc<WritablePlace>,
    /// The expected and the new value.
    pub(crate) change: (Bytes, Bytes),
    pub(crate) ticket: HoldTicket,
}

/// Why nothing was written.
#[derive(Debug, Error)]
pub(crate) enum Scattered {
    #[error("thread {tid} of process {pid} blocks SIGURG, by which it would be stopped")]
    Blocked { pid: Pid, tid: i32 },
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    #[error("the numbers of the iterations do not count up alike in all processes")]
    CountUnlike,
    #[error("the numbers of the iterations are too large")]
    TooLarge,
    #[error("process {0} had passed the iteration already")]
    Passed(Pid),
    #[error("process {0} has ended")]
    Ended(Pid),
    #[error("it took too long, or was called off")]
    CalledOff,
    #[error("{arrived} of {all} processes were at the same iteration after {} s", GATHER_WAIT.as_secs())]
    Absent { arrived: usize, all: usize },
    #[error("process {pid} wrote {found} at the same time")]
    Disturbed { pid: Pid, found: Bytes },
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Of those that were written before, some could not be reverted.
    #[error("{error}{left}")]
    Unreverted {
        error: Box<Scattered>,
        /// What they hold now, in words.
        left: String,
    },
    #[error("the attempt panicked")]
    Panicked,
}

impl Scattered {
    pub(crate) fn again(&self) -> NextAttempt {
        match self {
            Scattered::Passed(_) => NextAttempt::AtOnce,
            Scattered::Absent { .. } => NextAttempt::AfterWaiting,
            _ => NextAttempt::Never,
        }
    }
}

/// Whether another iteration may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAttempt {
    /// A process was too fast.
    AtOnce,
    /// Some threads stopped, and the others did not arrive in time.
    AfterWaiting,
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
    parts: &[ProcessWrite],
    keyed_hits: &dyn KeyedHits,
    lead: i64,
    called_off: &AtomicBool,
    hooks: Hooks,
) -> Gathered {
    let mut gathering = Gathering {
        keyed_hits,
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
    keyed_hits: &'a dyn KeyedHits,
    called_off: &'a AtomicBool,
    /// In the order of the parts.
    members: Vec<GatheredThread>,
    held_ns: Vec<u64>,
    /// When the first arrived.
    first: Option<Instant>,
}

struct GatheredThread {
    thread: HeldThread,
    has_arrived: bool,
}

impl Gathering<'_> {
    fn seize(&mut self, parts: &[ProcessWrite]) -> Result<(), Scattered> {
        for part in parts {
            let tid = self.keyed_hits.seen(part.ticket).thread.cast_signed();
            let pid = part.place.pid();
            if blocks_signal(pid, tid) {
                return Err(Scattered::Blocked { pid, tid });
            }
            self.members.push(GatheredThread {
                thread: HeldThread::seize(pid, tid)?,
                has_arrived: false,
            });
        }
        Ok(())
    }

    /// Chooses an iteration that no process has begun.
    fn choose(&self, parts: &[ProcessWrite], lead: i64) -> Result<(), Scattered> {
        let seen: Vec<_> = parts
            .iter()
            .map(|part| self.keyed_hits.seen(part.ticket))
            .collect();
        let first = seen.first().copied().unwrap_or_default();
        let step = first.step;
        let alike = |last: i64, other: i64| other == step && last.wrapping_sub(first.last) % step == 0;
        if step <= 0 || !seen.iter().all(|seen| alike(seen.last, seen.step)) {
            return Err(Scattered::CountUnlike);
        }
        let newest = seen.iter().map(|seen| seen.last).max().unwrap_or(0);
        let number = step
            .checked_mul(lead)
            .and_then(|earlier| newest.checked_add(earlier));
        let number = number.ok_or(Scattered::TooLarge)?;
        parts
            .iter()
            .for_each(|part| self.keyed_hits.want(part.ticket, number));
        Ok(())
    }

    fn await_all(&mut self, parts: &[ProcessWrite]) -> Result<(), Scattered> {
        loop {
            for (member, part) in self.members.iter_mut().zip(parts) {
                let pid = part.place.pid();
                let seen = self.keyed_hits.seen(part.ticket);
                match member.thread.signal()? {
                    Some(HOLD_SIGNAL) if seen.met_at_ns.is_some() => {
                        member.has_arrived = true;
                        self.first.get_or_insert_with(Instant::now);
                    }
                    Some(other) => member.thread.pass(other)?,
                    None => {}
                }
                if seen.has_passed {
                    return Err(Scattered::Passed(pid));
                }
            }
            let arrived = self.members.iter().filter(|member| member.has_arrived).count();
            if arrived == parts.len() {
                return Ok(());
            }
            if let Some(part) = parts.iter().find(|part| !part.place.pid().is_alive()) {
                return Err(Scattered::Ended(part.place.pid()));
            }
            if self.called_off.load(Ordering::Relaxed) {
                return Err(Scattered::CalledOff);
            }
            if self.first.is_some_and(|first| first.elapsed() > GATHER_WAIT) {
                let all = parts.len();
                return Err(Scattered::Absent { arrived, all });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Resumes all threads and stops further signals.
    fn let_go(&mut self, parts: &[ProcessWrite]) {
        let under_way: Vec<bool> = parts
            .iter()
            .map(|part| {
                !self.keyed_hits.forgo(part.ticket) && self.keyed_hits.seen(part.ticket).met_at_ns.is_some()
            })
            .collect();
        let until = Instant::now() + STOP_WAIT;
        for (place, member) in self.members.iter_mut().enumerate() {
            // A thread that was sent the signal just before is about to stop for it.
            let stops = under_way.get(place).copied().unwrap_or(false);
            while stops && !member.has_arrived && Instant::now() < until {
                match member.thread.signal() {
                    Ok(Some(HOLD_SIGNAL)) => member.has_arrived = true,
                    Ok(Some(other)) => drop(member.thread.pass(other)),
                    Ok(None) => std::thread::sleep(POLL_INTERVAL),
                    Err(_) => break,
                }
            }
        }
        for (place, member) in self.members.drain(..).enumerate() {
            // Detached without the signal.
            drop(member.thread);
            let since = parts
                .get(place)
                .and_then(|part| self.keyed_hits.seen(part.ticket).met_at_ns);
            if let (Some(held_ns), Some(since)) = (self.held_ns.get_mut(place), since) {
                *held_ns = monotonic_ns().saturating_sub(since);
            }
        }
    }
}

/// Whether a thread cannot be stopped by the signal.
fn blocks_signal(pid: Pid, tid: i32) -> bool {
    let text = fs::read_to_string(pid.proc_path(&format!("task/{tid}/status"))).unwrap_or_default();
    let blocked = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = blocked.and_then(|blocked| u64::from_str_radix(blocked.trim(), 16).ok());
    mask.is_some_and(|mask| mask & SIGNAL_BIT != 0)
}

fn write_all(parts: &[ProcessWrite], hooks: Hooks) -> Result<(), Scattered> {
    if let Some(part) = parts.iter().find(|part| !part.place.pid().is_alive()) {
        return Err(Scattered::Ended(part.place.pid()));
    }
    (hooks.after_intent)();
    for (place, part) in parts.iter().enumerate() {
        if let Err(error) = part.write() {
            let left = revert_writes(parts.get(..place).unwrap_or_default());
            let error = Box::new(error);
            return Err(match left.is_empty() {
                true => *error,
                false => Scattered::Unreverted { error, left },
            });
        }
        (hooks.underway)();
    }
    (hooks.after_write)();
    Ok(())
}

impl ProcessWrite {
    fn write(&self) -> Result<(), Scattered> {
        let (expected, new) = self.change;
        let pid = self.place.pid();
        match write::commit(&self.place, expected, new, || {})? {
            found if found == new => Ok(()),
            found => Err(Scattered::Disturbed { pid, found }),
        }
    }
}

/// Reverts the writes, and describes those that could not be reverted.
fn revert_writes(parts: &[ProcessWrite]) -> String {
    let back = |part: &ProcessWrite| {
        let (old, new) = part.change;
        let pid = part.place.pid();
        match write::commit(&part.place, new, old, || {}) {
            Ok(found) if found == old => None,
            _ if !pid.is_alive() => None,
            Ok(found) => Some(format!("; process {pid} COULD NOT BE REVERTED: it holds {found}")),
            Err(error) => Some(format!("; process {pid} COULD NOT BE REVERTED: {error}")),
        }
    };
    parts.iter().rev().filter_map(back).collect()
}
