//! The registers of the program where a probe sits: what the arguments of marks are passed in.

use abi::Capture;
use aya_ebpf::{bindings::pt_regs, programs::ProbeContext};

use crate::capture::opaque;

/// What the registers of a capture add up to.
pub fn sum(ctx: &ProbeContext, capture: &Capture) -> Option<u64> {
    // SAFETY: `regs` is the context that the kernel passed.
    let regs = unsafe { &*ctx.regs };
    let first = register(regs, capture.index)?;
    let Some(second) = capture.second.checked_sub(1) else {
        return Some(first);
    };
    let second = register(regs, second)?;
    Some(first.wrapping_add(second << (capture.shift & 3)))
}

/// By its number in the machine's code. Each is read by an instruction of its own, for the verifier wants the place in the context to
/// be a constant: the compiler would else choose the place first and read then.
#[inline(never)]
fn register(regs: &pt_regs, number: u8) -> Option<u64> {
    Some(match number {
        0 => opaque(regs.rax),
        1 => opaque(regs.rcx),
        2 => opaque(regs.rdx),
        3 => opaque(regs.rbx),
        4 => opaque(regs.rsp),
        5 => opaque(regs.rbp),
        6 => opaque(regs.rsi),
        7 => opaque(regs.rdi),
        8 => opaque(regs.r8),
        9 => opaque(regs.r9),
        10 => opaque(regs.r10),
        11 => opaque(regs.r11),
        12 => opaque(regs.r12),
        13 => opaque(regs.r13),
        14 => opaque(regs.r14),
        15 => opaque(regs.r15),
        _ => return None,
    })
}
