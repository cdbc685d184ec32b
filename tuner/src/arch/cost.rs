//! The cost of a probe on an instruction, and the obstacles to a cheaper site.

use std::fmt;

/// What a kernel emulates in addition to what all kernels do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The nops of three to eight bytes that it uses itself (since 6.18).
    pub long_nops: bool,
}

/// Why no cheaper site than a function's first byte was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// An argument's register is changed before the first cheap instruction.
    ChangesArgument,
    /// The stack pointer is changed before it.
    MovesStack,
    /// Memory is changed before it, perhaps a value that is read at the entry.
    Stores,
    /// The function calls, returns or makes a system call before it.
    Leaves,
    /// A jump leads to it past the first byte.
    JumpedInto,
    /// The function has computed jumps, which might lead to it.
    ComputedJump,
    /// Another symbol or a mark is there.
    NamedInside,
    /// The function's end is unknown, or it is too long.
    NoEnd,
    /// It contains invalid instructions.
    NotCode,
    /// No cheap instruction is within reach, or the function's jumps lead too far to be followed.
    TooFar,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::ChangesArgument => "then an argument changes",
            Obstacle::MovesStack => "then the stack moves",
            Obstacle::Stores => "then memory changes",
            Obstacle::Leaves => "then it leaves",
            Obstacle::JumpedInto => "code jumps behind it",
            Obstacle::ComputedJump => "it has computed jumps",
            Obstacle::NamedInside => "a symbol is behind it",
            Obstacle::NoEnd => "its end is not known",
            Obstacle::NotCode => "not all of it is code",
            Obstacle::TooFar => "nothing cheaper near",
        })
    }
}
