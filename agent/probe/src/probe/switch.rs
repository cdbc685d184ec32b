//! Switches requests on and off: rules want some of their probes only while a condition holds. The rules
//! decide when; this module carries it out.

use std::collections::BTreeSet;

use super::{Member, Probe, Probes};
use crate::kernel::{CallMoment, KernelError, LinkKind};

impl Probes {
    /// Switches a request on or off in all processes; `members` are the living ones, each with its slot.
    pub fn switch(&mut self, want: usize, on: bool, members: &[(u32, &Member)]) -> Result<(), KernelError> {
        if self.on.get(want).is_none_or(|known| *known == on) || self.is_fixed() {
            return Ok(());
        }
        self.on[want] = on;
        self.see_resting();
        let changed = self.numbers.share_with_profile(&self.wanted, &self.on);
        if !on {
            // Before their exits are detached: otherwise calls would be entered whose end is not probed.
            self.send_specs(&changed)?;
            self.detach_ends(&changed);
            self.detach_unneeded();
            return Ok(());
        }
        for (slot, member) in members {
            self.place(member, *slot, &|probe| probe.wanted.contains(&want))?;
        }
        self.send_specs(&changed)
    }

    /// Active requests that rules only count, of functions that are not in a profile.
    pub fn counted(&self) -> BTreeSet<usize> {
        let is_of_mpi = |want: usize| {
            let mut probes = self.numbers.probes.iter();
            probes.any(|probe| probe.mpi.is_some() && probe.wanted.contains(&want))
        };
        let wanted = self.wanted.iter().zip(&self.on).enumerate();
        // Most sessions have none, and then skip the search through the functions.
        let counted = wanted.filter(|(index, (want, on))| want.is_counted && **on && !is_of_mpi(*index));
        counted.map(|(index, _)| index).collect()
    }

    /// Whether all active requests of a function only count its hits.
    pub fn is_counted(&self, probe: u32) -> bool {
        let probe = self.numbers.probes.get(probe as usize);
        let wanted = probe.filter(|probe| probe.mpi.is_none()).into_iter();
        let mut on = wanted
            .flat_map(|probe| &probe.wanted)
            .filter(|want| self.on[**want])
            .peekable();
        on.peek().is_some() && on.all(|want| self.wanted[*want].is_counted)
    }

    /// Detaches the probes of these requests, and attaches all others that were suspended; `members` are the
    /// living processes, each with its slot.
    pub fn rest(&mut self, wanted: BTreeSet<usize>, members: &[(u32, &Member)]) -> Result<(), KernelError> {
        let before = std::mem::replace(&mut self.resting, wanted);
        self.see_resting();
        self.detach_unneeded();
        for (slot, member) in members {
            self.place(member, *slot, &|probe| {
                probe.wanted.iter().any(|want| before.contains(want))
            })?;
        }
        Ok(())
    }

    /// Updates which functions are detached without a sampling window that would attach them.
    pub(super) fn see_resting(&mut self) {
        let mut probes = std::mem::take(&mut self.numbers.probes);
        for probe in probes.iter_mut().filter(|probe| probe.mpi.is_none()) {
            probe.is_resting = !probe.wanted.iter().any(|want| self.is_wanted(*want));
        }
        self.numbers.probes = probes;
    }

    /// Whether a request is switched on and not suspended.
    pub(super) fn is_wanted(&self, want: usize) -> bool {
        self.on[want] && !self.resting.contains(&want)
    }

    fn send_specs(&mut self, probes: &[u32]) -> Result<(), KernelError> {
        let each = probes.iter().map(|probe| *probe as usize);
        each.into_iter()
            .try_for_each(|probe| self.set_specs(probe..probe + 1))
    }

    /// Detaches the exits of these functions, unless their calls are timed.
    fn detach_ends(&mut self, probes: &[u32]) {
        let is_over = |probe: &u32| {
            let known = self.numbers.probes.get(*probe as usize);
            known.is_some_and(|known| !known.is_timed())
        };
        let over: BTreeSet<u32> = probes.iter().copied().filter(is_over).collect();
        let over =
            self.take_off(|linked| linked.at != CallMoment::Entry && !linked.probes.is_disjoint(&over));
        self.close(over);
    }

    /// Whether the attached probes cannot change: there are none, or nothing can be attached after the start.
    pub(super) fn is_fixed(&self) -> bool {
        let kernel = self.kernel.as_ref();
        kernel.is_none_or(|kernel| kernel.link_kind() == LinkKind::Tracefs)
    }

    /// Whether a function of this request is also used by another active request.
    pub fn is_used_by_others(&self, want: usize) -> bool {
        let others = self
            .numbers
            .probes
            .iter()
            .filter(|probe| probe.wanted.contains(&want));
        let mut others = others.flat_map(|probe| &probe.wanted);
        others
            .any(|other| self.on[*other] && self.wanted[*other].is_switched && !self.wanted[*other].is_quiet)
    }

    /// Whether a function is probed by requests of the profile, and by no rule or recording.
    pub fn is_of_profile_alone(&self, probe: u32) -> bool {
        let probe = self.numbers.probes.get(probe as usize);
        let mut on = probe
            .iter()
            .flat_map(|probe| &probe.wanted)
            .filter(|want| self.on[**want])
            .peekable();
        on.peek().is_some() && on.all(|want| self.wanted[*want].is_quiet)
    }

    /// Whether a request is switched on.
    pub fn is_on(&self, want: usize) -> bool {
        self.on.get(want) == Some(&true)
    }

    /// Detaches functions that no active request needs.
    pub(super) fn detach_unneeded(&mut self) {
        let needed = self.needed();
        let over = self.take_off(|linked| linked.probes.is_disjoint(&needed));
        self.close(over);
    }

    /// Functions that are needed now, in some process.
    pub(super) fn needed(&self) -> BTreeSet<u32> {
        let probes = self.numbers.probes.iter().zip(0..);
        let is_needed = |probe: &Probe| {
            !self.pauses(probe)
                && (probe.mpi.is_some() || probe.wanted.iter().any(|want| self.is_wanted(*want)))
        };
        probes
            .filter(|(probe, _)| is_needed(probe))
            .map(|(_, number)| number)
            .collect()
    }
}
