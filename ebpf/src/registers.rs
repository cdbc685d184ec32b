//! The program's registers at the probed instruction, and the arguments passed in them.

use abi::{Capture, NO_ARGUMENT};
use aya_ebpf::{bindings::pt_regs, helpers::bpf_probe_read_user};

use crate::capture::{HitContext, opaque};
use crate::record::record;

/// Number of arguments passed in registers.
pub const ARGUMENTS: usize = 6;

/// The value, or sum, of the registers of a capture.
pub fn sum(regs: &pt_regs, capture: &Capture) -> Option<u64> {
    let first = register(regs, capture.index)?;
    let Some(second) = capture.second.checked_sub(1) else {
        return Some(first);
    };
    let second = register(regs, second)?;
    Some(first.wrapping_add(second << (capture.shift & 3)))
}

/// A register by its number in machine code. Each is read by its own instruction, because the verifier
/// requires a constant offset into the context, which the compiler would otherwise compute.
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

/// An integer argument of the probed function. Arguments beyond the sixth are on the stack, above the return
/// address.
#[inline(always)]
pub fn argument(moment: &HitContext, index: u64) -> Option<u64> {
    let index = opaque(index);
    if let Some(argument) = moment.arguments.get(index as usize) {
        return Some(*argument);
    }
    if index == u64::from(NO_ARGUMENT) {
        return None;
    }
    let above = 8 + 8 * (index - ARGUMENTS as u64);
    let place = moment.stack_pointer.wrapping_add(above) as *const u64;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_user(place) }.ok()
}

/// As [`argument`], with a default if the argument does not exist or cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn argument_or(moment: *const HitContext, index: u64, otherwise: u64) -> u64 {
    let argument = record(moment).and_then(|moment| argument(moment, index));
    argument.unwrap_or(otherwise)
}
