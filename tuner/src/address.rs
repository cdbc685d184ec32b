//! The three kinds of number that other tools all call "address", and the bias between two of them.
//!
//! A mix-up compiles to a write at the wrong place, so each is a type and only the conversions that mean
//! something exist.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
            }
        }
    };
}

number! {
    /// Where a byte is in a file: what a uprobe is attached to.
    FileOffset
}
number! {
    /// Where a byte was placed by the linker, before the loader moved the module: what symbol tables and
    /// DWARF say.
    LinkAddress
}
number! {
    /// Where a byte is in a running process.
    Address
}
number! {
    /// How far the loader moved a module: [`Address`] = bias + [`LinkAddress`].
    LoadBias
}

impl LoadBias {
    /// Where the loader put what the linker placed at `link`.
    pub fn address(self, link: LinkAddress) -> Address {
        Address(self.0.wrapping_add(link.0))
    }
}

impl Address {
    /// The address `bytes` further on; `None` past the end of the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Address> {
        self.0.checked_add(bytes).map(Address)
    }

    /// True when a value of `size` bytes (a power of two) at this address does not straddle its natural
    /// boundary.
    pub(crate) fn is_aligned(self, size: usize) -> bool {
        size.is_power_of_two() && self.0.is_multiple_of(size as u64)
    }
}
