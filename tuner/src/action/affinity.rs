//! The threads of a process are bound to CPUs, and get back what they had.

use std::collections::{BTreeMap, BTreeSet};

use plan::Bytes;
use rustix::io::Errno;
use rustix::process::Pid as RawPid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{ActionOutcome, ActionReceipt, Reason};
use crate::clock;
use crate::error::ActionError;
use crate::journal::{
    ActionRecord, Change, Mechanism, Outcome, RevertOutcome, Status, ThreadAffinities, ThreadCpus, WriteHold,
};
use crate::process::Pid;
use crate::ptrace;
use crate::writer::{Writer, WriterError};

/// Threads started meanwhile are looked for so often.
const ROUNDS_MAX: usize = 1_000;

impl Writer {
    /// Binds all threads to `cpus` (`0-3,8`), those too that start meanwhile. Those that start later inherit it.
    pub fn affinity(&mut self, cpus: &str, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let started = clock::monotonic_ns();
        let at = clock::now();
        let pid = self.process().pid;
        let refused = |why: String| ActionError::Affinity {
            pid,
            cpus: cpus.to_owned(),
            why,
        };
        ptrace::refuse_traced(pid).map_err(ActionError::from)?;
        let wanted = parse(cpus).ok_or_else(|| refused("that is no list such as 0-3,8".to_owned()))?;
        let wanted = wanted
            .intersection(&allowed(pid))
            .copied()
            .collect::<BTreeSet<_>>();
        if wanted.is_empty() {
            return Err(refused("none of them may be used by this process (its cpuset)".to_owned()).into());
        }
        let had = masks(pid)?;
        let action = ThreadAffinities {
            symbol: "affinity".to_owned(),
            cpus: list(&wanted),
            threads: had
                .iter()
                .map(|(tid, had)| ThreadCpus {
                    tid: *tid,
                    cpus: list(had),
                })
                .collect(),
        };
        let text = ActionRecord::Affinity(action.clone()).to_string();
        let change = self.announce(ActionRecord::Affinity(action), reason, at.clone())?;
        let bound = bind_all(pid, |_| wanted.clone()).inspect_err(|_| give_back(&had));
        (self.hooks.after_write)();
        let mechanism = Mechanism::Plain;
        let outcome = match &bound {
            Ok(()) => Outcome::Applied,
            Err(error) => Outcome::NotWritten(error.to_string()),
        };
        self.record_outcome(change, outcome.clone(), Some(WriteHold::PLAIN))?;
        bound?;
        Ok(ActionReceipt {
            change,
            text,
            outcome: ActionOutcome::InForce,
            mechanism,
            hold_ns: 0,
            passage: None,
            at,
            duration_ns: clock::monotonic_ns().saturating_sub(started),
        })
    }

    /// Gives every thread that still has what we gave it what it had; a younger one what the first thread had.
    pub(crate) fn take_back_affinity(
        &mut self,
        change: u64,
        action: &ThreadAffinities,
    ) -> Result<RevertOutcome, WriterError> {
        let pid = self.process().pid;
        let (had, ours) = (recorded(action), parse(&action.cpus).unwrap_or_default());
        let now = masks(pid)?;
        if !now.iter().any(|(_, mask)| *mask == ours) {
            let first = now
                .first()
                .map(|(_, mask)| mask.iter().next().copied().unwrap_or_default());
            let found = Bytes::new(&(first.unwrap_or_default() as u32).to_le_bytes());
            return Ok(found.map_or(RevertOutcome::Reverted, RevertOutcome::ChangedSince));
        }
        self.announce_revert(change, None)?;
        let first = action
            .threads
            .first()
            .and_then(|thread| parse(&thread.cpus))
            .unwrap_or_default();
        let others = now
            .iter()
            .filter(|(_, mask)| *mask != ours)
            .map(|(tid, _)| *tid)
            .collect::<BTreeSet<_>>();
        let own: BTreeMap<i32, BTreeSet<usize>> = now.iter().cloned().collect();
        let reverted = bind_all(pid, |tid| match (others.contains(&tid), had.get(&tid)) {
            (true, _) => own.get(&tid).cloned().unwrap_or_default(),
            (false, Some(had)) => had.clone(),
            (false, None) => first.clone(),
        });
        (self.hooks.after_write)();
        Ok(match reverted {
            Ok(()) => RevertOutcome::Reverted,
            Err(error) => RevertOutcome::Failed(error.to_string()),
        })
    }

    /// Finds out what a crash left: one thread that has what we gave, and had something else, is enough to take back.
    pub(crate) fn settle_affinity(
        &mut self,
        known: &Change,
        action: &ThreadAffinities,
    ) -> Result<(), WriterError> {
        let change = known.intent.change;
        let (had, ours) = (recorded(action), parse(&action.cpus).unwrap_or_default());
        let now = masks(self.process().pid)?;
        let is_ours = |(tid, mask): &(i32, BTreeSet<usize>)| *mask == ours && had.get(tid) != Some(&ours);
        let ended = || "the writer ended before the threads were bound".to_owned();
        match (known.status, now.iter().any(is_ours)) {
            (Status::Pending, true) => self.recover_outcome(change, Outcome::Applied),
            (Status::Pending, false) => self.recover_outcome(change, Outcome::NotWritten(ended())),
            (_, true) => self.record_revert(change, RevertOutcome::Failed(ended()), true, None),
            (_, false) => self.record_revert(change, RevertOutcome::Reverted, true, None),
        }
    }
}

fn recorded(action: &ThreadAffinities) -> BTreeMap<i32, BTreeSet<usize>> {
    let threads = action.threads.iter();
    threads
        .filter_map(|thread| Some((thread.tid, parse(&thread.cpus)?)))
        .collect()
}

/// The CPUs that the process may use at all.
fn allowed(pid: Pid) -> BTreeSet<usize> {
    // What every thread could have: the kernel cuts a mask to the cpuset, and refuses one without any of it.
    let effective = std::fs::read_to_string(pid.proc_path("cgroup"))
        .ok()
        .and_then(|text| {
            let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
            let file = format!("/sys/fs/cgroup{path}/cpuset.cpus.effective");
            std::fs::read_to_string(file).ok()
        });
    let online = || std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let of = |text: Option<String>| {
        text.and_then(|text| parse(text.trim()))
            .filter(|cpus| !cpus.is_empty())
    };
    of(effective)
        .or_else(|| of(online()))
        .unwrap_or_else(|| (0..CpuSet::MAX_CPU).collect())
}

/// What every thread has.
fn masks(pid: Pid) -> Result<Vec<(i32, BTreeSet<usize>)>, ActionError> {
    let mut found = Vec::new();
    for tid in ptrace::threads(pid)? {
        match sched_getaffinity(RawPid::from_raw(tid)) {
            Ok(set) => found.push((tid, cpus(&set))),
            Err(Errno::SRCH) => {}
            Err(errno) => return Err(error(pid, "?", errno)),
        }
    }
    Ok(found)
}

/// Binds every thread, until a look finds none that is bound otherwise: one that starts meanwhile has what its creator had.
fn bind_all(pid: Pid, wanted: impl Fn(i32) -> BTreeSet<usize>) -> Result<(), ActionError> {
    let mut done: BTreeSet<i32> = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let new: Vec<i32> = ptrace::threads(pid)?
            .into_iter()
            .filter(|tid| !done.contains(tid))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        for tid in new {
            done.insert(tid);
            let wanted = wanted(tid);
            match sched_setaffinity(RawPid::from_raw(tid), &set(&wanted)) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(error(pid, &list(&wanted), errno)),
            }
        }
    }
    Err(ActionError::Affinity {
        pid,
        cpus: "?".to_owned(),
        why: "it starts threads faster than they can be bound".to_owned(),
    })
}

/// All or none: those that were bound before one could not be.
fn give_back(had: &[(i32, BTreeSet<usize>)]) {
    for (tid, had) in had {
        let _ = sched_setaffinity(RawPid::from_raw(*tid), &set(had));
    }
}

fn error(pid: Pid, cpus: &str, errno: Errno) -> ActionError {
    ActionError::Affinity {
        pid,
        cpus: cpus.to_owned(),
        why: std::io::Error::from(errno).to_string(),
    }
}

fn cpus(set: &CpuSet) -> BTreeSet<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn set(cpus: &BTreeSet<usize>) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    set
}

/// `0-3,8`
fn parse(text: &str) -> Option<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found).filter(|found| !found.is_empty())
}

fn list(cpus: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written() {
        for text in ["0", "0-3", "0-3,8", "1,3,5-7"] {
            assert_eq!(list(&parse(text).unwrap()), text);
        }
        for text in ["", "3-1", "a", "1-", "99999"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
