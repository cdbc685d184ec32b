//! The maps of the pending actions, and the transitions between their states.

use abi::{Hold, HoldState};
use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_attach_cookie, bpf_ktime_get_ns},
    macros::map,
    maps::{Array, RingBuf},
    programs::ProbeContext,
};

use crate::{atomic, key, namespace};

/// The pending actions; the index is the link's cookie less one. Shared memory for the user side.
#[map]
pub static HOLDS: Array<Hold> = Array::with_max_entries(abi::HOLDS_MAX, 1 << 10 /* BPF_F_MMAPABLE */);

/// The hold in progress: index plus one, 0 if there is none. Only one thread is held at a time: with two,
/// each could spin on the CPU on which the answer for the other would run.
#[map]
pub static HOLDER: Array<u64> = Array::with_max_entries(1, 0);

/// Wakes the answering thread on the first CPU.
#[map]
pub static WAKE_FIRST: RingBuf = RingBuf::with_byte_size(abi::WAKE_RING_BYTES, 0);

/// Wakes the answering thread on the second CPU.
#[map]
pub static WAKE_SECOND: RingBuf = RingBuf::with_byte_size(abi::WAKE_RING_BYTES, 0);

/// A hit at a sync point by a process that has an armed action there.
pub struct Reached {
    pub index: u32,
    pub hold: *mut Hold,
    pub thread: u64,
}

impl Reached {
    /// Counts the hit if an action is armed for it.
    pub fn now(ctx: &ProbeContext) -> Option<Reached> {
        let key = namespace::current()?;
        let index = index(ctx)?;
        let hold = HOLDS.get_ptr_mut(index)?;
        // SAFETY: the kernel returned the address of a complete `Hold`; a word is read in one piece.
        let is_mine = unsafe { (*hold).process == key >> 32 };
        if !is_mine || state(hold) != HoldState::Armed as u64 {
            return None;
        }
        // SAFETY: the address of a counter in the map; `add` changes it by one atomic instruction.
        add(unsafe { &raw mut (*hold).hits }, 1);
        let thread = key & u64::from(u32::MAX);
        key::is_wanted(ctx, hold, thread).then_some(Reached { index, hold, thread })
    }
}

/// Every kernel that has `bpf_loop` supports cookies of links.
fn index(ctx: &ProbeContext) -> Option<u32> {
    // SAFETY: the context is the one that the kernel passed to this program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    (cookie as u32).checked_sub(1)
}

/// Reads the current state.
pub fn state(hold: *mut Hold) -> u64 {
    // SAFETY: `hold` points to a `Hold` of the map; the user side changes the word in one piece.
    unsafe { core::ptr::read_volatile(&raw const (*hold).state) }
}

/// Moves from one state to another; false if the state has changed meanwhile.
pub fn step(hold: *mut Hold, from: HoldState, to: HoldState) -> bool {
    // SAFETY: `hold` points to a `Hold` of the map.
    atomic::compare_and_swap(unsafe { &raw mut (*hold).state }, from as u64, to as u64)
}

/// The action is over and the thread is released: the user side waits for this word.
pub fn released(hold: *mut Hold) {
    // SAFETY: `hold` points to a `Hold` of the map, and the helper has no preconditions.
    unsafe { core::ptr::write_volatile(&raw mut (*hold).released_at_ns, bpf_ktime_get_ns()) };
}

/// Adds to a counter to which other threads may be adding.
pub fn add(counter: *mut u64, amount: u64) {
    // SAFETY: the pointer is to an aligned u64 of a map, which every writer changes by this one atomic
    // instruction.
    unsafe { core::arch::asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) counter, in(reg) amount) }
}
