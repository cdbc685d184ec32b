//! The claimed place of a variable: fixed in a module, or reached through pointers.

use plan::{Bytes, ValueType};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::address::{Address, LinkAddress};
use crate::dwarf::{Leaf, VariableType};
use crate::memory::{Memory, MemoryError};
use crate::module::Module;
use crate::process::Pid;

/// The claimed place of a variable, derived from files and a snapshot. It can be read, and must become a
/// [`crate::writable_place::WritablePlace`] before it can be written.
#[derive(Debug, Clone)]
pub struct Location {
    pub symbol: String,
    /// The module that has the bytes; for a chain, the first pointer.
    pub module: Module,
    /// Where the linker placed them; for a chain, the first pointer.
    pub link_address: LinkAddress,
    /// Their address; for a chain, as of the last time that it was followed.
    pub address: Address,
    /// The pointers that lead to them; `None` for a fixed place.
    pub chain: Option<Chain>,
    /// Size in bytes by the symbol table or else the debug information; 0 if unknown.
    pub size: u64,
    /// Their type, if there is debug information.
    pub leaf: Option<Leaf>,
    /// The dynamic linker's own entry in memory confirms the address.
    pub is_confirmed: bool,
}

/// Pointers that lead from a fixed place to a value. They are followed anew whenever the value is read or
/// written, since the program may have changed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    pub root: Address,
    /// The offsets of the pointers: the first from `root`, each other from the target of the one before.
    pub hops: Vec<u64>,
    /// The offset of the value from the last pointer's target.
    pub offset: u64,
}

/// Why pointers cannot be followed.
#[derive(Debug, Error)]
pub enum FollowError {
    #[error("`{symbol}` is not there now: pointer {number} of {of} on the way to it is null")]
    Null {
        symbol: String,
        /// Its number, from 1.
        number: usize,
        /// How many pointers are followed.
        of: usize,
    },
    #[error("`{symbol}` is not there now: pointer {number} on the way to it holds no address")]
    Wild {
        symbol: String,
        /// Its number, from 1.
        number: usize,
    },
    /// The memory on the way cannot be read.
    #[error("`{symbol}` cannot be followed: {error}")]
    Memory { symbol: String, error: MemoryError },
}

impl Location {
    pub fn pid(&self) -> Pid {
        self.module.pid
    }

    /// Its type, if there is debug information.
    pub fn variable_type(&self) -> Option<VariableType> {
        self.leaf.as_ref().map(|leaf| leaf.of)
    }

    /// The type of a value here if the user states none.
    pub fn value_type(&self) -> Option<ValueType> {
        self.variable_type().and_then(VariableType::value_type)
    }

    /// Reads the bytes, at most the first 8.
    pub fn read(&self, memory: &Memory) -> Result<Bytes, FollowError> {
        let mut bytes = [0; Bytes::MAX];
        let bytes = &mut bytes[..(self.size as usize).min(Bytes::MAX)];
        self.read_into(memory, bytes)?;
        Ok(Bytes::new(bytes).unwrap_or_else(|| unreachable!("bounded by Bytes::MAX above")))
    }

    /// Fills the bytes from its current address.
    pub fn read_into(&self, memory: &Memory, bytes: &mut [u8]) -> Result<(), FollowError> {
        let address = self.follow(|address| memory.word(address))?;
        memory
            .read(address, bytes)
            .map_err(|error| self.unreadable(error))
    }

    /// The current address of the bytes.
    pub(crate) fn follow(
        &self,
        word: impl Fn(Address) -> Result<u64, MemoryError>,
    ) -> Result<Address, FollowError> {
        let Some(Chain { root, hops, offset }) = &self.chain else {
            return Ok(self.address);
        };
        let wild = |number| FollowError::Wild {
            symbol: self.symbol.clone(),
            number,
        };
        let mut at = *root;
        for (index, hop) in hops.iter().enumerate() {
            let place = at.checked_add(*hop).ok_or_else(|| wild(index))?;
            at = Address(word(place).map_err(|error| self.unreadable(error))?);
            if at.0 == 0 {
                return Err(FollowError::Null {
                    symbol: self.symbol.clone(),
                    number: index + 1,
                    of: hops.len(),
                });
            }
        }
        at.checked_add(*offset).ok_or_else(|| wild(hops.len()))
    }

    fn unreadable(&self, error: MemoryError) -> FollowError {
        FollowError::Memory {
            symbol: self.symbol.clone(),
            error,
        }
    }
}
