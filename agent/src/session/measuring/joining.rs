//! Attaches to processes and for rules that join, and puts processes into their slots.

use rules::CheckedRule;

use super::{Context, Measuring};
use crate::{
    clock::{CpuClock, monotonic_ns},
    cost::CountTime,
    discover::Member,
    kernel::KernelError,
    profile::Metered,
    request::Mode,
    rulebook::{self, ProbeSwitch, RuleBook, Time},
    session::{
        arming::requested_in,
        members::{LateAttachment, MachineId, MemberEffect, MemberEvent},
        orders::{pid_here, pid_of, process_here},
        requests::NotAdded,
        target::{Arrival, Read, Target, candidate},
    },
};

impl Measuring {
    /// Carries out what the members want done, as far as it is measuring's; gives what was found. Before processes end all hits are to be taken.
    pub(in crate::session) fn carry_out(
        &mut self,
        context: &mut Context<'_>,
        effect: MemberEffect,
        read: &mut Read,
    ) -> Result<Vec<MemberEvent>, KernelError> {
        let (target, processes) = (&mut *context.target, &mut self.profile.processes);
        match effect {
            MemberEffect::CheckPrograms(_) => return Ok(target.replaced(processes)),
            MemberEffect::CheckMpi(those) => return Ok(target.loaded_mpi(&those, processes, read)),
            MemberEffect::LookInto(process) => {
                return Ok(target.look_into(process, read).into_iter().collect());
            }
            MemberEffect::LookAtCommand(_) => target.job.look_at_command(),
            MemberEffect::Admit(machine, pid) => {
                let kernel = self.probes.kernel_mut();
                let slot = kernel.map(|kernel| kernel.admit(pid.number as u32)).transpose()?;
                return Ok(vec![MemberEvent::Slot(machine, pid, slot.flatten())]);
            }
            MemberEffect::Watch { pid, slot, .. } => {
                let member = read.remove(&pid.number);
                let event = member.map(|member| match slot {
                    Some(slot) => self.admit(context, slot, member),
                    None => self.add(context, member),
                });
                return Ok(event.into_iter().collect());
            }
            MemberEffect::Leave(process) => context.rules.leave(process.slot, monotonic_ns()),
            MemberEffect::End(processes) => {
                // The last totals are still on the kernel side; those of /proc are gone with the process.
                self.read(context)?;
                self.end(context.rules, processes.iter().map(|process| process.slot));
            }
            MemberEffect::Forget(process) => {
                if let Some(process) = processes.get(process.slot as usize) {
                    self.probes.forget(process.pid)?;
                }
            }
            MemberEffect::ForgetThreads(process) => self.forget_threads_of(process.slot)?,
            MemberEffect::CheckEnded(process, pid) if !pid_of(pid).is_alive() => {
                self.probes.forget(pid.number)?;
                return Ok(vec![MemberEvent::Went(process)]);
            }
            MemberEffect::Say(notice) => context.screen.say(&notice),
            MemberEffect::CheckEnded(..)
            | MemberEffect::CheckChanges(_)
            | MemberEffect::Scan(_)
            | MemberEffect::Finish(_) => {}
        }
        Ok(Vec::new())
    }

    /// A process that was attached to when the session began.
    pub(in crate::session) fn begin(
        &mut self,
        rules: &mut RuleBook,
        (slot, member): (u32, &Member),
        now_ns: u64,
    ) {
        let rank = member.rank.map(|rank| rank.number);
        let process = Metered::new(member.process.pid.number, rank, slot);
        self.system.open(&process);
        self.profile.processes.push(process);
        rules.join(slot, member, now_ns);
    }

    /// From here on all processes are counted.
    pub(in crate::session) fn begin_counting(&mut self) -> Result<(), KernelError> {
        for process in &self.profile.processes {
            self.probes.watch(process.slot, process.pid)?;
        }
        Ok(())
    }

    /// A process of the command came or went: the event, and what was read of the process.
    pub(in crate::session) fn arrived(
        &mut self,
        target: &mut Target,
        arrival: Arrival,
    ) -> (MemberEvent, Read) {
        let mut read = Read::new();
        let event = match arrival {
            Arrival::Came(slot, member) => {
                let event = MemberEvent::Came(process_here(slot), candidate(&member));
                read.insert(member.process.pid.number, *member);
                event
            }
            Arrival::Unseen(coming) => {
                let (pid, process) = (coming.pid as i32, process_here(coming.slot));
                if let Some(member) = target.unseen(&coming) {
                    self.put(target, Metered::unknown(pid, coming.slot), member);
                }
                MemberEvent::CameUnseen {
                    process,
                    pid,
                    is_unwatched: self.budget.sampling.is_shut(),
                }
            }
            Arrival::Went(slot) => MemberEvent::Went(process_here(slot)),
        };
        (event, read)
    }

    /// A process below the launcher joins, in the next slot.
    fn add(&mut self, context: &mut Context<'_>, member: Member) -> MemberEvent {
        // Of one that cannot be attached to the slot is taken all the same.
        let slot = self.probes.slots();
        let pid = pid_here(member.process.pid);
        let (process, event) = match self.attach_next(context, &member) {
            Ok(None) => return MemberEvent::NoRoom(MachineId::HERE, pid),
            Ok(Some(process)) => {
                let event = watched(process.slot, &member, None);
                (process, event)
            }
            Err(error) => not_watched(slot, &member, &error),
        };
        self.system.others.forget();
        if let Some(ends) = &mut context.target.ends {
            ends.watch(process.pid, slot);
        }
        self.profile.processes.push(process);
        context.target.job.members.push(member);
        event
    }

    fn attach_next(
        &mut self,
        context: &mut Context<'_>,
        member: &Member,
    ) -> Result<Option<Metered>, KernelError> {
        let now = monotonic_ns();
        let requested = requested_in(context.rules, &self.own, member);
        let Some(slot) = self.probes.add(member, requested, &context.target.job)? else {
            return Ok(None);
        };
        let process = self.begin_process(slot, member, now);
        self.probes.watch(slot, process.pid)?;
        context.rules.join(slot, member, now);
        Ok(Some(process))
    }

    /// A process of the command joins, in the slot that the kernel side gave it.
    fn admit(&mut self, context: &mut Context<'_>, slot: u32, member: Member) -> MemberEvent {
        let (process, event) = match self.attach_in(context, slot, &member) {
            Ok((process, late)) => (process, watched(slot, &member, late)),
            Err(error) => not_watched(slot, &member, &error),
        };
        let is_known = process.is_known;
        self.put(context.target, process, member);
        if let Some(process) = self.profile.processes.get_mut(slot as usize) {
            process.is_known = is_known;
        }
        event
    }

    fn attach_in(
        &mut self,
        context: &mut Context<'_>,
        slot: u32,
        member: &Member,
    ) -> Result<(Metered, Option<LateAttachment>), KernelError> {
        if member.mpi.is_some() {
            self.see_begin(context, member.process.pid.number)?;
        }
        let requested = requested_in(context.rules, &self.own, member);
        self.probes.admit(member, slot, requested, &context.target.job)?;
        let late = self.late_file(slot, member)?;
        self.system.others.forget();
        let now = monotonic_ns();
        context.rules.join(slot, member, now);
        Ok((self.begin_process(slot, member, now), late))
    }

    fn late_file(&self, slot: u32, member: &Member) -> Result<Option<LateAttachment>, KernelError> {
        let Some(file) = self.probes.attached_late(member) else {
            return Ok(None);
        };
        Ok(Some(LateAttachment {
            name: file.name.clone(),
            attached: Time(file.at_ns),
            is_again: file.is_again,
            begins: file.is_again && self.probes.begins(slot)?,
        }))
    }

    /// A process that has just joined: what it does until the next window is not seen.
    fn begin_process(&mut self, slot: u32, member: &Member, now_ns: u64) -> Metered {
        let rank = member.rank.map(|rank| rank.number);
        let mut process = Metered::new(member.process.pid.number, rank, slot);
        self.system.open(&process);
        let cpu_ns = CpuClock::of(process.pid).and_then(CpuClock::ns);
        let at = CountTime {
            at_ns: now_ns,
            cpu_ns: cpu_ns.unwrap_or(now_ns),
        };
        process.join(at, self.budget.sampling.sampled().gap());
        process
    }

    /// Slots are given by whoever needs one first: those before it may still be empty.
    fn put(&mut self, target: &mut Target, process: Metered, member: Member) {
        let place = process.slot as usize;
        let processes = &mut self.profile.processes;
        while let (Some(started), true) = (&target.started, processes.len() <= place) {
            let empty = processes.len() as u32;
            processes.push(Metered::unknown(0, empty));
            target.job.members.push(started.no_member.clone());
        }
        let old_member = target.job.members.get_mut(place);
        if let (Some(old), Some(old_member)) = (processes.get_mut(place), old_member) {
            // One that executes another program goes on as the same process.
            if old.pid != process.pid {
                *old = process;
            }
            *old_member = member;
        }
    }

    /// Looks for probed code whose pages were thrown away, and takes in what was attached since.
    pub(in crate::session) fn settle(&mut self, target: &mut Target) -> Result<(), KernelError> {
        if !target.is_of_command() {
            // Who uses no CPU time throws no pages away.
            let awake = self.profile.running().filter(|process| !process.is_still());
            let awake = awake.filter_map(|process| target.member(process.slot));
            self.probes.look_for_gone(awake, target.discovery.images());
        }
        self.probes.settle(&mut target.job.members)
    }

    /// A rule joins the others, which do not notice: all hits were taken. Gives what of it is not probed.
    pub(in crate::session) fn add_rule(
        &mut self,
        context: &mut Context<'_>,
        rule: CheckedRule,
        mode: Mode,
    ) -> Result<Vec<String>, NotAdded> {
        let failed = |error: KernelError| NotAdded::Failed(error.to_string());
        self.read(context).map_err(failed)?;
        let first = self.probes.wanted_count();
        self.written.forget();
        let added = context.rules.add(rule, first, monotonic_ns());
        let added = added.map_err(|rulebook::RuleConflict::Conflict(text)| NotAdded::Conflict(text))?;
        let members = context.target.watched(&self.profile.processes).into_iter();
        let members: Vec<_> = members
            .map(|(slot, member)| (slot, member, context.rules.added_in(&added, member)))
            .collect();
        let before = self.probes.missing().len();
        if let Err(error) = (self.probes).grow(&context.target.job, added.wanted.clone(), &members) {
            context.rules.give_up(&added);
            return Err(NotAdded::NotProbed(error.to_string()));
        }
        if self.probes.take_moved() {
            self.lose_hits(context.rules);
        }
        self.read(context).map_err(failed)?;
        context.rules.begin(&added, mode, monotonic_ns());
        Ok(self.probes.missing().iter().skip(before).cloned().collect())
    }

    /// Switches probes that rules ask for: all hits were taken.
    pub(in crate::session) fn switch_probes(
        &mut self,
        context: &mut Context<'_>,
        switches: &[ProbeSwitch],
    ) -> Result<(), KernelError> {
        self.read(context)?;
        context.rules.switch_probes(switches);
        let members = context.target.watched(&self.profile.processes);
        for (want, on) in context.rules.switched() {
            self.probes.switch(want, on, &members)?;
        }
        self.read(context)
    }

    /// Processes have ended: what was counted of them was just read.
    fn end(&mut self, rules: &mut RuleBook, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            let process = self.profile.processes.get_mut(slot as usize);
            let Some(process) = process.filter(|process| !process.ended) else {
                continue;
            };
            process.ended = true;
            if process.is_known {
                rules.leave(slot, monotonic_ns());
            }
        }
        self.system.others.forget();
    }
}

fn watched(slot: u32, member: &Member, late: Option<LateAttachment>) -> MemberEvent {
    MemberEvent::Watched {
        process: process_here(slot),
        pid: pid_here(member.process.pid),
        late,
    }
}

/// What /proc tells of it is all there is.
fn not_watched(slot: u32, member: &Member, error: &KernelError) -> (Metered, MemberEvent) {
    let pid = pid_here(member.process.pid);
    tracing::warn!("process {pid} is not watched: {error}");
    let rank = member.rank.map(|rank| rank.number);
    let event = MemberEvent::Refused {
        process: process_here(slot),
        pid,
        reason: error.to_string(),
    };
    (Metered::refused(pid.number, rank, slot), event)
}
