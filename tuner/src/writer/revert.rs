//! The journal's records of a change that is reverted.

use super::{Writer, WriterError};
use crate::arena::Arena;
use crate::clock;
use crate::journal::{
    ActionRecord, Assignment, JournalChange, JournalRecord, RevertOutcome, Status, WriteHold,
};

impl Writer {
    /// The change, if it is in force.
    pub(crate) fn in_force(&self, change: u64) -> Result<JournalChange, WriterError> {
        let known = self.known(change)?;
        match known.status {
            Status::Applied => Ok(known),
            status => Err(WriterError::NotInForce { change, status }),
        }
    }

    /// The earlier sets that the same write reverts: newest first, as long as they are wanted.
    pub(crate) fn before_it(&self, change: u64, wanted: &dyn Fn(&JournalChange) -> bool) -> Vec<u64> {
        let history = self.journal.history();
        let earlier = history.run_of(change).skip(1).map(|(number, _)| number);
        earlier
            .take_while(|number| history.change(*number).is_some_and(|earlier| wanted(&earlier)))
            .collect()
    }

    /// The set with the `old` value of the oldest of the earlier ones.
    pub(crate) fn through(&self, set: Assignment, with_it: &[u64]) -> Assignment {
        let oldest = with_it.last().and_then(|oldest| self.known(*oldest).ok());
        match oldest.map(|oldest| oldest.intent.action) {
            Some(ActionRecord::Set(oldest)) => Assignment {
                old: oldest.old,
                ..set
            },
            _ => set,
        }
    }

    /// Records that an action is going to be reverted at once.
    pub(crate) fn announce_revert(&mut self, change: u64, arena: Option<Arena>) -> Result<(), WriterError> {
        self.write_down_revert(change, arena, None)?;
        (self.hooks.after_intent)();
        Ok(())
    }

    pub(crate) fn write_down_revert(
        &mut self,
        change: u64,
        arena: Option<Arena>,
        through: Option<u64>,
    ) -> Result<(), WriterError> {
        Ok(self.journal.append(JournalRecord::RevertIntent {
            change,
            at: clock::now(),
            who: self.who.clone(),
            arena,
            through,
            at_end: self.is_at_end,
        })?)
    }

    pub(crate) fn record_revert(
        &mut self,
        change: u64,
        outcome: RevertOutcome,
        recovered: bool,
        hold: Option<WriteHold>,
    ) -> Result<(), WriterError> {
        Ok(self.journal.append(JournalRecord::RevertOutcome {
            change,
            at: clock::now(),
            outcome,
            recovered,
            hold,
        })?)
    }
}
