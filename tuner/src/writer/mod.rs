//! The holder of the right to change one process: announces, writes, records; takes back. Decides nothing
//! about values.
//!
//! The order of every change: old bytes read → intent in the journal → write → read back → outcome in the
//! journal. Opening a writer first settles what an earlier one left undecided by a crash.

mod error;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use error::WriterError;

use crate::clock::{self, Instant};
use crate::journal::{
    Change, Intent, Journal, Outcome, Record, RevertOutcome, Settled, StateDir, Status, Target, settle,
};
use crate::lock::WriterLock;
use crate::module::Images;
use crate::process::Process;
use crate::slot::Slot;
use crate::space::AddressSpace;
use crate::value::{Bytes, Value, ValueType};
use crate::variable::Location;
use crate::who::Who;
use crate::write::{self, WriteError};

/// What to write.
#[derive(Debug, Clone)]
pub struct SetRequest {
    /// The value.
    pub value: Value,
    /// Write only if it holds this now.
    pub expect_old: Option<Value>,
    /// Why, a line each.
    pub why: Vec<String>,
    /// The rule that asks for it.
    pub rule: Option<String>,
}

/// How the bytes got there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// A plain write while the program runs; it was not held.
    Plain,
}

/// What a set did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its number in the journal; none when the value was there already and nothing was written.
    pub change: Option<u64>,
    /// The type of both values.
    pub value_type: ValueType,
    /// What was there.
    pub old: Bytes,
    /// What was written.
    pub new: Bytes,
    /// How long the program was held.
    pub hold_ns: u64,
    /// How.
    pub mechanism: Mechanism,
    /// What came of it.
    pub outcome: Outcome,
    /// When.
    pub at: Instant,
    /// From reading the old value to the last record.
    pub duration_ns: u64,
}

/// What taking a change back did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The change.
    pub change: u64,
    /// The variable.
    pub symbol: String,
    /// What came of it.
    pub outcome: RevertOutcome,
}

/// One of several changes that were to be taken back.
#[derive(Debug)]
pub struct Attempt {
    /// The change.
    pub change: u64,
    /// What came of it.
    pub result: Result<Undone, WriterError>,
}

/// What is called at the two instants between which a crash leaves a change undecided. Does nothing but in
/// crash tests.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// The intent is in the journal, nothing is written.
    pub after_intent: fn(),
    /// It is written, the outcome is not in the journal.
    pub after_write: fn(),
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks {
            after_intent: || {},
            after_write: || {},
        }
    }
}

/// The right to change one process.
#[derive(Debug)]
pub struct Writer {
    process: Process,
    journal: Journal,
    images: Arc<Images>,
    who: Who,
    hooks: Hooks,
    newest_before: u64,
    _lock: WriterLock,
}

impl Writer {
    /// Takes the lock, opens the journal and settles what a crash left undecided.
    pub fn open(
        process: Process,
        state: &StateDir,
        who: Who,
        images: Arc<Images>,
        hooks: Hooks,
    ) -> Result<Writer, WriterError> {
        let lock = WriterLock::acquire(process.pid)?;
        let journal = Journal::open(state, process.pid)?;
        let newest_before = journal.history().newest();
        let mut writer = Writer {
            process,
            journal,
            images,
            who,
            hooks,
            newest_before,
            _lock: lock,
        };
        writer.reconcile()?;
        Ok(writer)
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// All changes of this process, oldest first, also those of earlier sessions.
    pub fn changes(&self) -> Vec<Change> {
        self.journal.history().changes()
    }

    /// The newest change before this writer was opened. All later ones were made through it: while it has the
    /// lock, nobody else makes any.
    pub fn newest_before(&self) -> u64 {
        self.newest_before
    }

    /// Writes a value.
    pub fn set(&mut self, slot: &Slot, request: SetRequest) -> Result<Receipt, WriterError> {
        let started = clock::monotonic_ns();
        self.check(slot, &request)?;
        let (old, new) = (slot.read()?, request.value.to_bytes());
        let expected = request.expect_old.map_or(old, Value::to_bytes);
        if old != expected {
            let (pid, symbol) = (slot.pid(), slot.location().symbol.clone());
            return Err(WriteError::Unexpected {
                pid,
                symbol,
                found: old,
                expected,
            }
            .into());
        }
        let at = clock::now();
        let (change, outcome) = match old == new {
            true => (None, Outcome::Applied),
            false => self.write(slot, self.intent(slot, request, old, new, at.clone()))?,
        };
        Ok(Receipt {
            change,
            value_type: slot.value_type(),
            old,
            new,
            hold_ns: 0,
            mechanism: Mechanism::Plain,
            outcome,
            at,
            duration_ns: clock::monotonic_ns().saturating_sub(started),
        })
    }

    /// Writes down that a change did good.
    pub fn confirm(&mut self, change: u64) -> Result<(), WriterError> {
        self.known(change)?;
        Ok(self.journal.append(&Record::Confirmed {
            change,
            at: clock::now(),
        })?)
    }

    /// Takes one change back, if the process still holds what was written.
    pub fn undo(&mut self, change: u64) -> Result<Undone, WriterError> {
        let known = self.known(change)?;
        if known.status != Status::Applied {
            return Err(WriterError::NotInForce {
                change,
                status: known.status,
            });
        }
        let space = AddressSpace::read(&self.process, &self.images)?;
        self.take_back(&space, known.intent)
    }

    /// Takes back all changes in force for which `take_back` says so, newest first. One that cannot be taken
    /// back does not keep the others from it.
    pub fn undo_all(&mut self, take_back: impl Fn(&Change) -> bool) -> Result<Vec<Attempt>, WriterError> {
        let numbers: Vec<u64> = self
            .changes()
            .iter()
            .map(|change| change.intent.change)
            .rev()
            .collect();
        let space = AddressSpace::read(&self.process, &self.images)?;
        let mut done = Vec::new();
        for number in numbers {
            // Asked now: taking back a later change brings an earlier one into force again.
            let change = self.journal.change(number);
            if let Some(change) =
                change.filter(|change| change.status == Status::Applied && take_back(change))
            {
                let result = self.take_back(&space, change.intent);
                done.push(Attempt {
                    change: number,
                    result,
                });
            }
        }
        Ok(done)
    }

    fn take_back(&mut self, space: &AddressSpace, intent: Intent) -> Result<Undone, WriterError> {
        let change = intent.change;
        let slot = Slot::validate(&recorded(space, &intent)?, Some(intent.value_type))?;
        let found = slot.read()?;
        let outcome = match found == intent.new {
            false => RevertOutcome::ChangedSince(found),
            true => self.write_back(&slot, &intent)?,
        };
        self.record_revert(change, outcome.clone(), false)?;
        Ok(Undone {
            change,
            symbol: intent.symbol,
            outcome,
        })
    }

    fn known(&self, change: u64) -> Result<Change, WriterError> {
        let pid = self.process.pid;
        self.journal
            .change(change)
            .ok_or(WriterError::NoSuchChange { pid, change })
    }

    fn check(&self, slot: &Slot, request: &SetRequest) -> Result<(), WriterError> {
        if slot.pid() != self.process.pid {
            return Err(WriterError::OtherProcess {
                slot: slot.pid(),
                writer: self.process.pid,
            });
        }
        for value in std::iter::once(request.value).chain(request.expect_old) {
            let (wanted, given) = (slot.value_type(), value.value_type());
            if wanted != given {
                return Err(WriterError::OtherType {
                    symbol: slot.location().symbol.clone(),
                    wanted,
                    given,
                });
            }
        }
        Ok(())
    }

    fn intent(&self, slot: &Slot, request: SetRequest, old: Bytes, new: Bytes, at: Instant) -> Intent {
        let location = slot.location();
        Intent {
            change: 0, // The journal gives the number.
            at,
            who: self.who.clone(),
            why: request.why,
            rule: request.rule,
            target: Target {
                pid: self.process.pid,
                boot: crate::journal::boot_id(),
                executable: self.process.executable.to_string_lossy().into_owned(),
            },
            module: location.module.path.clone(),
            build_id: location.module.build_id().cloned(),
            symbol: location.symbol.clone(),
            link_address: location.link_address,
            address: location.address,
            chain: location.chain.clone(),
            value_type: slot.value_type(),
            old,
            new,
        }
    }

    fn write(&mut self, slot: &Slot, intent: Intent) -> Result<(Option<u64>, Outcome), WriterError> {
        let (old, new) = (intent.old, intent.new);
        let change = self.journal.announce(intent)?;
        (self.hooks.after_intent)();
        let written = write::commit(slot, old, new);
        (self.hooks.after_write)();
        let outcome = match &written {
            Ok(found) if *found == new => Outcome::Applied,
            Ok(found) => Outcome::Overwritten(*found),
            Err(error) => Outcome::NotWritten(error.to_string()),
        };
        self.record_outcome(change, outcome.clone(), false)?;
        written?;
        Ok((Some(change), outcome))
    }

    fn write_back(&mut self, slot: &Slot, intent: &Intent) -> Result<RevertOutcome, WriterError> {
        let change = intent.change;
        self.journal.append(&Record::RevertIntent {
            change,
            at: clock::now(),
            who: self.who.clone(),
        })?;
        (self.hooks.after_intent)();
        let written = write::commit(slot, intent.new, intent.old);
        (self.hooks.after_write)();
        Ok(match written {
            Ok(found) if found == intent.old => RevertOutcome::Reverted,
            Ok(found) | Err(WriteError::Unexpected { found, .. }) => RevertOutcome::ChangedSince(found),
            Err(error) => RevertOutcome::Failed(error.to_string()),
        })
    }

    /// Settles by the target's memory what a crash of an earlier writer, or a full disk, left undecided.
    pub fn reconcile(&mut self) -> Result<(), WriterError> {
        let undecided = |change: &Change| matches!(change.status, Status::Pending | Status::RevertPending);
        let pending: Vec<Change> = self.changes().into_iter().filter(undecided).collect();
        if pending.is_empty() {
            return Ok(());
        }
        let space = AddressSpace::read(&self.process, &self.images)?;
        for Change { intent, status, .. } in pending {
            // Without the module there are no bytes to ask: it stays undecided, which is the truth.
            let Ok(location) = recorded(&space, &intent) else {
                continue;
            };
            let found = location.read(space.memory())?;
            let change = intent.change;
            match (status, settle(&intent, found)) {
                (Status::Pending, Settled::New) => self.record_outcome(change, Outcome::Applied, true),
                (Status::Pending, Settled::Old) => {
                    let why = "the writer ended before the write".to_owned();
                    self.record_outcome(change, Outcome::NotWritten(why), true)
                }
                (Status::Pending, Settled::Neither) => {
                    self.record_outcome(change, Outcome::Overwritten(found), true)
                }
                (_, Settled::Old) => self.record_revert(change, RevertOutcome::Reverted, true),
                (_, Settled::New) => {
                    let why = "the writer ended before the write".to_owned();
                    self.record_revert(change, RevertOutcome::Failed(why), true)
                }
                (_, Settled::Neither) => self.record_revert(change, RevertOutcome::ChangedSince(found), true),
            }?;
        }
        Ok(())
    }

    fn record_outcome(&mut self, change: u64, outcome: Outcome, recovered: bool) -> Result<(), WriterError> {
        Ok(self.journal.append(&Record::Outcome {
            change,
            at: clock::now(),
            outcome,
            recovered,
        })?)
    }

    fn record_revert(
        &mut self,
        change: u64,
        outcome: RevertOutcome,
        recovered: bool,
    ) -> Result<(), WriterError> {
        Ok(self.journal.append(&Record::RevertOutcome {
            change,
            at: clock::now(),
            outcome,
            recovered,
        })?)
    }
}

/// The place of a change, if the same file is still loaded at the same address, and pointers still lead there. The symbol is not
/// looked up again: another file that was loaded since could define it.
fn recorded(space: &AddressSpace, intent: &Intent) -> Result<Location, WriterError> {
    let root = intent.chain.as_ref().map_or(intent.address, |chain| chain.root);
    let is_it = |module: &&crate::module::Module| {
        module.path == intent.module
            && module.build_id() == intent.build_id.as_ref()
            && module.address(intent.link_address) == root
    };
    let module = space
        .modules
        .iter()
        .find(is_it)
        .ok_or_else(|| WriterError::ModuleGone {
            change: intent.change,
            module: intent.module.clone(),
        })?;
    let location = Location {
        symbol: intent.symbol.clone(),
        module: module.clone(),
        link_address: intent.link_address,
        address: intent.address,
        chain: intent.chain.clone(),
        size: intent.value_type.size() as u64,
        leaf: None,
        copied_from: None,
        is_confirmed: false,
    };
    match location.follow(|address| space.memory().word(address)) {
        Ok(address) if address == intent.address => Ok(location),
        _ => Err(WriterError::Moved {
            change: intent.change,
            symbol: intent.symbol.clone(),
        }),
    }
}
