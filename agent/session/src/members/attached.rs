//! Processes of a job to which the session attached: new ones are searched below its launcher. A process that
//! runs another program or loads libraries late joins again in another slot.

use std::path::PathBuf;

use super::{
    Members, SCAN_NS, SEARCHES_OLD, YOUNG_NS,
    event::{
        ActuatorPid, Candidate, Exit, ExitCause, MachineId, MemberEffect, MemberEffects, MemberNotice,
        MemberProcess,
    },
    since,
};
use profile::OutOfMemory;
use rules::Time;

/// Processes of which it is said how they ended; the others are counted.
const EXITS_SAID: u32 = 3;

impl Members {
    pub(super) fn tick(&mut self, machine: MachineId, now: Time) -> MemberEffects {
        let mut effects = vec![MemberEffect::CheckPrograms(machine)];
        let scan = self.scan(machine);
        if since(now, scan.looked) < SCAN_NS {
            return effects;
        }
        scan.looked = now;
        scan.searches += 1;
        let is_turn_of_old = scan.searches.is_multiple_of(SEARCHES_OLD);
        let has_launcher = self.has_launcher();
        let may_load = self.running(machine).filter(|(_, slot, candidate)| {
            let lacks_mpi = has_launcher && !candidate.has_mpi && candidate.rank.is_some();
            let is_young = !candidate.has_mpi && since(now, candidate.started) < YOUNG_NS;
            let is_turn = is_turn_of_old || is_young;
            lacks_mpi || slot.is_watched && is_turn
        });
        let may_load: Vec<MemberProcess> = may_load.map(|(process, ..)| process).collect();
        effects.extend((!may_load.is_empty()).then_some(MemberEffect::CheckLibraries(may_load)));
        effects.push(MemberEffect::Scan(machine));
        effects
    }

    /// Nothing known of the old program applies to the new one, which joins as any new process does, in its
    /// own slot. The counts of the old slot stay.
    pub(super) fn runs_another(
        &mut self,
        process: MemberProcess,
        program: PathBuf,
        now: Time,
    ) -> MemberEffects {
        let Some((rank, pid)) = self.rank_and_pid(process) else {
            return MemberEffects::new();
        };
        let needs_mpi = self.has_launcher();
        self.has_executed(process, rank, pid, program.clone(), now);
        let notice = MemberNotice::Replaced {
            rank,
            pid,
            after_ns: since(now, self.armed),
            program,
            needs_mpi,
        };
        let mut effects = self.begin_anew(process, notice);
        effects.push(MemberEffect::CheckChanges(process));
        effects
    }

    /// Programs may load libraries late (Python), and some were still being loaded when they were read.
    pub(super) fn loaded(
        &mut self,
        process: MemberProcess,
        candidate: Candidate,
        what: String,
        now: Time,
    ) -> MemberEffects {
        let Some((rank, _)) = self.rank_and_pid(process) else {
            return MemberEffects::new();
        };
        let notice = MemberNotice::Loaded {
            rank,
            pid: candidate.pid,
            after_ns: since(now, self.armed),
            what,
        };
        self.scan(process.machine).late.push(candidate);
        self.missing.note(notice.to_string());
        self.begin_anew(process, notice)
    }

    fn rank_and_pid(&self, process: MemberProcess) -> Option<(Option<u32>, ActuatorPid)> {
        let slot = self.slots.get(&process).filter(|slot| !slot.has_ended)?;
        let candidate = slot.candidate.as_ref()?;
        Some((candidate.rank, candidate.pid))
    }

    /// Ends the process in its slot, so that it can join in another one.
    fn begin_anew(&mut self, process: MemberProcess, notice: MemberNotice) -> MemberEffects {
        self.replaced.insert(process);
        let mut effects = self.end_attached(process);
        // A call that was open in the old slot (MPI_Init) never ends there: all calls of the new slot would
        // be nested in it.
        effects.extend([MemberEffect::ForgetThreads(process), MemberEffect::Say(notice)]);
        effects
    }

    /// A launcher kills all ranks after the first one has crashed, so only the first are said.
    pub(super) fn exited(
        &mut self,
        process: MemberProcess,
        exit: Exit,
        cause: Option<ExitCause>,
        now: Time,
    ) -> MemberEffects {
        let cause = cause.filter(|cause| match cause {
            ExitCause::OutOfMemory(memory) => exit == Exit::KILLED && self.is_victim(memory),
            ExitCause::Change(_) => exit.is_fault(),
        });
        self.has_crashed_after_change |= matches!(cause, Some(ExitCause::Change(_)));
        let is_news = exit != Exit::Status(0);
        let Some((rank, pid)) = self.rank_and_pid(process).filter(|_| is_news) else {
            return MemberEffects::new();
        };
        if self.exits_said == EXITS_SAID {
            match exit {
                Exit::Signal(_) => self.more_exited.0 += 1,
                Exit::Status(_) => self.more_exited.1 += 1,
            }
            return MemberEffects::new();
        }
        self.exits_said += 1;
        vec![MemberEffect::Say(MemberNotice::Exited {
            rank,
            pid,
            after_ns: since(now, self.armed),
            exit,
            cause,
        })]
    }

    /// Whether the OOM killer ended a process that SIGKILL has ended. It ended `kills` of its cgroup: a launcher that
    /// kills the rest does so after it.
    fn is_victim(&mut self, memory: &OutOfMemory) -> bool {
        let known = self.oom_victims.entry(memory.cgroup.clone()).or_default();
        let is_victim = *known < memory.kills;
        *known += u64::from(is_victim);
        is_victim
    }

    pub(super) fn ended(&mut self, process: MemberProcess) -> MemberEffects {
        self.replaced.remove(&process);
        let mut effects = self.end_attached(process);
        effects.push(MemberEffect::CheckChanges(process));
        if self.replaced.is_empty() && self.slots.values().all(|slot| slot.has_ended) {
            let (by_signal, with_status) = self.more_exited;
            let more = MemberNotice::MoreExited {
                by_signal,
                with_status,
            };
            effects.extend((self.more_exited != (0, 0)).then_some(MemberEffect::Say(more)));
            effects.push(MemberEffect::Finish("the program has ended"));
        }
        effects
    }

    fn end_attached(&mut self, process: MemberProcess) -> MemberEffects {
        let mut effects = self.end(vec![process]);
        if !effects.is_empty() {
            effects.push(MemberEffect::Forget(process));
        }
        effects
    }
}
