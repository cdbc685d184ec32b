//! Where the program says which iteration it begins: what a rule names, and that place found in a process.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{KeyPlace, Moment, SyncPlace};
use crate::dwarf::{self, ArgumentName, Kind};
use crate::space::AddressSpace;
use crate::variable::VariableName;

/// What a rule names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyName {
    /// An argument of the function, by its place.
    Argument {
        /// The first is 0.
        number: u8,
        /// Its size, where the debug information does not say it.
        bytes: Option<u8>,
    },
    NamedArgument {
        /// Its name in the source.
        name: String,
    },
    Variable {
        name: String,
        /// Its size, where neither the symbol nor the debug information says it.
        bytes: Option<u8>,
    },
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyName::Argument { number, .. } => write!(f, "arg({number})"),
            KeyName::NamedArgument { name } => write!(f, "arg({name})"),
            KeyName::Variable { name, .. } => f.write_str(name),
        }
    }
}

impl KeyName {
    /// Looks it up, for hits at `at`.
    pub(crate) fn resolve(&self, space: &AddressSpace, at: &SyncPlace) -> Result<KeyPlace, String> {
        let place = match self {
            KeyName::Variable { name, bytes } => variable(space, name, *bytes)?,
            _ if at.moment == Moment::Return => {
                return Err(format!("{self} cannot be read at a return: it may be gone"));
            }
            KeyName::Argument { number, bytes } => {
                let found = argument(space, at, &ArgumentName::Number(*number));
                in_register(found.or_else(|why| bytes.map(|bytes| (*number, u64::from(bytes))).ok_or(why))?)
            }
            KeyName::NamedArgument { name } => {
                in_register(argument(space, at, &ArgumentName::Name(name.clone()))?)
            }
        };
        let (KeyPlace::Argument { bytes, .. } | KeyPlace::Memory { bytes, .. }) = place;
        match place {
            KeyPlace::Argument { index, .. } if index > 5 => {
                Err(format!("{self} is passed on the stack, where no probe reads it"))
            }
            _ if matches!(bytes, 4 | 8) => Ok(place),
            _ => Err(format!("{self} is no number of 4 or 8 bytes")),
        }
    }
}

fn in_register((index, bytes): (u8, u64)) -> KeyPlace {
    let bytes = u8::try_from(bytes).unwrap_or(0);
    KeyPlace::Argument { index, bytes }
}

/// The register and the size.
fn argument(space: &AddressSpace, at: &SyncPlace, argument: &ArgumentName) -> Result<(u8, u64), String> {
    let name = match &at.module {
        Some(module) => format!("{module}:{}", at.function),
        None => at.function.clone(),
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
        Kind::Signed | Kind::Unsigned => Ok((value.register, value.leaf.of.size)),
        _ => Err(format!("{argument} is no whole number")),
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
