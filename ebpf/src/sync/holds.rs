//! The maps of the pending actions, and the transitions between their states.

use abi::{Hold, HoldState, SharedWord};
use aya_ebpf::{
    EbpfContext,
    bindings::BPF_F_MMAPABLE,
    helpers::{bpf_get_attach_cookie, bpf_ktime_get_ns},
    macros::map,
    maps::{Array, RingBuf},
    programs::ProbeContext,
};

use crate::{
    atomic::{add, compare_and_swap, read, write},
    key, namespace,
};

/// The pending actions; the index is the link's cookie less one. Shared memory for the user side.
#[map]
pub static HOLDS: Array<Hold> = Array::with_max_entries(abi::HOLDS_MAX, BPF_F_MMAPABLE);

/// The hold in progress: index plus one, 0 if there is none. Only one thread is held at a time: with two,
/// each could spin on the CPU on which the answer for the other would run.
#[map]
pub static HOLDER: Array<SharedWord> = Array::with_max_entries(1, 0);

/// Wakes the answering thread on the first CPU.
#[map]
pub static WAKE_FIRST: RingBuf = RingBuf::with_byte_size(abi::WAKE_RING_BYTES, 0);

/// Wakes the answering thread on the second CPU.
#[map]
pub static WAKE_SECOND: RingBuf = RingBuf::with_byte_size(abi::WAKE_RING_BYTES, 0);

/// A hit at a sync point by a process that has an armed action there.
pub struct Reached {
    pub index: u32,
    pub hold: &'static Hold,
    pub thread: u64,
}

impl Reached {
    /// Counts the hit if an action is armed for it.
    pub fn now(ctx: &ProbeContext) -> Option<Reached> {
        let key = namespace::current()?;
        let index = index(ctx)?;
        let hold = HOLDS.get(index)?;
        if read(&hold.process) != key >> 32 || read(&hold.state) != HoldState::Armed as u64 {
            return None;
        }
        add(&hold.hits, 1);
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

/// Moves from one state to another; false if the state has changed meanwhile.
pub fn step(hold: &Hold, from: HoldState, to: HoldState) -> bool {
    compare_and_swap(&hold.state, from as u64, to as u64)
}

/// The action is over and the thread is released: the user side waits for this word.
pub fn released(hold: &Hold) {
    write(&hold.released_at_ns, now_ns());
}

pub fn now_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}
