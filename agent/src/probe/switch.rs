//! What of the wanted is switched on: rules want some of their probes only while a condition holds. When that is they say; here it is done.

use std::collections::BTreeSet;

use super::{Member, Probe, Probes};
use crate::kernel::{KernelError, LinkKind};

impl Probes {
    /// Switches one of the wanted on or off, in all processes; `members` are those that live, each with its slot.
    pub fn switch(&mut self, want: usize, on: bool, members: &[(u32, &Member)]) -> Result<(), KernelError> {
        if self.on.get(want).is_none_or(|known| *known == on) || self.is_fixed() {
            return Ok(());
        }
        self.on[want] = on;
        if !on {
            self.detach_unneeded();
            return Ok(());
        }
        for (slot, member) in members {
            self.place(member, *slot, &|probe| probe.wanted.contains(&want))?;
        }
        Ok(())
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
