//! The members of the job: processes that join, end, run another program or load libraries late; when /proc
//! is read, and to which processes probes are attached. A pure state machine like [`super::changes`]: events
//! carry what was read, time is an argument, effects are values.
//!
//! A session that attached to a job searches for new processes below its launcher. In a session of a command,
//! the kernel side reports which process hits a probe for the first time and which has ended; processes that
//! hit nothing are found in /proc.

mod attached;
mod command;
mod event;
mod executed;
mod missing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

pub use self::{
    event::{
        ActuatorPid, Candidate, Exit, ExitCause, LateAttachment, MachineId, MemberEffect, MemberEffects,
        MemberEvent, MemberNotice, MemberProcess,
    },
    missing::Unmeasured,
};
use self::{executed::Executed, missing::Missing};
use rules::Time;

/// Interval of searches for new processes.
const SCAN_NS: u64 = 2_000_000_000;

/// Interval of reads of /proc while programs of a command begin.
pub const BEGIN_SCAN_NS: u64 = 100_000_000;

/// How long after its start a program counts as beginning: by then it has mapped its libraries.
const BEGIN_NS: u64 = 2_000_000_000;

/// The libraries of a process with MPI or older than [`YOUNG_NS`] are read again in one of this many searches: reading
/// them takes up to a millisecond.
const SEARCHES_OLD: u64 = 16;

/// A process is read again until it has this age.
const YOUNG_NS: u64 = 15 * BEGIN_NS;

/// How the session got its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MembersOrigin {
    /// It attached to them; they may have a launcher.
    Attached {
        /// Ranks join with their MPI, other processes as they are.
        has_launcher: bool,
        /// Processes of other users than the first one's join, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        any_user: bool,
    },
    /// It started the command that they belong to.
    Command,
}

/// A process in its slot.
#[derive(Clone, Debug)]
struct SlotState {
    pid: i32,
    /// `None` if it had ended before it could be read.
    candidate: Option<Candidate>,
    is_watched: bool,
    has_ended: bool,
}

/// The state of scans of one machine.
#[derive(Debug, Default)]
struct Scan {
    looked: Time,
    /// Until when programs count as beginning.
    begins_until: Time,
    execs: u64,
    /// Processes that were found and wait for attachment, each with whether it still ran.
    found: VecDeque<(Candidate, bool)>,
    /// Number of searches for new processes.
    searches: u64,
    /// Processes that have loaded libraries late and join together with those found next.
    late: Vec<Candidate>,
    /// Processes to which probes are being attached, by pid.
    joining: BTreeMap<i32, Candidate>,
    /// Processes that have ended and are still shown as running.
    gone: Vec<MemberProcess>,
}

/// All processes of a session.
#[derive(Debug)]
pub struct Members {
    origin: MembersOrigin,
    armed: Time,
    slots: BTreeMap<MemberProcess, SlotState>,
    scans: BTreeMap<MachineId, Scan>,
    /// Processes that ended in their slots because they run other programs now, which have not joined yet.
    replaced: BTreeSet<MemberProcess>,
    /// Processes that executed other programs, by pid.
    executed: BTreeMap<(MachineId, i32), Executed>,
    missing: Missing,
    /// How many processes were said to have ended by a signal or with a status other than 0.
    exits_said: u32,
    /// How many more were ended by signals, and had such a status.
    more_exited: (u32, u32),
    /// By cgroup: how many of the OOM killer's victims are known.
    oom_victims: BTreeMap<String, u64>,
    /// A process was ended by the signal of a fault after the session had changed it.
    pub has_crashed_after_change: bool,
}

impl Members {
    /// The members of a session that begins now; `missing` says what is not watched of the job.
    pub fn new(origin: MembersOrigin, missing: Vec<String>, now: Time) -> Members {
        Members {
            origin,
            armed: now,
            slots: BTreeMap::new(),
            scans: BTreeMap::new(),
            replaced: BTreeSet::new(),
            executed: BTreeMap::new(),
            missing: Missing::new(missing),
            exits_said: 0,
            more_exited: (0, 0),
            oom_victims: BTreeMap::new(),
            has_crashed_after_change: false,
        }
    }

    /// Takes an event; returns the effects to carry out, in this order.
    pub fn on(&mut self, event: MemberEvent, now: Time) -> MemberEffects {
        match event {
            MemberEvent::Present(process, candidate) => {
                self.fill_slot(process, candidate, true);
                MemberEffects::new()
            }
            MemberEvent::NotMeasured(text) => {
                self.missing.note(text);
                MemberEffects::new()
            }
            MemberEvent::Tick(machine) => self.tick(machine, now),
            MemberEvent::Look { machine, execs } => self.look(machine, execs, now),
            MemberEvent::RunsAnother { process, program } => self.runs_another(process, program, now),
            MemberEvent::Loaded {
                process,
                candidate,
                what,
            } => self.loaded(process, candidate, what, now),
            MemberEvent::LookedInto(process, candidate) => self.looked_into(process, candidate),
            MemberEvent::Found(machine, found) => self.found(machine, found),
            MemberEvent::Slot(machine, pid, slot) => self.has_slot(machine, pid, slot),
            MemberEvent::Came(process, candidate) => self.join(process, candidate),
            MemberEvent::CameUnseen {
                process,
                pid,
                is_unwatched,
            } => {
                self.missing.unseen += u64::from(is_unwatched);
                let slot = SlotState {
                    pid,
                    candidate: None,
                    is_watched: false,
                    has_ended: false,
                };
                self.slots.insert(process, slot);
                MemberEffects::new()
            }
            MemberEvent::Went(process) => {
                self.scan(process.machine).gone.push(process);
                MemberEffects::new()
            }
            MemberEvent::Settled(machine) => {
                let gone = std::mem::take(&mut self.scan(machine).gone);
                self.end(gone)
            }
            MemberEvent::Watched { process, pid, late } => self.watched(process, pid.number, late, now),
            MemberEvent::Refused { process, pid, reason } => self.refused(process, pid.number, &reason),
            MemberEvent::NoRoom(machine, pid) => {
                let scan = self.scan(machine);
                scan.joining.remove(&pid.number);
                scan.found.clear();
                MemberEffects::new()
            }
            MemberEvent::Exited { process, exit, cause } => self.exited(process, exit, cause, now),
            MemberEvent::Ended(process) => self.ended(process),
        }
    }

    /// The running processes, and those that are about to join.
    pub fn known(&self, machine: MachineId) -> BTreeSet<i32> {
        let here = self
            .slots
            .iter()
            .filter(|(process, _)| process.machine == machine);
        let running = here.filter(|(_, slot)| !slot.has_ended);
        let running = running.map(|(_, slot)| slot.pid);
        let scan = self.scans.get(&machine);
        let late = scan.into_iter().flat_map(|scan| &scan.late);
        running.chain(late.map(|late| late.pid.number)).collect()
    }

    /// What is not measured, as it is listed; includes what was known when the session began.
    pub fn missing(&self) -> &[String] {
        self.missing.texts()
    }

    /// What is not measured and was only counted.
    pub fn counted_missing(&self, unmeasured: Unmeasured) -> Vec<String> {
        match self.origin {
            MembersOrigin::Command => self.missing.counted(unmeasured),
            MembersOrigin::Attached { .. } => Vec::new(),
        }
    }

    fn has_launcher(&self) -> bool {
        matches!(
            self.origin,
            MembersOrigin::Attached {
                has_launcher: true,
                ..
            }
        )
    }

    fn scan(&mut self, machine: MachineId) -> &mut Scan {
        let looked = match self.origin {
            MembersOrigin::Attached { .. } => self.armed,
            MembersOrigin::Command => Time(0),
        };
        self.scans.entry(machine).or_insert_with(|| Scan {
            looked,
            ..Scan::default()
        })
    }

    fn running(&self, machine: MachineId) -> impl Iterator<Item = (MemberProcess, &SlotState, &Candidate)> {
        let here = self
            .slots
            .iter()
            .filter(move |(process, _)| process.machine == machine);
        let running = here.filter(|(_, slot)| !slot.has_ended);
        running.filter_map(|(process, slot)| Some((*process, slot, slot.candidate.as_ref()?)))
    }

    fn found(&mut self, machine: MachineId, found: Vec<(Candidate, bool)>) -> MemberEffects {
        let user = self.slots.values().find_map(|slot| slot.candidate.as_ref());
        let user = match self.origin {
            MembersOrigin::Attached { any_user: false, .. } => user.map(|first| first.user),
            MembersOrigin::Attached { any_user: true, .. } | MembersOrigin::Command => None,
        };
        let scan = self.scan(machine);
        let late = std::mem::take(&mut scan.late)
            .into_iter()
            .map(|late| (late, true));
        let of_user = |candidate: &Candidate| user.is_none_or(|user| user == candidate.user);
        let all = late.chain(found).filter(|(candidate, _)| of_user(candidate));
        scan.found = all.collect();
        self.next(machine)
    }

    /// Attaches to one process after the other: if there is no room for one, there is none for the next.
    fn next(&mut self, machine: MachineId) -> MemberEffects {
        while let Some((candidate, is_running)) = self.scan(machine).found.pop_front() {
            let pid = candidate.pid;
            if self.origin == MembersOrigin::Command && self.is_known(machine, pid.number, is_running) {
                continue;
            }
            self.scan(machine).joining.insert(pid.number, candidate);
            return vec![match self.origin {
                MembersOrigin::Command => MemberEffect::Admit(machine, pid),
                MembersOrigin::Attached { .. } => MemberEffect::Watch {
                    machine,
                    pid,
                    slot: None,
                },
            }];
        }
        MemberEffects::new()
    }

    fn has_slot(&mut self, machine: MachineId, pid: ActuatorPid, slot: Option<u32>) -> MemberEffects {
        let candidate = self.scan(machine).joining.remove(&pid.number);
        let mut effects = MemberEffects::new();
        if let (Some(slot), Some(candidate)) = (slot, candidate) {
            let process = MemberProcess { machine, slot };
            effects = self.join(process, candidate);
            effects.push(MemberEffect::CheckEnded(process, pid));
        }
        effects.extend(self.next(machine));
        effects
    }

    /// Whether the process was reported meanwhile; it may have ended since.
    fn is_known(&self, machine: MachineId, pid: i32, is_running: bool) -> bool {
        let mut here = self
            .slots
            .iter()
            .filter(|(process, _)| process.machine == machine);
        here.any(|(_, slot)| slot.pid == pid && (!slot.has_ended || !is_running))
    }

    fn fill_slot(&mut self, process: MemberProcess, candidate: Candidate, is_watched: bool) {
        let slot = SlotState {
            pid: candidate.pid.number,
            candidate: Some(candidate),
            is_watched,
            has_ended: false,
        };
        self.slots.insert(process, slot);
    }

    fn watched(
        &mut self,
        process: MemberProcess,
        pid: i32,
        late: Option<LateAttachment>,
        now: Time,
    ) -> MemberEffects {
        let Some(candidate) = self.take_slot(process, pid, true) else {
            return MemberEffects::new();
        };
        if let MembersOrigin::Attached { .. } = self.origin {
            self.was_attached(process, &candidate, now);
            let joined = MemberNotice::Joined {
                rank: candidate.rank,
                pid: candidate.pid,
                again: self.was_watched(process, candidate.pid),
            };
            let next = self.next(process.machine);
            return [MemberEffect::Say(joined)].into_iter().chain(next).collect();
        }
        let missed = late.and_then(|file| missing::late(&candidate, &file, self.armed));
        match missed.filter(|missed| !self.missing.has(missed)) {
            Some(missed) => vec![self.miss(missed)],
            None => MemberEffects::new(),
        }
    }

    /// Whether the process already had another slot: it has executed another program, or loaded libraries.
    fn was_watched(&self, process: MemberProcess, pid: ActuatorPid) -> bool {
        let has_pid = |slot: &SlotState| slot.candidate.as_ref().is_some_and(|known| known.pid == pid);
        let mut others = self.slots.iter().filter(|(other, _)| **other != process);
        others.any(|(other, slot)| other.machine == process.machine && has_pid(slot))
    }

    /// Names a process that cannot be watched, with the reason; only values of /proc are shown for it.
    /// Processes that join together are independent of each other.
    fn refused(&mut self, process: MemberProcess, pid: i32, reason: &str) -> MemberEffects {
        let Some(candidate) = self.take_slot(process, pid, false) else {
            return MemberEffects::new();
        };
        let mut effects = vec![self.miss(missing::refused(&candidate, reason))];
        if let MembersOrigin::Attached { .. } = self.origin {
            effects.extend(self.next(process.machine));
        }
        effects
    }

    /// Gives an attached process its slot; a process of a command already has one.
    fn take_slot(&mut self, process: MemberProcess, pid: i32, is_watched: bool) -> Option<Candidate> {
        if let Some(candidate) = self.scan(process.machine).joining.remove(&pid) {
            self.fill_slot(process, candidate, is_watched);
        }
        let slot = self.slots.get_mut(&process).filter(|slot| slot.pid == pid)?;
        slot.is_watched = is_watched;
        slot.candidate.clone()
    }

    fn miss(&mut self, text: String) -> MemberEffect {
        self.missing.note(text.clone());
        MemberEffect::Say(MemberNotice::Missing(text))
    }

    /// Ends the processes that have not ended yet, together: their last totals are read once for all.
    fn end(&mut self, processes: Vec<MemberProcess>) -> MemberEffects {
        let mut ended = Vec::new();
        for process in processes {
            let slot = self.slots.get_mut(&process).filter(|slot| !slot.has_ended);
            if let Some(slot) = slot {
                slot.has_ended = true;
                ended.push(process);
            }
        }
        match ended.is_empty() {
            true => MemberEffects::new(),
            false => vec![MemberEffect::End(ended)],
        }
    }
}

fn since(now: Time, then: Time) -> u64 {
    now.0.saturating_sub(then.0)
}
