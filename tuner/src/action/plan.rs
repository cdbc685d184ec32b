//! Which bytes a change of code needs. Reads files and memory, changes nothing.
//!
//! A function is led elsewhere in one of two ways. Where it is imported, and the file that holds it neither calls it directly
//! nor stores its address, by the words through which it is called. Else by a jump in place of its first instructions.

use std::ops::Range;

use super::calls;
use super::function::{Context, Found, refuse_indirect};
use super::words::{Word, each_text, image_error, words};
use super::{ActionError, Argument, FunctionName, InsertPlace, PatchRequest};
use crate::address::{Address, LinkAddress};
use crate::arch::x86_64::assemble::Passed;
use crate::arch::x86_64::code::{self, Body, Displaced};
use crate::arch::x86_64::trampoline::{self, Parameter, Then, Work};
use crate::arena::Arena;
use crate::dwarf::{self, Kind};
use crate::expression::Expression;
use crate::journal::{HexBytes, Patch, Site};
use crate::module::Module;
use crate::value::ValueType;

/// A trampoline with its moved instructions is shorter.
const TRAMPOLINE_BYTES: usize = 1024;
/// So far behind a function's end padding is looked for.
const PADDING_MAX: usize = 15;

/// A change of code, ready to be made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) patch: Patch,
    /// What the arena holds, its head included.
    pub(super) code: Vec<u8>,
    /// Where no thread may stand or come back to while it is made.
    pub(super) inside: Vec<Range<u64>>,
    /// Some word has not been filled by the dynamic linker yet: it must not be about to.
    pub(super) is_unbound: bool,
}

impl Plan {
    fn new(symbol: String, uses: &[&Module]) -> Plan {
        Plan {
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
        context: &Context<'_>,
        found: &Found,
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
        context: &Context<'_>,
        word: &Word<'_>,
        name: &str,
        to: Address,
    ) -> Result<(), ActionError> {
        let place = context.ground.table(word.module, word.place, name)?;
        let address = place.address();
        context.refuse_taken(&(address.0..address.0 + 8))?;
        self.is_unbound |= word.is_unbound;
        self.patch.sites.push(Site {
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

    /// Room for `code_bytes` of code near `target`.
    fn room(
        &mut self,
        context: &Context<'_>,
        target: &Found,
        code_bytes: usize,
        done: &'static str,
    ) -> Result<Arena, ActionError> {
        let arena = Arena::find(context.ground.maps(), target.address(), code_bytes, false);
        let arena =
            arena.ok_or_else(|| target.refused(done, "there is no room for code within 2 GiB of it"))?;
        self.code = arena.head();
        self.patch.arena = Some(arena);
        Ok(arena)
    }

    /// Where the next piece of code in the arena begins.
    fn next(&self, arena: &Arena) -> Address {
        Address(arena.address.0 + self.code.len() as u64)
    }
}

/// What a plan needs beside the process.
pub(super) fn make(
    context: &Context<'_>,
    request: &PatchRequest,
    extended_bytes: usize,
) -> Result<Plan, ActionError> {
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
                InsertPlace::Entry => insertion.at_entry(context, &into),
                InsertPlace::Return => insertion.at_returns(context, &into),
            }
        }
        PatchRequest::RemoveCall { function, within } => calls::remove(context, function, within.as_ref()),
        PatchRequest::SetArgument {
            function,
            index,
            value_type,
            value,
        } => set_argument(context, function, *index, *value_type, value),
    }
}

pub(super) fn empty(symbol: String) -> Plan {
    Plan::new(symbol, &[])
}

fn replace(context: &Context<'_>, function: &FunctionName, with: &FunctionName) -> Result<Plan, ActionError> {
    const DONE: &str = "replaced";
    let (from, to) = (context.find(function)?, context.find(with)?);
    refuse_indirect(&from, DONE)?;
    refuse_indirect(&to, "called in place of another")?;
    if from.address() == to.address() {
        return Err(from.refused(DONE, "it is the same function"));
    }
    let mut plan = Plan::new(format!("replace {} with {}", from.name, to.name), &[&to.module]);
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
        let lead = trampoline::assemble(&Work::Nothing, &Then::Enter(target), at);
        plan.code.extend(lead.map_err(|why| from.refused(DONE, why))?);
        target = at;
    }
    lead(context, &mut plan, &from, &body, &displaced, target, DONE)?;
    Ok(plan)
}

/// The first instructions of a function that a jump can take the place of.
fn entry(context: &Context<'_>, found: &Found, done: &'static str) -> Result<(Body, Displaced), ActionError> {
    // Whose change it is says more than that somebody changed it.
    context.refuse_taken(&(found.address().0..found.address().0 + code::JUMP_BYTES as u64))?;
    let body = found.body(done)?;
    let displaced = body.entry().map_err(|why| found.refused(done, why))?;
    refuse_jumps_into(found, &displaced.inside(), done)?;
    Ok((body, displaced))
}

/// Other functions, or parts of this one that were moved away, may jump between the bytes to be changed.
fn refuse_jumps_into(found: &Found, inside: &Range<u64>, done: &'static str) -> Result<(), ActionError> {
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

fn lead(
    context: &Context<'_>,
    plan: &mut Plan,
    found: &Found,
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

/// A call to be inserted.
struct Insertion {
    called: Found,
    arguments: Vec<Argument>,
    extended_bytes: usize,
}

impl Insertion {
    const DONE: &str = "changed to call another";

    fn plan(&self, into: &Found, place: &str) -> Plan {
        let shown: Vec<String> = self.arguments.iter().map(Argument::to_string).collect();
        let symbol = format!(
            "insert {}({}) at the {place} of {}",
            self.called.name,
            shown.join(", "),
            into.name
        );
        Plan::new(symbol, &[&self.called.module])
    }

    /// The arguments, texts laid into the arena.
    fn pass(&self, plan: &mut Plan, arena: &Arena) -> Result<Passed, ActionError> {
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

    fn at_entry(&self, context: &Context<'_>, into: &Found) -> Result<Plan, ActionError> {
        self.refuse_itself(into)?;
        let mut plan = self.plan(into, "entry");
        let bytes = TRAMPOLINE_BYTES + self.text_bytes();
        wrap(context, &mut plan, into, bytes, Self::DONE, |plan, arena| {
            let passed = self.pass(plan, arena)?;
            Ok(Prepared::Call(passed, self.called.address(), self.extended_bytes))
        })?;
        Ok(plan)
    }

    fn refuse_itself(&self, into: &Found) -> Result<(), ActionError> {
        match self.called.address() == into.address() {
            true => Err(into.refused(Self::DONE, "it would call itself without end")),
            false => Ok(()),
        }
    }

    fn at_returns(&self, context: &Context<'_>, into: &Found) -> Result<Plan, ActionError> {
        self.refuse_itself(into)?;
        let refused = |why: String| into.refused(Self::DONE, why);
        let body = into.body(Self::DONE)?;
        if let Some(out) = body.jumps_out().next() {
            let (at, to) = (out.ip(), out.near_branch64());
            return Err(refused(format!(
                "the jump at {at:#x} to {to:#x} leaves it without a return (a call in the last position, or a part that was \
                 moved away)"
            )));
        }
        if let Some(jump) = body.computed_jump() {
            return Err(refused(format!(
                "at {:#x} it jumps through a table or a pointer: where it goes from there is not known",
                jump.ip()
            )));
        }
        let returns: Vec<u64> = body.returns().map(iced_x86::Instruction::ip).collect();
        if returns.is_empty() {
            return Err(refused("it never returns".to_owned()));
        }
        match self.in_place(context, into, &body, &returns) {
            Err(ActionError::Refused { .. }) => self.by_copy(context, into, &body),
            planned => planned,
        }
    }

    /// A jump in place of each return instruction and its neighbours.
    fn in_place(
        &self,
        context: &Context<'_>,
        into: &Found,
        body: &Body,
        returns: &[u64],
    ) -> Result<Plan, ActionError> {
        let mut plan = self.plan(into, "return");
        let refused = |why: String| into.refused(Self::DONE, why);
        let bytes = TRAMPOLINE_BYTES * returns.len() + self.text_bytes();
        let arena = plan.room(context, into, bytes, Self::DONE)?;
        let passed = self.pass(&mut plan, &arena)?;
        let padding = padding_behind(into, body);
        let mut last_end = body.start.0;
        for at in returns {
            let room = body.room_at_return(*at, padding).map_err(refused)?;
            if room.start.0 < last_end {
                return Err(refused(format!(
                    "the return at {at:#x} has no room of its own for a jump"
                )));
            }
            last_end = room.start.0 + room.length as u64;
            refuse_jumps_into(into, &room.inside(), Self::DONE)?;
            let start = plan.next(&arena);
            let code =
                trampoline::assemble(&self.work(&passed), &Then::Displaced(&room), start).map_err(refused)?;
            plan.code.extend(code);
            lead(context, &mut plan, into, body, &room, start, Self::DONE)?;
        }
        Ok(plan)
    }

    /// Where there is no room at a return: the whole function runs as a copy that calls before each return. Who unwinds the
    /// stack does not know the copy, so it must call nothing, or nobody may unwind.
    fn by_copy(&self, context: &Context<'_>, into: &Found, body: &Body) -> Result<Plan, ActionError> {
        let mut plan = self.plan(into, "return");
        let refused = |why: String| into.refused(Self::DONE, why);
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
            return Err(refused(format!(
                "its returns have no room for jumps, and a copy of it would stop exceptions that pass through it ({} is loaded)",
                module.file_name()
            )));
        }
        // Made from the file: other changes of the function would be lost in it.
        context.refuse_taken(&(body.start.0..body.end()))?;
        plan.patch.covers = Some((body.start, body.bytes.len() as u64));
        let displaced = body.entry().map_err(refused)?;
        refuse_jumps_into(into, &displaced.inside(), Self::DONE)?;
        let bytes = TRAMPOLINE_BYTES + self.text_bytes() + body.bytes.len() * 2;
        let arena = plan.room(context, into, bytes, Self::DONE)?;
        let passed = self.pass(&mut plan, &arena)?;
        let before = plan.next(&arena);
        let code = trampoline::assemble(&self.work(&passed), &Then::Return, before).map_err(refused)?;
        plan.code.extend(code);
        let start = plan.next(&arena);
        plan.code.extend(body.copy(start, before).map_err(refused)?);
        if plan.code.len() as u64 > arena.code_bytes {
            return Err(refused("its copy is larger than was reckoned".to_owned()));
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

/// How many bytes behind a function do nothing and belong to nobody.
fn padding_behind(found: &Found, body: &Body) -> usize {
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

/// What a trampoline is to do, when its arena is known.
enum Prepared {
    Call(Passed, Address, usize),
    Argument(Parameter, Expression),
}

/// Leads a function through a trampoline and back to itself.
fn wrap(
    context: &Context<'_>,
    plan: &mut Plan,
    found: &Found,
    bytes: usize,
    done: &'static str,
    prepare: impl FnOnce(&mut Plan, &Arena) -> Result<Prepared, ActionError>,
) -> Result<(), ActionError> {
    let words = words(context, found)?;
    let jump = match words {
        Some(_) => None,
        None => Some(entry(context, found, done)?),
    };
    let arena = plan.room(context, found, bytes, done)?;
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
        Some((_, displaced)) => Then::Displaced(displaced),
        None => Then::Enter(found.address()),
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

fn set_argument(
    context: &Context<'_>,
    function: &FunctionName,
    index: usize,
    stated: Option<ValueType>,
    value: &Expression,
) -> Result<Plan, ActionError> {
    const DONE: &str = "changed to take another argument";
    let found = context.find(function)?;
    refuse_indirect(&found, DONE)?;
    let parameter = parameter(&found, index, stated)?;
    value.check(parameter.value_type)?;
    let symbol = format!("argument {index} of {} = {value}", found.name);
    let mut plan = Plan::new(symbol, &[]);
    let bytes = TRAMPOLINE_BYTES * 4;
    wrap(context, &mut plan, &found, bytes, DONE, |_, _| {
        Ok(Prepared::Argument(parameter, value.clone()))
    })?;
    Ok(plan)
}

/// Where a parameter is passed.
fn parameter(found: &Found, index: usize, stated: Option<ValueType>) -> Result<Parameter, ActionError> {
    use crate::arch::x86_64::assemble::{FLOATS_MAX, INTEGERS_MAX};
    let error = |why: String| ActionError::Arguments {
        function: found.name.clone(),
        why,
    };
    let is_float = |of: ValueType| matches!(of, ValueType::F32 | ValueType::F64);
    let known = dwarf::parameters(&found.module.image, found.function.address);
    let known = known.map_err(|source| image_error(&found.module, source))?;
    let (register, value_type) = match known {
        None => {
            let of = stated.ok_or_else(|| {
                error("its file has no debug information: state the argument's type".to_owned())
            })?;
            (index, of)
        }
        Some(known) => {
            let of = known.get(index).map(|parameter| parameter.of).ok_or_else(|| {
                error(format!(
                    "it has {} arguments that can be told, counted from 0",
                    known.len()
                ))
            })?;
            if let Some(stated) =
                stated.filter(|stated| of.value_type().is_some_and(|known| known != *stated))
            {
                return Err(error(format!("argument {index} is {of}, not {stated}")));
            }
            let by_size = || match (of.kind, of.size) {
                (Kind::Pointer, _) => Some(ValueType::U64),
                (Kind::Enum, 4) => Some(ValueType::I32),
                _ => None,
            };
            let value_type = of.value_type().or(stated).or_else(by_size);
            let value_type =
                value_type.ok_or_else(|| error(format!("argument {index} is {of}, which cannot be set")))?;
            let same = known[..index]
                .iter()
                .filter(|other| (other.of.kind == Kind::Float) == is_float(value_type));
            (same.count(), value_type)
        }
    };
    let most = if is_float(value_type) {
        FLOATS_MAX
    } else {
        INTEGERS_MAX
    };
    match register < most {
        true => Ok(Parameter { register, value_type }),
        false => Err(error(format!(
            "argument {index} is passed on the stack, which cannot be changed"
        ))),
    }
}
