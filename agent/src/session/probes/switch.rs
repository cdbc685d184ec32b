//! What of the wanted is switched on: rules want some of their probes only while a condition holds. When that is they say; here it is done.

use std::collections::BTreeSet;

use super::{Member, Probe, Probes};
use crate::kernel::{At, KernelError, LinkKind};

impl Probes {
    /// Switches one of the wanted on or off, in all processes; `members` are those that live, each with its slot.
    pub fn switch(&mut self, want: usize, on: bool, members: &[(u32, &Member)]) -> Result<(), KernelError> {
        if self.on.get(want).is_none_or(|known| *known == on) || self.is_fixed() {
            return Ok(());
        }
        self.on[want] = on;
        let changed = self.numbers.share_with_profile(&self.wanted, &self.on);
        if !on {
            // Before their ends go: no call is entered from then on whose end nobody sees.
            self.tell_of_specs(&changed)?;
            self.detach_ends(&changed);
            self.detach_unneeded();
            return Ok(());
        }
        for (slot, member) in members {
            self.place(member, *slot, &|probe| probe.wanted.contains(&want))?;
        }
        self.tell_of_specs(&changed)
    }

    fn tell_of_specs(&mut self, probes: &[u32]) -> Result<(), KernelError> {
        let each = probes.iter().map(|probe| *probe as usize);
        each.into_iter()
            .try_for_each(|probe| self.set_specs(probe..probe + 1))
    }

    /// Where calls of these end is not probed any more, unless they are timed.
    fn detach_ends(&mut self, probes: &[u32]) {
        let is_over = |probe: &u32| {
            let known = self.numbers.probes.get(*probe as usize);
            known.is_some_and(|known| !known.is_timed())
        };
        let over: BTreeSet<u32> = probes.iter().copied().filter(is_over).collect();
        let over = self.take_off(|linked| linked.at != At::Entry && !linked.probes.is_disjoint(&over));
        self.close(over);
    }

    /// What is attached stays as it is: there is nothing, or nothing can be attached after the start.
    pub(super) fn is_fixed(&self) -> bool {
        let kernel = self.kernel.as_ref();
        kernel.is_none_or(|kernel| kernel.link_kind() == LinkKind::Tracefs)
    }

    /// Whether a function that one of the wanted asks for is switched on by somebody else.
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

    /// Whether one of the wanted is switched on.
    pub fn is_on(&self, want: usize) -> bool {
        self.on.get(want) == Some(&true)
    }

    /// Detaches what nobody asks for who has it switched on.
    pub(super) fn detach_unneeded(&mut self) {
        let needed = self.needed();
        let over = self.take_off(|linked| linked.probes.is_disjoint(&needed));
        self.close(over);
    }

    /// What is watched now, in some process.
    pub(super) fn needed(&self) -> BTreeSet<u32> {
        let probes = self.numbers.probes.iter().zip(0..);
        let is_needed = |probe: &Probe| {
            !self.pauses(probe) && (probe.mpi.is_some() || probe.wanted.iter().any(|want| self.on[*want]))
        };
        probes
            .filter(|(probe, _)| is_needed(probe))
            .map(|(_, number)| number)
            .collect()
    }
}
