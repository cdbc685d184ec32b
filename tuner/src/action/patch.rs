//! How a change of code gets into the program and away again: journal, memory of our own, all threads held, bytes, read back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::nanoseconds;
use super::function::Context;
use super::plan::{self, Plan};
use super::worker::{self, Machinery, STOP_WAIT};
use super::{ActionError, ActionOutcome, ActionReceipt, PatchRequest, Reason};
use crate::clock;
use crate::journal::{Change, Deed, Hold, Outcome, Patch, RevertOutcome, Site, Status};
use crate::place::{Ground, Place};
use crate::process::Process;
use crate::ptrace::{self, HeldThread, Stopped};
use crate::space::AddressSpace;
use crate::value::Bytes;
use crate::write;
use crate::writer::{Mechanism, Writer, WriterError};

/// So long threads are waited for that stand where code is to change.
const TRY_WAIT: Duration = Duration::from_secs(2);
const TRY_PAUSE: Duration = Duration::from_micros(200);

impl Writer {
    /// Changes code, or the tables through which functions are called.
    pub fn patch(&mut self, request: &PatchRequest, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let started = clock::monotonic_ns();
        let at = clock::now();
        let space = self.space()?;
        ptrace::refuse_traced(space.process.pid).map_err(ActionError::from)?;
        let ground = Ground::open(space.process.pid).map_err(ActionError::from)?;
        let machinery = Machinery::of(&space, &mut self.machinery)?;
        let extended_bytes = match request {
            PatchRequest::InsertCall { .. } => extended_bytes(&machinery, self.process())?,
            _ => 0,
        };
        let context = Context::new(&space, &ground, self.written());
        let plan = plan::make(&context, request, extended_bytes)?;
        let change = self.announce(Deed::Patch(plan.patch.clone()), reason, at.clone())?;
        let (process, underway) = (self.process(), self.hooks.underway);
        let applied = ptrace::apart(|| prepare(process, &ground, &machinery, &plan, underway));
        let applied = applied
            .and_then(|()| worker::insist(|| apply(process, &space, &ground, &machinery, &plan, underway)));
        (self.hooks.after_write)();
        let (mechanism, held) = match applied {
            Ok(applied) => applied,
            Err(error) => {
                self.record_outcome(change, Outcome::NotWritten(error.to_string()), None)?;
                self.sweep_arena(plan.patch.arena.as_ref(), &machinery);
                return Err(error.into());
            }
        };
        let hold = Hold::of(mechanism, nanoseconds(held));
        self.record_outcome(change, Outcome::Applied, Some(hold))?;
        Ok(ActionReceipt {
            change,
            text: plan.patch.symbol,
            outcome: ActionOutcome::InForce,
            mechanism,
            hold_ns: hold.hold_ns,
            passage: None,
            at,
            duration_ns: clock::monotonic_ns().saturating_sub(started),
        })
    }

    /// Puts the old bytes back where ours still stand, and unmaps our memory.
    pub(crate) fn take_back_patch(
        &mut self,
        space: &AddressSpace,
        change: u64,
        patch: &Patch,
    ) -> Result<RevertOutcome, WriterError> {
        let ground = Ground::open(space.process.pid).map_err(ActionError::from)?;
        let machinery = Machinery::of(space, &mut self.machinery)?;
        let places = places(space, &ground, change, patch)?;
        self.announce_revert(change, None)?;
        let (process, underway) = (self.process(), self.hooks.underway);
        let reverted = worker::insist(|| revert(process, &places, underway));
        (self.hooks.after_write)();
        Ok(match reverted {
            Ok(None) => {
                self.sweep_arena(patch.arena.as_ref(), &machinery);
                RevertOutcome::Reverted
            }
            Ok(Some(found)) => RevertOutcome::ChangedSince(found),
            Err(error) => RevertOutcome::Failed(error.to_string()),
        })
    }

    /// Finds out by the memory what a crash left of a change of code.
    pub(crate) fn settle_patch(
        &mut self,
        space: &AddressSpace,
        known: &Change,
        patch: &Patch,
    ) -> Result<(), WriterError> {
        let change = known.intent.change;
        let ground = Ground::open(space.process.pid).map_err(ActionError::from)?;
        // Without the modules there are no bytes to ask: it stays undecided, which is the truth.
        let Ok(places) = places(space, &ground, change, patch) else {
            return Ok(());
        };
        let mut written = 0;
        for (place, site) in &places {
            written += usize::from(place.read().map_err(ActionError::from)? == site.new.0);
        }
        let ended = || "the writer ended before the code was changed".to_owned();
        match (known.status, written) {
            (Status::Pending, 0) => self.recover_outcome(change, Outcome::NotWritten(ended())),
            // Also a part of it: it can be taken back.
            (Status::Pending, _) => self.recover_outcome(change, Outcome::Applied),
            (_, 0) => self.record_revert(change, RevertOutcome::Reverted, true, None),
            (_, _) => self.record_revert(change, RevertOutcome::Failed(ended()), true, None),
        }
    }

    /// Unmaps memory of ours that no change in force needs, and that a crash, or a thread that was in it, has left.
    pub(crate) fn sweep(&mut self, space: &AddressSpace) -> Result<(), WriterError> {
        let finished = |change: &Change| {
            let by_call = matches!(change.intent.deed, Deed::Call(_) | Deed::Load(_));
            matches!(change.status, Status::Failed | Status::Reverted | Status::Done)
                || (by_call && !matches!(change.status, Status::Pending))
        };
        let of_change = |change: &Change| [change.intent.deed.arena().copied(), change.revert_arena];
        let changes = self.changes();
        let arenas = changes
            .iter()
            .filter(|change| finished(change))
            .flat_map(of_change)
            .flatten();
        let mapped: Vec<_> = arenas.filter(|arena| arena.is_in(&space.maps)).collect();
        if mapped.is_empty() {
            return Ok(());
        }
        let machinery = Machinery::of(space, &mut self.machinery)?;
        for arena in mapped {
            self.sweep_arena(Some(&arena), &machinery);
        }
        Ok(())
    }

    /// What is in use is left for the next time.
    fn sweep_arena(&self, arena: Option<&crate::arena::Arena>, machinery: &Arc<Machinery>) {
        let Some(arena) = arena else { return };
        let process = self.process();
        let _: Result<(), ActionError> = worker::insist(|| {
            let ground = Ground::open(process.pid)?;
            match worker::is_ours(&ground, arena) {
                true => worker::unmap(process, &ground, &machinery.gate, arena).map(|_| ()),
                false => Ok(()),
            }
        });
    }
}

/// The size of a thread's extended state, the same for all threads of a machine.
fn extended_bytes(machinery: &Machinery, process: &Process) -> Result<usize, ActionError> {
    if let Some(known) = machinery.extended_bytes.get() {
        return Ok(*known);
    }
    let pid = process.pid;
    let found = ptrace::apart(|| {
        let state = HeldThread::stop(pid, pid.number, STOP_WAIT)?.extended_state()?;
        Ok::<usize, ActionError>(state.len())
    })?;
    Ok(*machinery.extended_bytes.get_or_init(|| found))
}

/// Memory of ours, and what lies in it.
fn prepare(
    process: &Process,
    ground: &Ground,
    machinery: &Machinery,
    plan: &Plan,
    underway: fn(),
) -> Result<(), ActionError> {
    if let Some(arena) = &plan.patch.arena {
        worker::with_thread(
            process,
            ground,
            &machinery.gate,
            None,
            |_| None,
            |mut thread| {
                thread.map(arena)?;
                underway();
                let mut ground = ground.clone();
                ground.refresh()?;
                worker::fill(&ground, arena, arena.address, &plan.code, thread.thread())?;
                underway();
                thread.end()
            },
        )?;
    }
    Ok(())
}

/// All threads held, the bytes themselves.
fn apply(
    process: &Process,
    space: &AddressSpace,
    ground: &Ground,
    machinery: &Machinery,
    plan: &Plan,
    underway: fn(),
) -> Result<(Mechanism, Duration), ActionError> {
    let mut places = Vec::new();
    for site in &plan.patch.sites {
        places.push((place(space, ground, &plan.patch.symbol, site)?, site));
    }
    let is_plain = !plan.is_unbound && plan.patch.sites.iter().all(|site| !site.is_code);
    if is_plain && ground.may_override() {
        write_all(&places, underway, None)?;
        return Ok((Mechanism::Plain, Duration::ZERO));
    }
    let began = Instant::now();
    loop {
        let stopped = Stopped::all(process, STOP_WAIT)?;
        let why = match keeps_from_changing(&stopped, ground, machinery, plan)? {
            Some(why) => why,
            None => {
                let written = write_all(&places, underway, stopped.threads().first());
                let held = stopped.held();
                drop(stopped);
                return written.map(|()| (Mechanism::HoldAll, held));
            }
        };
        drop(stopped);
        if began.elapsed() > TRY_WAIT {
            return Err(ActionError::InTheWay {
                waited_ms: began.elapsed().as_millis(),
                why,
            });
        }
        std::thread::sleep(TRY_PAUSE);
    }
}

fn keeps_from_changing(
    stopped: &Stopped,
    ground: &Ground,
    machinery: &Machinery,
    plan: &Plan,
) -> Result<Option<String>, ActionError> {
    if plan.inside.is_empty() && !plan.is_unbound {
        // Whole instructions of the same length: wherever a thread stands, it finds one or the other.
        return Ok(None);
    }
    for thread in stopped.threads() {
        let view = crate::remote::View::of(thread, ground, &machinery.gate)?;
        let in_the_way = plan.inside.iter().find_map(|range| view.is_in_the_way_of(range));
        let about_to_fill = || {
            let linker = machinery
                .delicate
                .iter()
                .find(|(range, _)| view.is_executing(range, ground));
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

/// All or none.
fn write_all(
    places: &[(Place, &Site)],
    underway: fn(),
    held: Option<&HeldThread>,
) -> Result<(), ActionError> {
    for (index, (place, site)) in places.iter().enumerate() {
        if let Err(error) = write::commit_bytes(place, Some(&site.old.0), &site.new.0, held) {
            for (place, site) in places[..index].iter().rev() {
                write::commit_bytes(place, Some(&site.new.0), &site.old.0, held)?;
            }
            return Err(error.into());
        }
        underway();
    }
    Ok(())
}

/// Puts back what is still ours, in reverse; tells what else was found.
fn revert(
    process: &Process,
    places: &[(Place, &Site)],
    underway: fn(),
) -> Result<Option<Bytes>, ActionError> {
    // Whoever stands at a jump of ours finds the old first instruction there, whole; behind it nobody can stand.
    let holds = places
        .iter()
        .any(|(place, site)| site.is_code || !place.may_override());
    let stopped = holds.then(|| Stopped::all(process, STOP_WAIT)).transpose()?;
    let held = stopped.as_ref().and_then(|stopped| stopped.threads().first());
    let mut other = None;
    for (place, site) in places.iter().rev() {
        let found = place.read()?;
        if found == site.new.0 {
            write::commit_bytes(place, Some(&site.new.0), &site.old.0, held)?;
        } else if found != site.old.0 {
            other = Bytes::new(&found[..found.len().min(Bytes::MAX)]);
        }
        underway();
    }
    drop(stopped);
    Ok(other)
}

/// The places of a change, if the same files are still loaded at the same addresses.
fn places<'a>(
    space: &AddressSpace,
    ground: &Ground,
    change: u64,
    patch: &'a Patch,
) -> Result<Vec<(Place, &'a Site)>, WriterError> {
    let mut found = Vec::new();
    for site in &patch.sites {
        let is_loaded = space.modules.iter().any(|module| is_of(module, site));
        if !is_loaded {
            return Err(WriterError::ModuleGone {
                change,
                module: site.module.clone(),
            });
        }
        found.push((place(space, ground, &patch.symbol, site)?, site));
    }
    Ok(found)
}

fn is_of(module: &crate::module::Module, site: &Site) -> bool {
    module.path == site.module
        && module.build_id() == site.build_id.as_ref()
        && module.address(site.link_address) == site.address
}

fn place(space: &AddressSpace, ground: &Ground, what: &str, site: &Site) -> Result<Place, ActionError> {
    let module = space.modules.iter().find(|module| is_of(module, site));
    let gone = crate::place::PlaceError::ModuleGone {
        pid: space.process.pid,
        path: site.module.clone(),
    };
    let module = module.ok_or(gone)?;
    Ok(match site.is_code {
        true => ground.code(module, site.link_address, site.new.0.len(), what)?,
        false => ground.table(module, site.link_address, what)?,
    })
}
