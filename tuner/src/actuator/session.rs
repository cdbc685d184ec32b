//! One session: the writers it opened, and what each command does with them.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use plan::{Literal, ValueError, ValueType};
use serde::Serialize;

use super::reverting::Tried;
use super::stand_in::{self, Note};
use super::waiting::Waiting;
use super::{
    ActCommand, ActuatorAnswer, ActuatorCommand, ActuatorRefusalKind, ChangeNumber, GetCommand, Hello,
    REPLY_BYTES_MAX, Refusal, RevertSummary, ServeOptions, SetCommand, SetWarmUp, VariableReading,
};
use crate::author::Author;
use crate::journal::{JournalChange, StateDir, Status};
use crate::memory::Memory;
use crate::module::Images;
use crate::process::{Pid, Process, ProcessError};
use crate::space::{AddressSpace, read_maps};
use crate::variable::{Location, VariableName};
use crate::writable_place::WritablePlace;
use crate::write;
use crate::writer::{SetRequest, Writer, WriterError};

/// Resolved variables in the cache, which is cleared when full. Resolving one reads debug information, which
/// can take long.
const LOCATIONS_MAX: usize = 4_096;
/// Validated slots that are kept for the next write; each holds two files open. Others are validated each
/// time.
const SLOTS_MAX: usize = 256;

/// Slots and processes that are refreshed when a write is expected.
const EXPECTED_MAX: usize = 4;

/// A variable of a process, and the type that the request stated.
pub(super) type Stated = (Pid, VariableName, Option<ValueType>);

pub(super) struct Session {
    keep: bool,
    despite_seccomp: bool,
    state: StateDir,
    who: Author,
    options: ServeOptions,
    stand_in: Option<UnixStream>,
    images: Arc<Images>,
    pub(super) writers: BTreeMap<Pid, Writer>,
    locations: HashMap<(Pid, VariableName), Location>,
    pub(super) slots: HashMap<Stated, WritablePlace>,
    pub(super) waiting: Waiting,
    /// Processes that may have inherited a reverted change, and why they were not changed: reported at the
    /// end.
    pub(super) left_alone: Vec<(Pid, Refusal)>,
}

impl Session {
    pub(super) fn new(hello: Hello, options: ServeOptions, mut stand_in: Option<UnixStream>) -> Session {
        stand_in::tell(stand_in.as_mut(), &Note::Begun(hello.clone()));
        Session {
            keep: hello.keep,
            despite_seccomp: hello.despite_seccomp,
            state: StateDir::at(hello.state_dir),
            who: hello.who,
            options,
            stand_in,
            images: Arc::new(Images::new()),
            writers: BTreeMap::new(),
            locations: HashMap::new(),
            slots: HashMap::new(),
            waiting: Waiting::new(options),
            left_alone: Vec::new(),
        }
    }

    pub(super) fn execute(&mut self, command: ActuatorCommand) -> Result<ActuatorAnswer, Refusal> {
        match command {
            ActuatorCommand::Set(set) => self.set(*set),
            ActuatorCommand::Check(set) => self.check(*set),
            ActuatorCommand::Arm(arm) => self.arm(*arm).map(|ticket| ActuatorAnswer::Armed { ticket }),
            ActuatorCommand::ArmAct(arm) => self.arm_act(*arm).map(|ticket| ActuatorAnswer::Armed { ticket }),
            ActuatorCommand::Together(together) => {
                let tickets = self.arm_together(*together)?;
                Ok(ActuatorAnswer::ArmedTogether { tickets })
            }
            ActuatorCommand::Collect => Ok(ActuatorAnswer::Collected(self.collect())),
            ActuatorCommand::Disarm { ticket } => {
                self.disarm(ticket);
                Ok(ActuatorAnswer::Disarmed)
            }
            ActuatorCommand::Act(act) => {
                let ActCommand { pid, action, reason } = *act;
                Ok(ActuatorAnswer::Acted(Box::new(
                    self.writer(pid)?.act(&action, reason)?,
                )))
            }
            ActuatorCommand::Get(get) => self.get(get),
            ActuatorCommand::Confirm(ChangeNumber { pid, change }) => {
                self.writer(pid)?.confirm(change)?;
                Ok(ActuatorAnswer::Confirmed)
            }
            ActuatorCommand::Revert { changes } => {
                let (each, inherited) = self.revert_these(&changes);
                Ok(ActuatorAnswer::Reverted { each, inherited })
            }
            ActuatorCommand::RevertAll { pids } => {
                Ok(ActuatorAnswer::RevertedAll(self.revert_processes(pids)))
            }
            ActuatorCommand::Changes { pid } => {
                let mut changes = self.state.history(pid).map_err(WriterError::from)?.changes();
                let omitted = keep_newest(&mut changes, REPLY_BYTES_MAX / 2);
                Ok(ActuatorAnswer::Changes { changes, omitted })
            }
            ActuatorCommand::Hello(_) | ActuatorCommand::Shutdown | ActuatorCommand::Expect(_) => {
                Err(Refusal {
                    kind: ActuatorRefusalKind::Protocol,
                    message: "the session has begun already".to_owned(),
                })
            }
        }
    }

    fn set(&mut self, command: SetCommand) -> Result<ActuatorAnswer, Refusal> {
        let (pid, stated) = (command.pid, stated(&command));
        let (place, request) = self.prepare(command)?;
        let receipt = self.writer(pid)?.set(&place, request)?;
        // After a failed write the variable is resolved and validated again.
        self.keep_checked(stated, place);
        Ok(ActuatorAnswer::Set(Box::new(receipt)))
    }

    fn check(&mut self, command: SetCommand) -> Result<ActuatorAnswer, Refusal> {
        let stated = stated(&command);
        let (slot, _) = self.prepare(command)?;
        self.keep_checked(stated, slot);
        Ok(ActuatorAnswer::Possible)
    }

    /// A set may follow at once, perhaps this one. Reads in advance what it will read, to make it quick.
    /// Nothing is concluded from this, except that for some milliseconds no debugger is attached to the
    /// process.
    pub(super) fn expect(&mut self, like: Option<SetWarmUp>) {
        for place in self.slots.values_mut().take(EXPECTED_MAX) {
            place.look();
        }
        for writer in self.writers.values_mut().take(EXPECTED_MAX) {
            writer.look();
        }
        // Last, so that the caches have what the set will use.
        if let Some(like) = like {
            self.warm_up(like);
        }
    }

    /// All steps of a set before its announcement.
    pub(super) fn prepare(&mut self, command: SetCommand) -> Result<(WritablePlace, SetRequest), Refusal> {
        // Before anything is resolved: a missing right to write must be reported first.
        self.writer(command.pid)?;
        let stated = stated(&command);
        let place = match self.slots.remove(&stated) {
            Some(place) => {
                place.check_untraced()?;
                place
            }
            None => self.validated(&stated)?,
        };
        let request = requested(command, &place)?;
        Ok((place, request))
    }

    fn validated(&mut self, stated: &Stated) -> Result<WritablePlace, Refusal> {
        let (pid, name, value_type) = stated;
        let known = self.locations.get(&(*pid, name.clone()));
        // If no pointer leads to it, the validation covers all that is cached: whether its file is still
        // loaded at the same address need not be checked before.
        let known = known.filter(|known| known.chain.is_none());
        if let Some(Ok(place)) = known.map(|known| WritablePlace::validate(known, *value_type)) {
            return Ok(place);
        }
        Ok(WritablePlace::validate(&self.locate(*pid, name)?, *value_type)?)
    }

    /// A cached location is valid as long as its file is still loaded at the same address.
    fn locate(&mut self, pid: Pid, name: &VariableName) -> Result<Location, Refusal> {
        let key = (pid, name.clone());
        if let Some(known) = self.locations.get(&key)
            && known.module.is_still_in(&read_maps(pid)?)
        {
            return Ok(known.clone());
        }
        let space = AddressSpace::read(&self.open(pid)?, &self.images)?;
        let location = space.variable(name)?;
        if self.locations.len() >= LOCATIONS_MAX {
            self.locations.clear();
        }
        self.locations.insert(key, location.clone());
        Ok(location)
    }

    fn get(&mut self, command: GetCommand) -> Result<ActuatorAnswer, Refusal> {
        let GetCommand {
            pid,
            variable,
            module,
            value_type,
        } = command;
        let name = VariableName {
            name: variable,
            module,
        };
        let location = self.locate(pid, &name)?;
        let bytes = location.read(&Memory::open(&self.open(pid)?)?)?;
        self.prefetch((pid, name, value_type));
        Ok(ActuatorAnswer::Value(VariableReading {
            value_type: value_type.or(location.value_type()),
            bytes,
            size: location.size,
            module: location.module.path.clone(),
            address: location.address,
        }))
    }

    /// A variable that is read may be written next: validates its place in advance. A missing right to write
    /// is reported only at the write.
    fn prefetch(&mut self, stated: Stated) {
        write::look();
        // If the process has executed another program, the kept place is worthless.
        self.slots.remove(&stated);
        if let Ok(place) = self.validated(&stated) {
            self.keep_checked(stated, place);
        }
    }

    /// Keeps the place for the next write, if it stays valid and there is room.
    fn keep_checked(&mut self, stated: Stated, place: WritablePlace) {
        if place.stays() && self.slots.len() < SLOTS_MAX {
            self.slots.insert(stated, place);
        }
    }

    pub(super) fn open(&self, pid: Pid) -> Result<Process, Refusal> {
        let process = pid.open()?;
        match self.options.only_user {
            Some(user) if process.uid != user => Err(Refusal {
                kind: ActuatorRefusalKind::NotPermitted,
                message: format!(
                    "process {pid} belongs to {}: the capabilities of this program's file are lent for your own processes",
                    process.user()
                ),
            }),
            _ => Ok(process),
        }
    }

    pub(super) fn images(&self) -> Arc<Images> {
        Arc::clone(&self.images)
    }

    /// The writer of a process is opened at its first use and kept until the end of the session.
    pub(super) fn writer(&mut self, pid: Pid) -> Result<&mut Writer, Refusal> {
        if !self.writers.contains_key(&pid) {
            self.writers.retain(|_, writer| writer.process().is_alive());
            let (who, images) = (self.who.clone(), self.images());
            let mut writer = Writer::open(self.open(pid)?, &self.state, who, images, self.options.hooks)?;
            writer.despite_seccomp = self.despite_seccomp;
            let newest_before = writer.newest_before;
            stand_in::tell(self.stand_in.as_mut(), &Note::Opened { pid, newest_before });
            self.writers.insert(pid, writer);
        }
        let writer = self.writers.get_mut(&pid);
        writer.ok_or_else(|| ProcessError::Ended { pid }.into())
    }

    /// Reverts all changes of these processes.
    fn revert_processes(&mut self, pids: Vec<Pid>) -> RevertSummary {
        self.disarm_all(|waiting| pids.contains(&waiting));
        let mut summary = RevertSummary::default();
        for (pid, tried) in self.revert_all(pids, &|_, _| true) {
            match tried {
                Ok(tried) => {
                    summary.add(pid, tried);
                    if let Ok(writer) = self.writer(pid) {
                        summary.add_undecided(pid, writer.changes());
                    }
                }
                Err(refusal) => summary.refused.push((pid, refusal)),
            }
        }
        summary.refused.append(&mut self.left_alone);
        summary.shorten();
        summary
    }

    /// Reverts what this session changed, except changes to keep, and then releases all processes.
    pub(super) fn finish(&mut self) -> RevertSummary {
        self.disarm_all(|_| true);
        let keep = self.keep;
        let mut summary = RevertSummary::default();
        // A process that ended took its changes with it.
        self.writers.retain(|_, writer| writer.process().is_alive());
        let mut newest_before = BTreeMap::new();
        for (pid, writer) in &mut self.writers {
            // Undecided after a full disk; if this fails too, the next writer retries.
            let _ = writer.reconcile();
            newest_before.insert(*pid, writer.newest_before);
            writer.is_at_end = true;
        }
        let is_mine = |pid: Pid, change: &JournalChange| {
            newest_before
                .get(&pid)
                .is_some_and(|before| change.intent.change > *before)
        };
        let must_revert =
            |pid: Pid, change: &JournalChange| is_mine(pid, change) && !(keep && change.confirmed);
        let results = self.revert_all(newest_before.keys().copied().collect(), &must_revert);
        for (pid, result) in results {
            let Some(writer) = self.writers.remove(&pid) else {
                continue;
            };
            let changes = writer.changes();
            let in_force = changes
                .iter()
                .filter(|change| is_mine(pid, change) && change.status == Status::Applied);
            let in_force = in_force.map(|change| ChangeNumber {
                pid,
                change: change.intent.change,
            });
            match result {
                Ok(attempts) => {
                    summary.add(pid, attempts);
                    summary.kept.extend(in_force);
                    let mine = changes.iter().filter(|change| is_mine(pid, change));
                    summary.add_undecided(pid, mine.cloned());
                }
                // It ended just now.
                Err(_) if !writer.process().is_alive() => {}
                Err(error) => {
                    // Changes to keep cannot be distinguished from the others here: all are listed.
                    summary
                        .failed
                        .extend(in_force.map(|number| (number, error.clone())));
                }
            }
        }
        summary.refused.append(&mut self.left_alone);
        summary.shorten();
        stand_in::tell(self.stand_in.take().as_mut(), &Note::Finished);
        summary
    }
}

/// The key under which its validated place is kept.
pub(super) fn stated(command: &SetCommand) -> Stated {
    let name = VariableName {
        name: command.variable.clone(),
        module: command.module.clone(),
    };
    (command.pid, name, command.value_type)
}

/// Converts the values of a set to the type of the place.
pub(super) fn requested(command: SetCommand, place: &WritablePlace) -> Result<SetRequest, ValueError> {
    let SetCommand {
        value,
        expect_old,
        why,
        rule,
        ..
    } = command;
    let typed = |literal: Literal| literal.of_type(place.value_type());
    Ok(SetRequest {
        value: typed(value)?,
        expect_old: expect_old.map(typed).transpose()?,
        why,
        rule,
    })
}

/// A panic of ours must not leave changes behind either.
impl Drop for Session {
    fn drop(&mut self) {
        self.finish();
    }
}

impl RevertSummary {
    pub fn extend(&mut self, other: RevertSummary) {
        self.reverted.extend(other.reverted);
        self.failed.extend(other.failed);
        self.refused.extend(other.refused);
        self.kept.extend(other.kept);
        self.omitted += other.omitted;
    }

    pub(super) fn add(&mut self, pid: Pid, tried: Vec<Tried>) {
        for Tried { change, result } in tried {
            match result {
                Ok(reverted) => self.reverted.push((pid, reverted)),
                Err(refusal) => self.failed.push((ChangeNumber { pid, change }, refusal)),
            }
        }
    }

    /// Adds changes whose state is still unknown, such as calls that have not returned: nothing was tried.
    fn add_undecided(&mut self, pid: Pid, changes: impl IntoIterator<Item = JournalChange>) {
        for change in changes {
            let number = change.intent.change;
            let is_reported = self
                .reverted
                .iter()
                .any(|(of, reverted)| (*of, reverted.change) == (pid, number))
                || self
                    .failed
                    .iter()
                    .any(|(of, _)| (of.pid, of.change) == (pid, number));
            if is_reported || !matches!(change.status, Status::Pending | Status::RevertPending) {
                continue;
            }
            let refusal = Refusal {
                kind: ActuatorRefusalKind::Busy,
                message: format!(
                    "{} has not finished, so that it is not known whether it is in force; run undo later to find out",
                    change.intent.action
                ),
            };
            self.failed.push((ChangeNumber { pid, change: number }, refusal));
        }
    }

    pub(super) fn shorten(&mut self) {
        let share = REPLY_BYTES_MAX / 8;
        self.omitted += keep_newest(&mut self.reverted, share)
            + keep_newest(&mut self.failed, share)
            + keep_newest(&mut self.refused, share)
            + keep_newest(&mut self.kept, share);
    }
}

/// Drops entries from the front until the rest takes at most `bytes_max` as JSON. Returns how many it
/// dropped.
pub(super) fn keep_newest<T: Serialize>(list: &mut Vec<T>, bytes_max: usize) -> usize {
    let mut left = bytes_max;
    let fits = |item: &&T| {
        let size = serde_json::to_string(item).map_or(usize::MAX, |text| text.len() + 1);
        left.checked_sub(size).map(|rest| left = rest).is_some()
    };
    let fitting = list.iter().rev().take_while(fits).count();
    let omitted = list.len() - fitting;
    list.drain(..omitted);
    omitted
}
