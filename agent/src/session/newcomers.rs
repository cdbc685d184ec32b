//! Ranks and workers that start after the session did join it, and so do those that go on as another program or load their MPI late.

use std::collections::BTreeSet;

use tuner::process::Process;

use super::{SCAN_PERIOD, Session, ends::Ends, kernel_failure, orders::process_here, prefetch};
use crate::{clock::monotonic_ns, discover::Member, exit::Failure, kernel::KernelError, profile::Metered};

/// Of single processes it is listed what is missing up to this many lines.
const MISSING_MAX: usize = 64;

impl Session {
    /// Processes that run another program by now (execve). What was counted stays as it is, and their slots end: nothing that was known
    /// of the old program is true of the new one, which joins as any newcomer does, in a slot of its own.
    pub(super) fn look_for_replaced(&mut self) -> Result<(), Failure> {
        let running = self.profile.processes.iter_mut().filter(|process| !process.ended);
        // Who has used no CPU time runs what it ran.
        let have_run = running.filter_map(|process| std::mem::take(&mut process.has_run).then_some(process));
        let replaced = have_run.filter_map(|process| {
            let member = self.job.members.get(process.slot as usize)?;
            // One that is about to end has no program either, and is told apart by that.
            let now = member.space.is_gone().then(|| member.process.pid.open().ok());
            Some((process.slot, process.rank, now??))
        });
        for (slot, rank, now) in replaced.collect::<Vec<_>>() {
            let text = self.replacement(rank, &now);
            self.begin_anew(slot, text)?;
            self.look_whether_ended(process_here(slot));
        }
        Ok(())
    }

    /// Ranks that had no MPI when they were looked into and have one by now: programs that load it late (Python), and those that were
    /// just being loaded themselves. They are to join with it, as newcomers do.
    fn take_late_mpi(&mut self) -> Result<Vec<Member>, Failure> {
        if !self.job.roots.iter().any(|root| root.is_launcher) {
            return Ok(Vec::new());
        }
        let running = self.profile.processes.iter().filter(|process| !process.ended);
        let late = running.filter_map(|process| {
            let member = self.job.members.get(process.slot as usize)?;
            let has_none = member.mpi.is_none() && member.rank.is_some();
            let found = has_none.then(|| self.scout.late_rank(process.pid)).flatten()?;
            Some((process.slot, process.rank, found))
        });
        let mut found = Vec::new();
        for (slot, rank, member) in late.collect::<Vec<_>>() {
            let text = format!(
                "{} (pid {}) has loaded its MPI after {}: what it did before has its own entry",
                who(rank),
                member.process.pid,
                self.since_armed(),
            );
            self.begin_anew(slot, text)?;
            found.push(member);
        }
        Ok(found)
    }

    /// What was counted in a slot stays as it is, and its process may join in another one.
    fn begin_anew(&mut self, slot: u32, text: String) -> Result<(), Failure> {
        self.end_process(slot)?;
        self.replaced.insert(slot);
        // A call that was begun in the old slot (MPI_Init) is never closed there: all calls of the new one would be within it.
        self.forget_threads_of(slot).map_err(kernel_failure)?;
        self.painter.say(&text);
        self.note_missing(text);
        Ok(())
    }

    /// What is missing of a process, in words.
    pub(super) fn note_missing(&mut self, text: String) {
        match self.missing.len() {
            0..MISSING_MAX => self.missing.push(text),
            MISSING_MAX => self
                .missing
                .push("more processes have missing data than are listed".to_owned()),
            _ => {}
        }
    }

    fn since_armed(&self) -> String {
        crate::format::duration(monotonic_ns().saturating_sub(self.armed_ns) as f64)
    }

    fn replacement(&self, rank: Option<u32>, now: &Process) -> String {
        let under_launcher = self.job.roots.iter().any(|root| root.is_launcher);
        let when = if under_launcher {
            "once it has loaded its MPI"
        } else {
            "soon"
        };
        format!(
            "{} (pid {}) executed another program after {}, {}: what it did before has its own entry, and the new program \
             joins {when}",
            who(rank),
            now.pid,
            self.since_armed(),
            now.executable.display(),
        )
    }

    pub(super) fn look_for_newcomers(&mut self, ends: &Ends) -> Result<(), Failure> {
        let now = monotonic_ns();
        if now.saturating_sub(self.scanned_ns) < SCAN_PERIOD.as_nanos() as u64 {
            return Ok(());
        }
        self.scanned_ns = now;
        let late = self.take_late_mpi()?;
        // Who uses no CPU time throws no pages away.
        let awake = self.profile.processes.iter();
        let awake = awake.filter(|process| !process.ended && !process.is_still());
        let awake = awake.filter_map(|process| self.job.members.get(process.slot as usize));
        self.probes.look_for_gone(awake, self.scout.images());
        self.probes
            .settle(&mut self.job.members)
            .map_err(kernel_failure)?;
        let known: BTreeSet<i32> = self
            .profile
            .processes
            .iter()
            .filter(|process| !process.ended)
            .map(|process| process.pid)
            .chain(late.iter().map(|member| member.process.pid.number))
            .collect();
        let user = self.job.members.first().map(|member| member.process.uid);
        let roots = self.job.roots.iter();
        let newcomers: Vec<_> = roots
            .flat_map(|root| self.scout.newcomers(root, &known))
            .collect();
        for member in late
            .into_iter()
            .chain(newcomers)
            .filter(|member| user.is_none_or(|user| user == member.process.uid))
        {
            if !self.take_newcomer(member, ends, now) {
                break;
            }
        }
        Ok(())
    }

    /// False where there is no room for any more. Those that come together have nothing to do with each other: of one that cannot be watched it is
    /// said why.
    fn take_newcomer(&mut self, member: Member, ends: &Ends, now: u64) -> bool {
        // Of one that cannot be attached to the slot is taken all the same.
        let slot = self.probes.slots();
        let process = match self.watch_newcomer(&member, now) {
            Ok(None) => return false,
            Ok(Some(process)) => process,
            Err(error) => self.refused(slot, &member, &error),
        };
        self.system.others.forget();
        ends.watch(process.pid, slot);
        self.profile.processes.push(process);
        self.job.members.push(member);
        true
    }

    fn watch_newcomer(&mut self, member: &Member, now: u64) -> Result<Option<Metered>, KernelError> {
        let asked = super::asked_in(&self.rules, &self.own, member);
        let Some(slot) = self.probes.add(member, asked, &self.job)? else {
            return Ok(None);
        };
        let (pid, rank) = (member.process.pid, member.rank.map(|rank| rank.number));
        let mut process = Metered::new(pid.number, rank, slot);
        self.take_in(&mut process, now);
        self.probes.watch(slot, pid.number)?;
        self.rules.join(slot, member, now);
        self.painter.say(&format!("{} (pid {pid}) joined", who(rank)));
        prefetch::look_up(self.hands.as_ref(), &self.rules, std::slice::from_ref(member));
        Ok(Some(process))
    }
}

fn who(rank: Option<u32>) -> String {
    rank.map_or_else(|| "a process".to_owned(), |rank| format!("rank {rank}"))
}
