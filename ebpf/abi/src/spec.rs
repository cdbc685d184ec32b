//! What a probe does at a hit.

use crate::{CAPTURES_MAX, MessageRule, READS_MAX, SumRule};

/// Where the way to a captured value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CaptureKind {
    /// Nothing is captured in this place.
    None = 0,
    /// The integer argument number `index`, counted from 0, as it is at the function's entry.
    Argument = 1,
    /// The integer return value.
    Return = 2,
    /// A variable of the program, as it is at the function's entry. Its address is kept by process.
    VariableAtEntry = 3,
    /// A variable of the program, as it is at the function's return.
    VariableAtReturn = 4,
    /// The bytes that the call sends or receives, by the spec's [`MessageRule`].
    Bytes = 5,
    /// A register as it is where the probe sits, by its number in the machine's code, or what that and a
    /// second one add up to.
    Register = 6,
    /// A number that is known beforehand: the low half in the first offset, the high half in the second.
    Constant = 7,
}

/// One value that a probe reads at a hit: a register, or what a chain of reads leads to. The first read is at
/// the register's value or the variable's address plus the first offset, each further one at what the one
/// before found, plus its own offset. All but the last find a pointer. The kind is a number and not the enum,
/// for the kernel side reads it from a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Capture {
    /// A [`CaptureKind`].
    pub kind: u8,
    /// Which argument, or which register.
    pub index: u8,
    /// Bytes that the last read finds: 1, 2, 4 or 8; of a text at most so many.
    pub width: u8,
    /// How many reads of memory lead to the value; 0 is the register itself.
    pub reads: u8,
    /// 1 when the last read finds a text.
    pub is_text: u8,
    /// One more than the number of a second register that is added to the first; 0 without one.
    pub second: u8,
    /// How far the second is shifted to the left.
    pub shift: u8,
    pub zero: u8,
    /// What is added before each read.
    pub offsets: [i32; READS_MAX],
}

/// The switches of a [`ProbeSpec`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecFlags;

impl SpecFlags {
    /// A return probe sits on the function too: calls are timed.
    pub const SPAN: u32 = 1;
    /// Each entry is sent as a [`crate::HitRecord`].
    pub const SEND_ENTRY: u32 = 1 << 1;
    /// Each return is sent as a [`crate::HitRecord`], with the call's duration.
    pub const SEND_RETURN: u32 = 1 << 2;
    /// The function belongs to a library whose calls are counted at their outermost level only: a call inside
    /// another one that carries this flag is counted as nested.
    pub const OUTERMOST: u32 = 1 << 3;
    /// The call carries bytes: `message` says how many.
    pub const BYTES: u32 = 1 << 4;
    /// `message` says what it carries: bytes, or between which ranks.
    pub const MESSAGE: u32 = 1 << 5;
    /// There is something to capture at the entry. The user side derives it from the captures.
    pub const CAPTURES_AT_ENTRY: u32 = 1 << 6;
    /// There is something to capture at the return. The user side derives it from the captures.
    pub const CAPTURES_AT_RETURN: u32 = 1 << 7;
    /// Outermost calls are entered into the ring of their process ([`crate::Call`]).
    pub const SEQUENCE: u32 = 1 << 8;
    /// With [`SpecFlags::SEND_ENTRY`]: an entry that can be added up as `partial_sum` says is, and is not
    /// sent.
    pub const SUM_ENTRY: u32 = 1 << 9;
    /// The same with [`SpecFlags::SEND_RETURN`].
    pub const SUM_RETURN: u32 = 1 << 10;
    /// What is added up before a hit that is sent is apart from what is added up after it, in its process.
    pub const PARTS: u32 = 1 << 11;
    /// How long calls took is counted by powers of two ([`crate::Durations`]), in the rows that begin at
    /// `durations`.
    pub const DURATIONS: u32 = 1 << 12;
    /// Something may fall due at a hit that is sent: who sleeps is woken at once ([`crate::Alarm`]).
    pub const DECIDES: u32 = 1 << 13;
}

/// What a probe does at a hit. The cookie of the link is the spec's index plus one; zero means that the
/// kernel gave no cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ProbeSpec {
    /// [`SpecFlags`], or-ed.
    pub flags: u32,
    /// The first of the rows of a process that count how long calls took.
    pub durations: u32,
    /// Which arguments to read.
    pub captures: [Capture; CAPTURES_MAX],
    /// What the call carries.
    pub message: MessageRule,
    /// What is added up instead of sending each hit.
    pub partial_sum: SumRule,
}

/// What the cookie of a link says of an instruction by which a function is left, above the probe's index: how
/// far the stack pointer is from the return address there, and, of a conditional jump, when the call ends.
/// Zero is a return instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitSite;

impl ExitSite {
    const DEPTH_SHIFT: u32 = 32;
    const DEPTH: u64 = 0xffff;
    const CONDITION_SHIFT: u32 = 48;
    const CONDITION: u64 = 0xf;
    const HAS_CONDITION: u64 = 1 << 52;
    const IS_TAKEN: u64 = 1 << 53;

    /// The upper half of a cookie. `depth` is in bytes; of a conditional jump there is the processor's number
    /// of its condition, and whether the call ends where it jumps.
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

    /// How far the stack pointer is from the return address, in bytes.
    pub const fn depth(cookie: u64) -> u64 {
        (cookie >> ExitSite::DEPTH_SHIFT) & ExitSite::DEPTH
    }

    /// Whether the call ends here, with these flags of the processor.
    pub const fn is_exit(cookie: u64, flags: u64) -> bool {
        if cookie & ExitSite::HAS_CONDITION == 0 {
            return true;
        }
        let condition = (cookie >> ExitSite::CONDITION_SHIFT) & ExitSite::CONDITION;
        jumps(condition, flags) == (cookie & ExitSite::IS_TAKEN != 0)
    }
}

/// Whether a jump with this condition is taken. The lowest bit of the number turns it round.
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
        == 8 + CAPTURES_MAX * size_of::<Capture>() + size_of::<MessageRule>() + size_of::<SumRule>()
);
