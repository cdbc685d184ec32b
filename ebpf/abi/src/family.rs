//! What both sides know of the family of a command: itself and every process that it starts, directly or not.

/// Why a [`Coming`] was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ComingKind {
    /// The process has hit a probe for the first time, and has its slot from now on.
    Came = 1,
    /// It has ended. Its slot is not given to another one.
    Went = 2,
}

/// A process of the family that got a slot from the kernel side, or that had one and has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Coming {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The process, as the agent's pid namespace counts.
    pub pid: u32,
    pub slot: u32,
    /// A [`ComingKind`].
    pub kind: u32,
    pub zero: u32,
    /// The short name of its thread that hit or ended, up to a zero.
    pub name: [u8; 16],
}

/// Counters of the family, in memory that both sides share. Updated with atomic additions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct FamilyState {
    /// The slot that the next process gets. Both sides give slots.
    pub next_slot: u64,
    /// How often a member has executed a program.
    pub execs: u64,
    /// Processes that hit a probe when no slot was left.
    pub without_slot: u64,
    /// Programs that were executed with more rights than the command has: they are no members.
    pub privileged: u64,
}

impl FamilyState {
    /// Which word `next_slot` is.
    pub const NEXT_SLOT: usize = 0;
}

const _: () = assert!(size_of::<Coming>() == 40);
const _: () = assert!(size_of::<FamilyState>() == 32);
