//! The open calls of a thread. Each is identified by the stack pointer at its entry: the stack grows down, so
//! a call that is still open has its frame above every later one. A frame that is found at or below a newer
//! one was left without a return (longjmp, a cancelled thread), is closed unseen and counted as unpaired.
//!
//! A thread that switches stacks (coroutines) makes live calls look abandoned; they are counted as unpaired
//! as well.

use abi::{FRAMES_MAX, Frame, Thread};

use crate::{maps, task};

/// A frame's place among those of its thread; masked, so that the verifier sees the bound.
const LAST: usize = FRAMES_MAX - 1;

/// Stands for a probe that is not known, where the kernel does not say which function returned.
pub const ANY_PROBE: u64 = u64::MAX;

/// Closes what was abandoned by the time a function is entered with this stack pointer.
pub fn close_abandoned(thread: &mut Thread, stack_pointer: u64, probe: u32) {
    if thread.depth != 0 {
        frames_close_abandoned(thread, stack_pointer, probe);
    }
}

/// A frame of another function at the very same place stays: it ended in a jump to the one that is entered
/// now, and both return together.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_close_abandoned(thread: *mut Thread, stack_pointer: u64, probe: u32) -> u32 {
    // SAFETY: callers pass a complete record; the verifier checks it.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    for _ in 0..FRAMES_MAX {
        let Some(top) = top(thread) else { return 1 };
        let again = top.stack_pointer == stack_pointer && top.probe == probe;
        if top.stack_pointer >= stack_pointer && !again {
            return 1;
        }
        frames_drop_top(thread);
    }
    1
}

/// The open call of a probe, or of [`ANY_PROBE`], that returns to just above this stack pointer, taken off;
/// what lies below it is closed as abandoned. Its place, for [`at`].
pub fn close_returning(thread: &mut Thread, stack_pointer: u64, probe: u64) -> Option<u32> {
    // Nearly always it is the newest.
    if let Some(newest) = thread.depth.checked_sub(1) {
        let top = at(thread, newest);
        if top.stack_pointer == stack_pointer && u64::from(top.probe) == probe {
            pop(thread);
            return Some(newest);
        }
    }
    frames_close_returning(thread, stack_pointer, probe).checked_sub(1)
}

/// What is in a place; what was taken off stays there until the next call is entered.
pub fn at(thread: &Thread, place: u32) -> &Frame {
    &thread.frames[place as usize & LAST]
}

/// One more than its place; 0 when there is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_close_returning(thread: *mut Thread, stack_pointer: u64, probe: u64) -> u32 {
    // SAFETY: callers pass a complete record; the verifier checks it.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    for _ in 0..FRAMES_MAX {
        let place = thread.depth;
        let Some(top) = top(thread) else { return 0 };
        if top.stack_pointer > stack_pointer {
            return 0;
        }
        if top.stack_pointer == stack_pointer && (probe == ANY_PROBE || probe == u64::from(top.probe)) {
            pop(thread);
            return place;
        }
        frames_drop_top(thread);
    }
    0
}

/// Whether a call of this probe is open.
pub fn is_open(thread: &Thread, probe: u32) -> bool {
    thread.depth != 0 && frames_is_open(thread, probe) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_is_open(thread: *const Thread, probe: u32) -> u32 {
    // SAFETY: callers pass a complete record; the verifier checks it.
    let Some(thread) = (unsafe { thread.as_ref() }) else {
        return 0;
    };
    for (place, frame) in thread.frames.iter().enumerate() {
        if place >= thread.depth as usize {
            break;
        }
        if frame.probe == probe {
            return 1;
        }
    }
    0
}

/// Puts a call on top; false when there is no room.
pub fn push(thread: &mut Thread, frame: Frame) -> bool {
    let depth = thread.depth as usize;
    if depth >= FRAMES_MAX {
        thread.overflow += 1;
        return false;
    }
    thread.frames[depth & LAST] = frame;
    thread.depth = depth as u32 + 1;
    if frame.inside != 0 {
        if thread.inside == 0 {
            thread.open_since_ns = frame.entered_ns;
            thread.waited_before_ns = task::waited_ns();
        }
        thread.inside += 1;
    }
    true
}

fn top(thread: &Thread) -> Option<&Frame> {
    thread.depth.checked_sub(1).map(|last| at(thread, last))
}

fn pop(thread: &mut Thread) {
    let Some(top) = top(thread) else { return };
    let is_inside = top.inside != 0;
    thread.depth -= 1;
    if is_inside && thread.inside > 0 {
        thread.inside -= 1;
        if thread.inside == 0 {
            thread.open_since_ns = 0;
        }
    }
}

/// The newest call was left without a return.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_drop_top(thread: *mut Thread) -> u32 {
    // SAFETY: callers pass a complete record; the verifier checks it.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let Some(top) = top(thread) else { return 0 };
    if let Some(totals) = maps::totals(thread.process, top.probe) {
        maps::add(&totals.unpaired, 1);
    }
    pop(thread);
    1
}
