//! What a crash of an earlier writer, or a full disk, left undecided: found out by the target's memory.

use super::{Writer, WriterError};
use crate::journal::{Assignment, Change, Deed, Outcome, RevertOutcome, Settled, Status, settle};
use crate::space::AddressSpace;
use crate::variable::Location;

impl Writer {
    /// Settles by the target's memory what a crash of an earlier writer, or a full disk, left undecided.
    pub fn reconcile(&mut self) -> Result<(), WriterError> {
        let changes = self.changes();
        let undecided = |change: &&Change| matches!(change.status, Status::Pending | Status::RevertPending);
        let has_memory =
            |change: &Change| change.intent.deed.arena().is_some() || change.revert_arena.is_some();
        if !changes
            .iter()
            .any(|change| undecided(&change) || has_memory(change))
        {
            return Ok(());
        }
        let space = self.space()?;
        for change in changes.iter().filter(undecided) {
            match &change.intent.deed {
                Deed::Set(set) => self.settle_value(&space, change, set)?,
                deed => self.settle_action(&space, change, deed)?,
            }
        }
        self.sweep(&space)
    }

    fn settle_value(
        &mut self,
        space: &AddressSpace,
        known: &Change,
        set: &Assignment,
    ) -> Result<(), WriterError> {
        let change = known.intent.change;
        // Without the module there are no bytes to ask: it stays undecided, which is the truth.
        let Ok(location) = recorded(space, change, set) else {
            return Ok(());
        };
        let found = location.read(space.memory())?;
        let ended = || "the writer ended before the write".to_owned();
        match (known.status, settle(set, found)) {
            (Status::Pending, Settled::New) => self.record_outcome(change, Outcome::Applied, None),
            (Status::Pending, Settled::Old) => {
                self.record_outcome(change, Outcome::NotWritten(ended()), None)
            }
            (Status::Pending, Settled::Neither) => {
                self.record_outcome(change, Outcome::Overwritten(found), None)
            }
            (_, Settled::Old) => self.record_revert(change, RevertOutcome::Reverted, true, None),
            (_, Settled::New) => self.record_revert(change, RevertOutcome::Failed(ended()), true, None),
            (_, Settled::Neither) => {
                self.record_revert(change, RevertOutcome::ChangedSince(found), true, None)
            }
        }
    }
}

/// The place of a change, if the same file is still loaded at the same address, and pointers still lead there. The symbol is not
/// looked up again: another file that was loaded since could define it.
pub(super) fn recorded(space: &AddressSpace, change: u64, set: &Assignment) -> Result<Location, WriterError> {
    let root = set.chain.as_ref().map_or(set.address, |chain| chain.root);
    let is_it = |module: &&crate::module::Module| {
        module.path == set.module
            && module.build_id() == set.build_id.as_ref()
            && module.address(set.link_address) == root
    };
    let module = space
        .modules
        .iter()
        .find(is_it)
        .ok_or_else(|| WriterError::ModuleGone {
            change,
            module: set.module.clone(),
        })?;
    let location = Location {
        symbol: set.symbol.clone(),
        module: module.clone(),
        link_address: set.link_address,
        address: set.address,
        chain: set.chain.clone(),
        size: set.value_type.size() as u64,
        leaf: None,
        copied_from: None,
        is_confirmed: false,
    };
    match location.follow(|address| space.memory().word(address)) {
        Ok(address) if address == set.address => Ok(location),
        _ => Err(WriterError::Moved {
            change,
            symbol: set.symbol.clone(),
        }),
    }
}
