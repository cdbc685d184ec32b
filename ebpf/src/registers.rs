//! The registers of the program where a probe sits: what the arguments of marks are passed in.

use abi::Capture;
use aya_ebpf::{bindings::pt_regs, programs::ProbeContext};

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

/// By its number in the machine's code. Out of line, and each read by itself: the verifier wants the place in the context to be a
/// constant.
#[inline(never)]
fn register(regs: &pt_regs, number: u8) -> Option<u64> {
    Some(match number {
        0 => regs.rax,
        1 => regs.rcx,
        2 => regs.rdx,
        3 => regs.rbx,
        4 => regs.rsp,
        5 => regs.rbp,
        6 => regs.rsi,
        7 => regs.rdi,
        8 => regs.r8,
        9 => regs.r9,
        10 => regs.r10,
        11 => regs.r11,
        12 => regs.r12,
        13 => regs.r13,
        14 => regs.r14,
        15 => regs.r15,
        _ => return None,
    })
}
