//! What the kernel side keeps and sends. Times are nanoseconds of CLOCK_MONOTONIC.

use crate::{CAPTURES_MAX, FRAMES_MAX, Pending, TEXT_MAX};

/// What one process did in one probed function since the probe was armed. Updated with atomic additions; one
/// cache line, so that two processes never share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Totals {
    /// Calls; for functions counted at their outermost level, those alone.
    pub calls: u64,
    /// Calls made inside another call that counts at its outermost level.
    pub nested: u64,
    /// Outermost calls whose return was seen: what `time_ns` is the sum over.
    pub timed: u64,
    /// Time between entry and return, in nanoseconds, of the outermost calls.
    pub time_ns: u64,
    /// Bytes handed over: count × size of the datatype.
    pub bytes: u64,
    /// Calls whose bytes are unknown.
    pub bytes_unknown: u64,
    /// Calls deeper than [`FRAMES_MAX`], or in a thread without a record: counted, not timed.
    pub too_deep: u64,
    /// Calls whose return was never seen, and returns whose entry was not.
    pub unpaired: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Frame {
    /// The stack pointer at entry, which identifies the call among the open ones of its thread.
    pub stack_pointer: u64,
    /// When it was entered.
    pub entered_ns: u64,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    /// 1 when it is the outermost call of its kind: the one that is timed.
    pub outermost: u8,
    /// 1 when it is one of [`Thread::inside`].
    pub inside: u8,
    /// A bit for each capture that could be read.
    pub valid: u16,
    /// What was captured at entry.
    pub captures: [u64; CAPTURES_MAX],
}

/// What is open in one thread, and the time that it spent in functions counted at their outermost level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Thread {
    /// Time in closed outermost calls.
    pub closed_ns: u64,
    /// When the open outermost call was entered; 0 outside of any.
    pub open_since_ns: u64,
    /// Time ready to run but waiting for a CPU, within closed outermost calls; 0 if the kernel does not
    /// report it.
    pub waited_ns: u64,
    /// The same of the entire thread when the open outermost call was entered.
    pub waited_before_ns: u64,
    /// Number of open frames.
    pub depth: u32,
    /// How many of them had [`crate::SpecFlags::OUTERMOST`] when they were entered.
    pub inside: u32,
    /// Calls entered while the frames were full and not yet returned from.
    pub overflow: u32,
    pub process: u32,
    /// How often the watched processes had changed when that was looked up.
    pub known_at: u64,
    /// What is to be learned when the open outermost call returns.
    pub pending: Pending,
    /// The open calls, outermost first.
    pub frames: [Frame; FRAMES_MAX],
}

/// One outermost call that has returned, in the ring of its process: the newest [`RingHead::next`] calls, as
/// far as there is room. Only functions whose spec says so ([`crate::SpecFlags::SEQUENCE`]) are entered here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Call {
    /// Its number, counted from 1, written last: who finds another one there looks at a call that is not
    /// written yet, or that was overwritten. The lowest 32 bits.
    pub number: u32,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    /// The address that it returned to: its call site. Of a call through language bindings, where the
    /// outermost binding returned to.
    pub site: u64,
    /// When it was entered.
    pub entered_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Time of the thread in closed outermost calls, this one included: what lies between two calls is known
    /// also where calls between them were not seen.
    pub closed_ns: u64,
    pub thread: u32,
    /// The lowest 32 bits of the stack pointer at its entry: the same site reached over another path has
    /// another one.
    pub stack: u32,
}

/// How many calls a process has entered into its ring; a cache line of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct RingHead {
    pub next: u64,
    /// How many of them were read. The user side writes it.
    pub read: u64,
    /// In the head of the first slot: the reader sleeps and wants a [`Filling`] record when a ring is half
    /// full; the BPF side resets it to 0 when it sends one.
    pub is_asleep: u64,
    /// Some call sites of this process are within language bindings. The user side writes it.
    pub has_bindings: u64,
    pub zero: [u64; 4],
}

/// Half of a ring of calls is filled with unread calls. Its size distinguishes it from a [`HitRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Filling {
    /// Whose ring: the process's slot.
    pub process: u64,
}

/// When the user side, which reads the ring of hits, is woken. Until it sets a state here, the ring itself
/// decides: a reader that has drained the ring is woken by the next record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Alarm {
    /// One of the constants below. A wake-up sets AWAKE.
    pub state: u64,
    /// Until then the sleeping look by themselves: of hits that lie so long only those wake them at which
    /// something may fall due.
    pub looks_ns: u64,
}

impl Alarm {
    /// The reader has not set a state.
    pub const UNSET: u64 = 0;
    /// The user side sleeps, or is about to after it has looked once more.
    pub const ASLEEP: u64 = 1;
    /// It was woken, and will say when it sleeps again.
    pub const AWAKE: u64 = 2;
}

/// Why a hit was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum HitKind {
    /// The function was entered.
    Entry = 1,
    Return = 2,
}

/// The duration of a hit that has none: an entry, or a return whose entry was not seen.
pub const NO_DURATION: u64 = u64::MAX;

/// A hit that is sent on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct HitRecord {
    /// When it was given its place in the ring: the call was entered or left just before.
    pub time_ns: u64,
    /// Time since entry in nanoseconds, or [`NO_DURATION`].
    pub duration_ns: u64,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    pub process: u32,
    /// The thread's number, as the agent's pid namespace counts.
    pub thread: u32,
    /// A [`HitKind`].
    pub kind: u16,
    /// A bit for each capture that could be read.
    pub valid: u16,
    /// What was captured, in the order of the spec; only the places whose bit is set have a meaning.
    pub captures: [u64; CAPTURES_MAX],
}

impl HitRecord {
    /// Bytes of a hit of which the first two captures at most have a value: it is sent without the others, so
    /// that the ring lasts half as long again for a reader who is late.
    pub const SHORT_BYTES: usize = size_of::<HitRecord>() - 8 * (CAPTURES_MAX - 2);

    /// Whether it is sent so.
    pub fn is_short(&self) -> bool {
        self.valid < 1 << 2
    }
}

/// A captured text, sent before its hit: the hit has `time_ns` in the place of the capture, so that a text
/// that is read at an entry is found again at the return. Its size distinguishes it from a [`HitRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct TextRecord {
    /// When it was read.
    pub time_ns: u64,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    pub process: u32,
    pub thread: u32,
    pub place: u16,
    /// Bytes of `bytes` that have a meaning; those behind are whatever was there.
    pub length: u16,
    /// The text, and room for the zero that ends it, rounded up to a multiple of eight.
    pub bytes: [u8; TEXT_MAX + 8],
}

/// What can be lost on the kernel side. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Loss {
    /// A hit did not fit into the ring buffer.
    RingFull = 0,
    /// A thread's record could not be made.
    ThreadTable = 1,
    /// A probe fired whose spec or cell is not there.
    UnknownProbe = 2,
    /// A call returned in a thread without a record: it was entered before the probes were armed. Not a loss,
    /// but reported, so that the numbers add up.
    UnderWay = 3,
    /// A process that a member of a family started could not be entered into the family.
    FamilyTable = 4,
    /// A message had no place in the table of pairs.
    PairTable = 5,
    /// A persistent request had no place in the table of requests.
    RequestTable = 6,
    /// A hit that was to be aggregated was sent. Not a loss, but reported: more is sent than expected.
    SentAlone = 7,
}

impl Loss {
    pub const COUNT: u32 = 8;
    /// The real losses with the name under which they are reported.
    pub const REPORTED: [(Loss, &'static str); 4] = [
        (Loss::RingFull, "ring_full"),
        (Loss::ThreadTable, "thread_table"),
        (Loss::UnknownProbe, "unknown_probe"),
        (Loss::FamilyTable, "family_table"),
    ];
    /// Losses of the matrix alone: no hit and no call is missing for them.
    pub const OF_MATRIX: [(Loss, &'static str); 2] = [
        (Loss::PairTable, "pair_table"),
        (Loss::RequestTable, "request_table"),
    ];
}

const _: () = assert!(size_of::<Totals>() == 64);
const _: () = assert!(size_of::<Frame>() == 24 + 8 * CAPTURES_MAX);
const _: () = assert!(size_of::<Thread>() == 56 + size_of::<Pending>() + FRAMES_MAX * size_of::<Frame>());
const _: () = assert!(size_of::<Call>() == 48);
const _: () = assert!(size_of::<RingHead>() == 64);
const _: () = assert!(size_of::<HitRecord>() == 32 + 8 * CAPTURES_MAX);
const _: () = assert!(size_of::<TextRecord>() == 24 + TEXT_MAX + 8);
const _: () = assert!(
    size_of::<TextRecord>() != size_of::<HitRecord>() && size_of::<TextRecord>() != HitRecord::SHORT_BYTES
);
const _: () = assert!(size_of::<Filling>() == 8);
const _: () = assert!(size_of::<Alarm>() == 16);
const _: () = assert!(FRAMES_MAX.is_power_of_two());
