//! The open calls of a thread. Each is told from the others by the stack pointer at its entry: the stack grows down, so a
//! call that is still open has its frame above every later one. What is found at or below a newer frame was left without
//! a return (longjmp, a cancelled thread), is closed unseen and counted as unpaired.
//!
//! A thread that switches stacks (coroutines) makes live calls look abandoned; they are counted as unpaired as well.

use abi::{Frame, MAX_FRAMES, SpecFlags, Thread};

use crate::{maps, task};

/// Closes what was abandoned by the time a function is entered with this stack pointer. A frame of another function at
/// the very same place stays: it ended in a jump to the one that is entered now, and both return together.
pub fn close_abandoned(thread: &mut Thread, stack_pointer: u64, probe: u32) {
    for _ in 0..MAX_FRAMES {
        let Some(top) = top(thread) else { return };
        let again = top.stack_pointer == stack_pointer && top.probe == probe;
        if top.stack_pointer >= stack_pointer && !again {
            return;
        }
        drop_top(thread, top);
    }
}

/// The open call that returns to just above this stack pointer, taken off; what lies below it is closed as abandoned.
/// `probe` is `None` where the kernel does not say which function returned.
pub fn close_returning(thread: &mut Thread, stack_pointer: u64, probe: Option<u32>) -> Option<Frame> {
    for _ in 0..MAX_FRAMES {
        let top = top(thread)?;
        if top.stack_pointer > stack_pointer {
            return None;
        }
        if top.stack_pointer == stack_pointer && probe.is_none_or(|probe| probe == top.probe) {
            pop(thread, &top);
            return Some(top);
        }
        drop_top(thread, top);
    }
    None
}

/// Whether a call of this probe is open.
pub fn is_open(thread: &Thread, probe: u32) -> bool {
    let depth = thread.depth as usize;
    for index in 0..MAX_FRAMES {
        if index < depth && thread.frames[index].probe == probe {
            return true;
        }
    }
    false
}

/// Puts a call on top; false when there is no room.
pub fn push(thread: &mut Thread, frame: Frame, flags: u32) -> bool {
    let depth = thread.depth as usize;
    if depth >= MAX_FRAMES {
        thread.overflow += 1;
        return false;
    }
    thread.frames[depth & (MAX_FRAMES - 1)] = frame;
    thread.depth = depth as u32 + 1;
    if flags & SpecFlags::OUTERMOST != 0 {
        if thread.inside == 0 {
            thread.open_since_ns = frame.entered_ns;
            thread.waited_before_ns = task::waited_ns();
        }
        thread.inside += 1;
    }
    true
}

fn top(thread: &Thread) -> Option<Frame> {
    let last = (thread.depth as usize).checked_sub(1)?;
    Some(thread.frames[last & (MAX_FRAMES - 1)])
}

fn pop(thread: &mut Thread, top: &Frame) {
    thread.depth -= 1;
    let counts = task::spec(top.probe).is_some_and(|spec| spec.flags & SpecFlags::OUTERMOST != 0);
    if counts && thread.inside > 0 {
        thread.inside -= 1;
        if thread.inside == 0 {
            thread.open_since_ns = 0;
        }
    }
}

fn drop_top(thread: &mut Thread, top: Frame) {
    pop(thread, &top);
    if let Some(totals) = maps::totals(thread.process, top.probe) {
        maps::add(&totals.unpaired, 1);
    }
}
