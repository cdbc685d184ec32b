//! Writes and reverts a change of code: journal, our memory, all threads held, bytes, read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plan::{Bytes, PatchRequest};

use super::bytes::{self, CodePlan};
use super::call::nanoseconds;
use super::function::PlanContext;
use super::progress;
use super::{ActionOutcome, ActionReceipt, Reason};
use crate::arena::Arena;
use crate::clock;
use crate::error::ActionError;
use crate::journal::{
    ActionRecord, JournalChange, Mechanism, Outcome, Patch, PatchedBytes, RevertOutcome, Status, WriteHold,
};
use crate::place::{CodeState, Place, ProcessMemory};
use crate::process::Process;
use crate::ptrace::{self, HeldThread, Stopped};
use crate::remote::{self, HeldResult, RemoteSetup, STOP_WAIT, Task, ThreadSearch, Worker};
use crate::space::AddressSpace;
use crate::write::{self, HeldThreads};
use crate::writer::{Writer, WriterError};

impl Writer {
    /// Changes code, or the tables through which functions are called.
    pub fn patch(&mut self, request: &PatchRequest, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let at = clock::now();
        ptrace::refuse_traced(self.process().pid).map_err(ActionError::from)?;
        let (space, memory) = self.space_and_memory()?;
        let setup = RemoteSetup::of(&space, &mut self.setup)?;
        let extended_bytes = match request {
            PatchRequest::InsertCall { .. } => extended_bytes(&setup, self.process())?,
            _ => 0,
        };
        let context = PlanContext::new(&space, &memory, self.written());
        let mut plan = bytes::make(&context, request, extended_bytes)?;
        if let Some(arena) = &mut plan.patch.arena {
            arena.despite_seccomp = self.despite_seccomp;
        }
        let change = self.announce(ActionRecord::Patch(plan.patch.clone()), reason, at.clone())?;
        let (process, underway) = (self.process(), self.hooks.underway);
        let is_prepared = AtomicBool::new(plan.patch.arena.is_none());
        let applied = remote::insist(|| {
            if !is_prepared.load(Ordering::Relaxed) {
                if let PatchRequest::InsertCall { function, .. } = request {
                    remote::refuse_function(process, &function.name, self.despite_seccomp)?;
                }
                prepare(process, &memory, &setup, &plan, underway)?;
                is_prepared.store(true, Ordering::Relaxed);
            }
            apply(process, &space, &memory, &setup, &plan, underway)
        });
        (self.hooks.after_write)();
        let (mechanism, held) = match applied {
            Ok(applied) => applied,
            Err(error) => {
                let is_new = |(place, site): &(Place, &PatchedBytes)| {
                    place.read().is_ok_and(|found| found == site.new.0)
                };
                if places(&space, &memory, change, &plan.patch).is_ok_and(|all| all.iter().any(is_new)) {
                    return self.revert_rest(change, error);
                }
                self.record_outcome(change, Outcome::NotWritten(error.to_string()), None)?;
                self.sweep_arena(plan.patch.arena.as_ref(), &setup);
                return Err(error.into());
            }
        };
        let hold = WriteHold::of(mechanism, nanoseconds(held));
        self.record_outcome(change, Outcome::Applied, Some(hold))?;
        let text = plan.patch.symbol;
        Ok(ActionReceipt::new(change, text, ActionOutcome::InForce, hold, at))
    }

    /// Reverts what a failed change has left. A place that could not be restored leads into our memory, so the
    /// change is in force until it is.
    fn revert_rest(&mut self, change: u64, error: ActionError) -> Result<ActionReceipt, WriterError> {
        self.record_outcome(change, Outcome::Applied, None)?;
        let receipt = self.revert(change)?;
        Err(match receipt.outcome {
            RevertOutcome::Reverted => error.into(),
            _ => ActionError::Unreverted {
                change,
                error: Box::new(error),
            }
            .into(),
        })
    }

    /// Restores the old bytes where ours are still in place, and unmaps our memory.
    pub(crate) fn revert_patch(&mut self, change: u64, patch: &Patch) -> Result<RevertOutcome, WriterError> {
        let (space, memory) = self.space_and_memory()?;
        let setup = RemoteSetup::of(&space, &mut self.setup)?;
        let places = places(&space, &memory, change, patch)?;
        self.announce_revert(change, None)?;
        let (process, underway) = (self.process(), self.hooks.underway);
        let arena = patch.arena.filter(|arena| remote::is_ours(&memory, arena));
        let back = RevertContext {
            process,
            memory: &memory,
            setup: &setup,
            places: &places,
            arena,
        };
        let reverted = remote::insist(|| back.revert(underway));
        (self.hooks.after_write)();
        Ok(match reverted {
            Ok(Reverted { other: None, left }) => {
                self.sweep_arena(left.as_ref(), &setup);
                RevertOutcome::Reverted
            }
            Ok(Reverted {
                other: Some(found), ..
            }) => RevertOutcome::ChangedSince(found),
            Err(error) => RevertOutcome::Failed(error.to_string()),
        })
    }

    /// Determines by the memory what a crash left of a change of code.
    pub(crate) fn settle_patch(
        &mut self,
        space: &AddressSpace,
        known: &JournalChange,
        patch: &Patch,
    ) -> Result<(), WriterError> {
        let change = known.intent.change;
        let memory = ProcessMemory::open(space.process.pid).map_err(ActionError::from)?;
        // Without the modules there are no bytes to compare: it stays undecided.
        let Ok(places) = places(space, &memory, change, patch) else {
            return Ok(());
        };
        let mut written = 0;
        for (place, site) in &places {
            written += usize::from(place.read().map_err(ActionError::from)? == site.new.0);
        }
        let ended = || "the writer ended before the code was changed".to_owned();
        match (known.status, written) {
            (Status::Pending, 0) => self.recover_outcome(change, Outcome::NotWritten(ended())),
            // Even if it is partial: it can be reverted.
            (Status::Pending, _) => self.recover_outcome(change, Outcome::Applied),
            (_, 0) => self.record_revert(change, RevertOutcome::Reverted, true, None),
            (_, _) => self.record_revert(change, RevertOutcome::Failed(ended()), true, None),
        }
    }

    /// Unmaps memory of ours that no change in force needs, left by a crash or because a thread was in it.
    /// Keeps that of a call that the program left by a jump.
    pub(crate) fn sweep(&mut self, space: &AddressSpace) -> Result<(), WriterError> {
        let is_call = |change: &JournalChange| {
            matches!(
                change.intent.action,
                ActionRecord::Call(_) | ActionRecord::Load(_)
            )
        };
        let finished = |change: &JournalChange| {
            matches!(change.status, Status::Failed | Status::Reverted | Status::Done)
                || (is_call(change) && !matches!(change.status, Status::Pending))
        };
        // A call that reverts a change still uses its memory, which alone has the result.
        let reverting = |change: &JournalChange| match change.status {
            Status::RevertPending => None,
            _ => change.revert_arena,
        };
        let memory = ProcessMemory::open(self.process().pid).map_err(ActionError::from)?;
        let of_change = |change: &JournalChange| {
            let (is_call, memory) = (is_call(change), &memory);
            let is_needed = move |arena: &Arena| is_call && progress::may_come_back(memory, arena);
            [change.intent.action.arena().copied(), reverting(change)]
                .into_iter()
                .flatten()
                .filter(move |arena| arena.is_in(&space.maps) && !is_needed(arena))
        };
        let changes = self.changes();
        let finished = changes.iter().filter(|change| finished(change));
        let mapped: Vec<_> = finished.flat_map(of_change).collect();
        if mapped.is_empty() {
            return Ok(());
        }
        let setup = RemoteSetup::of(space, &mut self.setup)?;
        for arena in mapped {
            self.sweep_arena(Some(&arena), &setup);
        }
        Ok(())
    }

    /// Skips an arena that is in use; a later sweep takes it.
    fn sweep_arena(&self, arena: Option<&Arena>, setup: &Arc<RemoteSetup>) {
        let Some(arena) = arena else { return };
        let process = self.process();
        let _: Result<(), ActionError> = remote::insist(|| {
            let memory = ProcessMemory::open(process.pid)?;
            match remote::is_ours(&memory, arena) {
                true => remote::unmap(process, &memory, &setup.gate, arena),
                false => Ok(()),
            }
        });
    }
}

/// Bytes of a thread's extended state, which is the same for all threads of a machine.
fn extended_bytes(setup: &RemoteSetup, process: &Process) -> Result<usize, ActionError> {
    if let Some(known) = setup.extended_bytes.get() {
        return Ok(*known);
    }
    let pid = process.pid;
    let found = ptrace::apart(|| {
        let state = HeldThread::stop(pid, pid.number, STOP_WAIT)?.extended_state()?;
        Ok::<usize, ActionError>(state.len())
    })?;
    Ok(*setup.extended_bytes.get_or_init(|| found))
}

/// Maps our memory and fills it.
fn prepare(
    process: &Process,
    memory: &ProcessMemory,
    setup: &RemoteSetup,
    plan: &CodePlan,
    underway: fn(),
) -> Result<(), ActionError> {
    if let Some(arena) = &plan.patch.arena {
        let search = ThreadSearch {
            process,
            memory,
            gate: &setup.gate,
            task: Task::Map(arena),
            only: None,
            within: remote::TRY_WAIT,
        };
        let map = |mut thread: Worker<'_>| {
            thread.map(arena)?;
            underway();
            let mut memory = memory.clone();
            memory.refresh()?;
            remote::fill(&memory, arena, arena.address, &plan.code, thread.thread())?;
            underway();
            thread.end()
        };
        search.work(|_| None, map)?;
    }
    Ok(())
}

/// Holds all threads and writes the bytes.
fn apply(
    process: &Process,
    space: &AddressSpace,
    memory: &ProcessMemory,
    setup: &RemoteSetup,
    plan: &CodePlan,
    underway: fn(),
) -> Result<(Mechanism, Duration), ActionError> {
    let mut places = Vec::new();
    for site in &plan.patch.sites {
        places.push((place(space, memory, &plan.patch.symbol, site)?, site));
    }
    let is_plain = !plan.is_unbound && plan.patch.sites.iter().all(|site| !site.is_code);
    if is_plain && memory.may_override() {
        write_all(&places, underway, HeldThreads::None)?;
        return Ok((Mechanism::Plain, Duration::ZERO));
    }
    let written = remote::with_all(process, |stopped| {
        match keeps_from_changing(stopped, memory, setup, plan)? {
            Some(why) => Ok(HeldResult::Hindered(why)),
            None => write_all(&places, underway, HeldThreads::All(stopped)).map(HeldResult::Done),
        }
    });
    written.map(|((), held)| (Mechanism::HoldAll, held))
}

fn keeps_from_changing(
    stopped: &Stopped,
    memory: &ProcessMemory,
    setup: &RemoteSetup,
    plan: &CodePlan,
) -> Result<Option<String>, ActionError> {
    if plan.inside.is_empty() && !plan.is_unbound {
        // Instructions are replaced by ones of the same length: a thread at any boundary finds the old or the
        // new one.
        return Ok(None);
    }
    for thread in stopped.threads() {
        let view = crate::remote::StackView::of(thread, memory, &setup.gate)?;
        let in_the_way = plan.inside.iter().find_map(|range| view.is_in_the_way_of(range));
        let about_to_fill = || {
            let linker = setup
                .delicate
                .iter()
                // While it binds an entry, the linker calls none of the program's functions.
                .find(|(range, _)| view.is_executing_innermost(range, memory));
            linker
                .filter(|_| plan.is_unbound)
                .map(|(_, what)| view.says(what))
        };
        if let Some(why) = in_the_way.or_else(about_to_fill) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

fn write_all(
    places: &[(Place, &PatchedBytes)],
    underway: fn(),
    held: HeldThreads<'_>,
) -> Result<(), ActionError> {
    all_or_none(
        places,
        |(place, site)| {
            write::commit_bytes(place, Some(&site.old.0), &site.new.0, held)?;
            underway();
            Ok(())
        },
        |(place, site)| Ok(write::commit_bytes(place, Some(&site.new.0), &site.old.0, held)?),
    )
}

/// Writes all places. At the first failure, which is returned, those before it are restored, as many as can be.
fn all_or_none<T>(
    places: &[T],
    mut write: impl FnMut(&T) -> Result<(), ActionError>,
    mut restore: impl FnMut(&T) -> Result<(), ActionError>,
) -> Result<(), ActionError> {
    for (index, place) in places.iter().enumerate() {
        if let Err(error) = write(place) {
            for written in places[..index].iter().rev() {
                // What stays is seen in the memory afterwards.
                let _ = restore(written);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// What reverting a change of code needs.
struct RevertContext<'a> {
    process: &'a Process,
    memory: &'a ProcessMemory,
    setup: &'a RemoteSetup,
    places: &'a [(Place, &'a PatchedBytes)],
    arena: Option<Arena>,
}

/// The result of reverting a change of code.
struct Reverted {
    /// Bytes that were found instead of ours.
    other: Option<Bytes>,
    /// Memory that is still to be unmapped.
    left: Option<Arena>,
}

impl RevertContext<'_> {
    /// Restores, in reverse order, the bytes that are still ours.
    fn revert(&self, underway: fn()) -> Result<Reverted, ActionError> {
        // A thread at our jump finds the complete old first instruction there; no thread can be behind it.
        let holds = self
            .places
            .iter()
            .any(|(place, site)| site.is_code || !place.may_override());
        let mut left = self.arena;
        if !holds {
            let other = self.write(underway, HeldThreads::None)?;
            return Ok(Reverted { other, left });
        }
        let mut stopped = Stopped::all(self.process, STOP_WAIT)?;
        let other = self.write(underway, HeldThreads::All(&stopped))?;
        if let (Some(arena), None) = (&self.arena, other) {
            // While all threads are held anyway. If one is in it, or this fails, it is unmapped later.
            let gate = &self.setup.gate;
            if let Ok(HeldResult::Done(())) = remote::unmap_held(&mut stopped, self.memory, gate, arena) {
                left = None;
            }
        }
        Ok(Reverted { other, left })
    }

    fn write(&self, underway: fn(), held: HeldThreads<'_>) -> Result<Option<Bytes>, ActionError> {
        let mut other = None;
        for (place, site) in self.places.iter().rev() {
            let found = place.read()?;
            if found == site.new.0 {
                write::commit_bytes(place, Some(&site.new.0), &site.old.0, held)?;
            } else if found != site.old.0 {
                other = Bytes::new(&found[..found.len().min(Bytes::MAX)]);
            }
            underway();
        }
        Ok(other)
    }
}

/// The places of a change, if the same files are still loaded at the same addresses.
fn places<'a>(
    space: &AddressSpace,
    memory: &ProcessMemory,
    change: u64,
    patch: &'a Patch,
) -> Result<Vec<(Place, &'a PatchedBytes)>, WriterError> {
    let mut found = Vec::new();
    for site in &patch.sites {
        let is_loaded = space.modules.iter().any(|module| is_of(module, site));
        if !is_loaded {
            return Err(WriterError::ModuleGone {
                change,
                module: site.module.clone(),
            });
        }
        found.push((place(space, memory, &patch.symbol, site)?, site));
    }
    Ok(found)
}

fn is_of(module: &crate::module::Module, site: &PatchedBytes) -> bool {
    module.path == site.module
        && module.build_id() == site.build_id.as_ref()
        && module.address(site.link_address) == site.address
}

fn place(
    space: &AddressSpace,
    memory: &ProcessMemory,
    what: &str,
    site: &PatchedBytes,
) -> Result<Place, ActionError> {
    let module = space.modules.iter().find(|module| is_of(module, site));
    let gone = crate::place::PlaceError::ModuleGone {
        pid: space.process.pid,
        path: site.module.clone(),
    };
    let module = module.ok_or(gone)?;
    Ok(match site.is_code {
        true => {
            let length = site.new.0.len();
            memory.code(CodeState::Changed, module, site.link_address, length, what)?
        }
        false => memory.table(module, site.link_address, what)?,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Writes places 0 to 3, of which one cannot be written and one cannot be restored. Returns those that stay.
    fn stay(unwritable: usize, unrestorable: usize) -> (Vec<usize>, bool) {
        let written = RefCell::new(Vec::new());
        let possible = |place: usize, not: usize| match place == not {
            true => Err(ActionError::AlreadyChanged { change: 0 }),
            false => Ok(()),
        };
        let result = all_or_none(
            &[0, 1, 2, 3],
            |place| possible(*place, unwritable).map(|()| written.borrow_mut().push(*place)),
            |place| {
                possible(*place, unrestorable).map(|()| written.borrow_mut().retain(|other| other != place))
            },
        );
        (written.into_inner(), result.is_ok())
    }

    #[test]
    fn after_a_failure_every_place_is_restored_that_can_be() {
        assert_eq!(stay(9, 9), (vec![0, 1, 2, 3], true));
        assert_eq!(stay(3, 9), (vec![], false));
        assert_eq!(stay(3, 2), (vec![2], false), "those before it are restored");
        assert_eq!(stay(0, 9), (vec![], false));
    }
}
