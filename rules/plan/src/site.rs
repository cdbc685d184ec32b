//! Where a probe sits, as far as that decides what a hit costs.

use std::fmt;

/// What the kernel does with the instruction under a probe, which decides what a hit costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// A nop of five bytes, of which it makes a call: no exception at all.
    Optimised,
    /// It does itself what the instruction does: one exception.
    Emulated,
    /// It has the processor run a copy of it: two exceptions and more.
    Stepped,
    /// Nobody has looked into this on this machine's instruction set.
    Unknown,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cost::Optimised => "optimised nop",
            Cost::Emulated => "emulated",
            Cost::Stepped => "single-stepped",
            Cost::Unknown => "unknown",
        })
    }
}
