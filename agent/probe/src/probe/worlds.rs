//! Sends the kernel side the addresses from which it reads the rank of a process in the world communicator.

use job::Member;

use super::Probes;
use crate::kernel::KernelError;

impl Probes {
    /// Sends what is known of the process now. Returns the size of the world if the process shows it.
    pub(super) fn set_world(&mut self, member: &Member, slot: u32) -> Result<Option<u32>, KernelError> {
        let (Some(kernel), Some(known)) = (&mut self.kernel, &member.mpi) else {
            return Ok(None);
        };
        let world = job::mpi_world(&known.implementation, &member.space, member.rank);
        kernel.set_world(slot, world)?;
        if job::may_settle(&known.implementation, &world, member.rank) {
            self.unsettled.insert(slot);
        } else {
            self.unsettled.remove(&slot);
        }
        Ok(job::world_size(&world))
    }

    /// Checks again the processes that had not begun with MPI. Fills in world sizes that no launcher stated.
    pub fn settle(&mut self, members: &mut [Member]) -> Result<(), KernelError> {
        for (slot, member) in (0..).zip(members) {
            if self.unsettled.contains(&slot) {
                let size = self.set_world(member, slot)?;
                if let Some(rank) = member.rank.as_mut() {
                    rank.size = rank.size.or(size);
                }
            }
        }
        Ok(())
    }
}
