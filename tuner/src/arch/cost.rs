//! What a probe on an instruction costs, and what keeps a cheaper one from being taken.

use std::fmt;

/// What a kernel emulates beyond what all do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The nops of three to eight bytes that it uses itself (since 6.18).
    pub long_nops: bool,
}

/// Why no cheaper place than a function's first byte was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// An argument's register is changed before one.
    ChangesArgument,
    /// The stack pointer is.
    MovesStack,
    /// Memory is: it may be what is read at the entry.
    Stores,
    /// The function calls, returns or makes a system call before one.
    Leaves,
    /// Not only those come there who come from the first byte.
    JumpedInto,
    /// The function jumps to computed places, and one might be there.
    ComputedJump,
    /// Another symbol or a mark is there.
    NamedInside,
    /// Where the function ends is not known, or it is too long.
    NoEnd,
    /// It holds something that is no instruction.
    NotCode,
    /// There is none within reach, or the function's jumps lead too far to be followed.
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
