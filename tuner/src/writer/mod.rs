//! A [`Writer`] holds the right to change one process: it announces, writes and records. It does not decide
//! about values. [`crate::revert`] opens and reverts.
//!
//! The order of every change: old bytes read → intent in the journal → write → read back → outcome in the
//! journal. `revert` records reverts in the journal.

mod error;
mod revert;

use std::sync::Arc;

use plan::{Bytes, SyncPoint, Value, ValueType};
use serde::{Deserialize, Serialize};

pub use error::WriterError;

use crate::author::Author;
use crate::clock::{self, Instant};
use crate::journal::{
    ActionRecord, Assignment, ChangeGroup, ChangedProcess, Intent, Journal, JournalChange, JournalRecord,
    Mechanism, Outcome, Reason, StateDir, WriteHold,
};
use crate::lock::WriterLock;
use crate::module::Images;
use crate::process::{Pid, Process};
use crate::space::AddressSpace;
use crate::sync::HoldStatistics;
use crate::writable_place::WritablePlace;
use crate::write::{self, Hooks, WriteError};

#[derive(Debug, Clone)]
pub struct SetRequest {
    pub value: Value,
    /// Write only if the variable holds this value now.
    pub expect_old: Option<Value>,
    /// Reasons, one per line.
    pub why: Vec<String>,
    /// The rule that orders it.
    pub rule: Option<String>,
}

/// The result of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its number in the journal; `None` if the variable already had the value and nothing was written.
    pub change: Option<u64>,
    /// The type of both values.
    pub value_type: ValueType,
    pub old: Bytes,
    pub new: Bytes,
    /// Nanoseconds for which the program was held.
    pub hold_ns: u64,
    pub mechanism: Mechanism,
    /// How it met its sync point, if it has one.
    pub passage: Option<HoldStatistics>,
    pub outcome: Outcome,
    pub at: Instant,
    /// Nanoseconds from reading the old value to the last record.
    pub duration_ns: u64,
    /// When the value had been written and read back, before the journal record, by CLOCK_MONOTONIC; with a
    /// sync point, when its report arrived.
    pub done_ns: u64,
}

/// A set that was announced and is not concluded yet.
#[derive(Debug)]
pub(crate) struct Announced {
    /// Its number; `None` if the variable already had the value.
    pub(crate) change: Option<u64>,
    pub(crate) old: Bytes,
    pub(crate) new: Bytes,
    value_type: ValueType,
    at: Instant,
    started_ns: u64,
}

/// The right to change one process.
#[derive(Debug)]
pub struct Writer {
    process: Process,
    journal: Journal,
    images: Arc<Images>,
    who: Author,
    pub(crate) hooks: Hooks,
    /// The newest change before this writer was opened. All later ones were made through it: while it holds
    /// the lock, no other process makes any.
    pub newest_before: u64,
    /// The session of this writer has ended or died, and reverts what it made.
    pub(crate) is_at_end: bool,
    /// The user has explicitly permitted to call functions whatever the program's seccomp filters may do.
    pub despite_seccomp: bool,
    pub(crate) setup: Option<Arc<crate::remote::RemoteSetup>>,
    _lock: WriterLock,
}

impl Writer {
    /// Takes the lock and opens the journal. Does not settle what a crash left undecided: `Writer::open`
    /// does.
    pub(crate) fn unsettled(
        process: Process,
        state: &StateDir,
        who: Author,
        images: Arc<Images>,
        hooks: Hooks,
    ) -> Result<Writer, WriterError> {
        let lock = WriterLock::acquire(process.pid)?;
        let journal = Journal::open(state, process.pid)?;
        let newest_before = journal.history().newest();
        Ok(Writer {
            process,
            journal,
            images,
            who,
            hooks,
            newest_before,
            is_at_end: false,
            despite_seccomp: false,
            setup: None,
            _lock: lock,
        })
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// All changes of this process, oldest first, including those of earlier sessions.
    pub fn changes(&self) -> Vec<JournalChange> {
        self.journal.history().changes()
    }

    /// As [`Writer::changes`], without copying.
    pub(crate) fn written(&self) -> impl Iterator<Item = &JournalChange> {
        self.journal.history().written()
    }

    /// Reads what others have written into the journal, so that the next change need not.
    pub(crate) fn look(&mut self) {
        // The next change reports the error.
        let _ = self.journal.refresh();
    }

    pub fn set(&mut self, place: &WritablePlace, request: SetRequest) -> Result<Receipt, WriterError> {
        let announced = self.announce_set(place, request, None, None)?;
        if announced.change.is_none() {
            return self.conclude(&announced, Ok(announced.new), None);
        }
        let written = self.commit(place, announced.old, announced.new);
        self.conclude(&announced, written, None)
    }

    /// The first half of a set: checks, and announces the write. Announces nothing if the variable already
    /// has the value.
    pub(crate) fn announce_set(
        &mut self,
        place: &WritablePlace,
        request: SetRequest,
        sync: Option<SyncPoint>,
        together: Option<ChangeGroup>,
    ) -> Result<Announced, WriterError> {
        let started_ns = clock::monotonic_ns();
        let (old, new) = self.values(place, &request)?;
        let at = clock::now();
        let change = match old == new {
            true => None,
            false => {
                let SetRequest { why, rule, .. } = request;
                let mut set = self.assignment(place, old, new);
                set.sync = sync;
                set.together = together;
                Some(self.write_down(ActionRecord::Set(set), Reason { why, rule }, at.clone())?)
            }
        };
        Ok(Announced {
            change,
            value_type: place.value_type(),
            old,
            new,
            at,
            started_ns,
        })
    }

    /// Warm-up of a set: performs its checks and reads, formats the line that would announce it, and does all
    /// of the write but the store. The journal is only read; the line goes to an unnamed file.
    pub(crate) fn warm_up_set(
        &self,
        place: &WritablePlace,
        request: SetRequest,
    ) -> Result<Bytes, WriterError> {
        let (old, new) = self.values(place, &request)?;
        let SetRequest { why, rule, .. } = request;
        let action = ActionRecord::Set(self.assignment(place, old, new));
        let intent = self.intent(action, Reason { why, rule }, clock::now());
        self.journal.warm_up(intent)?;
        Ok(write::warm_up(place, old, new)?)
    }

    /// The old and the new value, if the checks permit the set.
    fn values(&self, place: &WritablePlace, request: &SetRequest) -> Result<(Bytes, Bytes), WriterError> {
        self.check(place, request)?;
        let (old, new) = (place.read()?, request.value.to_bytes());
        let expected = request.expect_old.map_or(old, Value::to_bytes);
        if old != expected {
            let (pid, symbol) = (place.pid(), place.location().symbol.clone());
            return Err(WriteError::Unexpected {
                pid,
                symbol,
                value_type: place.value_type(),
                found: old,
                expected,
            }
            .into());
        }
        Ok((old, new))
    }

    /// The second half of a set: records its outcome.
    pub(crate) fn conclude(
        &mut self,
        announced: &Announced,
        written: Result<Bytes, WriteError>,
        hold: Option<WriteHold>,
    ) -> Result<Receipt, WriterError> {
        let done_ns = clock::monotonic_ns();
        let outcome = match &written {
            Ok(found) if *found == announced.new => Outcome::Applied,
            Ok(found) => Outcome::Overwritten(*found),
            Err(error) => Outcome::NotWritten(error.to_string()),
        };
        let hold = hold.unwrap_or(WriteHold::PLAIN);
        if let Some(change) = announced.change {
            self.record_outcome(change, outcome.clone(), Some(hold))?;
        }
        written?;
        Ok(Receipt {
            change: announced.change,
            value_type: announced.value_type,
            old: announced.old,
            new: announced.new,
            hold_ns: hold.hold_ns,
            mechanism: hold.mechanism,
            passage: hold.passage,
            outcome,
            at: announced.at.clone(),
            duration_ns: clock::monotonic_ns().saturating_sub(announced.started_ns),
            done_ns,
        })
    }

    /// Records that what was announced was not written, and why.
    pub(crate) fn abandon(
        &mut self,
        announced: &Announced,
        why: &str,
        hold: Option<WriteHold>,
    ) -> Result<(), WriterError> {
        match announced.change {
            Some(change) => {
                let hold = hold.unwrap_or(WriteHold::PLAIN);
                self.record_outcome(change, Outcome::NotWritten(why.to_owned()), Some(hold))
            }
            None => Ok(()),
        }
    }

    /// Records that a change is an improvement.
    pub fn confirm(&mut self, change: u64) -> Result<(), WriterError> {
        self.known(change)?;
        Ok(self.journal.append(JournalRecord::Confirmed {
            change,
            at: clock::now(),
        })?)
    }

    pub(crate) fn known(&self, change: u64) -> Result<JournalChange, WriterError> {
        let pid = self.process.pid;
        self.journal
            .change(change)
            .ok_or(WriterError::NoSuchChange { pid, change })
    }

    fn check(&self, place: &WritablePlace, request: &SetRequest) -> Result<(), WriterError> {
        if place.pid() != self.process.pid {
            return Err(WriterError::OtherProcess {
                place: place.pid(),
                writer: self.process.pid,
            });
        }
        for value in std::iter::once(request.value).chain(request.expect_old) {
            let (wanted, given) = (place.value_type(), value.value_type());
            if wanted != given {
                return Err(WriterError::OtherType {
                    symbol: place.location().symbol.clone(),
                    wanted,
                    given,
                });
            }
        }
        Ok(())
    }

    fn assignment(&self, place: &WritablePlace, old: Bytes, new: Bytes) -> Assignment {
        let location = place.location();
        Assignment {
            module: location.module.path.clone(),
            build_id: location.module.build_id().cloned(),
            symbol: location.symbol.clone(),
            link_address: location.link_address,
            address: location.address,
            chain: location.chain.clone(),
            value_type: place.value_type(),
            old,
            new,
            sync: None,
            together: None,
        }
    }

    pub(crate) fn commit(
        &self,
        place: &WritablePlace,
        expected: Bytes,
        new: Bytes,
    ) -> Result<Bytes, WriteError> {
        self.hooks
            .around(|| write::commit(place, expected, new, self.hooks.before_store))
    }

    /// Records an action that follows at once, and returns its number.
    pub(crate) fn announce(
        &mut self,
        action: ActionRecord,
        reason: Reason,
        at: Instant,
    ) -> Result<u64, WriterError> {
        let change = self.write_down(action, reason, at)?;
        (self.hooks.after_intent)();
        Ok(change)
    }

    fn write_down(&mut self, action: ActionRecord, reason: Reason, at: Instant) -> Result<u64, WriterError> {
        let intent = self.intent(action, reason, at);
        Ok(self.journal.announce(intent)?)
    }

    /// Records a value that the process has inherited by fork: it is in memory, and was not written there.
    pub(crate) fn inherit(
        &mut self,
        parent: Pid,
        change: &JournalChange,
        set: Assignment,
    ) -> Result<u64, WriterError> {
        let number = change.intent.change;
        let reason = Reason {
            why: vec![format!(
                "it was forked from process {parent} while change {number} was in force there"
            )],
            rule: change.intent.rule.clone(),
        };
        let change = self.write_down(ActionRecord::Set(set), reason, clock::now())?;
        self.recover_outcome(change, Outcome::Applied)?;
        Ok(change)
    }

    fn intent(&self, action: ActionRecord, reason: Reason, at: Instant) -> Intent {
        let Reason { why, rule } = reason;
        Intent {
            change: 0, // The journal gives the number.
            at,
            who: self.who.clone(),
            why,
            rule,
            target: ChangedProcess {
                pid: self.process.pid,
                boot: crate::journal::boot_id().to_owned(),
                executable: self.process.executable.to_string_lossy().into_owned(),
            },
            action,
        }
    }

    /// The current mappings and modules.
    pub(crate) fn space(&self) -> Result<AddressSpace, WriterError> {
        Ok(AddressSpace::read(&self.process, &self.images)?)
    }

    /// As [`Writer::space`], with the memory that validates places in it.
    pub(crate) fn space_and_memory(
        &self,
    ) -> Result<(AddressSpace, crate::place::ProcessMemory), WriterError> {
        use crate::place::{PlaceError, ProcessMemory};
        match ProcessMemory::with_space(&self.process, &self.images) {
            Ok(both) => Ok(both),
            Err(PlaceError::Space(error)) => Err(error.into()),
            Err(error) => Err(crate::error::ActionError::from(error).into()),
        }
    }

    pub(crate) fn record_outcome(
        &mut self,
        change: u64,
        outcome: Outcome,
        hold: Option<WriteHold>,
    ) -> Result<(), WriterError> {
        Ok(self.journal.append(JournalRecord::Outcome {
            change,
            at: clock::now(),
            outcome,
            recovered: false,
            hold,
        })?)
    }

    pub(crate) fn record(&mut self, record: JournalRecord) -> Result<(), WriterError> {
        Ok(self.journal.append(record)?)
    }

    pub(crate) fn recover_outcome(&mut self, change: u64, outcome: Outcome) -> Result<(), WriterError> {
        Ok(self.journal.append(JournalRecord::Outcome {
            change,
            at: clock::now(),
            outcome,
            recovered: true,
            hold: None,
        })?)
    }
}
