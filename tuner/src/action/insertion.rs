//! Inserts a call into a function: through a trampoline at its entry; at each of its returns; or into a copy
//! of the function if a return has no room.

use std::fmt;

use plan::Argument;

use super::bytes::{CodePlan, Prepared, TRAMPOLINE_BYTES, lead, refuse_jumps_into, wrap};
use super::function::{FoundFunction, PlanContext};
use crate::address::{Address, LinkAddress};
use crate::arch::x86_64::{
    assemble::Passed,
    code::{self, Body},
    trampoline::{self, Continuation, Work},
};
use crate::arena::Arena;
use crate::error::ActionError;
use crate::module::Module;

/// Bytes behind a function's end in which padding is searched.
const PADDING_MAX: usize = 15;

/// A call to be inserted.
pub(super) struct Insertion {
    pub(super) called: FoundFunction,
    pub(super) arguments: Vec<Argument>,
    pub(super) extended_bytes: usize,
}

impl Insertion {
    const DONE: &str = "changed to call another";

    fn plan(&self, into: &FoundFunction, place: &str) -> CodePlan {
        let shown: Vec<String> = self.arguments.iter().map(Argument::to_string).collect();
        let symbol = format!(
            "insert {}({}) at the {place} of {}",
            self.called.name,
            shown.join(", "),
            into.name
        );
        CodePlan::new(symbol, &[&self.called.module])
    }

    /// The arguments; strings are placed in the arena.
    fn pass(&self, plan: &mut CodePlan, arena: &Arena) -> Result<Passed, ActionError> {
        let name = &self.called.name;
        let mut texts = std::mem::take(&mut plan.code);
        let passed = super::arguments::pass(name, &self.arguments, &mut texts, arena.address)?;
        texts.resize(texts.len().next_multiple_of(16), 0);
        plan.code = texts;
        Ok(passed)
    }

    fn text_bytes(&self) -> usize {
        let texts = self.arguments.iter().map(|argument| match argument {
            Argument::Text(text) => text.len() + 1,
            _ => 0,
        });
        texts.sum::<usize>() + 16
    }

    pub(super) fn at_entry(
        &self,
        context: &PlanContext<'_>,
        into: &FoundFunction,
    ) -> Result<CodePlan, ActionError> {
        self.refuse_itself(into)?;
        let mut plan = self.plan(into, "entry");
        let bytes = TRAMPOLINE_BYTES + self.text_bytes();
        wrap(context, &mut plan, into, bytes, Self::DONE, |plan, arena| {
            let passed = self.pass(plan, arena)?;
            Ok(Prepared::Call(passed, self.called.address(), self.extended_bytes))
        })?;
        Ok(plan)
    }

    fn refuse_itself(&self, into: &FoundFunction) -> Result<(), ActionError> {
        match self.called.address() == into.address() {
            true => Err(into.refused(Self::DONE, "it would call itself without end")),
            false => Ok(()),
        }
    }

    pub(super) fn at_returns(
        &self,
        context: &PlanContext<'_>,
        into: &FoundFunction,
    ) -> Result<CodePlan, ActionError> {
        self.refuse_itself(into)?;
        let refused = |why: &dyn fmt::Display| into.refused(Self::DONE, why);
        let body = into.body(Self::DONE)?;
        if let Some(out) = body.jumps_out().next() {
            let (at, to) = (out.ip(), out.near_branch64());
            return Err(refused(&format!(
                "the jump at {at:#x} to {to:#x} leaves it without a return (a call in the last position, or a part that was \
                 moved away)"
            )));
        }
        if let Some(jump) = body.computed_jump() {
            return Err(refused(&format!(
                "at {:#x} it jumps through a table or a pointer: where it goes from there is not known",
                jump.ip()
            )));
        }
        let returns: Vec<u64> = body.returns().map(iced_x86::Instruction::ip).collect();
        if returns.is_empty() {
            return Err(refused(&"it never returns"));
        }
        match self.in_place(context, into, &body, &returns) {
            Err(ActionError::Refused { .. }) => self.by_copy(context, into, &body),
            planned => planned,
        }
    }

    /// Places a jump over each return instruction and its neighbours.
    fn in_place(
        &self,
        context: &PlanContext<'_>,
        into: &FoundFunction,
        body: &Body,
        returns: &[u64],
    ) -> Result<CodePlan, ActionError> {
        let mut plan = self.plan(into, "return");
        let refused = |why: &dyn fmt::Display| into.refused(Self::DONE, why);
        let bytes = TRAMPOLINE_BYTES * returns.len() + self.text_bytes();
        let arena = plan.room(context, into, bytes, Self::DONE)?;
        let passed = self.pass(&mut plan, &arena)?;
        let padding = padding_behind(into, body);
        let mut last_end = body.start.0;
        for at in returns {
            let room = body.room_at_return(*at, padding).map_err(|why| refused(&why))?;
            if room.start.0 < last_end {
                return Err(refused(&format!(
                    "the return at {at:#x} has no room of its own for a jump"
                )));
            }
            last_end = room.start.0 + room.length as u64;
            refuse_jumps_into(into, &room.inside(), Self::DONE)?;
            let start = plan.next(&arena);
            let code = trampoline::assemble(&self.work(&passed), &Continuation::Displaced(&room), start)
                .map_err(|why| refused(&why))?;
            plan.code.extend(code);
            lead(context, &mut plan, into, body, &room, start, Self::DONE)?;
        }
        Ok(plan)
    }

    /// If a return has no room: the function runs as a copy that calls before each return. Unwinders do not
    /// know the copy, so it must call nothing, or the program must never unwind.
    fn by_copy(
        &self,
        context: &PlanContext<'_>,
        into: &FoundFunction,
        body: &Body,
    ) -> Result<CodePlan, ActionError> {
        let mut plan = self.plan(into, "return");
        let refused = |why: &dyn fmt::Display| into.refused(Self::DONE, why);
        let unwinds = |module: &&Module| {
            ["libstdc++", "libc++"]
                .iter()
                .any(|name| module.file_name().starts_with(name))
        };
        if let Some(module) = context
            .space
            .modules
            .iter()
            .find(unwinds)
            .filter(|_| body.has_calls())
        {
            return Err(refused(&format!(
                "its returns have no room for jumps, and a copy of it would stop exceptions that pass through it ({} is loaded)",
                module.file_name()
            )));
        }
        // The copy is made from the file: other changes of the function would have no effect in it.
        context.refuse_taken(&(body.start.0..body.end()))?;
        plan.patch.covers = Some((body.start, body.bytes.len() as u64));
        let displaced = body.entry().map_err(|why| refused(&why))?;
        refuse_jumps_into(into, &displaced.inside(), Self::DONE)?;
        let bytes = TRAMPOLINE_BYTES + self.text_bytes() + body.bytes.len() * 2;
        let arena = plan.room(context, into, bytes, Self::DONE)?;
        let passed = self.pass(&mut plan, &arena)?;
        let before = plan.next(&arena);
        let code = trampoline::assemble(&self.work(&passed), &Continuation::Return, before)
            .map_err(|why| refused(&why))?;
        plan.code.extend(code);
        let start = plan.next(&arena);
        plan.code
            .extend(body.copy(start, before).map_err(|why| refused(&why))?);
        if plan.code.len() as u64 > arena.code_bytes {
            return Err(refused(&"its copy is larger than estimated"));
        }
        lead(context, &mut plan, into, body, &displaced, start, Self::DONE)?;
        Ok(plan)
    }

    fn work<'a>(&self, passed: &'a Passed) -> Work<'a> {
        Work::Call {
            function: self.called.address(),
            passed,
            extended_bytes: self.extended_bytes,
        }
    }
}

/// Bytes of padding behind a function that belong to no other function.
fn padding_behind(found: &FoundFunction, body: &Body) -> usize {
    let end = LinkAddress(found.function.address.0 + found.function.size);
    let next = found.module.image.next_symbol(end).ok().flatten();
    let free = next
        .map_or(PADDING_MAX, |next| (next.0 - end.0) as usize)
        .min(PADDING_MAX);
    let bytes = found
        .file_bytes(found.function.size, free, "read")
        .unwrap_or_default();
    code::filling(Address(body.end()), &bytes)
}
