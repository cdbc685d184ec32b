//! The records that the kernel side keeps and sends. Times are nanoseconds of CLOCK_MONOTONIC.

use crate::{CAPTURES_MAX, FRAMES_MAX, Pending, SharedWord, TEXT_MAX};

/// Totals of one process in one probed function since the probe was armed. Updated with atomic additions; one
/// cache line, so that no two processes share one.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Totals {
    /// Calls. For functions counted at their outermost level, only the outermost calls.
    pub calls: SharedWord,
    /// Calls made inside another call that counts at its outermost level.
    pub nested: SharedWord,
    /// Outermost calls whose return was seen: the number of calls in `time_ns`.
    pub timed: SharedWord,
    /// Time between entry and return of the outermost calls, in nanoseconds.
    pub time_ns: SharedWord,
    /// Bytes carried: count × size of the datatype.
    pub bytes: SharedWord,
    /// Calls whose bytes are unknown.
    pub bytes_unknown: SharedWord,
    /// Calls deeper than [`FRAMES_MAX`], or in a thread without a record: counted, not timed.
    pub too_deep: SharedWord,
    /// Calls whose return was never seen, and returns whose entry was not.
    pub unpaired: SharedWord,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Frame {
    /// The stack pointer at entry: identifies the call among the open calls of its thread.
    pub stack_pointer: u64,
    /// When it was entered.
    pub entered_ns: u64,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    /// 1 if it is the outermost call of its kind, the only one that is timed.
    pub outermost: u8,
    /// 1 if it is counted in [`Thread::inside`].
    pub inside: u8,
    /// A bit for each capture that could be read.
    pub valid: u16,
    /// What was captured at entry.
    pub captures: [u64; CAPTURES_MAX],
}

/// The open calls of one thread, and its time in functions counted at their outermost level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Thread {
    /// Time in returned outermost calls.
    pub closed_ns: u64,
    /// Entry of the open outermost call; 0 if there is none.
    pub open_since_ns: u64,
    /// Run-queue time within returned outermost calls; 0 if the kernel does not report it.
    pub waited_ns: u64,
    /// Run-queue time of the thread at entry of the open outermost call.
    pub waited_before_ns: u64,
    /// When it first left an outermost call whose entry was not seen: it was in that call since its probes
    /// were armed. 0 if there was none.
    pub left_unseen_ns: u64,
    /// Number of open frames.
    pub depth: u32,
    /// Open frames that had [`crate::SpecFlags::OUTERMOST`] at entry.
    pub inside: u32,
    /// Open calls that were entered while the frames were full.
    pub overflow: u32,
    pub process: u32,
    /// The number of changes of the watched processes when `process` was looked up.
    pub known_at: u64,
    /// What to read when the open outermost call returns.
    pub pending: Pending,
    /// The open calls, outermost first.
    pub frames: [Frame; FRAMES_MAX],
}

/// One returned outermost call in the ring of its process, which contains the newest calls
/// ([`RingHead::next`] counts all). Only functions with [`crate::SpecFlags::SEQUENCE`] are recorded here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Call {
    /// The lowest 32 bits of the call's number, which counts from 1. Written last: a reader that finds
    /// another number sees a call that is incomplete or was overwritten.
    pub number: u32,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    /// The return address: the call site. For a call through language bindings, the return address of the
    /// outermost binding.
    pub site: u64,
    /// When it was entered.
    pub entered_ns: u64,
    pub duration_ns: u64,
    /// Time of the thread in returned outermost calls, including this one: gives the time between two calls
    /// even if calls between them were not seen.
    pub closed_ns: u64,
    pub thread: u32,
    /// The lowest 32 bits of the stack pointer at entry. It differs between paths to the same site.
    pub stack: u32,
}

/// State of the ring of calls of a process; a cache line of its own.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct RingHead {
    pub next: SharedWord,
    /// Number of calls that were read. Written by the user side.
    pub read: SharedWord,
    /// In the head of slot 0 only: the reader sleeps and wants a [`Filling`] record when a ring is half full;
    /// the kernel side resets it to 0 when it sends one.
    pub is_asleep: SharedWord,
    /// 1 if call sites of this process are inside language bindings. Written by the user side.
    pub has_bindings: SharedWord,
    pub zero: [u64; 4],
}

/// A ring of calls is half full of unread calls. The record's size distinguishes it from a [`HitRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Filling {
    /// Slot of the ring's process.
    pub process: u64,
}

/// Decides when the reader of the ring of hits is woken. Until the user side sets a state here, the ring
/// itself decides: a reader that has drained the ring is woken by the next record.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Alarm {
    /// One of the constants below. A wake-up sets AWAKE.
    pub state: SharedWord,
    /// The time at which the reader wakes by itself. Before that, only a hit at which a decision may be due,
    /// or a half-full ring, wakes it.
    pub looks_ns: SharedWord,
}

impl Alarm {
    /// The user side has not set a state.
    pub const UNSET: u64 = 0;
    /// The reader sleeps, or will sleep after one more check of the ring.
    pub const ASLEEP: u64 = 1;
    /// The reader was woken; it sets ASLEEP before it sleeps again.
    pub const AWAKE: u64 = 2;
}

/// The side of a call at which a hit was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum HitKind {
    /// The function was entered.
    Entry = 1,
    Return = 2,
}

/// The duration of an entry, or of a return whose entry was not seen.
pub const NO_DURATION: u64 = u64::MAX;

/// A hit that is sent individually.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct HitRecord {
    /// When room in the ring was reserved, just after the entry or exit of the call.
    pub time_ns: u64,
    /// Time since entry in nanoseconds, or [`NO_DURATION`].
    pub duration_ns: u64,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    pub process: u32,
    /// In the agent's pid namespace.
    pub thread: u32,
    /// A [`HitKind`].
    pub kind: u16,
    /// A bit for each capture that could be read.
    pub valid: u16,
    /// Captured values in the order of the spec; valid only where the bit in `valid` is set.
    pub captures: [u64; CAPTURES_MAX],
}

impl HitRecord {
    /// Length of a short hit, in which only the first two captures can have a value. The others are not sent,
    /// so the ring lasts half as long again if the reader is late.
    pub const SHORT_BYTES: usize = size_of::<HitRecord>() - 8 * (CAPTURES_MAX - 2);

    /// Whether the hit is sent in the short form.
    pub fn is_short(&self) -> bool {
        self.valid < 1 << 2
    }
}

/// A captured text, sent before its hit. The hit has `time_ns` of this record in place of the capture, so a
/// text read at entry is found again at the return. The record's size distinguishes it from a [`HitRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct TextRecord {
    /// When the text was read.
    pub time_ns: u64,
    /// Index of its [`crate::ProbeSpec`].
    pub probe: u32,
    pub process: u32,
    pub thread: u32,
    pub place: u16,
    /// Valid bytes of `bytes`; those after them are undefined.
    pub length: u16,
    /// The text, with room for the terminating zero, rounded up to a multiple of eight.
    pub bytes: [u8; TEXT_MAX + 8],
}

/// What a loss makes incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossEffect {
    /// Hits, calls or processes are missing.
    Hits,
    /// Only messages in the matrix are missing: no hit and no call.
    Matrix,
    /// Nothing is missing; it is counted so that the numbers add up.
    Nothing,
}

/// The kinds of losses with their names in reports and their effects: a kind has both, or does not compile.
macro_rules! losses {
    ($($(#[$doc:meta])+ $kind:ident: $name:literal, $effect:ident;)+) => {
        /// What can be lost on the kernel side. Each kind has a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Loss {
            $($(#[$doc])+ $kind),+
        }

        impl Loss {
            pub const ALL: &[Loss] = &[$(Loss::$kind),+];
            pub const COUNT: u32 = Loss::ALL.len() as u32;

            pub const fn name(self) -> &'static str {
                match self {
                    $(Loss::$kind => $name),+
                }
            }

            pub const fn effect(self) -> LossEffect {
                match self {
                    $(Loss::$kind => LossEffect::$effect),+
                }
            }
        }
    };
}

losses! {
    /// A hit did not fit into the ring buffer.
    RingFull: "ring_full", Hits;
    /// The record of a thread could not be created.
    ThreadTable: "thread_table", Hits;
    /// A probe was hit whose spec or cell does not exist.
    UnknownProbe: "unknown_probe", Hits;
    /// A call returned in a thread without a record: it was entered before the probes were armed.
    UnderWay: "under_way", Nothing;
    /// A child process of a family member could not be added to the family.
    FamilyTable: "family_table", Hits;
    /// A message found no room in the table of pairs.
    PairTable: "pair_table", Matrix;
    /// A persistent request found no room in the table of requests.
    RequestTable: "request_table", Matrix;
    /// A hit to be aggregated was sent: more is sent than expected.
    SentAlone: "sent_alone", Nothing;
}

const _: () = assert!(size_of::<Totals>() == 64);
const _: () = assert!(size_of::<Frame>() == 24 + 8 * CAPTURES_MAX);
const _: () = assert!(size_of::<Thread>() == 64 + size_of::<Pending>() + FRAMES_MAX * size_of::<Frame>());
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
