//! Functions of the profile that are sampled in windows: attaches and detaches their links. Decides nothing.

use std::collections::BTreeSet;

use abi::Frame;
use job::Member;
use tuner::monotonic_ns;

use super::{LinkClass, LinkGroup, Linked, Probe, Probes};
use crate::kernel::{Kernel, KernelError};

impl Probes {
    /// Whether a function may be sampled in windows: an MPI function in the profile only, or one that the
    /// user named.
    pub fn may_pause(&self, probe: u32) -> bool {
        let probe = self.numbers.probes.get(probe as usize);
        probe.is_some_and(|probe| self.can_pause(probe) && !self.reports_newcomers(probe))
    }

    /// As [`Probes::may_pause`], for any function, including one that detects processes.
    fn can_pause(&self, probe: &Probe) -> bool {
        let mut wanted = probe.wanted.iter();
        wanted.all(|want| self.wanted[*want].may_pause || !self.on[*want])
            && (probe.mpi.is_some() || !probe.wanted.is_empty())
    }

    /// Whether a function is detached now because no sampling window is open.
    pub(super) fn pauses(&self, probe: &Probe) -> bool {
        self.is_shut && probe.is_sampled && self.can_pause(probe)
    }

    /// In a session of a command, a process that begins with MPI is detected by its first call, whether or
    /// not a window is open.
    fn reports_newcomers(&self, probe: &Probe) -> bool {
        self.late.is_some() && probe.is_first()
    }

    /// Whether a process is in its first call of MPI.
    pub fn begins(&self, slot: u32) -> Result<bool, KernelError> {
        let threads = self
            .kernel()
            .map(Kernel::threads)
            .transpose()?
            .unwrap_or_default();
        let is_first = |frame: &Frame| {
            let probe = self.numbers.probes.get(frame.probe as usize);
            probe.is_some_and(Probe::is_first)
        };
        let mut threads = threads.iter().filter(|(_, thread)| thread.process == slot);
        Ok(threads.any(|(_, thread)| thread.frames.iter().take(thread.depth as usize).any(is_first)))
    }

    /// The group with which a function of MPI is attached and detached: sampled functions, and polling
    /// functions that may be sampled, are separate from the others.
    pub(super) fn group_of_mpi(&self, probe: &Probe) -> LinkGroup {
        let apart = match (self.reports_newcomers(probe), probe.is_sampled) {
            (true, _) => Some(LinkClass::First),
            (false, true) => Some(LinkClass::Sampled),
            (false, false) => probe.is_polling().then_some(LinkClass::Polling),
        };
        LinkGroup {
            requests: probe.wanted.clone(),
            class: apart.filter(|_| self.can_pause(probe)),
        }
    }

    /// Whether probes can be detached and attached again.
    pub fn can_take_turns(&self) -> bool {
        !self.is_fixed()
    }

    /// Closes the windows of these functions. Links are closed one after the other, since that takes grace
    /// periods of the kernel. A link is closed even if it also served a function that was requested since:
    /// that function is attached again by [`Probes::attach_rest`].
    pub fn close_window(&mut self, functions: &BTreeSet<u32>) {
        for (probe, number) in self.numbers.probes.iter_mut().zip(0..) {
            probe.is_sampled = functions.contains(&number);
            probe.is_off = probe.is_sampled;
        }
        self.is_shut = true;
        let off = functions.iter().copied().filter(|probe| self.may_pause(*probe));
        let off: BTreeSet<u32> = off.collect();
        let over = self.take_off(|linked| !linked.probes.is_disjoint(&off));
        let serves_others = over.iter().any(|linked| !linked.probes.is_subset(&off));
        self.close(over);
        if serves_others {
            self.put_off_since_ns.get_or_insert_with(monotonic_ns);
        }
    }

    /// Opens the windows, in these processes and, with a command, in the expected files. Attaches what was
    /// not watched; from now on only `functions` are sampled.
    pub fn open(
        &mut self,
        functions: &BTreeSet<u32>,
        members: &[(u32, &Member)],
        expected: &[Member],
    ) -> Result<(), KernelError> {
        self.is_shut = false;
        for (probe, number) in self.numbers.probes.iter_mut().zip(0..) {
            probe.is_sampled = functions.contains(&number);
        }
        let placed = self.place_again(members, expected, &|probe| probe.is_off);
        self.numbers
            .probes
            .iter_mut()
            .for_each(|probe| probe.is_off = false);
        placed
    }

    /// Attaches what was postponed while links were being closed. Returns since when it was not watched;
    /// `None` if there was nothing, or links are still being closed.
    pub fn attach_rest(
        &mut self,
        members: &[(u32, &Member)],
        expected: &[Member],
    ) -> Result<Option<u64>, KernelError> {
        if self.put_off_since_ns.is_none() || self.is_closing() {
            return Ok(None);
        }
        let since_ns = self.put_off_since_ns.take();
        self.place_again(members, expected, &|_| true)?;
        Ok(since_ns)
    }

    fn place_again(
        &mut self,
        members: &[(u32, &Member)],
        expected: &[Member],
        is_chosen: &dyn Fn(&Probe) -> bool,
    ) -> Result<(), KernelError> {
        self.late.iter_mut().for_each(|late| late.is_again = true);
        let placed = self.place_in(members, expected, is_chosen);
        self.late.iter_mut().for_each(|late| late.is_again = false);
        placed
    }

    fn place_in(
        &mut self,
        members: &[(u32, &Member)],
        expected: &[Member],
        is_chosen: &dyn Fn(&Probe) -> bool,
    ) -> Result<(), KernelError> {
        for member in expected {
            self.place_requested(member, &[], is_chosen)?;
        }
        for (slot, member) in members {
            let is_alive = || member.process.pid.is_alive();
            if !is_alive() {
                continue;
            }
            match self.place(member, *slot, is_chosen) {
                // The process has ended meanwhile.
                Err(_) if !is_alive() => {}
                placed => placed?,
            }
        }
        Ok(())
    }

    /// Removes these links from the attached ones.
    pub(super) fn take_off(&mut self, is_over: impl Fn(&Linked) -> bool) -> Vec<Linked> {
        let (over, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.links).into_iter().partition(is_over);
        self.links = left;
        for linked in &over {
            if let Some(places) = self.attached.get_mut(&linked.to) {
                places.retain(|place| place.at != linked.at || !linked.probes.contains(&place.site.probe));
            }
        }
        over
    }
}
