//! The open calls of a thread. Each is identified by the stack pointer at its entry: the stack grows down, so
//! the frame of an open call is above those of all later calls. A frame at or below a newer one was left
//! without a return (longjmp, a cancelled thread); it is closed and counted as unpaired.
//!
//! If a thread switches stacks (coroutines), live calls appear abandoned; they count as unpaired, too.

use abi::{FRAMES_MAX, Frame, Thread};

use crate::record::{record, record_mut};
use crate::{atomic::add, maps, task};

/// The greatest index of a frame. It is also the mask that shows the bound to the verifier.
const LAST: usize = FRAMES_MAX - 1;

/// Stands for an unknown probe, if the kernel does not report which function returned.
pub const ANY_PROBE: u64 = u64::MAX;

/// Closes the calls that are abandoned if a function is entered with this stack pointer.
pub fn close_abandoned(thread: &mut Thread, stack_pointer: u64, probe: u32) {
    if thread.depth != 0 {
        frames_close_abandoned(thread, stack_pointer, probe);
    }
}

/// A frame of another function at the same address stays: that function ended in a jump to the entered one,
/// and both return together.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_close_abandoned(thread: *mut Thread, stack_pointer: u64, probe: u32) -> u32 {
    let Some(thread) = record_mut(thread) else {
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

/// Closes the open call of a probe, or of [`ANY_PROBE`], that returns to just above this stack pointer, and
/// returns its index for [`at`]. Calls below it are closed as abandoned.
pub fn close_returning(thread: &mut Thread, stack_pointer: u64, probe: u64) -> Option<u32> {
    // Fast path: the newest call.
    if let Some(newest) = thread.depth.checked_sub(1) {
        let top = at(thread, newest);
        if top.stack_pointer == stack_pointer && u64::from(top.probe) == probe {
            pop(thread);
            return Some(newest);
        }
    }
    frames_close_returning(thread, stack_pointer, probe).checked_sub(1)
}

/// The frame at an index. A closed frame stays valid until the next call is entered.
pub fn at(thread: &Thread, place: u32) -> &Frame {
    &thread.frames[place as usize & LAST]
}

/// The index of the closed frame plus one; 0 if there is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_close_returning(thread: *mut Thread, stack_pointer: u64, probe: u64) -> u32 {
    let Some(thread) = record_mut(thread) else {
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

pub fn is_open(thread: &Thread, probe: u32) -> bool {
    thread.depth != 0 && frames_is_open(thread, probe) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_is_open(thread: *const Thread, probe: u32) -> u32 {
    let Some(thread) = record(thread) else { return 0 };
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

/// Pushes a call; returns false if there is no room.
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

/// Drops the newest call, which was left without a return.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frames_drop_top(thread: *mut Thread) -> u32 {
    let Some(thread) = record_mut(thread) else {
        return 0;
    };
    let Some(top) = top(thread) else { return 0 };
    if let Some(totals) = maps::totals(thread.process, top.probe) {
        add(&totals.unpaired, 1);
    }
    pop(thread);
    1
}
