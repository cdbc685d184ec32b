//! Everything that depends on the machine: registers, how a system call is made and resumed, machine code. No
//! other module depends on an instruction set.

mod cost;
pub(crate) mod x86_64;

pub use cost::Emulation;
pub(crate) use cost::Obstacle;
pub use plan::Cost;

/// The registers of a thread, in the kernel's format.
pub(crate) type RawRegisters = libc::user_regs_struct;

/// Bytes below the stack pointer that belong to the running function.
pub(crate) const RED_ZONE: u64 = 128;
