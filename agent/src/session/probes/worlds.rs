//! Tells the kernel side where a process has what tells the world's rank of a rank in a communicator.

use super::Probes;
use crate::{discover::Member, kernel::KernelError, mpi};

impl Probes {
    /// What is known of the process now.
    pub(super) fn set_world(&mut self, member: &Member, slot: u32) -> Result<(), KernelError> {
        let (Some(kernel), Some(known)) = (&mut self.kernel, &member.mpi) else {
            return Ok(());
        };
        let world = mpi::world(&known.implementation, &member.space, member.rank);
        kernel.set_world(slot, world)?;
        if mpi::may_settle(&known.implementation, &world, member.rank) {
            self.unsettled.insert(slot);
        } else {
            self.unsettled.remove(&slot);
        }
        Ok(())
    }

    /// Looks again into processes that had not begun with MPI.
    pub fn settle(&mut self, members: &[(u32, &Member)]) -> Result<(), KernelError> {
        for (slot, member) in members {
            if self.unsettled.contains(slot) {
                self.set_world(member, *slot)?;
            }
        }
        Ok(())
    }
}
