//! Machine code that the stub and the trampolines share: saving all state, a call, restoring all state.

use iced_x86::IcedError;
use iced_x86::code_asm::{AsmRegister64, CodeAssembler, ptr, qword_ptr, registers::gpr32, registers::xmm};

use crate::address::Address;

/// Number of integer arguments in registers; more cannot be passed.
pub(crate) const INTEGERS_MAX: usize = 6;
/// Number of floating-point arguments in registers.
pub(crate) const FLOATS_MAX: usize = 8;

/// Arguments in the registers of the calling convention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// For rdi, rsi, rdx, rcx, r8, r9.
    pub(crate) integers: Vec<u64>,
    /// Bits for xmm0 to xmm7.
    pub(crate) floats: Vec<u64>,
}

/// The general registers that are pushed, in this order. Balanced pops restore the stack pointer.
const PUSHED: [AsmRegister64; 15] = {
    use iced_x86::code_asm::registers::gpr64::*;
    [
        rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15,
    ]
};

/// Saves all state, so that any code may follow: skips the red zone and aligns the stack. Uses rbp and rbx
/// until [`restore`].
pub(super) fn save(a: &mut CodeAssembler, extended_bytes: usize) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::*;
    a.lea(rsp, ptr(rsp - 128))?;
    a.pushfq()?;
    for register in PUSHED {
        a.push(register)?;
    }
    a.cld()?;
    a.mov(rbp, rsp)?;
    a.sub(rsp, i32::try_from(extended_bytes + 64).unwrap_or(i32::MAX))?;
    a.and(rsp, -64)?;
    a.mov(rbx, rsp)?;
    // XSAVE leaves most of its header unchanged, XRSTOR requires it to be clear.
    a.xor(gpr32::eax, gpr32::eax)?;
    for word in 0..8 {
        a.mov(qword_ptr(rsp + (512 + word * 8)), rax)?;
    }
    all_states(a)?;
    a.xsave64(ptr(rsp))
}

/// Restores what [`save`] saved.
pub(super) fn restore(a: &mut CodeAssembler) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::*;
    all_states(a)?;
    a.xrstor64(ptr(rbx))?;
    a.mov(rsp, rbp)?;
    for register in PUSHED.into_iter().rev() {
        a.pop(register)?;
    }
    a.popfq()?;
    a.lea(rsp, ptr(rsp + 128))
}

fn all_states(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(gpr32::eax, -1)?;
    a.mov(gpr32::edx, -1)
}

/// Calls `function` with `passed`, between [`save`] and [`restore`].
pub(super) fn call(a: &mut CodeAssembler, function: Address, passed: &Passed) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::*;
    const INTEGERS: [AsmRegister64; INTEGERS_MAX] = [rdi, rsi, rdx, rcx, r8, r9];
    use xmm::{xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7};
    let floats = [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7];
    for (register, bits) in floats.into_iter().zip(&passed.floats) {
        a.mov(r11, *bits)?;
        a.movq(register, r11)?;
    }
    for (register, value) in INTEGERS.into_iter().zip(&passed.integers) {
        a.mov(register, *value)?;
    }
    // A variadic function needs the number of vector registers that are used.
    a.mov(gpr32::eax, u32::try_from(passed.floats.len()).unwrap_or_default())?;
    a.mov(r11, function.0)?;
    a.call(r11)
}
