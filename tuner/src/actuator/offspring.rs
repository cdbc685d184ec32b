//! Processes that were forked from a changed process have inherited its values, though nothing was written
//! into them. When a value is reverted, it is also reverted in every process that has inherited it: one that
//! descends from the changed process by forks that all happened after the write, runs the same program, holds
//! the value, and has no change of its own there.
//!
//! A process that was forked before the write has a value of its own, even if it is equal. The kernel reports
//! the time of a fork in ticks of 10 ms, so the order is unknown for a fork within [`MARGIN_TICKS`] of the
//! write: the process is not changed, and that is reported.
//!
//! Excluded are values with a sync point, since it is unknown whether such a process reaches it, and code and
//! CPU binding. A process that has lost its parent counts as forked by the process that collects it.

use std::collections::VecDeque;

use plan::Value;

use super::reverting::Tried;
use super::session::Session;
use super::{ActuatorRefusalKind, Refusal};
use crate::address::Address;
use crate::clock;
use crate::journal::{ActionRecord, Assignment, JournalChange, Status};
use crate::memory::Memory;
use crate::process::{Pid, Process, auxiliary, children, read_proc};
use crate::revert::{Attempt, has_inherited};
use crate::space::AddressSpace;

/// Bound on the descendants that are inspected.
const OFFSPRING_MAX: usize = 4096;

/// A fork copies the memory before it takes the new process's start time, and may lose its CPU in between.
const MARGIN_TICKS: u64 = 1;

/// AT_RANDOM: the random bytes that the kernel gives each program at exec. A fork copies them.
type RandomBytes = [u8; 16];

/// A process that runs the program that it was forked from.
struct Fork {
    pid: Pid,
    /// Ticks after boot of the earliest fork that leads from the changed process to this one.
    first_ticks: u64,
}

/// When a process was forked, relative to a write into its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forked {
    Before,
    After,
    Unknown,
}

/// Compares a fork at `ticks` after boot with a write between two times by CLOCK_BOOTTIME.
fn forked(ticks: u64, (announced_ns, applied_ns): (u64, u64)) -> Forked {
    let begin = |ticks: u64| ticks.saturating_mul(clock::TICK_NS);
    if begin(ticks.saturating_add(1)) <= announced_ns {
        Forked::Before
    } else if begin(ticks.saturating_sub(MARGIN_TICKS)) >= applied_ns {
        Forked::After
    } else {
        Forked::Unknown
    }
}

impl Session {
    /// Reverts values in offspring, after they were reverted in `parent`: processes that it forks from now on
    /// have the old ones. Failures are added to `left_alone`.
    pub(super) fn revert_in_offspring(&mut self, parent: Pid, changes: &[u64]) -> Vec<(Pid, Tried)> {
        if children(parent.number).is_empty() {
            return Vec::new();
        }
        let known = self.writer(parent).map(|writer| writer.changes());
        let known = known.unwrap_or_default().into_iter().rev();
        let back: Vec<JournalChange> = known
            .filter(|known| changes.contains(&known.intent.change) && is_reverted(known))
            .collect();
        let Some(mark) = self.open(parent).ok().and_then(|parent| mark(&parent)) else {
            return Vec::new();
        };
        if back.is_empty() {
            return Vec::new();
        }
        let mut done = Vec::new();
        for fork in forks(parent, mark) {
            for (change, set) in back.iter().filter_map(|change| Some((change, plain(change)?))) {
                match self.revert_inherited(parent, &fork, change, set) {
                    Ok(tried) => done.extend(tried.map(|tried| (fork.pid, tried))),
                    // It ended just now.
                    Err(_) if !fork.pid.is_alive() => {}
                    Err(refusal) => self.left_alone.push((fork.pid, refusal)),
                }
            }
        }
        done
    }

    /// `None` if it has not inherited the value, or holds another one by now.
    fn revert_inherited(
        &mut self,
        parent: Pid,
        fork: &Fork,
        change: &JournalChange,
        set: &Assignment,
    ) -> Result<Option<Tried>, Refusal> {
        let child = fork.pid;
        let offset_ns = clock::boot_offset_ns();
        let written = (
            change.intent.at.monotonic_ns,
            change.applied_ns.unwrap_or(u64::MAX),
        );
        let written = (
            written.0.saturating_add_signed(offset_ns),
            written.1.saturating_add_signed(offset_ns),
        );
        let forked = forked(fork.first_ticks, written);
        if forked == Forked::Before {
            return Ok(None);
        }
        let space = AddressSpace::read(&self.open(child)?, &self.images())?;
        if !has_inherited(&space, set) {
            return Ok(None);
        }
        let writer = self.writer(child)?;
        let action = &change.intent.action;
        let is_own = |own: &JournalChange| !own.status.is_over() && own.intent.action.overlaps(action);
        if writer.changes().iter().any(is_own) {
            return Ok(None);
        }
        if forked == Forked::Unknown {
            return Err(unknown(parent, change, set));
        }
        let change = writer.inherit(parent, change, set.clone())?;
        let result = writer.revert(change);
        Ok(Some(Attempt { change, result }.into()))
    }
}

/// Why a process is not changed that was forked at about the time of the write.
fn unknown(parent: Pid, change: &JournalChange, set: &Assignment) -> Refusal {
    let value = |bytes| {
        Value::from_bytes(set.value_type, bytes).map_or_else(|_| "?".to_owned(), |value| value.to_string())
    };
    Refusal {
        kind: ActuatorRefusalKind::Refused,
        message: format!(
            "`{symbol}` is {new}, as change {change} made it in process {parent}, and the process was forked from there within {within} ms \
             of that change: whether it has inherited the value is not known, so it is left alone (it was {old} there)",
            symbol = set.symbol,
            new = value(set.new),
            old = value(set.old),
            change = change.intent.change,
            within = (MARGIN_TICKS + 1) * clock::TICK_NS / 1_000_000,
        ),
    }
}

/// The processes that descend from `parent` and run the same program, nearest first.
fn forks(parent: Pid, mark: RandomBytes) -> Vec<Fork> {
    let mut found: Vec<Fork> = Vec::new();
    let mut waiting = VecDeque::from([(parent.number, u64::MAX)]);
    let mut seen = 0;
    while let Some((number, first_ticks)) = waiting.pop_front() {
        for child in children(number) {
            seen += 1;
            let Ok(child) = Process::open(child) else { continue };
            let is_known = found.iter().any(|known| known.pid == child.pid);
            // A process that executed another program has none of these values, and neither have its
            // children.
            if is_known || seen > OFFSPRING_MAX || self::mark(&child) != Some(mark) {
                continue;
            }
            let first_ticks = first_ticks.min(child.pid.start_time);
            found.push(Fork {
                pid: child.pid,
                first_ticks,
            });
            waiting.push_back((child.pid.number, first_ticks));
        }
    }
    found
}

/// The assignment, if it has no sync point.
fn plain(change: &JournalChange) -> Option<&Assignment> {
    match &change.intent.action {
        ActionRecord::Set(set) if set.sync.is_none() && set.together.is_none() => Some(set),
        _ => None,
    }
}

fn is_reverted(change: &JournalChange) -> bool {
    plain(change).is_some() && matches!(change.status, Status::Reverted | Status::ChangedSince)
}

/// `None` if the process cannot be inspected.
fn mark(process: &Process) -> Option<RandomBytes> {
    let vector = read_proc(process.pid.proc_path("auxv")).ok()?;
    let address = Address(auxiliary(&vector, libc::AT_RANDOM)?);
    let mut mark = RandomBytes::default();
    Memory::open(process).ok()?.read(address, &mut mark).ok()?;
    Some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_an_heir_only_if_its_fork_came_after_the_write_for_certain() {
        // Announced and applied within tick 100.
        let written = (1_002_000_000, 1_002_300_000);
        let cases = [
            (0, Forked::Before),
            (98, Forked::Before),
            // Its last instant is before the tick of the write.
            (99, Forked::Before),
            (100, Forked::Unknown),
            // The memory may have been copied in the tick before.
            (101, Forked::Unknown),
            (102, Forked::After),
            (u64::MAX, Forked::After),
        ];
        for (ticks, expected) in cases {
            assert_eq!(forked(ticks, written), expected, "{ticks}");
        }
        // Announced at the last nanosecond of a tick, and found applied later by another writer.
        let recovered = (1_009_999_999, 1_500_000_000);
        let cases = [
            (99, Forked::Before),
            (100, Forked::Unknown),
            (150, Forked::Unknown),
            (151, Forked::After),
        ];
        for (ticks, expected) in cases {
            assert_eq!(forked(ticks, recovered), expected, "{ticks}");
        }
        // The time at which it was applied is unknown.
        assert_eq!(forked(200, (1_000, u64::MAX)), Forked::Unknown);
    }
}
