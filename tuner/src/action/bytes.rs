//! The bytes that a change of code needs. Reads files and memory, changes nothing.
//!
//! A function is redirected in one of two ways. If it is imported, and the file that defines it neither calls
//! it directly nor stores its address: by the pointers through which it is called. Otherwise by a jump in
//! place of its first instructions.
//!
//! `insertion` inserts calls, `calls` removes calls, `parameter` changes arguments.

use std::ops::Range;

use plan::{Expression, FunctionName, Moment, PatchRequest};

use super::function::{FoundFunction, PlanContext, refuse_indirect};
use super::insertion::Insertion;
use super::words::{Word, each_text, words};
use super::{calls, parameter};
use crate::address::Address;
use crate::arch::x86_64::{
    assemble::Passed,
    code::{self, Body, Displaced},
    trampoline::{self, Continuation, Parameter, Work},
};
use crate::arena::Arena;
use crate::error::ActionError;
use crate::journal::{HexBytes, Patch, PatchedBytes};
use crate::module::Module;

/// Bound on the bytes of a trampoline with its moved instructions.
pub(super) const TRAMPOLINE_BYTES: usize = 1024;

/// A change of code, ready to be made.
#[derive(Debug)]
pub(super) struct CodePlan {
    pub(super) patch: Patch,
    /// The content of the arena, including its head.
    pub(super) code: Vec<u8>,
    /// Ranges in which no thread may be or return to while the change is made.
    pub(super) inside: Vec<Range<u64>>,
    /// The dynamic linker has not filled some pointer yet: it must not be about to.
    pub(super) is_unbound: bool,
}

impl CodePlan {
    pub(super) fn new(symbol: String, uses: &[&Module]) -> CodePlan {
        CodePlan {
            patch: Patch {
                symbol,
                sites: Vec::new(),
                arena: None,
                uses: uses.iter().map(|module| module.path.clone()).collect(),
                covers: None,
            },
            code: Vec::new(),
            inside: Vec::new(),
            is_unbound: false,
        }
    }

    pub(super) fn add_code(
        &mut self,
        context: &PlanContext<'_>,
        found: &FoundFunction,
        body: &Body,
        at: Address,
        new: Vec<u8>,
        done: &'static str,
    ) -> Result<(), ActionError> {
        let site = found.site(context, body, at, new, done)?;
        self.patch.sites.push(site);
        Ok(())
    }

    fn add_word(
        &mut self,
        context: &PlanContext<'_>,
        word: &Word<'_>,
        name: &str,
        to: Address,
    ) -> Result<(), ActionError> {
        let place = context.memory.table(word.module, word.place, name)?;
        let address = place.address();
        context.refuse_taken(&(address.0..address.0 + 8))?;
        self.is_unbound |= word.is_unbound;
        self.patch.sites.push(PatchedBytes {
            module: word.module.path.clone(),
            build_id: word.module.build_id().cloned(),
            is_code: false,
            link_address: word.place,
            address,
            old: HexBytes(word.holds.to_le_bytes().to_vec()),
            new: HexBytes(to.0.to_le_bytes().to_vec()),
        });
        Ok(())
    }

    /// Reserves room for `code_bytes` of code near `target`.
    pub(super) fn room(
        &mut self,
        context: &PlanContext<'_>,
        target: &FoundFunction,
        code_bytes: usize,
        done: &'static str,
    ) -> Result<Arena, ActionError> {
        let arena = Arena::find(context.memory.maps(), target.address(), code_bytes, false);
        let arena =
            arena.ok_or_else(|| target.refused(done, "there is no room for code within 2 GiB of it"))?;
        self.code = arena.head();
        self.patch.arena = Some(arena);
        Ok(arena)
    }

    /// The address of the next piece of code in the arena.
    pub(super) fn next(&self, arena: &Arena) -> Address {
        Address(arena.address.0 + self.code.len() as u64)
    }
}

/// Makes the plan of a change.
pub(super) fn make(
    context: &PlanContext<'_>,
    request: &PatchRequest,
    extended_bytes: usize,
) -> Result<CodePlan, ActionError> {
    match request {
        PatchRequest::Replace { function, with } => replace(context, function, with),
        PatchRequest::InsertCall {
            function,
            arguments,
            into,
            place,
        } => {
            let called = context.find(function)?;
            refuse_indirect(&called, "called from elsewhere")?;
            let into = context.find(into)?;
            refuse_indirect(&into, "changed")?;
            let (arguments, _) = super::arguments::typed(&called, arguments.clone())?;
            let insertion = Insertion {
                called,
                arguments,
                extended_bytes,
            };
            match place {
                Moment::Entry => insertion.at_entry(context, &into),
                Moment::Return => insertion.at_returns(context, &into),
            }
        }
        PatchRequest::RemoveCall { function, within } => calls::remove(context, function, within.as_ref()),
        PatchRequest::SetArgument {
            function,
            index,
            value_type,
            value,
        } => parameter::set(context, function, *index, *value_type, value),
        PatchRequest::SetTeamSize { value } => parameter::set_team_size(context, value),
    }
}

fn replace(
    context: &PlanContext<'_>,
    function: &FunctionName,
    with: &FunctionName,
) -> Result<CodePlan, ActionError> {
    const DONE: &str = "replaced";
    let (from, to) = (context.find(function)?, context.find(with)?);
    refuse_indirect(&from, DONE)?;
    refuse_indirect(&to, "called in place of another")?;
    if from.address() == to.address() {
        return Err(from.refused(DONE, "it is the same function"));
    }
    let mut plan = CodePlan::new(format!("replace {} with {}", from.name, to.name), &[&to.module]);
    if let Some(words) = words(context, &from)? {
        for word in &words {
            plan.add_word(context, word, &from.name, to.address())?;
        }
        return Ok(plan);
    }
    let (body, displaced) = entry(context, &from, DONE)?;
    let mut target = to.address();
    if code::jump(displaced.start, target, displaced.length).is_none() {
        let arena = plan.room(context, &from, TRAMPOLINE_BYTES, DONE)?;
        let at = plan.next(&arena);
        let lead = trampoline::assemble(&Work::Nothing, &Continuation::Enter(target), at);
        plan.code.extend(lead.map_err(|why| from.refused(DONE, why))?);
        target = at;
    }
    lead(context, &mut plan, &from, &body, &displaced, target, DONE)?;
    Ok(plan)
}

/// The first instructions of a function, which a jump can replace.
fn entry(
    context: &PlanContext<'_>,
    found: &FoundFunction,
    done: &'static str,
) -> Result<(Body, Displaced), ActionError> {
    // Checked first: "changed by change N" is a better message than "changed".
    context.refuse_taken(&(found.address().0..found.address().0 + code::JUMP_BYTES as u64))?;
    let body = found.body(done)?;
    let displaced = body.entry().map_err(|why| found.refused(done, why))?;
    refuse_jumps_into(found, &displaced.inside(), done)?;
    Ok((body, displaced))
}

/// Refuses if other functions, or separate parts of this one, may jump between the bytes to be changed.
pub(super) fn refuse_jumps_into(
    found: &FoundFunction,
    inside: &Range<u64>,
    done: &'static str,
) -> Result<(), ActionError> {
    let mut from = None;
    each_text(&found.module, |start, bytes| {
        from = from.or(code::references(start, bytes, inside).first().copied());
    })?;
    match from {
        Some(at) => Err(found.refused(
            done,
            format!("the code at {at} jumps between the bytes to be changed"),
        )),
        None => Ok(()),
    }
}

pub(super) fn lead(
    context: &PlanContext<'_>,
    plan: &mut CodePlan,
    found: &FoundFunction,
    body: &Body,
    displaced: &Displaced,
    to: Address,
    done: &'static str,
) -> Result<(), ActionError> {
    let jump = code::jump(displaced.start, to, displaced.length);
    let jump = jump.ok_or_else(|| found.refused(done, "where it is to lead to is more than 2 GiB away"))?;
    plan.add_code(context, found, body, displaced.start, jump, done)?;
    plan.inside.push(displaced.inside());
    Ok(())
}

/// The work of a trampoline, once its arena is known.
pub(super) enum Prepared {
    Call(Passed, Address, usize),
    Argument(Parameter, Expression),
}

/// Redirects a function through a trampoline and back to itself. `bytes` is the room for this and all later
/// trampolines of the plan.
pub(super) fn wrap(
    context: &PlanContext<'_>,
    plan: &mut CodePlan,
    found: &FoundFunction,
    bytes: usize,
    done: &'static str,
    prepare: impl FnOnce(&mut CodePlan, &Arena) -> Result<Prepared, ActionError>,
) -> Result<(), ActionError> {
    let words = words(context, found)?;
    let jump = match words {
        Some(_) => None,
        None => Some(entry(context, found, done)?),
    };
    let arena = match plan.patch.arena {
        Some(arena) => arena,
        None => plan.room(context, found, bytes, done)?,
    };
    let prepared = prepare(plan, &arena)?;
    let work = match &prepared {
        Prepared::Call(passed, function, extended_bytes) => Work::Call {
            function: *function,
            passed,
            extended_bytes: *extended_bytes,
        },
        Prepared::Argument(parameter, expression) => Work::Argument {
            parameter: *parameter,
            expression,
        },
    };
    let start = plan.next(&arena);
    let then = match &jump {
        Some((_, displaced)) => Continuation::Displaced(displaced),
        None => Continuation::Enter(found.address()),
    };
    let code = trampoline::assemble(&work, &then, start).map_err(|why| found.refused(done, why))?;
    plan.code.extend(code);
    match (words, jump) {
        (_, Some((body, displaced))) => lead(context, plan, found, &body, &displaced, start, done),
        (words, None) => words
            .unwrap_or_default()
            .iter()
            .try_for_each(|word| plan.add_word(context, word, &found.name, start)),
    }
}
