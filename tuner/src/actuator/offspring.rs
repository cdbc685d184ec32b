//! Processes that were forked from a changed one have its values in their memory, though nobody wrote them there. When a value is taken
//! back, it is in those too that descend from it and run what they were forked from.
//!
//! Values with a place in the program are not looked for: nobody knows whether such a process comes there. Neither are code and CPUs.

use std::fs;

use super::Refusal;
use super::session::Session;
use super::undoing::Tried;
use crate::address::Address;
use crate::journal::{Assignment, Change, Deed, Status};
use crate::memory::Memory;
use crate::process::{Pid, Process, auxiliary, descendants};
use crate::space::AddressSpace;
use crate::writer::{Attempt, has_inherited};

/// More are not looked at.
const OFFSPRING_MAX: usize = 4096;

/// The random bytes that the kernel gives each program when it begins. A fork copies them.
type Mark = [u8; 16];

impl Session {
    /// Takes values back that were taken back in their process a moment ago: whoever it forks from now on has the old ones.
    pub(super) fn undo_in_offspring(&mut self, parent: Pid, changes: &[u64]) -> Vec<(Pid, Tried)> {
        let descendants = descendants(parent.number, OFFSPRING_MAX);
        if descendants.is_empty() {
            return Vec::new();
        }
        let known = self.writer(parent).map(|writer| writer.changes());
        let known = known.unwrap_or_default().into_iter().rev();
        let back: Vec<Change> = known
            .filter(|known| changes.contains(&known.intent.change) && is_back(known))
            .collect();
        let mark = self.open(parent).ok().and_then(|parent| mark(&parent));
        if back.is_empty() || mark.is_none() {
            return Vec::new();
        }
        let children = descendants
            .into_iter()
            .filter_map(|number| Process::open(number).ok());
        let forked: Vec<Pid> = children
            .filter(|child| self::mark(child) == mark)
            .map(|child| child.pid)
            .collect();
        let mut done = Vec::new();
        for child in forked {
            for (change, set) in back.iter().filter_map(|change| Some((change, plain(change)?))) {
                let attempt = match self.undo_inherited(parent, child, (change, set)) {
                    // It has ended in this very moment.
                    Err(_) if !child.is_alive() => None,
                    Err(refusal) => Some(Tried {
                        change: change.intent.change,
                        result: Err(refusal),
                    }),
                    Ok(attempt) => attempt,
                };
                done.extend(attempt.map(|attempt| (child, attempt)));
            }
        }
        done
    }

    /// None where it holds something else than was written.
    fn undo_inherited(
        &mut self,
        parent: Pid,
        child: Pid,
        (change, set): (&Change, &Assignment),
    ) -> Result<Option<Tried>, Refusal> {
        let space = AddressSpace::read(&self.open(child)?, &self.images())?;
        if !has_inherited(&space, set) {
            return Ok(None);
        }
        let writer = self.writer(child)?;
        let change = writer.inherit(parent, change, set.clone())?;
        let result = writer.undo(change);
        Ok(Some(Attempt { change, result }.into()))
    }
}

/// A value that is written at any instant.
fn plain(change: &Change) -> Option<&Assignment> {
    match &change.intent.deed {
        Deed::Set(set) if set.sync.is_none() && set.together.is_none() => Some(set),
        _ => None,
    }
}

fn is_back(change: &Change) -> bool {
    plain(change).is_some() && matches!(change.status, Status::Reverted | Status::ChangedSince)
}

/// None of a process that cannot be looked into.
fn mark(process: &Process) -> Option<Mark> {
    let vector = fs::read(process.pid.proc_path("auxv")).ok()?;
    let address = Address(auxiliary(&vector, libc::AT_RANDOM)?);
    let mut mark = Mark::default();
    Memory::open(process).ok()?.read(address, &mut mark).ok()?;
    Some(mark)
}
