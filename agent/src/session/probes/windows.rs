//! Functions of the profile that are watched in windows: their links come and go. Decides nothing.

use std::collections::BTreeSet;

use super::{Group, Linked, Probe, Probes, close_in_order, places};
use crate::{discover::Member, kernel::KernelError, mpi};

/// Stands for the functions that are asked again and again, where a group of links is named by a function.
const POLLING: u32 = places::SHARED - 1;

impl Probe {
    /// It is watched for the profile alone.
    fn is_of_profile(&self) -> bool {
        self.mpi.is_some() && self.wanted.is_empty()
    }

    /// With whom a function of MPI is attached and detached: those that are asked again and again may be watched in windows without the others.
    pub(super) fn group_of_mpi(&self) -> Group {
        let is_polling = self.mpi.is_some_and(mpi::Function::is_asked_again);
        let polling = is_polling.then_some(POLLING);
        (self.wanted.clone(), polling.filter(|_| self.is_of_profile()))
    }

    /// Whether a function of MPI is to be attached while those of the windows are not.
    pub(super) fn stays_shut(&self) -> bool {
        !self.is_sampled || !self.is_of_profile()
    }
}

impl Probes {
    /// Whether a function is watched though nobody asked for it.
    pub fn is_of_profile(&self, probe: u32) -> bool {
        self.numbers
            .probes
            .get(probe as usize)
            .is_some_and(Probe::is_of_profile)
    }

    /// Whether probes can be taken off and put back. Of a command, processes that nobody has seen yet would miss the windows.
    pub fn can_take_turns(&self) -> bool {
        !self.is_fixed() && self.late.is_none()
    }

    /// The windows of these functions are shut. Links are closed by and by, for that takes grace periods of the kernel. True where one served a
    /// function too that somebody has asked for since: that one was not watched for a moment.
    pub fn shut(
        &mut self,
        functions: &BTreeSet<u32>,
        members: &[(u32, &Member)],
    ) -> Result<bool, KernelError> {
        for (probe, number) in self.numbers.probes.iter_mut().zip(0..) {
            probe.is_sampled = functions.contains(&number);
        }
        self.is_shut = true;
        let off = functions
            .iter()
            .copied()
            .filter(|probe| self.is_of_profile(*probe));
        let off: BTreeSet<u32> = off.collect();
        let over = self.take_off(|linked| !linked.probes.is_disjoint(&off));
        if over.iter().all(|linked| linked.probes.is_subset(&off)) {
            self.closing.retain(|closing| !closing.is_finished());
            self.closing
                .push(std::thread::spawn(move || close_in_order(over)));
            return Ok(false);
        }
        // While they are there, the new ones would count the same calls again.
        close_in_order(over);
        self.place_in(members, &|probe| probe.mpi.is_some())?;
        Ok(true)
    }

    /// The windows are open.
    pub fn open(&mut self, members: &[(u32, &Member)]) -> Result<(), KernelError> {
        self.finish_closing();
        self.is_shut = false;
        self.place_in(members, &|probe| probe.is_sampled)
    }

    /// Waits for the links that are being closed.
    pub(super) fn finish_closing(&mut self) {
        for closing in self.closing.drain(..) {
            // What it could have failed at is over in any case.
            let _ = closing.join();
        }
    }

    fn place_in(
        &mut self,
        members: &[(u32, &Member)],
        is_chosen: &dyn Fn(&Probe) -> bool,
    ) -> Result<(), KernelError> {
        for (slot, member) in members {
            let is_alive = || member.process.pid.is_alive();
            if !is_alive() {
                continue;
            }
            match self.place(member, *slot, is_chosen) {
                // It has ended meanwhile.
                Err(_) if !is_alive() => {}
                placed => placed?,
            }
        }
        Ok(())
    }

    /// Takes these links out of those that are attached.
    pub(super) fn take_off(&mut self, is_over: impl Fn(&Linked) -> bool) -> Vec<Linked> {
        let (over, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.links).into_iter().partition(is_over);
        self.links = left;
        for linked in &over {
            let served = |place: &places::Place| match place.site.probe {
                places::SHARED => linked.probes.len() > 1,
                probe => linked.probes.contains(&probe),
            };
            if let Some(places) = self.attached.get_mut(&linked.to) {
                places.retain(|place| !served(place));
            }
        }
        over
    }
}
