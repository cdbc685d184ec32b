//! Attaches to processes, and for rules, that join, and assigns processes to slots: carries out the effects
//! of the state machine of members.

use std::collections::VecDeque;

use job::{CpuClock, Member, monotonic_ns};
use probe::kernel::{Kernel, KernelError};
use profile::cost::CountTime;
use profile::{Counters, Inputs, Metered};
use rules::CheckedRule;
use session::error::ErrorText;
use session::request::Mode;

use super::{Context, Measuring};
use crate::{
    rulebook::{self, Act, ProbeSwitch, RuleBook, Time},
    session::{
        arming::requested_in,
        ends::ProcessEnd,
        members::{Exit, ExitCause, LateAttachment, MachineId, MemberEffect, MemberEvent},
        orders::{pid_here, pid_of, process_here},
        prefetch,
        requests::{NotAdded, RemoveResult},
        target::{Arrival, Read, WatchedJob, candidate, started},
    },
};

impl Measuring {
    /// A watched process has ended.
    pub(in crate::session) fn process_ended(
        &mut self,
        context: &mut Context<'_>,
        end: ProcessEnd,
    ) -> Result<(), KernelError> {
        let process = process_here(end.slot);
        if let Some(exit) = end.exit {
            let pid = context.target.pid_of(end.slot).filter(|_| exit == Exit::KILLED);
            let memory = pid.and_then(|pid| self.system.memory.out_of_memory(pid.number));
            let cause = match memory {
                Some(memory) => Some(ExitCause::OutOfMemory(memory)),
                None => context.parts.changes.last_made(process).map(ExitCause::Change),
            };
            self.members_on(context, MemberEvent::Exited { process, exit, cause })?;
        }
        self.members_on(context, MemberEvent::Ended(process))
    }

    /// Handles an event of the members, and carries out the effects.
    fn members_on(&mut self, context: &mut Context<'_>, event: MemberEvent) -> Result<(), KernelError> {
        self.members_on_with(context, event, Read::new())
    }

    /// The results of an effect are handled before the remaining effects.
    fn members_on_with(
        &mut self,
        context: &mut Context<'_>,
        event: MemberEvent,
        mut read: Read,
    ) -> Result<(), KernelError> {
        let (mut events, mut effects) = (vec![event], VecDeque::new());
        loop {
            let mut first = Vec::new();
            for event in events {
                first.extend(context.parts.members_on(event, Time(monotonic_ns())));
            }
            first
                .into_iter()
                .rev()
                .for_each(|effect| effects.push_front(effect));
            let Some(effect) = effects.pop_front() else {
                return Ok(());
            };
            events = self.carry_out(context, effect, &mut read)?;
        }
    }

    /// Returns the resulting events.
    fn carry_out(
        &mut self,
        context: &mut Context<'_>,
        effect: MemberEffect,
        read: &mut Read,
    ) -> Result<Vec<MemberEvent>, KernelError> {
        let (target, processes) = (&mut *context.target, &mut self.profile.processes);
        match effect {
            MemberEffect::CheckPrograms(_) => return Ok(target.replaced(processes)),
            MemberEffect::CheckLibraries(those) => {
                let rules = &*context.rules;
                let gained = |before: &Member, now: &Member| rules.gained(before, now);
                return Ok(target.loaded(&those, processes, read, &gained));
            }
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
            MemberEffect::Scan(_) => return self.scan(context, read),
            MemberEffect::CheckChanges(process) if target.has_ended(process.slot) => {
                context.parts.ended(process, Time(monotonic_ns()));
            }
            MemberEffect::End(processes) => {
                self.take_all_hits(context);
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
            MemberEffect::CheckEnded(..) | MemberEffect::CheckChanges(_) | MemberEffect::Finish(_) => {}
        }
        Ok(Vec::new())
    }

    /// Passes the processes to the rules, and starts counting.
    pub(in crate::session) fn start(
        &mut self,
        context: &mut Context<'_>,
        now_ns: u64,
    ) -> Result<(), KernelError> {
        context.rules.start(now_ns);
        for (slot, member) in (0..self.probes.slots()).zip(&context.target.job.members) {
            let rank = member.rank.map(|rank| rank.number);
            let process = self.profile.process(member.process.pid.number, rank, slot);
            self.system.open(&process);
            self.profile.processes.push(process);
            context.rules.join(slot, member, now_ns);
            let present = MemberEvent::Present(process_here(slot), candidate(member));
            context.parts.members_on(present, Time(now_ns));
        }
        context.rules.lack(&self.probes.absent());
        self.begin_regions(now_ns);
        // The first readings, against which the first window is compared: all later events belong to it.
        self.read(context)?;
        if let Some(trace) = context.screen.trace() {
            trace.armed(now_ns);
        }
        // All processes at once, and last: otherwise events of one process, while the next is attached to,
        // would belong to no window.
        for process in &self.profile.processes {
            self.probes.watch(process.slot, process.pid)?;
        }
        Ok(())
    }

    /// At a tick: searches for processes that were started or exec'ed another program. In a session of a
    /// command, the kernel side reports them.
    pub(in crate::session) fn look_for_members(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(), KernelError> {
        match context.target.is_of_command() {
            true => Ok(()),
            false => self.members_on(context, MemberEvent::Tick(MachineId::HERE)),
        }
    }

    /// Searches for unknown processes.
    fn scan(&mut self, context: &mut Context<'_>, read: &mut Read) -> Result<Vec<MemberEvent>, KernelError> {
        self.settle(context.target)?;
        let known = context.parts.members.known(MachineId::HERE);
        let Some(found) = context.target.find(&known) else {
            return Ok(Vec::new());
        };
        // Some of them may have been reported meanwhile, and may have ended since.
        self.take_family_events(context);
        let named = found
            .iter()
            .map(|member| (candidate(member), member.process.pid.is_alive()));
        let event = MemberEvent::Found(MachineId::HERE, named.collect());
        let found = found.into_iter();
        read.extend(found.map(|member| (member.process.pid.number, member)));
        Ok(vec![event])
    }

    /// Handles processes of the command that started or ended.
    pub(in crate::session) fn take_family(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        self.take_family_events(context);
        let machine = MachineId::HERE;
        let state = self.probes.kernel().and_then(Kernel::family_state);
        if let (Some(state), true) = (state, context.target.is_of_command()) {
            let execs = state.execs;
            self.members_on(context, MemberEvent::Look { machine, execs })?;
        }
        self.members_on(context, MemberEvent::Settled(machine))
    }

    /// Handles what the kernel side reports about processes of the command.
    pub(super) fn take_family_events(&mut self, context: &mut Context<'_>) {
        for arrival in context.target.arrivals() {
            let (event, read) = self.arrived(context.target, arrival);
            // A failure to attach to a process is an event, not an error.
            if let Err(error) = self.members_on_with(context, event, read) {
                let error = ErrorText::new(error);
                tracing::warn!(%error, "a process of the command is not watched");
            }
        }
    }

    /// A process of the command started or ended: the event, and the data that was read of the process.
    fn arrived(&mut self, target: &mut WatchedJob, arrival: Arrival) -> (MemberEvent, Read) {
        let mut read = Read::new();
        let event = match arrival {
            Arrival::Came(slot, member) => {
                let event = MemberEvent::Came(process_here(slot), candidate(&member));
                read.insert(member.process.pid.number, *member);
                event
            }
            Arrival::Unseen(event) => {
                let (pid, process) = (event.pid as i32, process_here(event.slot));
                if let Some(member) = target.unseen(&event) {
                    self.put(target, Metered::unknown(pid, event.slot), member);
                }
                MemberEvent::CameUnseen {
                    process,
                    pid,
                    is_unwatched: self.budget.sampling.is_gap(),
                }
            }
            Arrival::Went(slot) => MemberEvent::Went(process_here(slot)),
        };
        (event, read)
    }

    /// Adds a process below the launcher, in the next slot.
    fn add(&mut self, context: &mut Context<'_>, member: Member) -> MemberEvent {
        // The slot is used even if it cannot be attached to.
        let slot = self.probes.slots();
        let pid = pid_here(member.process.pid);
        let before = self.counters_before(context.target, &member);
        let (mut process, event) = match self.attach_next(context, &member) {
            Ok(None) => return MemberEvent::NoRoom(MachineId::HERE, pid),
            Ok(Some(process)) => {
                let event = watched(process.slot, &member, None);
                (process, event)
            }
            Err(error) => not_watched(slot, &member, &error),
        };
        process.before = before;
        self.system.others.forget();
        if let Some(ends) = &mut context.target.ends {
            ends.watch(process.pid, slot);
        }
        self.profile.processes.push(process);
        if let (MemberEvent::Watched { .. }, Some(queue)) = (&event, &context.actuation.queue) {
            prefetch::look_up(queue, context.rules, std::slice::from_ref(&member));
        }
        context.target.job.members.push(member);
        event
    }

    /// The last counters of this process from before it executed its program.
    fn counters_before(&self, target: &WatchedJob, member: &Member) -> Option<Counters> {
        let entries = self.profile.processes.iter().zip(&target.job.members);
        let mut same = entries.filter(|(_, other)| other.process.pid == member.process.pid);
        same.next_back()?.0.last()?.counters
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
        let process = self.begin_process(slot, member, context.target.is_of_command(), now);
        self.probes.watch(slot, process.pid)?;
        context.rules.join(slot, member, now);
        context.rules.lack(&self.probes.absent());
        Ok(Some(process))
    }

    /// Adds a process of the command, in the slot that the kernel side has assigned.
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
            self.process_starting(context, member.process.pid.number)?;
        }
        let requested = requested_in(context.rules, &self.own, member);
        self.probes.admit(member, slot, requested, &context.target.job)?;
        let late = self.late_file(slot, member)?;
        self.system.others.forget();
        let now = monotonic_ns();
        context.rules.join(slot, member, now);
        context.rules.lack(&self.probes.absent());
        Ok((
            self.begin_process(slot, member, context.target.is_of_command(), now),
            late,
        ))
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

    /// A process that has just joined. Its calls until the next window are missed.
    fn begin_process(&mut self, slot: u32, member: &Member, is_of_command: bool, now_ns: u64) -> Metered {
        let rank = member.rank.map(|rank| rank.number);
        let mut process = self.profile.process(member.process.pid.number, rank, slot);
        self.system.open(&process);
        let cpu_ns = CpuClock::of(process.pid).and_then(CpuClock::ns);
        let sample = self.system.sample(&process);
        let at = CountTime {
            at_ns: now_ns,
            cpu_ns: cpu_ns.unwrap_or(now_ns),
            waited_ns: sample.counters.map_or(0, |counters| counters.runqueue_ns),
        };
        process.join(at, self.budget.sampling.sampled().gap());
        // It may end before the next tick. A process of a command belongs to the session from its start.
        let born_ns = is_of_command.then(|| started(member.process.pid).0.max(self.profile.armed_ns));
        process.read(&Inputs {
            counters: born_ns.map(|_| Counters::default()).or(sample.counters),
            has_run: sample.has_run,
            probes: self.probes.list(),
            regions_since_ns: self.budget.regions.since_ns,
            ..Inputs::at(born_ns.unwrap_or(now_ns))
        });
        process
    }

    /// Puts a process into its slot. Slots are assigned in the order of first hits, so lower ones may still
    /// be empty.
    fn put(&mut self, target: &mut WatchedJob, process: Metered, member: Member) {
        let place = process.slot as usize;
        let processes = &mut self.profile.processes;
        while let (Some(started), true) = (&target.started, processes.len() <= place) {
            let empty = processes.len() as u32;
            processes.push(Metered::unknown(0, empty));
            target.job.members.push(started.no_member.clone());
        }
        let old_member = target.job.members.get_mut(place);
        if let (Some(old), Some(old_member)) = (processes.get_mut(place), old_member) {
            // A process that execs another program continues as the same process.
            if old.pid != process.pid {
                *old = process;
            }
            *old_member = member;
        }
    }

    /// Checks for probed code whose pages were discarded, and processes links that were attached since.
    fn settle(&mut self, target: &mut WatchedJob) -> Result<(), KernelError> {
        if !target.is_of_command() {
            // A process that uses no CPU time discards no pages.
            let awake = self.profile.running().filter(|process| !process.is_still());
            let awake = awake.filter_map(|process| target.member(process.slot));
            self.probes.look_for_gone(awake, target.discovery.images());
        }
        self.probes.settle(&mut target.job.members)
    }

    /// Adds a rule without effect on the others. Returns what could not be probed for it.
    pub(in crate::session) fn add_rule(
        &mut self,
        context: &mut Context<'_>,
        rule: CheckedRule,
        mode: Mode,
    ) -> Result<Vec<String>, NotAdded> {
        let refuses = context.rules.refuses_calls_of(&rule);
        if let Some(why) = refuses.filter(|_| mode == Mode::Applying) {
            return Err(NotAdded::Stays(why));
        }
        let failed = |error: KernelError| NotAdded::Failed(ErrorText::of(&error).to_string());
        // Earlier counts do not belong to the rule.
        self.take_all_hits(context);
        self.read(context).map_err(failed)?;
        let first = self.probes.wanted_count();
        self.written.forget();
        let added = context.rules.add(rule, first, monotonic_ns());
        let added = added.map_err(|rulebook::RuleConflict::Conflict(text)| NotAdded::Conflict(text))?;
        let members = context.target.watched(&self.profile.processes).into_iter();
        let members: Vec<_> = members
            .map(|(slot, member)| (slot, member, context.rules.added_in(&added, member)))
            .collect();
        let unfit = (context.rules).fits_none(&added, members.iter().map(|(_, member, _)| *member));
        let before = self.probes.missing().len();
        if let Err(error) = (self.probes).grow(&context.target.job, added.wanted.clone(), &members) {
            context.rules.give_up(&added);
            return Err(NotAdded::NotProbed(ErrorText::of(&error).to_string()));
        }
        context.rules.lack(&self.probes.absent());
        if self.probes.take_moved() {
            self.lose_hits(context.rules);
        }
        self.read(context).map_err(failed)?;
        context.rules.begin(&added, mode, monotonic_ns());
        let missing = self.probes.missing().iter().skip(before).cloned();
        Ok(missing.chain(unfit).collect())
    }

    /// Removes a rule and detaches its probes: returns the result, and the resulting acts.
    pub(in crate::session) fn remove_rule(
        &mut self,
        context: &mut Context<'_>,
        rule: &str,
    ) -> (RemoveResult, Vec<Act>) {
        self.take_all_hits(context);
        self.written.forget();
        let Some((gone, acts)) = context.rules.remove(rule, monotonic_ns()) else {
            return (RemoveResult::NoSuchRule(context.rules.unknown(rule)), Vec::new());
        };
        let result = match self.probes.shrink(&gone) {
            Ok(()) => RemoveResult::Removed,
            Err(error) => RemoveResult::StillProbed(ErrorText::of(&error).to_string()),
        };
        (result, acts)
    }

    /// Switches probes that rules request. They belong to the session, so this writes nothing and takes
    /// effect at once. Everything counted until now belongs to the state before.
    pub(in crate::session) fn switch_probes(
        &mut self,
        context: &mut Context<'_>,
        switches: &[ProbeSwitch],
    ) -> Result<(), KernelError> {
        self.take_more_hits(context);
        if self.intake.is_interrupted() {
            // Hits of the state before are observed after the switch: windows that contain it are incomplete.
            self.lose_hits(context.rules);
        }
        self.read(context)?;
        context.rules.switch_probes(switches);
        let members = context.target.watched(&self.profile.processes);
        for (want, on) in context.rules.switched() {
            self.probes.switch(want, on, &members)?;
        }
        self.read(context)
    }

    /// Marks processes as ended, whose counters have just been read.
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

/// For a process of which only the data of /proc is available.
fn not_watched(slot: u32, member: &Member, error: &KernelError) -> (Metered, MemberEvent) {
    let pid = pid_here(member.process.pid);
    let reason = ErrorText::of(error).to_string();
    tracing::warn!("process {pid} is not watched: {reason}");
    let rank = member.rank.map(|rank| rank.number);
    let event = MemberEvent::Refused {
        process: process_here(slot),
        pid,
        reason,
    };
    (Metered::refused(pid.number, rank, slot), event)
}
