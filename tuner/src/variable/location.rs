//! Where a variable is said to be: a fixed place in a module, or one that pointers lead to.

use plan::{Bytes, ValueType};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::address::{Address, LinkAddress};
use crate::dwarf::{Leaf, VariableType};
use crate::memory::{Memory, MemoryError};
use crate::module::Module;
use crate::process::Pid;

/// Where a variable is said to be. A claim, made from files and a snapshot: it can be read, and must become a
/// [`crate::slot::Slot`] before it can be written.
#[derive(Debug, Clone)]
pub struct Location {
    /// The name that was requested.
    pub symbol: String,
    /// The module that holds the bytes; of a chain the first pointer.
    pub module: Module,
    /// Where the linker placed them; of a chain the first pointer.
    pub link_address: LinkAddress,
    /// Where they are; of a chain where they were when it was last followed.
    pub address: Address,
    /// The pointers that lead there, if it is no fixed place.
    pub chain: Option<Chain>,
    /// How many they are, by the symbol table or else the debug information; 0 when neither says.
    pub size: u64,
    /// What they are, by the debug information if there is any.
    pub leaf: Option<Leaf>,
    /// The dynamic linker's own answer, found in memory, agrees.
    pub is_confirmed: bool,
}

/// Pointers that lead from a fixed place to a value. They are followed anew whenever the value is read or
/// written: the program may have turned one elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    pub root: Address,
    /// At these distances, from the beginning and from where each pointer leads, the pointers are.
    pub hops: Vec<u64>,
    /// At this distance from where the last leads the value is.
    pub offset: u64,
}

/// Why pointers lead to no value.
#[derive(Debug, Error)]
pub enum FollowError {
    #[error("`{symbol}` is not there now: pointer {number} of {of} on the way to it is null")]
    Null {
        symbol: String,
        /// Which, counted from 1.
        number: usize,
        /// How many there are.
        of: usize,
    },
    #[error("`{symbol}` is not there now: pointer {number} on the way to it holds no address")]
    Wild {
        symbol: String,
        /// Which, counted from 1.
        number: usize,
    },
    /// The memory on the way cannot be read.
    #[error("`{symbol}` cannot be followed: {source}")]
    Memory { symbol: String, source: MemoryError },
}

impl Location {
    pub fn pid(&self) -> Pid {
        self.module.pid
    }

    /// What it is, by the debug information if there is any.
    pub fn variable_type(&self) -> Option<VariableType> {
        self.leaf.as_ref().map(|leaf| leaf.of)
    }

    /// The type for a value here when the user states none.
    pub fn value_type(&self) -> Option<ValueType> {
        self.variable_type().and_then(VariableType::value_type)
    }

    /// Reads the bytes, at most 8 of them.
    pub fn read(&self, memory: &Memory) -> Result<Bytes, FollowError> {
        let mut bytes = [0; Bytes::MAX];
        let bytes = &mut bytes[..(self.size as usize).min(Bytes::MAX)];
        self.read_into(memory, bytes)?;
        Ok(Bytes::new(bytes).unwrap_or_else(|| unreachable!("bounded by Bytes::MAX above")))
    }

    /// Fills the bytes from where it is now.
    pub fn read_into(&self, memory: &Memory, bytes: &mut [u8]) -> Result<(), FollowError> {
        let address = self.follow(|address| memory.word(address))?;
        memory
            .read(address, bytes)
            .map_err(|source| self.unreadable(source))
    }

    /// Where the bytes are now.
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
            at = Address(word(place).map_err(|source| self.unreadable(source))?);
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

    fn unreadable(&self, source: MemoryError) -> FollowError {
        FollowError::Memory {
            symbol: self.symbol.clone(),
            source,
        }
    }
}
