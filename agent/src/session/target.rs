//! The watched job, and the search for further processes of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use abi::{FamilyEvent, FamilyEventKind};
use job::{Discovery, Job, Member};
use probe::Probes;
use probe::kernel::{Kernel, Ring, read_family_event};
use profile::Metered;
use tokio::sync::mpsc::Receiver;
use tuner::{Pid, Process as Opened, boot_offset_ns};

use super::{
    Started,
    ends::{Ends, ProcessEnd},
    kernel_failure,
    members::{Candidate, MemberEvent, MemberProcess, MembersOrigin},
    nodes::Nodes,
    orders::{pid_here, process_here},
};
use crate::{exit::Failure, rulebook::Time};

/// Data of processes that have not joined yet, by process id.
pub(super) type Read = BTreeMap<i32, Member>;

/// The rules that a process gains from one state to another.
pub(super) type Gained<'a> = &'a dyn Fn(&Member, &Member) -> Vec<String>;

/// A process of the command that started or ended.
pub(super) enum Arrival {
    Came(u32, Box<Member>),
    /// It had ended before it could be inspected.
    Unseen(FamilyEvent),
    Went(u32),
}

/// The job, and the means to find its processes.
pub(super) struct WatchedJob {
    pub(super) job: Job,
    pub(super) discovery: Discovery,
    /// The command that the session was started with.
    pub(super) started: Option<Started>,
    /// For a command: the ring of events about its processes.
    pub(super) family_events: Option<Ring>,
    /// Reports when a process ends; set when the loop begins.
    pub(super) ends: Option<Ends>,
    copies: RefCell<BTreeMap<String, FoundCopies>>,
    /// The other machines of the job; `None` on one machine.
    pub(super) nodes: Option<Nodes>,
}

/// The files with a copy of a variable.
#[derive(Default)]
struct FoundCopies {
    paths: BTreeSet<String>,
    /// The processes that were looked through.
    of: BTreeSet<Pid>,
}

impl WatchedJob {
    pub(super) fn new(
        job: Job,
        discovery: Discovery,
        started: Option<Started>,
        probes: &mut Probes,
    ) -> Result<WatchedJob, Failure> {
        let kernel = probes.kernel_mut().filter(|_| started.is_some());
        let family_events = kernel.map(Kernel::take_family_events).transpose();
        Ok(WatchedJob {
            job,
            discovery,
            started,
            family_events: family_events.map_err(kernel_failure)?,
            ends: None,
            copies: RefCell::default(),
            nodes: None,
        })
    }

    /// The files that had a copy of a variable when the processes were read. Each process is looked through once: the
    /// search goes through all symbols of its files, and a finding is updated in each window.
    pub(super) fn copies_at_start(&self, variable: &str) -> BTreeSet<String> {
        let mut copies = self.copies.borrow_mut();
        let found = copies.entry(variable.to_owned()).or_default();
        for member in &self.job.members {
            if found.of.insert(member.process.pid) {
                found.paths.extend(member.copies_at_start(variable));
            }
        }
        found.paths.clone()
    }

    /// Starts reporting the ends of these processes, by slot. Must be called inside the tokio runtime.
    pub(super) fn watch_ends(&mut self, processes: &[Metered]) -> Receiver<ProcessEnd> {
        let (mut ends, ended) = Ends::new();
        for process in processes {
            ends.watch(process.pid, process.slot);
        }
        self.ends = Some(ends);
        ended
    }

    /// Whether the session started a command, whose processes the kernel side reports.
    pub(super) fn is_of_command(&self) -> bool {
        self.family_events.is_some()
    }

    pub(super) fn origin(&self) -> MembersOrigin {
        match self.is_of_command() {
            true => MembersOrigin::Command,
            false => MembersOrigin::Attached {
                has_launcher: self.has_launcher(),
                any_user: self.discovery.any_user,
            },
        }
    }

    fn has_launcher(&self) -> bool {
        self.job.roots.iter().any(|root| root.is_launcher)
    }

    pub(super) fn member(&self, slot: u32) -> Option<&Member> {
        self.job.members.get(slot as usize)
    }

    pub(super) fn pid_of(&self, slot: u32) -> Option<Pid> {
        self.member(slot).map(|member| member.process.pid)
    }

    /// Whether the process in this slot has ended, or runs another program.
    pub(super) fn has_ended(&self, slot: u32) -> bool {
        let member = self.member(slot);
        member.is_some_and(|member| !member.process.pid.is_alive() || member.space.is_gone())
    }

    /// The watched processes, with their slots.
    pub(super) fn watched(&self, processes: &[Metered]) -> Vec<(u32, &Member)> {
        let watched = processes.iter().filter(|process| process.is_watched());
        watched
            .filter_map(|process| Some((process.slot, self.member(process.slot)?)))
            .collect()
    }

    pub(super) fn roots(&self) -> Vec<(i32, bool)> {
        let roots = self.job.roots.iter();
        roots
            .map(|root| (root.process.pid.number, root.is_launcher))
            .collect()
    }

    /// For a command: its expected processes, as far as they were known before it started.
    pub(super) fn expected(&self) -> &[Member] {
        self.started.as_ref().map_or(&[], |started| &started.expected)
    }

    /// Processes that have run since the last call, and run another program now.
    pub(super) fn replaced(&self, processes: &mut [Metered]) -> Vec<MemberEvent> {
        let running = processes.iter_mut().filter(|process| !process.ended);
        // A process that has used no CPU time still runs the same program.
        let have_run = running.filter_map(|process| std::mem::take(&mut process.has_run).then_some(process));
        let replaced = have_run.filter_map(|process| {
            let member = self.member(process.slot)?;
            // A process that is about to end has no program either, and cannot be opened.
            let now: Option<Opened> = member.space.is_gone().then(|| member.process.pid.open().ok())?;
            Some(MemberEvent::RunsAnother {
                process: process_here(process.slot),
                program: now?.executable,
            })
        });
        replaced.collect()
    }

    /// Those of the given processes that have loaded their MPI, or libraries by which they gain rules: `gained`
    /// returns the names of these.
    pub(super) fn loaded(
        &mut self,
        those: &[MemberProcess],
        processes: &[Metered],
        read: &mut Read,
        gained: Gained<'_>,
    ) -> Vec<MemberEvent> {
        let mut late = Vec::new();
        for process in those {
            let running = processes.get(process.slot as usize);
            let Some(pid) = running
                .filter(|process| !process.ended)
                .map(|running| running.pid)
            else {
                continue;
            };
            let Some((member, what)) = self.loaded_by(process.slot, pid, gained) else {
                continue;
            };
            late.push(MemberEvent::Loaded {
                process: *process,
                candidate: candidate(&member),
                what,
            });
            read.insert(member.process.pid.number, member);
        }
        late
    }

    /// What a process has loaded, in words.
    fn loaded_by(&mut self, slot: u32, pid: i32, gained: Gained<'_>) -> Option<(Member, String)> {
        let before = self.job.members.get(slot as usize)?;
        if self.has_launcher() && before.rank.is_some() && before.mpi.is_none() {
            let rank = self.discovery.late_rank(pid)?;
            return Some((rank, "its MPI".to_owned()));
        }
        let now = self.discovery.with_new_libraries(before)?;
        let what = match (before.mpi.is_none() && now.mpi.is_some(), &*gained(before, &now)) {
            (true, _) => "its MPI".to_owned(),
            (false, []) => return None,
            (false, [rule]) => format!("libraries for the rule {rule}"),
            (false, rules) => format!("libraries for the rules {}", rules.join(", ")),
        };
        Some((now, what))
    }

    pub(super) fn look_into(&mut self, process: MemberProcess, read: &mut Read) -> Option<MemberEvent> {
        let before = self.member(process.slot)?;
        let member = self.discovery.arrived(before.process.pid.number)?;
        let event = MemberEvent::LookedInto(process, candidate(&member));
        read.insert(member.process.pid.number, member);
        Some(event)
    }

    /// Unknown processes of the job; `None` if its command has not begun.
    pub(super) fn find(&mut self, known: &BTreeSet<i32>) -> Option<Vec<Member>> {
        if !self.is_of_command() {
            let roots = self.job.roots.iter();
            return Some(
                roots
                    .flat_map(|root| self.discovery.newcomers(root, known))
                    .collect(),
            );
        }
        let command = &self.job.roots.first()?.process;
        Some(self.discovery.family(command.pid, command.uid, known))
    }

    /// Reports of the kernel side about processes of the command. All are read before the first is handled,
    /// because some processes live no longer than that would take.
    pub(super) fn arrivals(&mut self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        while let Some(family_events) = &mut self.family_events {
            let event = family_events.take().and_then(read_family_event);
            let Some(event) = event else { break };
            let is_new = event.kind != FamilyEventKind::Went as u32;
            let member = is_new.then(|| self.discovery.arrived(event.pid as i32)).flatten();
            arrivals.push(match member {
                Some(member) => Arrival::Came(event.slot, Box::new(member)),
                None if is_new => Arrival::Unseen(event),
                None => Arrival::Went(event.slot),
            });
        }
        arrivals
    }

    /// The data of a process that had ended before it could be inspected.
    pub(super) fn unseen(&self, event: &FamilyEvent) -> Option<Member> {
        let started = self.started.as_ref()?;
        let name = event.name.split(|byte| *byte == 0).next().unwrap_or_default();
        let process = Opened::gone(event.pid as i32, &String::from_utf8_lossy(name));
        Some(Member {
            name: process.name.clone(),
            process,
            ..started.no_member.clone()
        })
    }
}

/// The data of a process that `members` needs.
pub(super) fn candidate(member: &Member) -> Candidate {
    let process = &member.process;
    Candidate {
        pid: pid_here(process.pid),
        user: process.uid,
        rank: member.rank.map(|rank| rank.number),
        program: process.executable.clone(),
        has_mpi: member.mpi.is_some(),
        modules: member.space.modules.len(),
        is_linked: member.space.is_linked(),
        started: started(process.pid),
    }
}

/// Start time of a process, by CLOCK_MONOTONIC; the kernel reports it in hundredths of a second.
pub(super) fn started(pid: Pid) -> Time {
    let ticks = procfs::ticks_per_second().max(1);
    let since_boot_ns = pid.start_time * 1_000_000_000 / ticks;
    Time(since_boot_ns.saturating_add_signed(-boot_offset_ns()))
}
