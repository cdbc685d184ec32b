//! The words (pointers in tables of imports) through which a function is called from other files, and whether
//! all its calls use them.

use super::function::{FoundFunction, PlanContext};
use crate::address::{Address, LinkAddress};
use crate::arch::x86_64::code;
use crate::error::ActionError;
use crate::image::{ImageError, got::Stored};
use crate::module::{Module, ModuleError};

/// A word through which a module's code calls a function.
#[derive(Debug)]
pub(super) struct Word<'a> {
    pub(super) module: &'a Module,
    pub(super) place: LinkAddress,
    pub(super) holds: u64,
    /// The dynamic linker fills it at the first call.
    pub(super) is_unbound: bool,
}

/// The words through which a function is called, if all its calls use them.
pub(super) fn words<'a>(
    context: &PlanContext<'a>,
    found: &FoundFunction,
) -> Result<Option<Vec<Word<'a>>>, ActionError> {
    let name = symbol_name(found);
    let mut words = Vec::new();
    for module in &context.space.modules {
        let stored = module
            .image
            .stored(name)
            .map_err(|error| image_error(module, error))?;
        if stored.contains(&Stored::Data) {
            return Ok(None);
        }
        words.extend(words_of(context, module, found)?);
    }
    // Which of several functions of the name an unfilled word will lead to is unknown.
    let has_unbound = words.iter().any(|word| word.is_unbound);
    if has_unbound && context.space.functions(&[name])?.len() > 1 {
        return Ok(None);
    }
    let module = &found.module;
    let pointed = module.image.is_pointed_to(found.function.address);
    if words.is_empty() || pointed.map_err(|error| image_error(module, error))? {
        return Ok(None);
    }
    let mut is_referred_to = false;
    each_text(module, |start, bytes| {
        is_referred_to |= code::mentions(start, bytes, found.address())
    })?;
    Ok((!is_referred_to).then_some(words))
}

/// The words of one module that lead to a function, or will once they are filled.
pub(super) fn words_of<'a>(
    context: &PlanContext<'_>,
    module: &'a Module,
    found: &FoundFunction,
) -> Result<Vec<Word<'a>>, ActionError> {
    let mut words = Vec::new();
    let stored = module.image.stored(symbol_name(found));
    for stored in stored.map_err(|error| image_error(module, error))? {
        let (place, may_be_unbound) = match stored {
            Stored::Call(place) => (place, true),
            Stored::Table(place) => (place, false),
            Stored::Data => continue,
        };
        let holds = context.memory.word(module.address(place))?;
        // Until the first call it points into the module itself, to code that has it filled.
        let is_unbound = may_be_unbound && module.contains(Address(holds)) && holds != found.address().0;
        if holds == found.address().0 || is_unbound {
            words.push(Word {
                module,
                place,
                holds,
                is_unbound,
            });
        }
    }
    Ok(words)
}

pub(super) fn symbol_name(found: &FoundFunction) -> &str {
    found
        .function
        .names
        .first()
        .map_or(found.name.as_str(), String::as_str)
}

/// All code of a module, from its file.
pub(super) fn each_text(module: &Module, mut look: impl FnMut(Address, &[u8])) -> Result<(), ActionError> {
    for segment in module.image.segments.iter().filter(|segment| segment.executable) {
        let bytes = module.image.bytes_at(segment.offset, segment.file_size);
        let bytes = bytes.map_err(|error| image_error(module, error))?;
        look(module.address(segment.address), &bytes);
    }
    Ok(())
}

pub(super) fn image_error(module: &Module, error: ImageError) -> ActionError {
    ActionError::Module(ModuleError::Image {
        path: module.path.clone(),
        error,
    })
}
