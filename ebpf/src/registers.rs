//! The registers of the program where a probe sits: what arguments are passed in.

use abi::{Capture, NO_ARGUMENT};
use aya_ebpf::{bindings::pt_regs, helpers::bpf_probe_read_user};

use crate::capture::Moment;

/// How many there are.
pub const COUNT: usize = 16;

/// The one that a value is returned in, and the stack pointer, by their numbers in the machine's code.
pub const RETURNED: usize = 0;
const STACK_POINTER: usize = 4;

/// All of them, by their numbers in the machine's code.
#[inline(always)]
pub fn all(regs: &pt_regs) -> [u64; COUNT] {
    [
        regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi, regs.r8, regs.r9,
        regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
    ]
}

/// What the registers of a capture add up to.
pub fn sum(moment: &Moment, capture: &Capture) -> u64 {
    let first = register(moment, u64::from(capture.index));
    let Some(second) = capture.second.checked_sub(1) else {
        return first;
    };
    first.wrapping_add(register(moment, u64::from(second)) << (capture.shift & 3))
}

/// Masked, so that the verifier need not follow each number.
fn register(moment: &Moment, number: u64) -> u64 {
    moment.registers[number as usize & (COUNT - 1)]
}

/// An integer argument of the probed function. Those beyond the sixth are on the stack, above the return address.
#[inline(always)]
pub fn argument(moment: &Moment, index: u64) -> Option<u64> {
    const IN_REGISTERS: u64 = 6;
    /// The registers of the first six, four bits each: rdi, rsi, rdx, rcx, r8, r9.
    const NUMBERS: u64 = 0x98_1267;
    if index < IN_REGISTERS {
        return Some(register(moment, NUMBERS >> (4 * index)));
    }
    if index == u64::from(NO_ARGUMENT) {
        return None;
    }
    let place = moment.registers[STACK_POINTER].wrapping_add(8 + 8 * (index - IN_REGISTERS));
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_user(place as *const u64) }.ok()
}

/// The same, or what stands for one that is not there or cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn argument_or(moment: *const Moment, index: u64, otherwise: u64) -> u64 {
    // SAFETY: whoever calls passes a whole record: the verifier sees to it.
    let moment = unsafe { moment.as_ref() };
    moment
        .and_then(|moment| argument(moment, index))
        .unwrap_or(otherwise)
}
