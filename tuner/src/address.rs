//! The three kinds of numbers called "address", and the bias between two of them.
//!
//! Confusing them would compile to a write at the wrong place, so each is a type and only the meaningful
//! conversions exist.

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
    /// The offset of a byte in a file, to which a uprobe is attached.
    FileOffset
}
number! {
    /// Where the linker placed a byte, before the loader moved the module: used by symbol tables and DWARF.
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
    /// The address in memory of the link address `link`.
    pub fn address(self, link: LinkAddress) -> Address {
        Address(self.0.wrapping_add(link.0))
    }
}

impl Address {
    /// The address `bytes` further on; `None` past the end of the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Address> {
        self.0.checked_add(bytes).map(Address)
    }

    /// True if a value of `size` bytes (a power of two) at this address does not cross its natural boundary.
    pub(crate) fn is_aligned(self, size: usize) -> bool {
        size.is_power_of_two() && self.0.is_multiple_of(size as u64)
    }
}
