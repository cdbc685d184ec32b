//! Reverting changes, and settling by the target's memory what a crash left undecided, which also happens
//! before a writer does anything else.

use std::sync::Arc;

use plan::{Bytes, SyncPoint};
use serde::{Deserialize, Serialize};

use crate::author::Author;
use crate::journal::{
    ActionRecord, Assignment, JournalChange, Outcome, RevertOutcome, Settled, StateDir, Status, WriteHold,
    settle,
};
use crate::module::Images;
use crate::process::Process;
use crate::space::AddressSpace;
use crate::variable::Location;
use crate::writable_place::WritablePlace;
use crate::write::{Hooks, WriteError};
use crate::writer::{Writer, WriterError};

/// The result of reverting a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertReceipt {
    pub change: u64,
    pub symbol: String,
    pub outcome: RevertOutcome,
}

/// An attempt to revert a change.
#[derive(Debug)]
pub struct Attempt<E = WriterError> {
    pub change: u64,
    pub result: Result<RevertReceipt, E>,
}

impl<E> Attempt<E> {
    /// The attempts of one change and of those that the same write was to revert: they share its result.
    pub(crate) fn of_each(
        change: u64,
        result: Result<RevertReceipt, E>,
        with_it: Vec<u64>,
    ) -> Vec<Attempt<E>> {
        let reverted = result.as_ref().ok().cloned();
        let reverted = reverted.filter(|reverted| reverted.outcome == RevertOutcome::Reverted);
        let also = |(change, reverted): (u64, RevertReceipt)| Attempt {
            change,
            result: Ok(RevertReceipt { change, ..reverted }),
        };
        let with_it = with_it
            .into_iter()
            .filter_map(|change| Some((change, reverted.clone()?)));
        let with_it: Vec<_> = with_it.map(also).collect();
        std::iter::once(Attempt { change, result })
            .chain(with_it)
            .collect()
    }
}

/// A set that is being reverted, and earlier ones that the same write reverts.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) change: u64,
    /// Its `old` is the value that the oldest of them had found.
    pub(crate) set: Assignment,
    /// The earlier ones, newest first.
    pub(crate) with_it: Vec<u64>,
}

/// A set that is to be reverted at its sync point.
#[derive(Debug)]
pub(crate) struct PendingRevert {
    pub(crate) space: AddressSpace,
    pub(crate) place: WritablePlace,
    pub(crate) sync: SyncPoint,
    pub(crate) returning: Returning,
}

impl Writer {
    /// Takes the lock, opens the journal and settles what a crash left undecided.
    pub fn open(
        process: Process,
        state: &StateDir,
        who: Author,
        images: Arc<Images>,
        hooks: Hooks,
    ) -> Result<Writer, WriterError> {
        let mut writer = Writer::unsettled(process, state, who, images, hooks)?;
        writer.reconcile()?;
        Ok(writer)
    }

    /// Reverts one change at once, if the process still holds what was written. To revert at its sync point,
    /// use `Writer::prepare_revert`.
    pub fn revert(&mut self, change: u64) -> Result<RevertReceipt, WriterError> {
        let known = self.in_force(change)?;
        self.revert_known(&mut None, known, &[])
    }

    /// The first half of reverting a set at its sync point: checks, and records the intent, including earlier
    /// sets of the same variable as long as they are wanted
    /// ([`History::run_of`](crate::journal::History::run_of)).
    pub(crate) fn prepare_revert(
        &mut self,
        change: u64,
        wanted: &dyn Fn(&JournalChange) -> bool,
    ) -> Result<PendingRevert, WriterError> {
        let ActionRecord::Set(set) = self.in_force(change)?.intent.action else {
            return Err(WriterError::NoSyncPoint { change });
        };
        let Some(sync) = set.sync.clone() else {
            return Err(WriterError::NoSyncPoint { change });
        };
        let space = self.space()?;
        let place = WritablePlace::validate(&recorded(&space, change, &set)?, Some(set.value_type))?;
        let with_it = self.before_it(change, wanted);
        let returning = Returning {
            change,
            set: self.through(set, &with_it),
            with_it,
        };
        self.write_down_revert(change, None, returning.with_it.last().copied())?;
        Ok(PendingRevert {
            space,
            place,
            sync,
            returning,
        })
    }

    /// The second half: records the outcome.
    pub(crate) fn conclude_revert(
        &mut self,
        returning: Returning,
        outcome: RevertOutcome,
        hold: Option<WriteHold>,
    ) -> Result<RevertReceipt, WriterError> {
        let Returning { change, set, .. } = returning;
        self.reverted(change, set.symbol, outcome, hold)
    }

    fn reverted(
        &mut self,
        change: u64,
        symbol: String,
        outcome: RevertOutcome,
        hold: Option<WriteHold>,
    ) -> Result<RevertReceipt, WriterError> {
        self.record_revert(change, outcome.clone(), false, hold)?;
        Ok(RevertReceipt {
            change,
            symbol,
            outcome,
        })
    }

    /// Reverts all wanted changes in force, newest first. Consecutive changes of one place take one write. A
    /// failure does not stop the others.
    pub fn revert_all(
        &mut self,
        wanted: impl Fn(&JournalChange) -> bool,
    ) -> Result<Vec<Attempt>, WriterError> {
        let numbers: Vec<u64> = self
            .changes()
            .iter()
            .map(|change| change.intent.change)
            .rev()
            .collect();
        let (mut space, mut done) = (None, Vec::new());
        for number in numbers {
            // Read anew: reverting a later change brings an earlier one into force again.
            let change = self.known(number).ok();
            let in_force = change.filter(|change| change.status == Status::Applied && wanted(change));
            let Some(change) = in_force else { continue };
            let with_it = self.before_it(number, &wanted);
            let result = self.revert_known(&mut space, change, &with_it);
            done.extend(Attempt::of_each(number, result, with_it));
        }
        Ok(done)
    }

    /// Sets share one snapshot of the address space; changes of code read a new one.
    fn revert_known(
        &mut self,
        space: &mut Option<AddressSpace>,
        change: JournalChange,
        with_it: &[u64],
    ) -> Result<RevertReceipt, WriterError> {
        let known = change;
        let intent = &known.intent;
        let (change, symbol) = (intent.change, intent.action.symbol().to_owned());
        let outcome = match &intent.action {
            ActionRecord::Set(set) => {
                let space = match space {
                    Some(known) => known,
                    None => space.insert(self.space()?),
                };
                self.revert_value(space, change, set, with_it)?
            }
            _ => self.revert_action(&known)?,
        };
        match &intent.action {
            // In the journal already, or not decided yet.
            ActionRecord::Load(_) | ActionRecord::Call(_) => Ok(RevertReceipt {
                change,
                symbol,
                outcome,
            }),
            _ => self.reverted(change, symbol, outcome, None),
        }
    }

    fn revert_value(
        &mut self,
        space: &AddressSpace,
        change: u64,
        set: &Assignment,
        with_it: &[u64],
    ) -> Result<RevertOutcome, WriterError> {
        let place = WritablePlace::validate(&recorded(space, change, set)?, Some(set.value_type))?;
        let found = place.read()?;
        if found != set.new {
            return Ok(RevertOutcome::ChangedSince(found));
        }
        let set = self.through(set.clone(), with_it);
        self.write_down_revert(change, None, with_it.last().copied())?;
        let written = self.commit(&place, set.new, set.old);
        Ok(outcome_of(&set, written))
    }

    /// Settles by the target's memory what a crash of an earlier writer, or a full disk, left undecided.
    pub fn reconcile(&mut self) -> Result<(), WriterError> {
        let changes = self.changes();
        let undecided =
            |change: &&JournalChange| matches!(change.status, Status::Pending | Status::RevertPending);
        let has_memory =
            |change: &JournalChange| change.intent.action.arena().is_some() || change.revert_arena.is_some();
        if !changes
            .iter()
            .any(|change| undecided(&change) || has_memory(change))
        {
            return Ok(());
        }
        let space = self.space()?;
        for change in changes.iter().filter(undecided) {
            match &change.intent.action {
                ActionRecord::Set(set) => {
                    let mut set = set.clone();
                    set.old = self.found_by(change).unwrap_or(set.old);
                    self.settle_value(&space, change, &set)?;
                }
                action => self.settle_action(&space, change, action)?,
            }
        }
        self.sweep(&space)
    }

    /// The value that the oldest change reverted with it had found.
    fn found_by(&self, change: &JournalChange) -> Option<Bytes> {
        let oldest = self.known(change.revert_through?).ok()?;
        match oldest.intent.action {
            ActionRecord::Set(set) => Some(set.old),
            _ => None,
        }
    }

    fn settle_value(
        &mut self,
        space: &AddressSpace,
        known: &JournalChange,
        set: &Assignment,
    ) -> Result<(), WriterError> {
        let change = known.intent.change;
        // Without the module there are no bytes to compare: it stays undecided.
        let Ok(location) = recorded(space, change, set) else {
            return Ok(());
        };
        let found = location.read(space.memory())?;
        let ended = || "the writer ended before the write".to_owned();
        match (known.status, settle(set, found)) {
            (Status::Pending, Settled::New) => self.recover_outcome(change, Outcome::Applied),
            (Status::Pending, Settled::Old) => self.recover_outcome(change, Outcome::NotWritten(ended())),
            (Status::Pending, Settled::Neither) => self.recover_outcome(change, Outcome::Overwritten(found)),
            (_, Settled::Old) => self.record_revert(change, RevertOutcome::Reverted, true, None),
            (_, Settled::New) => self.record_revert(change, RevertOutcome::Failed(ended()), true, None),
            (_, Settled::Neither) => {
                self.record_revert(change, RevertOutcome::ChangedSince(found), true, None)
            }
        }
    }
}

/// The outcome of writing an old value back.
pub(crate) fn outcome_of(set: &Assignment, written: Result<Bytes, WriteError>) -> RevertOutcome {
    match written {
        Ok(found) if found == set.old => RevertOutcome::Reverted,
        Ok(found) | Err(WriteError::Unexpected { found, .. }) => RevertOutcome::ChangedSince(found),
        Err(error) => RevertOutcome::Failed(error.to_string()),
    }
}

/// Whether a process has the value that was written into its parent.
pub(crate) fn has_inherited(space: &AddressSpace, set: &Assignment) -> bool {
    let found = recorded(space, 0, set).map(|location| location.read(space.memory()));
    matches!(found, Ok(Ok(found)) if found == set.new)
}

/// The place of a change, if the same file is still loaded at the same address, and pointers still lead to
/// it. The symbol is not resolved again: a file that was loaded since could define it.
fn recorded(space: &AddressSpace, change: u64, set: &Assignment) -> Result<Location, WriterError> {
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
