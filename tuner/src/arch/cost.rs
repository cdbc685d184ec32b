//! The cost of a probe on an instruction, and the obstacles to a cheaper site.

/// What a kernel emulates in addition to what all kernels do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The nops of three to eight bytes that it uses itself (since 6.18).
    pub long_nops: bool,
}

plan::words! {
    /// Why no cheaper site than a function's first byte was chosen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Obstacle {
        /// An argument's register is changed before the first cheap instruction.
        ChangesArgument = "then an argument changes",
        /// The stack pointer is changed before it.
        MovesStack = "then the stack moves",
        /// Memory is changed before it, perhaps a value that is read at the entry.
        Stores = "then memory changes",
        /// The function calls, returns or makes a system call before it.
        Leaves = "then it leaves",
        /// A jump leads to it past the first byte.
        JumpedInto = "code jumps behind it",
        /// The function has computed jumps, which might lead to it.
        ComputedJump = "it has computed jumps",
        /// Another symbol or a mark is there.
        NamedInside = "a symbol is behind it",
        /// The function's end is unknown, or it is too long.
        NoEnd = "its end is not known",
        /// It contains invalid instructions.
        NotCode = "not all of it is code",
        /// No cheap instruction is within reach, or the function's jumps lead too far to be followed.
        TooFar = "nothing cheaper near",
    }
}
