//! Records about the family of a command: the command's process and all its descendants.

use crate::SharedWord;

/// Why a [`FamilyEvent`] was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FamilyEventKind {
    /// The process hit a probe for the first time and got its slot.
    Came = 1,
    /// The process ended. Its slot is not reused.
    Went = 2,
}

/// A process of the family got a slot from the kernel side, or ended after it had one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct FamilyEvent {
    /// Nanoseconds of the clock CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// In the agent's pid namespace.
    pub pid: u32,
    pub slot: u32,
    /// A [`FamilyEventKind`].
    pub kind: u32,
    pub zero: u32,
    /// Short name of the thread that hit or ended, terminated by a zero.
    pub name: [u8; 16],
}

/// Counters of the family in shared memory. Updated with atomic additions.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct FamilyState {
    /// The slot that the next process gets. Both sides assign slots.
    pub next_slot: SharedWord,
    /// Number of programs that members have executed.
    pub execs: SharedWord,
    /// Processes that hit a probe when no slot was left.
    pub without_slot: SharedWord,
    /// Executed programs with more rights than the command has: they are not members.
    pub privileged: SharedWord,
}

impl FamilyState {
    /// The index of `next_slot` among the words of the record.
    pub const NEXT_SLOT: usize = 0;
}

const _: () = assert!(size_of::<FamilyEvent>() == 40);
const _: () = assert!(size_of::<FamilyState>() == 32);
