//! Adds and removes probes of rules while the session runs. Other requests are not affected: functions keep
//! their numbers, and captured values keep their indices.

use std::collections::BTreeSet;

use job::{Job, Member};

use super::{ArmError, Linked, Probe, Probes, Wanted};
use crate::kernel::{CallMoment, Kernel, KernelError};

impl Probes {
    /// Number of requests so far: the index of the next one.
    pub fn wanted_count(&self) -> usize {
        self.wanted.len()
    }

    /// Attaches new requests. `members` are the living processes, each with its slot and which of the new
    /// requests apply to it. If it fails, the requests are as before.
    pub fn grow(
        &mut self,
        job: &Job,
        wanted: Vec<Wanted>,
        members: &[(u32, &Member, Vec<bool>)],
    ) -> Result<(), ArmError> {
        let first = self.wanted.len();
        if wanted.is_empty() {
            return Ok(());
        }
        let Some(kernel) = &self.kernel else {
            let why = self.missing().first().cloned();
            let why = why.unwrap_or_else(|| "this session was started without any".into());
            return Err(ArmError::NoMore(why));
        };
        let room = kernel.room();
        let mut all = self.wanted.clone();
        all.extend(wanted);
        let mut requested = self.requested.clone();
        requested
            .iter_mut()
            .for_each(|requested| requested.resize(first, false));
        for (slot, _, more) in members {
            if let Some(requested) = requested.get_mut(*slot as usize) {
                requested.extend(more);
            }
        }
        let in_them = members
            .iter()
            .filter_map(|(slot, member, _)| Some((*member, requested.get(*slot as usize)?)));
        let in_them: Vec<(&Member, &Vec<bool>)> = in_them.collect();
        let mut numbers = self.numbers.clone();
        numbers.grow(job, &all, first, &in_them)?;
        let mut on = self.on.clone();
        on.extend(all.iter().skip(first).map(|want| want.is_on));
        numbers.share_with_profile(&all, &on);
        if numbers.probes.len() > room {
            return Err(ArmError::TooManyFunctions {
                wanted: "the rules together".into(),
                found: numbers.probes.len(),
                most: room,
            });
        }
        let before = std::mem::replace(&mut self.numbers, numbers);
        if self.is_fixed() && !self.is_attached_already(&before.probes) {
            self.numbers = before;
            let why =
                "on this kernel (tracefs) probes are attached at the start only; give the rule to attach";
            return Err(ArmError::NoMore(why.into()));
        }
        (self.on, self.wanted) = (on, all);
        self.requested = requested;
        self.files.clear();
        self.see_resting();
        let attached = self.attach_more(&before.probes, first, members);
        if attached.is_err() {
            let gone: Vec<usize> = (first..self.wanted.len()).collect();
            self.shrink(&gone)?;
        }
        Ok(attached?)
    }

    /// Whether all requested functions are already counted and timed.
    fn is_attached_already(&self, before: &[Probe]) -> bool {
        let known = before.iter().zip(&self.numbers.probes);
        before.len() == self.numbers.probes.len()
            && known
                .into_iter()
                .all(|(before, now)| before.is_timed() || !now.is_timed())
    }

    /// The spec of a new function is sent before it is attached. That of an attached function is sent
    /// afterwards: otherwise its calls would end at exits that are not probed.
    fn attach_more(
        &mut self,
        before: &[Probe],
        first: usize,
        members: &[(u32, &Member, Vec<bool>)],
    ) -> Result<(), KernelError> {
        for (slot, member, _) in members {
            self.set_variables(member, *slot)?;
        }
        self.set_specs(before.len()..self.numbers.probes.len())?;
        let moved = self.take_off_moved(before);
        let names: Vec<String> = self
            .numbers
            .probes
            .iter()
            .map(|probe| probe.name.clone())
            .collect();
        let is_moved = |probe: &Probe| {
            let mut moved = moved.iter().filter_map(|number| names.get(*number as usize));
            moved.any(|name| *name == probe.name)
        };
        for (slot, member, _) in members {
            self.place(member, *slot, &|probe| {
                probe.wanted.iter().any(|want| *want >= first) || is_moved(probe)
            })?;
        }
        self.set_specs(0..before.len())
    }

    /// Detaches functions whose exits move because their return values are read from now on, together with
    /// the functions that share their links. Returns the numbers of all of them.
    fn take_off_moved(&mut self, before: &[Probe]) -> BTreeSet<u32> {
        let known = before.iter().zip(&self.numbers.probes).zip(0..);
        let moved = known.filter(|((before, now), _)| before.reads_returned() != now.reads_returned());
        let moved: BTreeSet<u32> = moved.map(|(_, number)| number).collect();
        let is_over = |linked: &Linked| linked.at != CallMoment::Entry && !linked.probes.is_disjoint(&moved);
        let over = self.take_off(is_over);
        let probes = over.iter().flat_map(|linked| &linked.probes).copied().collect();
        self.close(over);
        probes
    }

    /// Detaches what was attached for these requests only.
    pub fn shrink(&mut self, gone: &[usize]) -> Result<(), KernelError> {
        for want in gone {
            if let Some(on) = self.on.get_mut(*want) {
                *on = false;
            }
        }
        let mut changed = self.numbers.shrink(gone, &self.wanted);
        changed.extend(self.numbers.share_with_profile(&self.wanted, &self.on));
        for probe in changed {
            self.set_specs(probe as usize..probe as usize + 1)?;
        }
        if !self.is_fixed() {
            self.detach_unneeded();
        }
        Ok(())
    }

    pub(super) fn set_specs(&mut self, probes: std::ops::Range<usize>) -> Result<(), KernelError> {
        let Some(kernel) = &mut self.kernel else {
            return Ok(());
        };
        for index in probes {
            if let Some(probe) = self.numbers.probes.get(index) {
                Kernel::set_spec(kernel, index as u32, probe.spec)?;
            }
        }
        Ok(())
    }
}
