//! What a probe does at a hit.

use crate::{CAPTURES_MAX, MessageSpec, READS_MAX, SumSpec};

/// The start of the path to a captured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CaptureKind {
    None = 0,
    /// The integer argument number `index`, counted from 0, at the function's entry.
    Argument = 1,
    /// The integer return value.
    Return = 2,
    /// A variable of the program at the function's entry. Its address is kept for each process.
    VariableAtEntry = 3,
    /// A variable of the program at the function's return.
    VariableAtReturn = 4,
    /// The bytes that the call sends or receives, by the spec's [`MessageSpec`].
    Bytes = 5,
    /// A register at the probed instruction, by its number in machine code, or the sum of two registers.
    Register = 6,
    /// A known number: the low half is in the first offset, the high half in the second.
    Constant = 7,
}

/// One value that a probe reads at a hit: a register, or the end of a chain of reads. The first read is at
/// the register's value or the variable's address plus the first offset, each further one at the previous
/// result plus its own offset. All reads but the last yield a pointer. The kind is a number, not the enum,
/// because the kernel side reads it from a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Capture {
    /// A [`CaptureKind`].
    pub kind: u8,
    /// Number of the argument or of the register.
    pub index: u8,
    /// Width of the last read in bytes: 1, 2, 4 or 8; for a text its greatest length.
    pub width: u8,
    /// Number of memory reads; 0 for the register itself.
    pub reads: u8,
    /// 1 if the last read yields a text.
    pub is_text: u8,
    /// Number plus one of a second register that is added to the first; 0 if there is none.
    pub second: u8,
    /// Left shift of the second register.
    pub shift: u8,
    pub zero: u8,
    /// The offset added before each read.
    pub offsets: [i32; READS_MAX],
}

/// The flags of a [`ProbeSpec`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecFlags;

impl SpecFlags {
    /// Exits of the function are probed too: calls are timed.
    pub const SPAN: u32 = 1;
    /// Each entry is sent as a [`crate::HitRecord`].
    pub const SEND_ENTRY: u32 = 1 << 1;
    /// Each return is sent as a [`crate::HitRecord`], with the call's duration.
    pub const SEND_RETURN: u32 = 1 << 2;
    /// The function belongs to a library whose calls are counted at their outermost level only: a call inside
    /// another one with this flag counts as nested.
    pub const OUTERMOST: u32 = 1 << 3;
    /// The call carries bytes; `message` says how many.
    pub const BYTES: u32 = 1 << 4;
    /// `message` describes what the call carries: bytes, or between which ranks.
    pub const MESSAGE: u32 = 1 << 5;
    /// Some captures are read at entry. Derived from the captures by the user side.
    pub const CAPTURES_AT_ENTRY: u32 = 1 << 6;
    /// Some captures are read at return. Derived from the captures by the user side.
    pub const CAPTURES_AT_RETURN: u32 = 1 << 7;
    /// Outermost calls are recorded in the ring of their process ([`crate::Call`]).
    pub const SEQUENCE: u32 = 1 << 8;
    /// With [`SpecFlags::SEND_ENTRY`]: an entry that `partial_sum` can aggregate is aggregated, not sent.
    pub const SUM_ENTRY: u32 = 1 << 9;
    /// As SUM_ENTRY, with [`SpecFlags::SEND_RETURN`].
    pub const SUM_RETURN: u32 = 1 << 10;
    /// A sent hit of this probe begins a new epoch of its process: aggregates before and after it are
    /// separate.
    pub const PARTS: u32 = 1 << 11;
    /// Durations of calls are counted in a histogram ([`crate::Durations`]), in the rows from `durations` on.
    pub const DURATIONS: u32 = 1 << 12;
    /// A decision may be due at a sent hit: a sleeping reader is woken at once ([`crate::Alarm`]).
    pub const DECIDES: u32 = 1 << 13;
}

/// What a probe does at a hit. The cookie of its link is the spec's index plus one; zero if the kernel gave
/// no cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ProbeSpec {
    /// [`SpecFlags`], or-ed.
    pub flags: u32,
    /// The first histogram row of a process for the durations of the function's calls.
    pub durations: u32,
    /// The values to read.
    pub captures: [Capture; CAPTURES_MAX],
    /// What the call carries.
    pub message: MessageSpec,
    /// What is aggregated instead of sending each hit.
    pub partial_sum: SumSpec,
}

/// Describes an instruction by which a function is left, in the bits of a link's cookie above the probe's
/// index: the distance of the stack pointer from the return address, and for a conditional jump the condition
/// under which the call ends. Zero is a return instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitSite;

impl ExitSite {
    const DEPTH_SHIFT: u32 = 32;
    const DEPTH: u64 = 0xffff;
    const CONDITION_SHIFT: u32 = 48;
    const CONDITION: u64 = 0xf;
    const HAS_CONDITION: u64 = 1 << 52;
    const IS_TAKEN: u64 = 1 << 53;

    /// The upper half of a cookie. `depth` is in bytes; a conditional jump has the processor's number of its
    /// condition, and whether the call ends if the jump is taken.
    pub const fn bits(depth: u16, jump: Option<(u8, bool)>) -> u64 {
        let depth = (depth as u64) << ExitSite::DEPTH_SHIFT;
        match jump {
            None => depth,
            Some((condition, is_taken)) => {
                let condition = (condition as u64 & ExitSite::CONDITION) << ExitSite::CONDITION_SHIFT;
                let taken = if is_taken { ExitSite::IS_TAKEN } else { 0 };
                depth | condition | taken | ExitSite::HAS_CONDITION
            }
        }
    }

    /// Distance of the stack pointer from the return address, in bytes.
    pub const fn depth(cookie: u64) -> u64 {
        (cookie >> ExitSite::DEPTH_SHIFT) & ExitSite::DEPTH
    }

    /// Whether the call ends here, given the processor's flags.
    pub const fn is_exit(cookie: u64, flags: u64) -> bool {
        if cookie & ExitSite::HAS_CONDITION == 0 {
            return true;
        }
        let condition = (cookie >> ExitSite::CONDITION_SHIFT) & ExitSite::CONDITION;
        jumps(condition, flags) == (cookie & ExitSite::IS_TAKEN != 0)
    }
}

/// Whether a jump with this condition is taken. The lowest bit of the condition negates it.
const fn jumps(condition: u64, flags: u64) -> bool {
    let (carry, parity, zero) = (flags & 1 != 0, flags & 1 << 2 != 0, flags & 1 << 6 != 0);
    let (sign, overflow) = (flags & 1 << 7 != 0, flags & 1 << 11 != 0);
    let holds = match condition >> 1 {
        0 => overflow,
        1 => carry,
        2 => zero,
        3 => carry | zero,
        4 => sign,
        5 => parity,
        6 => sign != overflow,
        _ => zero | (sign != overflow),
    };
    holds != (condition & 1 == 1)
}

const _: () = assert!(size_of::<Capture>() == 8 + 4 * READS_MAX);
const _: () = assert!(
    size_of::<ProbeSpec>()
        == 8 + CAPTURES_MAX * size_of::<Capture>() + size_of::<MessageSpec>() + size_of::<SumSpec>()
);
