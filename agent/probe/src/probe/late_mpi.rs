//! MPI that no process had when the kernel side was loaded: programs load it late (Python), or their
//! processes join late. Its functions get their numbers then.

use job::Job;
use profile::probe::decide_partial_sum;

use super::{Member, ProbeSelector, Probes, Wanted, number::Numbers};
use crate::kernel::{Kernel, KernelError};

impl Probes {
    /// Attaches to a process that came after the start, including its MPI.
    pub(super) fn attach_late(&mut self, member: &Member, slot: u32, job: &Job) -> Result<(), KernelError> {
        let without;
        let member = if self.is_of_another_mpi(member) {
            let pid = member.process.pid;
            self.missing.report(format!("MPI of {pid}"), || {
                format!(
                    "MPI of process {pid} is not probed: it is not the MPI library of the other processes"
                )
            });
            without = Member {
                mpi: None,
                ..member.clone()
            };
            &without
        } else {
            self.number_mpi(member, job)?;
            member
        };
        self.report_unnumbered(member, slot);
        self.attach_to(member, slot)
    }

    pub(super) fn attach_to(&mut self, member: &Member, slot: u32) -> Result<(), KernelError> {
        self.place(member, slot, &|_| true)?;
        self.set_variables(member, slot)?;
        self.set_world(member, slot)?;
        Ok(())
    }

    /// Whether the process uses another MPI implementation than the known functions: bytes are counted with
    /// the layout of one implementation.
    fn is_of_another_mpi(&self, member: &Member) -> bool {
        let Some(mpi) = &member.mpi else { return false };
        let known = self.numbers.probes.iter();
        let mut known = known.filter(|probe| probe.bytes_kind().is_some());
        known.any(|probe| probe.spec.message.layout != mpi.implementation.layout as u8)
    }

    /// Assigns numbers to the functions of an MPI library, if they have none yet.
    fn number_mpi(&mut self, member: &Member, job: &Job) -> Result<(), KernelError> {
        let before = self.numbers.probes.len();
        let mut numbers = self.numbers.clone();
        if !numbers.add_late_mpi(member, &self.wanted, job) {
            return Ok(());
        }
        if self.is_fixed() {
            self.missing.report("late MPI".into(), || {
                "MPI is not probed: it was loaded after the session began, and on this kernel (tracefs) probes are attached at the \
                 start only"
                    .to_owned()
            });
            return Ok(());
        }
        let room = self.kernel().map_or(0, Kernel::room);
        if numbers.probes.len() > room {
            self.missing.report("late MPI".into(), || {
                format!("MPI is not probed: there was room for {room} functions")
            });
            return Ok(());
        }
        self.numbers = numbers;
        self.files.clear();
        self.set_specs(before..self.numbers.probes.len())
    }
}

impl Numbers {
    /// Numbers the MPI functions of a process that no process had before; false if there are none.
    fn add_late_mpi(&mut self, member: &Member, wanted: &[Wanted], job: &Job) -> bool {
        let first = self.probes.len();
        self.add_mpi(member);
        for probe in self.probes.iter_mut().skip(first) {
            for (index, want) in wanted.iter().enumerate() {
                if matches!(want.selector, ProbeSelector::Mpi(_)) && want.selector.means(&probe.name, true) {
                    probe.wanted.push(index);
                    probe.spec.flags |= want.flags;
                }
            }
            // Values that cannot be captured are reported when a rule looks for them.
            probe.captures = super::captures::of_probe(probe, wanted, job).unwrap_or_default();
            for (place, capture) in probe.spec.captures.iter_mut().zip(&probe.captures) {
                *place = capture.spec;
            }
            decide_partial_sum(probe, wanted, &mut self.partial_sums);
        }
        self.probes.len() > first
    }
}
