//! Resolves a [`Key`], the number of an iteration, to its place in a process.

use plan::{FunctionName, Key, Moment, SyncPoint};

use super::KeyPlace;
use crate::dwarf::{self, ArgumentName, ValueKind};
use crate::space::AddressSpace;
use crate::variable::VariableName;

/// Resolves a key for hits at `at`.
pub(crate) fn resolve(key: &Key, space: &AddressSpace, at: &SyncPoint) -> Result<KeyPlace, String> {
    let place = match key {
        Key::Variable { name, bytes } => variable(space, name, *bytes)?,
        _ if at.moment == Moment::Return => {
            return Err(format!("{key} cannot be read at a return: it may be gone"));
        }
        Key::Argument { number, bytes } => {
            let found = argument(space, at, &ArgumentName::Number(*number));
            in_register(found.or_else(|why| bytes.map(|bytes| (*number, u64::from(bytes))).ok_or(why))?)
        }
        Key::NamedArgument { name } => in_register(argument(space, at, &ArgumentName::Name(name.clone()))?),
    };
    let (KeyPlace::Argument { bytes, .. } | KeyPlace::Memory { bytes, .. }) = place;
    match place {
        KeyPlace::Argument { index, .. } if index > 5 => {
            Err(format!("{key} is passed on the stack, where no probe reads it"))
        }
        _ if matches!(bytes, 4 | 8) => Ok(place),
        _ => Err(format!("{key} is no number of 4 or 8 bytes")),
    }
}

fn in_register((index, bytes): (u8, u64)) -> KeyPlace {
    let bytes = u8::try_from(bytes).unwrap_or(0);
    KeyPlace::Argument { index, bytes }
}

/// The index of the argument and its size in bytes.
fn argument(space: &AddressSpace, at: &SyncPoint, argument: &ArgumentName) -> Result<(u8, u64), String> {
    let name = FunctionName {
        name: at.function.clone(),
        module: at.module.clone(),
    };
    let (module, function) = space.function(&name).map_err(|error| error.to_string())?;
    let value =
        dwarf::argument(&module.image, function.address, argument, &[]).map_err(|error| error.to_string())?;
    if !value.reads.is_empty() {
        return Err(format!(
            "{argument} is passed by reference, which no probe follows here"
        ));
    }
    match value.leaf.of.kind {
        ValueKind::Signed | ValueKind::Unsigned => Ok((value.register, value.leaf.of.size)),
        _ => Err(format!("{argument} is no integer")),
    }
}

fn variable(space: &AddressSpace, name: &str, stated: Option<u8>) -> Result<KeyPlace, String> {
    let location = space
        .variable(&VariableName::from(name))
        .map_err(|error| error.to_string())?;
    if location.chain.is_some() {
        return Err(format!("{name} is behind a pointer, which no probe follows here"));
    }
    Ok(KeyPlace::Memory {
        address: location.address,
        bytes: stated.unwrap_or(u8::try_from(location.size).unwrap_or(0)),
    })
}
