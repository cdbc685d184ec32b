//! What a probe is told to do at a hit.

use crate::{MAX_CAPTURES, MAX_READS};

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
    /// The bytes that the call hands over, by the spec's [`ByteRule`].
    Bytes = 5,
    /// A register as it is where the probe sits, by its number in the machine's code, or what that and a second one add up to.
    Register = 6,
    /// A number that is known beforehand: the low half in the first offset, the high half in the second.
    Constant = 7,
}

/// One value that a probe reads at a hit: a register, or what a chain of reads leads to. The first read is at the register's
/// value or the variable's address plus the first offset, each further one at what the one before found, plus its own
/// offset. All but the last find a pointer. The kind is a number and not the enum, for the kernel side reads it from a map.
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
    /// Zero.
    pub zero: u8,
    /// What is added before each read.
    pub offsets: [i32; MAX_READS],
}

/// How the size of an MPI datatype is found from the handle that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SizeLayout {
    /// It is not known: the call's bytes are counted as unknown.
    Unknown = 0,
    /// The handle points to an object that holds the size as a `size_t` at `size_offset` (Open MPI).
    AtPointer = 1,
    /// The handle of a built-in type carries its size in bits 8 to 15 (MPICH and its descendants).
    InHandle = 2,
}

/// How the bytes of a call follow from its arguments: count × size of the datatype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ByteRule {
    /// A [`SizeLayout`].
    pub layout: u8,
    /// Which argument is the count.
    pub count_argument: u8,
    /// Which argument is the datatype.
    pub type_argument: u8,
    /// Width of the count in bytes: 4, or 8 for the large-count functions.
    pub count_width: u8,
    /// Which argument is the buffer: where it says "in place", the count has no meaning and the bytes are unknown.
    /// [`ByteRule::NO_BUFFER`] when the count always counts.
    pub buffer_argument: u8,
    /// Zero.
    pub zero: u8,
    /// Where the size stands in the datatype's object, in bytes, for [`SizeLayout::AtPointer`].
    pub size_offset: u16,
}

impl ByteRule {
    /// No argument decides whether the count has a meaning.
    pub const NO_BUFFER: u8 = u8::MAX;
    /// The address that means "in place" with [`SizeLayout::AtPointer`] (Open MPI).
    pub const IN_PLACE_AT_POINTER: u64 = 1;
    /// The address that means "in place" with [`SizeLayout::InHandle`] (MPICH and its descendants).
    pub const IN_PLACE_IN_HANDLE: u64 = u64::MAX;
}

/// The switches of a [`ProbeSpec`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecFlags;

impl SpecFlags {
    /// A return probe sits on the function too: calls are timed.
    pub const SPAN: u32 = 1;
    /// Each entry is sent as a [`crate::Hit`].
    pub const SEND_ENTRY: u32 = 1 << 1;
    /// Each return is sent as a [`crate::Hit`], with the call's duration.
    pub const SEND_RETURN: u32 = 1 << 2;
    /// The function belongs to a library whose calls are counted at their outermost level only: a call inside
    /// another one that carries this flag is counted as nested.
    pub const OUTERMOST: u32 = 1 << 3;
    /// The call hands bytes over: `bytes` says how many.
    pub const BYTES: u32 = 1 << 4;
}

/// What a probe does at a hit. The cookie of the link is the spec's index plus one; zero means that the kernel gave
/// no cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ProbeSpec {
    /// [`SpecFlags`], or-ed.
    pub flags: u32,
    /// Which arguments to read.
    pub captures: [Capture; MAX_CAPTURES],
    /// What the call carries.
    pub bytes: ByteRule,
}

const _: () = assert!(size_of::<Capture>() == 8 + 4 * MAX_READS);
const _: () = assert!(size_of::<ByteRule>() == 8);
const _: () = assert!(size_of::<ProbeSpec>() == 4 + MAX_CAPTURES * size_of::<Capture>() + 8);
