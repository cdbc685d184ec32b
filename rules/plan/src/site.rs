//! Properties of probe sites that determine the cost of a hit.

use std::fmt;

/// How the kernel executes the instruction under a probe, which determines the cost of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// A five-byte nop that is replaced by a call: no exception.
    Optimised,
    /// The kernel emulates the instruction: one exception.
    Emulated,
    /// The processor executes a copy of the instruction: two exceptions or more.
    Stepped,
    /// No code was found there.
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
