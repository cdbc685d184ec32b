//! Carries out what [`super::members`] decides: reads /proc, attaches to processes, reads their last totals. Decides nothing.

use std::collections::{BTreeMap, VecDeque};

use abi::{Coming, ComingKind};
use tuner::process::Process as Opened;

use super::{
    Session,
    arming::asked_in,
    ends::Ends,
    members::{Effect, Event, LateFile, Machine, Process},
    orders::process_here,
    prefetch,
    target::candidate,
};
use crate::{
    clock::monotonic_ns,
    discover::Member,
    kernel::{Kernel, KernelError, read_coming},
    profile::Metered,
    rulebook::Time,
};

/// What was read of processes that have not joined yet, by their numbers.
type Read = BTreeMap<i32, Member>;

impl Session {
    /// Takes an event of the members in, and carries out what follows; gives the reason when the session is over.
    pub(super) fn members_on(
        &mut self,
        event: Event,
        ends: Option<&Ends>,
    ) -> Result<Option<&'static str>, KernelError> {
        self.members_on_with(event, Read::new(), ends)
    }

    fn members_on_with(
        &mut self,
        event: Event,
        mut read: Read,
        ends: Option<&Ends>,
    ) -> Result<Option<&'static str>, KernelError> {
        let mut over = None;
        let mut effects = VecDeque::from(self.log.on(&mut self.members, event, Time(monotonic_ns())));
        while let Some(effect) = effects.pop_front() {
            if let Effect::Finish(reason) = effect {
                over = Some(reason);
                continue;
            }
            let mut first = Vec::new();
            for event in self.carry_out_for_members(effect, &mut read, ends)? {
                first.extend(self.log.on(&mut self.members, event, Time(monotonic_ns())));
            }
            first
                .into_iter()
                .rev()
                .for_each(|effect| effects.push_front(effect));
        }
        Ok(over)
    }

    fn carry_out_for_members(
        &mut self,
        effect: Effect,
        read: &mut Read,
        ends: Option<&Ends>,
    ) -> Result<Vec<Event>, KernelError> {
        match effect {
            Effect::CheckPrograms(_) => return Ok(self.programs_replaced()),
            Effect::CheckMpi(processes) => return Ok(self.loaded_mpi(&processes, read)),
            Effect::LookInto(process) => return Ok(self.look_into(process, read).into_iter().collect()),
            Effect::LookAtCommand(_) => self.target.job.look_at_command(),
            Effect::Scan(_) => return self.scan(read).map(|found| found.into_iter().collect()),
            Effect::Admit(machine, pid) => {
                let kernel = self.measuring.probes.kernel_mut();
                let slot = kernel.map(|kernel| kernel.admit(pid.number as u32)).transpose()?;
                return Ok(vec![Event::Slot(machine, pid, slot.flatten())]);
            }
            Effect::Watch { pid, slot, .. } => {
                let member = read.remove(&pid.number);
                let event = member.map(|member| match slot {
                    Some(slot) => self.watch_relative(slot, member),
                    None => self.watch_newcomer(member, ends),
                });
                return Ok(event.into_iter().collect());
            }
            Effect::Leave(process) => self.rules.leave(process.slot, monotonic_ns()),
            Effect::End(processes) => self.end_processes(&processes)?,
            Effect::Forget(process) => {
                if let Some(process) = self.measuring.profile.processes.get(process.slot as usize) {
                    self.measuring.probes.forget(process.pid)?;
                }
            }
            Effect::ForgetThreads(process) => self.measuring.forget_threads_of(process.slot)?,
            Effect::CheckChanges(process) => self.look_whether_ended(process),
            Effect::CheckEnded(process, pid) if !pid.is_alive() => {
                self.measuring.probes.forget(pid.number)?;
                return Ok(vec![Event::Went(process)]);
            }
            Effect::CheckEnded(..) | Effect::Finish(_) => {}
            Effect::Say(notice) => self.screen.say(&notice),
        }
        Ok(Vec::new())
    }

    fn programs_replaced(&mut self) -> Vec<Event> {
        let running = self
            .measuring
            .profile
            .processes
            .iter_mut()
            .filter(|process| !process.ended);
        // Who has used no CPU time runs what it ran.
        let have_run = running.filter_map(|process| std::mem::take(&mut process.has_run).then_some(process));
        let replaced = have_run.filter_map(|process| {
            let member = self.target.job.members.get(process.slot as usize)?;
            // One that is about to end has no program either, and cannot be opened.
            let now: Option<Opened> = member.space.is_gone().then(|| member.process.pid.open().ok())?;
            Some(Event::RunsAnother {
                process: process_here(process.slot),
                program: now?.executable,
            })
        });
        replaced.collect()
    }

    fn loaded_mpi(&mut self, processes: &[Process], read: &mut Read) -> Vec<Event> {
        let mut events = Vec::new();
        for process in processes {
            let running = self.measuring.profile.processes.get(process.slot as usize);
            let running = running.filter(|process| !process.ended);
            if let Some(member) = running.and_then(|running| self.target.scout.late_rank(running.pid)) {
                events.push(Event::LoadedMpi(*process, candidate(&member)));
                read.insert(member.process.pid.number, member);
            }
        }
        events
    }

    fn look_into(&mut self, process: Process, read: &mut Read) -> Option<Event> {
        let before = self.target.job.members.get(process.slot as usize)?;
        let member = self.target.scout.arrived(before.process.pid.number)?;
        let event = Event::LookedInto(process, candidate(&member));
        read.insert(member.process.pid.number, member);
        Some(event)
    }

    /// Looks for processes that are not known.
    fn scan(&mut self, read: &mut Read) -> Result<Option<Event>, KernelError> {
        if !self.target.is_of_command() {
            // Who uses no CPU time throws no pages away.
            let awake = self.measuring.profile.processes.iter();
            let awake = awake.filter(|process| !process.ended && !process.is_still());
            let awake = awake.filter_map(|process| self.target.job.members.get(process.slot as usize));
            self.measuring
                .probes
                .look_for_gone(awake, self.target.scout.images());
        }
        self.measuring.probes.settle(&mut self.target.job.members)?;
        let known = self.members.known(Machine::HERE);
        let found: Vec<Member> = match (self.target.is_of_command(), self.target.job.roots.first()) {
            (true, None) => return Ok(None),
            (true, Some(root)) => {
                let command = &root.process;
                let found = self.target.scout.family(command.pid, command.uid, &known);
                // Some of them may have been told of meanwhile, and may have ended since.
                self.take_comings();
                found
            }
            (false, _) => {
                let roots = self.target.job.roots.iter();
                roots
                    .flat_map(|root| self.target.scout.newcomers(root, &known))
                    .collect()
            }
        };
        let named = found
            .iter()
            .map(|member| (candidate(member), member.process.pid.is_alive()));
        let event = Event::Found(Machine::HERE, named.collect());
        read.extend(
            found
                .into_iter()
                .map(|member| (member.process.pid.number, member)),
        );
        Ok(Some(event))
    }

    /// A process below the launcher, in the next slot.
    fn watch_newcomer(&mut self, member: Member, ends: Option<&Ends>) -> Event {
        // Of one that cannot be attached to the slot is taken all the same.
        let slot = self.measuring.probes.slots();
        let pid = member.process.pid;
        let (process, event) = match self.attach_newcomer(&member) {
            Ok(None) => return Event::NoRoom(Machine::HERE, pid),
            Ok(Some(process)) => {
                let late = None;
                let process_here = process_here(process.slot);
                (
                    process,
                    Event::Watched {
                        process: process_here,
                        pid,
                        late,
                    },
                )
            }
            Err(error) => not_watched(slot, &member, &error),
        };
        self.measuring.system.others.forget();
        if let Some(ends) = ends {
            ends.watch(process.pid, slot);
        }
        self.measuring.profile.processes.push(process);
        self.target.job.members.push(member);
        event
    }

    fn attach_newcomer(&mut self, member: &Member) -> Result<Option<Metered>, KernelError> {
        let now = monotonic_ns();
        let asked = asked_in(&self.rules, &self.measuring.own, member);
        let Some(slot) = self.measuring.probes.add(member, asked, &self.target.job)? else {
            return Ok(None);
        };
        let (pid, rank) = (member.process.pid.number, member.rank.map(|rank| rank.number));
        let mut process = Metered::new(pid, rank, slot);
        self.measuring.take_in(&mut process, now);
        self.measuring.probes.watch(slot, pid)?;
        self.rules.join(slot, member, now);
        prefetch::look_up(
            self.actuation.queue.as_ref(),
            &self.rules,
            std::slice::from_ref(member),
        );
        Ok(Some(process))
    }

    /// A process of the command, in its slot.
    fn watch_relative(&mut self, slot: u32, member: Member) -> Event {
        let pid = member.process.pid;
        let (process, event) = match self.attach_relative(slot, &member) {
            Ok((process, late)) => {
                let at = process_here(slot);
                (
                    process,
                    Event::Watched {
                        process: at,
                        pid,
                        late,
                    },
                )
            }
            Err(error) => not_watched(slot, &member, &error),
        };
        let is_known = process.is_known;
        self.put(process, member);
        if let Some(process) = self.measuring.profile.processes.get_mut(slot as usize) {
            process.is_known = is_known;
        }
        event
    }

    fn attach_relative(
        &mut self,
        slot: u32,
        member: &Member,
    ) -> Result<(Metered, Option<LateFile>), KernelError> {
        if member.mpi.is_some() {
            let (measuring, mut context) = self.measuring();
            measuring.see_begin(&mut context, member.process.pid.number)?;
        }
        let asked = asked_in(&self.rules, &self.measuring.own, member);
        self.measuring
            .probes
            .admit(member, slot, asked, &self.target.job)?;
        let late = self.late_file(slot, member)?;
        self.measuring.system.others.forget();
        let now = monotonic_ns();
        self.rules.join(slot, member, now);
        let rank = member.rank.map(|rank| rank.number);
        let mut process = Metered::new(member.process.pid.number, rank, slot);
        self.measuring.take_in(&mut process, now);
        Ok((process, late))
    }

    fn late_file(&self, slot: u32, member: &Member) -> Result<Option<LateFile>, KernelError> {
        let Some(file) = self.measuring.probes.attached_late(member) else {
            return Ok(None);
        };
        Ok(Some(LateFile {
            name: file.name.clone(),
            attached: Time(file.at_ns),
            is_again: file.is_again,
            begins: file.is_again && self.measuring.probes.begins(slot)?,
        }))
    }

    /// Slots are given by whoever needs one first: those before it may still be empty.
    fn put(&mut self, process: Metered, member: Member) {
        let place = process.slot as usize;
        while let (Some(started), true) = (
            &self.target.started,
            self.measuring.profile.processes.len() <= place,
        ) {
            let empty = self.measuring.profile.processes.len() as u32;
            self.measuring.profile.processes.push(Metered::unknown(0, empty));
            self.target.job.members.push(started.nobody.clone());
        }
        let old_member = self.target.job.members.get_mut(place);
        if let (Some(old), Some(old_member)) = (self.measuring.profile.processes.get_mut(place), old_member) {
            // One that executes another program goes on as the same process.
            if old.pid != process.pid {
                *old = process;
            }
            *old_member = member;
        }
    }

    fn end_processes(&mut self, ending: &[Process]) -> Result<(), KernelError> {
        self.take_all_hits()?;
        // The last totals are still on the kernel side; those of /proc are gone with the process.
        self.read()?;
        for ending in ending {
            let process = self.measuring.profile.processes.get_mut(ending.slot as usize);
            let Some(process) = process.filter(|process| !process.ended) else {
                continue;
            };
            process.ended = true;
            if process.is_known {
                self.rules.leave(ending.slot, monotonic_ns());
            }
        }
        self.measuring.system.others.forget();
        Ok(())
    }

    /// Takes note of processes of the command that came and went.
    pub(super) fn take_family(&mut self) -> Result<(), KernelError> {
        self.take_comings();
        let machine = Machine::HERE;
        let state = self.measuring.probes.kernel().and_then(Kernel::family_state);
        if let (Some(state), true) = (state, self.target.is_of_command()) {
            let execs = state.execs;
            self.members_on(Event::Look { machine, execs }, None)?;
        }
        self.members_on(Event::Settled(machine), None).map(drop)
    }

    /// All of them are looked into before anything is done for the first: some live for no longer than that takes.
    pub(super) fn take_comings(&mut self) {
        let mut came = Vec::new();
        while let Some(comings) = &mut self.target.comings {
            let coming = comings.take().and_then(read_coming);
            let Some(coming) = coming else { break };
            let is_new = coming.kind != ComingKind::Went as u32;
            let member = is_new
                .then(|| self.target.scout.arrived(coming.pid as i32))
                .flatten();
            came.push((coming, is_new, member));
        }
        for (coming, is_new, member) in came {
            let process = process_here(coming.slot);
            let mut read = Read::new();
            let event = match member {
                Some(member) => {
                    let event = Event::Came(process, candidate(&member));
                    read.insert(member.process.pid.number, member);
                    event
                }
                None if is_new => self.put_unknown(&coming),
                None => Event::Went(process),
            };
            // What cannot be attached to is an event, and no error.
            if let Err(error) = self.members_on_with(event, read, None) {
                tracing::warn!(%error, slot = coming.slot, "a process of the command is not watched");
            }
        }
    }

    /// One that had ended before it was looked at.
    fn put_unknown(&mut self, coming: &Coming) -> Event {
        let pid = coming.pid as i32;
        if let Some(started) = &self.target.started {
            let name = coming.name.split(|byte| *byte == 0).next().unwrap_or_default();
            let member = Member {
                process: Opened::gone(pid, &String::from_utf8_lossy(name)),
                ..started.nobody.clone()
            };
            self.put(Metered::unknown(pid, coming.slot), member);
        }
        Event::CameUnseen {
            process: process_here(coming.slot),
            pid,
            is_unwatched: self.measuring.budget.sampling.is_shut(),
        }
    }
}

/// What /proc tells of it is all there is.
fn not_watched(slot: u32, member: &Member, error: &KernelError) -> (Metered, Event) {
    let pid = member.process.pid;
    tracing::warn!("process {pid} is not watched: {error}");
    let rank = member.rank.map(|rank| rank.number);
    let event = Event::Refused {
        process: process_here(slot),
        pid,
        reason: error.to_string(),
    };
    (Metered::refused(pid.number, rank, slot), event)
}
