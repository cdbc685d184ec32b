//! Binds the threads of a process to CPUs, and restores their previous CPUs.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Bytes, CpuList};
use rustix::io::Errno;
use rustix::process::Pid as RawPid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{ActionOutcome, ActionReceipt, Reason};
use crate::clock;
use crate::error::ActionError;
use crate::journal::{
    ActionRecord, JournalChange, Outcome, RevertOutcome, Status, ThreadAffinities, ThreadCpus, WriteHold,
};
use crate::process::Pid;
use crate::ptrace;
use crate::writer::{Writer, WriterError};

/// Bound on the listings that search for threads started meanwhile.
const ROUNDS_MAX: usize = 1_000;

/// In messages, where the list is not known.
const OTHER_CPUS: &str = "other CPUs";

impl Writer {
    /// Binds all threads to `cpus`, including those that start meanwhile. Later ones inherit it.
    pub fn affinity(&mut self, cpus: &CpuList, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let at = clock::now();
        let pid = self.process().pid;
        let refused = |why: String| ActionError::Affinity {
            pid,
            cpus: cpus.with_noun(),
            why,
        };
        ptrace::refuse_traced(pid).map_err(ActionError::from)?;
        let allowed = allowed(pid);
        let may_use = cpus.cpus().intersection(&allowed).copied().collect();
        let none = || {
            let allowed = CpuList::new(allowed.clone());
            let allowed = allowed.map_or_else(|| OTHER_CPUS.to_owned(), |allowed| allowed.with_noun());
            refused(format!("the process may use only {allowed}"))
        };
        let wanted = CpuList::new(may_use).ok_or_else(none)?;
        let had = masks(pid)?;
        let action = ThreadAffinities {
            symbol: "affinity".to_owned(),
            cpus: wanted.clone(),
            threads: had
                .iter()
                .map(|(tid, had)| ThreadCpus {
                    tid: *tid,
                    cpus: had.clone(),
                })
                .collect(),
        };
        let text = ActionRecord::Affinity(action.clone()).to_string();
        let change = self.announce(ActionRecord::Affinity(action), reason, at.clone())?;
        let bound = bind_all(pid, |_| &wanted).inspect_err(|_| give_back(&had));
        (self.hooks.after_write)();
        let outcome = match &bound {
            Ok(()) => Outcome::Applied,
            Err(error) => Outcome::NotWritten(error.to_string()),
        };
        self.record_outcome(change, outcome, Some(WriteHold::PLAIN))?;
        bound?;
        let outcome = ActionOutcome::InForce;
        Ok(ActionReceipt::new(change, text, outcome, WriteHold::PLAIN, at))
    }

    /// Restores the previous CPUs of every thread that still has ours; a younger thread gets those that the
    /// first thread had.
    pub(crate) fn revert_affinity(
        &mut self,
        change: u64,
        action: &ThreadAffinities,
    ) -> Result<RevertOutcome, WriterError> {
        let pid = self.process().pid;
        let (had, ours) = (recorded(action), &action.cpus);
        let now = masks(pid)?;
        if !now.iter().any(|(_, mask)| mask == ours) {
            let first = now.first().and_then(|(_, mask)| mask.cpus().first().copied());
            let found = Bytes::new(&(first.unwrap_or_default() as u32).to_le_bytes());
            return Ok(found.map_or(RevertOutcome::Reverted, RevertOutcome::ChangedSince));
        }
        self.announce_revert(change, None)?;
        let first = action.threads.first().map_or(ours, |thread| &thread.cpus);
        let others = now.iter().filter(|(_, mask)| mask != ours);
        let own: BTreeMap<i32, &CpuList> = others.map(|(tid, mask)| (*tid, mask)).collect();
        let reverted = bind_all(pid, |tid| {
            own.get(&tid).or(had.get(&tid)).copied().unwrap_or(first)
        });
        (self.hooks.after_write)();
        Ok(match reverted {
            Ok(()) => RevertOutcome::Reverted,
            Err(error) => RevertOutcome::Failed(error.to_string()),
        })
    }

    /// Settles what a crash left: it can be reverted if at least one thread has our CPUs and had others
    /// before.
    pub(crate) fn settle_affinity(
        &mut self,
        known: &JournalChange,
        action: &ThreadAffinities,
    ) -> Result<(), WriterError> {
        let change = known.intent.change;
        let (had, ours) = (recorded(action), &action.cpus);
        let now = masks(self.process().pid)?;
        let is_ours = |(tid, mask): &(i32, CpuList)| mask == ours && had.get(tid) != Some(&ours);
        let ended = || "the writer ended before the threads were bound".to_owned();
        match (known.status, now.iter().any(is_ours)) {
            (Status::Pending, true) => self.recover_outcome(change, Outcome::Applied),
            (Status::Pending, false) => self.recover_outcome(change, Outcome::NotWritten(ended())),
            (_, true) => self.record_revert(change, RevertOutcome::Failed(ended()), true, None),
            (_, false) => self.record_revert(change, RevertOutcome::Reverted, true, None),
        }
    }
}

fn recorded(action: &ThreadAffinities) -> BTreeMap<i32, &CpuList> {
    let threads = action.threads.iter();
    threads.map(|thread| (thread.tid, &thread.cpus)).collect()
}

/// The CPUs that the process may use at all.
fn allowed(pid: Pid) -> BTreeSet<usize> {
    // The upper bound for every thread: the kernel intersects a mask with the cpuset, and refuses an empty
    // result.
    let effective = std::fs::read_to_string(pid.proc_path("cgroup"))
        .ok()
        .and_then(|text| {
            let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
            let file = format!("/sys/fs/cgroup{path}/cpuset.cpus.effective");
            std::fs::read_to_string(file).ok()
        });
    let online = || std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let of = |text: Option<String>| text?.trim().parse::<CpuList>().ok();
    let known = of(effective).or_else(|| of(online()));
    known.map_or_else(|| (0..CpuList::MAX).collect(), |list| list.cpus().clone())
}

/// The CPUs of every thread.
fn masks(pid: Pid) -> Result<Vec<(i32, CpuList)>, ActionError> {
    let mut found = Vec::new();
    for tid in ptrace::threads(pid)? {
        match sched_getaffinity(RawPid::from_raw(tid)) {
            Ok(set) => found.extend(cpus(&set).map(|cpus| (tid, cpus))),
            Err(Errno::SRCH) => {}
            Err(errno) => return Err(error(pid, OTHER_CPUS, errno)),
        }
    }
    Ok(found)
}

/// Binds every thread, until a listing has none that is bound otherwise: a new thread inherits from its
/// creator.
fn bind_all<'a>(pid: Pid, wanted: impl Fn(i32) -> &'a CpuList) -> Result<(), ActionError> {
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
            match sched_setaffinity(RawPid::from_raw(tid), &set(wanted)) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(error(pid, &wanted.with_noun(), errno)),
            }
        }
    }
    Err(ActionError::Affinity {
        pid,
        cpus: OTHER_CPUS.to_owned(),
        why: "it starts threads faster than they can be bound".into(),
    })
}

/// All or none: restores threads that were bound before one could not be.
fn give_back(had: &[(i32, CpuList)]) {
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

fn cpus(set: &CpuSet) -> Option<CpuList> {
    CpuList::new((0..CpuList::MAX).filter(|cpu| set.is_set(*cpu)).collect())
}

fn set(cpus: &CpuList) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.cpus().iter().for_each(|cpu| set.set(*cpu));
    set
}
