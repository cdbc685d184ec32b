//! Removes calls of a function: finds their instructions, in one function or in all code of the process.

use std::collections::BTreeMap;

use iced_x86::Instruction;
use plan::FunctionName;

use super::bytes::CodePlan;
use super::function::{FoundFunction, PlanContext, find, refuse_indirect};
use super::words;
use crate::address::{Address, LinkAddress};
use crate::arch::x86_64::code;
use crate::error::ActionError;
use crate::module::Module;
use crate::symbol::SymbolKind;

const DONE: &str = "freed of calls";
/// More calls of one function than any program has.
const CALLS_MAX: usize = 4_096;
/// Bytes of the PLT entry of one function.
const LINKAGE_BYTES: u64 = 16;

/// The ways in which a module's code calls a function.
struct Callee {
    address: Address,
    words: Vec<Address>,
    linkages: Vec<Address>,
}

impl Callee {
    fn of(context: &PlanContext<'_>, module: &Module, called: &FoundFunction) -> Result<Callee, ActionError> {
        let words = words::words_of(context, module, called)?;
        let words: Vec<Address> = words.iter().map(|word| module.address(word.place)).collect();
        let linkages = if words.is_empty() {
            Vec::new()
        } else {
            linkages(module, &words)?
        };
        Ok(Callee {
            address: called.address(),
            words,
            linkages,
        })
    }

    fn is_called_by(&self, instruction: &Instruction) -> bool {
        let direct = code::target(instruction);
        direct.is_some_and(|target| target == self.address || self.linkages.contains(&target))
            || code::through(instruction).is_some_and(|word| self.words.contains(&word))
    }
}

/// The PLT entries that lead to one of `words`.
fn linkages(module: &Module, words: &[Address]) -> Result<Vec<Address>, ActionError> {
    let mut found = Vec::new();
    let sections: Vec<(u64, u64)> = module
        .image
        .sections
        .iter()
        .filter(|section| section.name.starts_with(".plt"))
        .map(|section| (section.address.0, section.address.0 + section.size))
        .collect();
    words::each_text(module, |start, bytes| {
        for (from, to) in &sections {
            // Entries of .plt.got take 8 bytes.
            for link in (*from..*to).step_by(8) {
                let address = module.address(LinkAddress(link));
                let at = address
                    .0
                    .checked_sub(start.0)
                    .and_then(|at| usize::try_from(at).ok());
                let Some(rest) = at.and_then(|at| bytes.get(at..)) else {
                    continue;
                };
                let entry = &rest[..rest.len().min(LINKAGE_BYTES as usize)];
                if code::linkage(address, entry).is_some_and(|word| words.contains(&word)) {
                    found.push(address);
                }
            }
        }
    })?;
    Ok(found)
}

/// The plan that removes calls of a function, in one function or everywhere.
pub(super) fn remove(
    context: &PlanContext<'_>,
    function: &FunctionName,
    within: Option<&FunctionName>,
) -> Result<CodePlan, ActionError> {
    let called = context.find(function)?;
    let place = within.map_or_else(|| "everywhere".to_owned(), |within| format!("in {within}"));
    let mut plan = CodePlan::new(format!("remove calls of {} {place}", called.name), &[]);
    match within {
        Some(within) => {
            let caller = context.find(within)?;
            refuse_indirect(&caller, DONE)?;
            let callee = Callee::of(context, &caller.module, &called)?;
            remove_in(context, &mut plan, &caller, &callee)?;
        }
        None => {
            for module in &context.space.modules {
                let callee = Callee::of(context, module, &called)?;
                for caller in callers(context, module, &called, &callee)? {
                    remove_in(context, &mut plan, &caller, &callee)?;
                }
            }
        }
    }
    match plan.patch.sites.len() {
        0 => Err(called.refused("left out", format!("no call of it was found {place}"))),
        count if count > CALLS_MAX => {
            Err(called.refused("left out", format!("it is called at {count} places")))
        }
        _ => Ok(plan),
    }
}

fn remove_in(
    context: &PlanContext<'_>,
    plan: &mut CodePlan,
    caller: &FoundFunction,
    callee: &Callee,
) -> Result<(), ActionError> {
    let body = caller.body(DONE)?;
    let (calls, jumps) = body.calls_of(|instruction| callee.is_called_by(instruction));
    if let Some(jump) = jumps.first() {
        return Err(caller.refused(
            DONE,
            format!(
                "it calls it by the jump at {:#x}, as its last act: without the jump it would run on into other code",
                jump.ip()
            ),
        ));
    }
    for call in &calls {
        let nothing = code::nothing(call.len());
        plan.add_code(context, caller, &body, Address(call.ip()), nothing, DONE)?;
    }
    Ok(())
}

/// The functions of a module that call it. Calls from code without a symbol are refused: its instruction
/// boundaries are unknown.
fn callers(
    context: &PlanContext<'_>,
    module: &Module,
    called: &FoundFunction,
    callee: &Callee,
) -> Result<Vec<FoundFunction>, ActionError> {
    let mut places = Vec::new();
    words::each_text(module, |start, bytes| {
        let direct = std::iter::once(&callee.address).chain(&callee.linkages);
        for target in direct {
            places.extend(code::references(start, bytes, &(target.0..target.0 + 1)));
        }
        for word in &callee.words {
            places.extend(code::references_through(start, bytes, *word));
        }
    })?;
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let functions = functions_of(module)?;
    let mut found: BTreeMap<Address, FoundFunction> = BTreeMap::new();
    for place in places {
        let link = place.0.wrapping_sub(module.bias.0);
        let holder = functions.range(..=link).next_back();
        let Some((start, (name, _))) = holder.filter(|(start, (_, size))| link < **start + size) else {
            if is_linkage(module, link) {
                continue;
            }
            let why = format!(
                "the code at {place} in {} that seems to call it has no symbol",
                module.path
            );
            return Err(called.refused("left out", why));
        };
        let wanted = FunctionName {
            name: name.clone(),
            module: Some(module.path.clone()),
        };
        let mut caller = find(context.space, &wanted).or_else(|_| by_place(module, name, *start))?;
        if caller.function.address.0 != *start {
            caller = by_place(module, name, *start)?;
        }
        caller.name.clone_from(name);
        found.insert(caller.address(), caller);
    }
    Ok(found.into_values().collect())
}

fn is_linkage(module: &Module, link: u64) -> bool {
    let section = module.image.section_at(LinkAddress(link), 1);
    section.is_some_and(|section| section.name.starts_with(".plt"))
}

/// One of several functions of a name, by its address.
fn by_place(module: &Module, name: &str, start: u64) -> Result<FoundFunction, ActionError> {
    let functions = module.image.functions(&[name]);
    let functions = functions.map_err(|source| words::image_error(module, source))?;
    let function = functions.into_iter().find(|function| function.address.0 == start);
    let missing = ActionError::NoFunction {
        pid: module.pid,
        name: name.to_owned(),
        module: Some(module.path.clone()),
    };
    Ok(FoundFunction {
        name: name.to_owned(),
        module: module.clone(),
        function: function.ok_or(missing)?,
    })
}

/// Name and size of all functions of a module, by link address.
fn functions_of(module: &Module) -> Result<BTreeMap<u64, (String, u64)>, ActionError> {
    let symbols = module.image.defined_symbols();
    let symbols = symbols.map_err(|source| words::image_error(module, source))?;
    let mut found: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    for symbol in symbols {
        if symbol.kind == SymbolKind::Function && symbol.size > 0 {
            found
                .entry(symbol.address.0)
                .or_insert((symbol.name, symbol.size));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::code::Body;

    #[test]
    fn a_call_is_recognised_directly_through_a_word_and_through_linkage_code() {
        let callee = Callee {
            address: Address(0x2000),
            words: vec![Address(0x3000)],
            linkages: vec![Address(0x1100)],
        };
        let code = [
            &[0xe8, 0xfb, 0x0f, 0x00, 0x00][..],   // 1000: call 2000
            &[0xff, 0x15, 0xf5, 0x1f, 0x00, 0x00], // 1005: call [rip -> 3000]
            &[0xe8, 0xf0, 0x00, 0x00, 0x00],       // 100b: call 1100
            &[0xe8, 0x00, 0x00, 0x00, 0x00],       // 1010: call the next
            &[0xe9, 0xe6, 0x0f, 0x00, 0x00],       // 1015: jmp 2000
        ];
        let body = Body::decode(Address(0x1000), code.concat()).unwrap();
        let (calls, jumps) = body.calls_of(|instruction| callee.is_called_by(instruction));
        let places = |found: &[Instruction]| found.iter().map(Instruction::ip).collect::<Vec<_>>();
        assert_eq!(places(&calls), [0x1000, 0x1005, 0x100b]);
        assert_eq!(places(&jumps), [0x1015]);
    }
}
