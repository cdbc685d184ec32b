//! A stack with a signal frame that restores a thread, as `rt_sigreturn(2)` reads it.
//!
//! A thread that executes a system call for us would be lost if we died before restoring its registers. So
//! before the one change of its registers its stack is prepared such that it restores itself: the system call
//! is an instruction followed by `ret`, which goes to the C library's return from signal handlers, which
//! makes the kernel load everything from this frame. While we live we restore the registers ourselves, and
//! the frame is never used.

use crate::address::Address;
use crate::arch::RawRegisters;

/// `syscall; ret`
pub(crate) const SYSTEM_CALL_AND_RETURN: [u8; 3] = [0x0f, 0x05, 0xc3];
/// Bytes of `syscall`.
pub(crate) const SYSTEM_CALL_BYTES: u64 = 2;
/// `mov $15, %rax; syscall`, in the encodings of glibc (`__restore_rt`) and musl.
pub(crate) const SIGNAL_RETURNS: [&[u8]; 2] = [
    &[0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
    &[0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
];

// Offsets into `struct rt_sigframe` (arch/x86/include/asm/sigframe.h): return address, ucontext, siginfo.
const UC_FLAGS: usize = 8;
const MACHINE_CONTEXT: usize = 48;
const SIGNAL_MASK: usize = 304;
const FRAME_BYTES: usize = 312;
const SAVED_STACK: usize = MACHINE_CONTEXT + 15 * 8;
const SAVED_INSTRUCTION: usize = MACHINE_CONTEXT + 16 * 8;
const SEGMENTS: usize = MACHINE_CONTEXT + 18 * 8;
const FLOATING_POINT: usize = MACHINE_CONTEXT + 23 * 8;

/// The frame has extended state, and a stack segment that is to be restored as stated.
const FLAGS: u64 = 1 | 2 | 4;
// Offset of the software-reserved bytes in an XSAVE area, and their magic numbers
// (arch/x86/include/uapi/asm/sigcontext.h).
const SOFTWARE_BYTES: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Tile registers require a permission, without which a frame of their size is refused; the states before
/// them end at `BEFORE_TILE_DATA` at the latest.
const TILE_DATA: u64 = 1 << 18;
const BEFORE_TILE_DATA: usize = 2_816;
const STATE_BITS: usize = 512;

/// A stack to be written.
pub(crate) struct SignalFrame {
    /// Where it begins: the stack pointer with which the system call is entered.
    pub(crate) address: Address,
    pub(crate) bytes: Vec<u8>,
}

/// The state of a thread that a return from a signal handler restores.
pub(crate) struct ThreadState<'a> {
    pub(crate) registers: &'a RawRegisters,
    pub(crate) extended: &'a [u8],
    pub(crate) signal_mask: u64,
}

/// The frame that restores `state`, below `top`.
pub(crate) fn frame(state: &ThreadState<'_>, top: Address, signal_return: Address) -> Option<SignalFrame> {
    let mut extended = state.extended.to_vec();
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let mut features = word(&extended, SOFTWARE_BYTES)?;
    if word(&extended, STATE_BITS)? & TILE_DATA == 0 {
        features &= !TILE_DATA;
        extended.truncate(BEFORE_TILE_DATA);
    }
    let size = u32::try_from(extended.len()).ok()?;
    let software = extended.get_mut(SOFTWARE_BYTES..STATE_BITS)?;
    software.fill(0);
    software[..4].copy_from_slice(&MAGIC_1.to_le_bytes());
    software[4..8].copy_from_slice(&(size + 4).to_le_bytes());
    software[8..16].copy_from_slice(&features.to_le_bytes());
    software[16..20].copy_from_slice(&size.to_le_bytes());
    extended.extend(MAGIC_2.to_le_bytes());
    let area = top.0.checked_sub(extended.len() as u64)? & !63;
    let start = area.checked_sub(FRAME_BYTES as u64)? & !15;
    let mut bytes = vec![0; usize::try_from(area - start).ok()?];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, signal_return.0);
    put(UC_FLAGS, FLAGS);
    let of = state.registers;
    let general = [
        of.r8, of.r9, of.r10, of.r11, of.r12, of.r13, of.r14, of.r15, of.rdi, of.rsi, of.rbp, of.rbx, of.rdx,
        of.rax, of.rcx, of.rsp, of.rip, of.eflags,
    ];
    for (index, value) in general.into_iter().enumerate() {
        put(MACHINE_CONTEXT + index * 8, value);
    }
    put(SEGMENTS, (of.cs & 0xffff) | (of.ss & 0xffff) << 48);
    put(FLOATING_POINT, area);
    put(SIGNAL_MASK, state.signal_mask);
    bytes.extend(extended);
    Some(SignalFrame {
        address: Address(start),
        bytes,
    })
}

/// The program state that a running signal handler has interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupted {
    pub(crate) stack: Address,
    pub(crate) instruction: Address,
}

/// Reads the frame of a signal handler, if `bytes` begin with one whose return address is among `returns`.
pub(crate) fn signal_frame(bytes: &[u8], returns: &[Address]) -> Option<Interrupted> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let is_return = returns.contains(&Address(word(0)?));
    let is_frame = is_return && word(UC_FLAGS)? <= 7 && word(SEGMENTS)? & 0xffff == super::USER_CODE_SEGMENT;
    Some(Interrupted {
        stack: Address(word(SAVED_STACK)?),
        instruction: Address(word(SAVED_INSTRUCTION)?),
    })
    .filter(|_| is_frame)
}
