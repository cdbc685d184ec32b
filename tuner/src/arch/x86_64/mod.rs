//! x86-64: registers and the rules of the System V ABI. The submodules: `frame` (the stack that restores a
//! thread), `restart` (how an interrupted system call is resumed), `code` (analysis of a function's code),
//! `site` (where its entry is probed), `stub` (a call from outside), `trampoline` (code before, after or
//! instead of a function).

pub(crate) mod assemble;
pub(crate) mod code;
pub(crate) mod frame;
pub(crate) mod restart;
pub(crate) mod site;
pub(crate) mod stub;
pub(crate) mod trampoline;

pub(crate) use self::restart::{Sleep, resumable};
use crate::address::Address;
use crate::arch::RawRegisters;

/// The segment of 64-bit user code; 32-bit code has another.
const USER_CODE_SEGMENT: u64 = 0x33;

/// The address of the next instruction, which may be that of an interrupted system call.
pub(crate) fn instruction(registers: &RawRegisters) -> Address {
    Address(resumable(registers, Sleep::GoOn).rip)
}

pub(crate) fn stack(registers: &RawRegisters) -> Address {
    Address(registers.rsp)
}

/// It runs 64-bit code.
pub(crate) fn is_native(registers: &RawRegisters) -> bool {
    registers.cs == USER_CODE_SEGMENT
}

/// The registers that enter a system call at `instruction` with this stack.
pub(crate) fn system_call(
    from: &RawRegisters,
    instruction: Address,
    stack: Address,
    number: u64,
    arguments: [u64; 6],
) -> RawRegisters {
    let mut registers = *from;
    registers.rip = instruction.0;
    registers.rsp = stack.0;
    registers.rax = number;
    registers.orig_rax = u64::MAX;
    [
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
    ] = arguments;
    registers
}

/// The registers that continue at `instruction`; all others are unchanged.
pub(crate) fn entering(from: &RawRegisters, instruction: Address) -> RawRegisters {
    RawRegisters {
        rip: instruction.0,
        orig_rax: u64::MAX,
        ..*from
    }
}

/// The return value of a system call.
pub(crate) fn returned(registers: &RawRegisters) -> i64 {
    registers.rax.cast_signed()
}
