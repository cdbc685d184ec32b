//! Processes of a command that the session started: the kernel side reports which start and end; those that
//! hit nothing are found in /proc.

use super::{
    BEGIN_NS, BEGIN_SCAN_NS, Members, SCAN_NS, YOUNG_NS,
    event::{Candidate, MachineId, MemberEffect, MemberEffects, MemberProcess},
    since,
};
use rules::Time;

impl Members {
    pub(super) fn look(&mut self, machine: MachineId, execs: u64, now: Time) -> MemberEffects {
        let mut effects = MemberEffects::new();
        let scan = self.scan(machine);
        if execs != scan.execs {
            scan.execs = execs;
            scan.begins_until = Time(now.0.saturating_add(BEGIN_NS));
            effects.push(MemberEffect::LookAtCommand(machine));
        }
        let period_ns = match now < scan.begins_until {
            true => BEGIN_SCAN_NS,
            false => SCAN_NS,
        };
        // The command has not begun yet, or the last check was too recent.
        if execs == 0 || since(now, scan.looked) < period_ns / 2 {
            return effects;
        }
        scan.looked = now;
        // Processes without MPI may have executed another program, or loaded what is worth probing. If the
        // dynamic linker of a process was active when it was read, as in MPI_Init, its libraries are not
        // known yet.
        let young = self.running(machine).filter(|(_, slot, candidate)| {
            let may_have_more = !candidate.has_mpi || !candidate.is_linked;
            slot.is_watched && may_have_more && since(now, candidate.started) < YOUNG_NS
        });
        effects.extend(young.map(|(process, ..)| MemberEffect::LookInto(process)));
        effects.push(MemberEffect::Scan(machine));
        effects
    }

    pub(super) fn looked_into(&mut self, process: MemberProcess, now: Candidate) -> MemberEffects {
        let slot = self.slots.get(&process);
        let Some(before) = slot.and_then(|slot| slot.candidate.as_ref()) else {
            return MemberEffects::new();
        };
        let is_same = before.program == now.program && before.modules == now.modules && before.is_linked;
        match !is_same && now.is_linked && before.pid == now.pid {
            true => self.join(process, now),
            false => MemberEffects::new(),
        }
    }

    /// Gives a process of a command this slot.
    pub(super) fn join(&mut self, process: MemberProcess, candidate: Candidate) -> MemberEffects {
        let pid = candidate.pid;
        let before = self.slots.get(&process).filter(|slot| slot.pid == pid.number);
        let was_watched = before.is_some_and(|slot| slot.is_watched);
        // A process that executes another program stays the same process, ended or not.
        let has_ended = before.is_some_and(|slot| slot.has_ended);
        self.fill_slot(process, candidate, false);
        if let Some(slot) = self.slots.get_mut(&process) {
            slot.has_ended = has_ended;
        }
        let watch = MemberEffect::Watch {
            machine: process.machine,
            pid,
            slot: Some(process.slot),
        };
        let leave = was_watched.then_some(MemberEffect::Leave(process));
        leave.into_iter().chain([watch]).collect()
    }
}
