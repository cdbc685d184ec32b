//! Resolves a [`Key`], the number of an iteration, to its place in a process.

use plan::{FunctionName, Key, Moment, SyncPoint};

use thiserror::Error;

use super::KeyPlace;
use crate::dwarf::{self, ArgumentError, ArgumentName, ValueKind};
use crate::function::FunctionError;
use crate::space::AddressSpace;
use crate::variable::{VariableError, VariableName};

/// Why no probe can read a key.
#[derive(Debug, Error)]
pub(crate) enum KeyError {
    #[error("{0} is a local variable or an argument, which has no location at a return")]
    AtReturn(Key),
    #[error("{0} is passed on the stack, where no probe reads it")]
    OnStack(Key),
    #[error("{0} is not a number of 4 or 8 bytes")]
    Size(Key),
    #[error("{0} is passed by reference, which no probe follows here")]
    ByReference(ArgumentName),
    #[error("{0} is not an integer")]
    NoInteger(ArgumentName),
    #[error("{0} is behind a pointer, which no probe follows here")]
    BehindPointer(String),
    #[error(transparent)]
    Function(#[from] FunctionError),
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Variable(#[from] VariableError),
}

/// Resolves a key for hits at `at`.
pub(crate) fn resolve(key: &Key, space: &AddressSpace, at: &SyncPoint) -> Result<KeyPlace, KeyError> {
    let place = match key {
        Key::Variable { name, bytes } => variable(space, name, *bytes)?,
        _ if at.moment == Moment::Return => return Err(KeyError::AtReturn(key.clone())),
        Key::Argument { number, bytes } => {
            let found = argument(space, at, &ArgumentName::Number(*number));
            in_register(found.or_else(|why| bytes.map(|bytes| (*number, u64::from(bytes))).ok_or(why))?)
        }
        Key::NamedArgument { name } => in_register(argument(space, at, &ArgumentName::Name(name.clone()))?),
    };
    let (KeyPlace::Argument { bytes, .. } | KeyPlace::Memory { bytes, .. }) = place;
    match place {
        KeyPlace::Argument { index, .. } if index > 5 => Err(KeyError::OnStack(key.clone())),
        _ if matches!(bytes, 4 | 8) => Ok(place),
        _ => Err(KeyError::Size(key.clone())),
    }
}

fn in_register((index, bytes): (u8, u64)) -> KeyPlace {
    let bytes = u8::try_from(bytes).unwrap_or(0);
    KeyPlace::Argument { index, bytes }
}

/// The index of the argument and its size in bytes.
fn argument(space: &AddressSpace, at: &SyncPoint, argument: &ArgumentName) -> Result<(u8, u64), KeyError> {
    let name = FunctionName {
        name: at.function.clone(),
        module: at.module.clone(),
    };
    let (module, function) = space.function(&name)?;
    let value = dwarf::argument(&module.image, function.address, argument, &[])?;
    if !value.reads.is_empty() {
        return Err(KeyError::ByReference(argument.clone()));
    }
    match value.leaf.of.kind {
        ValueKind::Signed | ValueKind::Unsigned => Ok((value.register, value.leaf.of.size)),
        _ => Err(KeyError::NoInteger(argument.clone())),
    }
}

fn variable(space: &AddressSpace, name: &str, stated: Option<u8>) -> Result<KeyPlace, KeyError> {
    let location = space.variable(&VariableName::from(name))?;
    if location.chain.is_some() {
        return Err(KeyError::BehindPointer(name.to_owned()));
    }
    Ok(KeyPlace::Memory {
        address: location.address,
        bytes: stated.unwrap_or(u8::try_from(location.size).unwrap_or(0)),
    })
}
