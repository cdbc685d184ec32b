//! A command that was started to be watched, and everything that it starts. The kernel side tells who hits a probe for the first
//! time and who has ended; processes that hit nothing, or have what nobody foresaw, are looked for in /proc.

use std::{collections::BTreeSet, io, os::fd::AsFd, time::Duration};

use abi::{Coming, ComingKind};
use tuner::process::{Pid, Process};

use super::{Options, SCAN_PERIOD, Session, asked_in};
use crate::{
    clock::monotonic_ns,
    discover::{Job, Member},
    format::duration,
    kernel::{FamilyRoot, Kernel, KernelError, Ring, read_coming},
    probe::Probes,
    profile::Metered,
    readable::Readable,
};

/// /proc is looked at this often while programs begin.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// How long a program that has begun is looked at so: until then it has mapped its libraries.
const BEGINNING: Duration = Duration::from_secs(2);

/// The command, before it begins.
#[derive(Clone, Debug)]
pub struct Started {
    /// The process that will execute it.
    pub process: Process,
    /// What the kernel side must know of it.
    pub root: FamilyRoot,
    /// What its processes will be, as far as that is known.
    pub foreseen: Vec<Member>,
    /// Of no process.
    pub nobody: Member,
}

impl Started {
    /// The job as it will be, to number and attach by.
    pub(super) fn job(&self) -> Job {
        let mut job = Job::of_command(self.process.clone());
        job.members.clone_from(&self.foreseen);
        job
    }
}

/// What is kept of a family while its session runs.
pub(super) struct Family {
    comings: Ring,
    nobody: Member,
    /// Slots of processes that have ended and are still shown as running.
    gone: Vec<u32>,
    /// How many had ended before they were looked at, while MPI was not watched.
    unseen: u64,
    execs: u64,
    look_until_ns: u64,
    looked_ns: u64,
}

impl Family {
    pub(super) fn of(options: &Options, probes: &mut Probes) -> Result<Option<Family>, KernelError> {
        let (Some(started), Some(kernel)) = (&options.started, probes.kernel_mut()) else {
            return Ok(None);
        };
        Ok(Some(Family {
            comings: kernel.take_comings()?,
            nobody: started.nobody.clone(),
            gone: Vec::new(),
            unseen: 0,
            execs: 0,
            look_until_ns: 0,
            looked_ns: 0,
        }))
    }
}

impl Session {
    /// The descriptors to wait on: of the ring of comings, and the one that ends with the command. None without a command.
    pub(super) fn family_ends(&self) -> io::Result<Option<(Readable, Readable)>> {
        let Some(family) = &self.family else {
            return Ok(None);
        };
        let comings = Readable::new(family.comings.as_fd().try_clone_to_owned()?)?;
        // Whoever started us holds the other end as long as the command runs.
        let over = Readable::new(io::stdin().as_fd().try_clone_to_owned()?)?;
        Ok(Some((comings, over)))
    }

    /// Takes note of processes that came and went.
    pub(super) fn take_family(&mut self) -> Result<(), KernelError> {
        self.take_comings();
        self.look_for_relatives()?;
        self.end_gone()
    }

    /// A hit of a process that nobody told of yet: the telling is on its way.
    pub(super) fn meet(&mut self, slot: u32) {
        let is_met = self
            .profile
            .processes
            .get(slot as usize)
            .is_some_and(|process| process.pid != 0);
        if !is_met {
            self.take_comings();
        }
    }

    /// All of them are looked at before anything is done for the first: some live for no longer than that takes.
    pub(super) fn take_comings(&mut self) {
        let mut came = Vec::new();
        while let Some(family) = &mut self.family {
            let coming = family.comings.take().and_then(read_coming);
            let Some(coming) = coming else { break };
            if coming.kind == ComingKind::Went as u32 {
                family.gone.push(coming.slot);
            } else {
                let member = self.scout.arrived(coming.pid as i32);
                came.push((coming, member));
            }
        }
        for (coming, member) in came {
            match member {
                Some(member) => self.join(coming.slot, member),
                None => self.put_unknown(&coming),
            }
        }
    }

    /// One that had ended before it was looked at.
    fn put_unknown(&mut self, coming: &Coming) {
        let is_shut = self.budget.sampling.is_shut();
        let Some(family) = &mut self.family else { return };
        family.unseen += u64::from(is_shut);
        let name = coming.name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        let member = Member {
            process: Process::gone(coming.pid as i32, &name),
            ..family.nobody.clone()
        };
        self.put(Metered::unknown(coming.pid as i32, coming.slot), member);
    }

    /// A process of the family, from now on in this slot. Those that come together have nothing to do with each other: of one that cannot be
    /// watched it is said why.
    fn join(&mut self, slot: u32, member: Member) {
        let pid = member.process.pid.number;
        let before = self.profile.processes.get(slot as usize);
        if before.is_some_and(|before| before.pid == pid && before.is_known) {
            self.rules.leave(slot, monotonic_ns());
        }
        let process = self.watch_member(slot, &member);
        let process = process.unwrap_or_else(|error| self.refused(slot, &member, &error));
        let is_known = process.is_known;
        self.put(process, member);
        if let Some(process) = self.profile.processes.get_mut(slot as usize) {
            process.is_known = is_known;
        }
    }

    fn watch_member(&mut self, slot: u32, member: &Member) -> Result<Metered, KernelError> {
        if member.mpi.is_some() {
            self.see_begin(member.process.pid.number)?;
        }
        let asked = asked_in(&self.rules, &self.own, member);
        self.probes.admit(member, slot, asked, &self.job)?;
        let missed = self.missed_of(slot, member)?;
        if let Some(missed) = missed.filter(|missed| !self.missing.contains(missed)) {
            self.painter.say(&format!("missing: {missed}"));
            self.note_missing(missed);
        }
        self.system.others.forget();
        let now = monotonic_ns();
        self.rules.join(slot, member, now);
        let rank = member.rank.map(|rank| rank.number);
        let mut process = Metered::new(member.process.pid.number, rank, slot);
        self.take_in(&mut process, now);
        Ok(process)
    }

    /// One that cannot be watched: it is named with the reason, and what /proc tells of it is all there is.
    pub(super) fn refused(&mut self, slot: u32, member: &Member, error: &KernelError) -> Metered {
        let pid = member.process.pid;
        let text = format!("{} {pid} is not watched: {error}", who(member));
        tracing::warn!("{text}");
        self.painter.say(&format!("missing: {text}"));
        self.note_missing(text);
        Metered::refused(pid.number, member.rank.map(|rank| rank.number), slot)
    }

    /// What is not known of a process because it was attached to late, in words.
    fn missed_of(&self, slot: u32, member: &Member) -> Result<Option<String>, KernelError> {
        let Some(file) = self.probes.attached_late(member) else {
            return Ok(None);
        };
        let pid = member.process.pid;
        // The command itself waited until the probes sat.
        let Some(missed) = file.at_ns.checked_sub(started_ns(pid).max(self.armed_ns)) else {
            return Ok(None);
        };
        // Whoever is in its first call still has made no other.
        if file.is_again && self.probes.begins(slot)? {
            return Ok(None);
        }
        let (who, missed) = (who(member), duration(missed as f64));
        Ok(Some(match file.is_again {
            true => format!(
                "{who} {pid}: calls of its first {missed} may be missing, because MPI was not watched then (--budget)"
            ),
            false => format!(
                "{who} {pid}: its first {missed} are not measured, because the session did not expect {}",
                file.name
            ),
        }))
    }

    /// Slots are given by whoever needs one first: those before it may still be empty.
    fn put(&mut self, process: Metered, member: Member) {
        let place = process.slot as usize;
        while let (Some(family), true) = (&self.family, self.profile.processes.len() <= place) {
            let empty = self.profile.processes.len() as u32;
            self.profile.processes.push(Metered::unknown(0, empty));
            self.job.members.push(family.nobody.clone());
        }
        if let (Some(old), Some(old_member)) = (
            self.profile.processes.get_mut(place),
            self.job.members.get_mut(place),
        ) {
            // One that executes another program goes on as the same process.
            if old.pid != process.pid {
                *old = process;
            }
            *old_member = member;
        }
    }

    fn look_for_relatives(&mut self) -> Result<(), KernelError> {
        let execs = self.probes.kernel().and_then(Kernel::family_state);
        let (Some(state), Some(family)) = (execs, &mut self.family) else {
            return Ok(());
        };
        let now = monotonic_ns();
        if state.execs != family.execs {
            family.execs = state.execs;
            family.look_until_ns = now + BEGINNING.as_nanos() as u64;
            self.job.look_at_command();
        }
        let period = if now < family.look_until_ns {
            PERIOD
        } else {
            SCAN_PERIOD
        };
        // The command has not begun yet, or nothing has since the last look.
        if state.execs == 0 || now.saturating_sub(family.looked_ns) < period.as_nanos() as u64 / 2 {
            return Ok(());
        }
        family.looked_ns = now;
        self.look_again();
        self.probes.settle(&mut self.job.members)?;
        let Some(command) = self.job.roots.first().map(|root| root.process.clone()) else {
            return Ok(());
        };
        let living = self.profile.processes.iter().filter(|process| !process.ended);
        let known: BTreeSet<i32> = living.map(|process| process.pid).collect();
        let found = self.scout.family(command.pid, command.uid, &known);
        // Some of them may have been told of meanwhile, and may have ended since.
        self.take_comings();
        for member in found {
            let pid = member.process.pid;
            let mut same = self
                .profile
                .processes
                .iter()
                .filter(|process| process.pid == pid.number);
            if same.any(|process| !process.ended || !pid.is_alive()) {
                continue;
            }
            let kernel = self.probes.kernel_mut();
            let slot = kernel.map(|kernel| kernel.admit(pid.number as u32)).transpose()?;
            let Some(slot) = slot.flatten() else { continue };
            self.join(slot, member);
            // Of one that ended before it had its slot nobody tells.
            if !pid.is_alive() {
                self.probes.forget(pid.number)?;
                self.family.iter_mut().for_each(|family| family.gone.push(slot));
            }
        }
        Ok(())
    }

    /// Processes without MPI may have begun another program, or loaded what is worth probing. Of one whose dynamic linker was at work when
    /// it was looked into, as it is in MPI_Init, it is not known yet what it has.
    fn look_again(&mut self) {
        let now = monotonic_ns();
        let running = self.profile.processes.iter().zip(&self.job.members);
        let running = running.filter(|(process, member)| {
            let is_young =
                now.saturating_sub(started_ns(member.process.pid)) < 15 * BEGINNING.as_nanos() as u64;
            let may_have_more = member.mpi.is_none() || !member.space.is_linked();
            process.is_known && !process.ended && may_have_more && is_young
        });
        let slots: Vec<u32> = running.map(|(process, _)| process.slot).collect();
        for slot in slots {
            let Some(before) = self.job.members.get(slot as usize) else {
                continue;
            };
            let Some(member) = self.scout.arrived(before.process.pid.number) else {
                continue;
            };
            let is_same = before.process.executable == member.process.executable
                && before.space.modules.len() == member.space.modules.len()
                && before.space.is_linked();
            if !is_same && member.space.is_linked() && before.process.pid == member.process.pid {
                self.join(slot, member);
            }
        }
    }

    fn end_gone(&mut self) -> Result<(), KernelError> {
        let gone = self
            .family
            .as_mut()
            .map(|family| std::mem::take(&mut family.gone));
        let gone = gone.unwrap_or_default();
        if gone.is_empty() {
            return Ok(());
        }
        self.take_all_hits()?;
        // Their last totals are still on the kernel side; those of /proc are gone with them.
        self.read()?;
        for slot in gone {
            let process = self
                .profile
                .processes
                .get_mut(slot as usize)
                .filter(|process| !process.ended);
            let Some(process) = process else { continue };
            process.ended = true;
            if process.is_known {
                self.rules.leave(slot, monotonic_ns());
            }
        }
        self.system.others.forget();
        Ok(())
    }

    /// What is known to be missing of the family.
    pub(super) fn family_missing(&self) -> Vec<String> {
        let state = self.probes.kernel().and_then(Kernel::family_state);
        let state = state.unwrap_or_default();
        let mut missing = self.probes.never_found();
        if state.without_slot > 0 {
            missing.push(format!(
                "{} more processes hit a probe and are not measured: there was no room for them",
                state.without_slot
            ));
        }
        let unseen = self.family.as_ref().map_or(0, |family| family.unseen);
        if unseen > 0 {
            missing.push(format!(
                "{unseen} processes had ended before they were inspected, between two windows (--budget): of MPI only their first call \
                 is counted"
            ));
        }
        if state.privileged > 0 {
            missing.push(format!(
                "{} programs have more rights than the command (set-uid) and are not watched",
                state.privileged
            ));
        }
        missing
    }
}

fn who(member: &Member) -> String {
    let rank = member.rank;
    rank.map_or_else(
        || "process".to_owned(),
        |rank| format!("rank {}, process", rank.number),
    )
}

/// When a process started, by CLOCK_MONOTONIC; the kernel tells it in hundredths of a second.
fn started_ns(pid: Pid) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let asleep = since_boot.saturating_sub(monotonic_ns());
    let ticks = procfs::ticks_per_second().max(1);
    (pid.start_time * 1_000_000_000 / ticks).saturating_sub(asleep)
}
