//! A probed function has returned: close the call that was entered with this stack pointer, add its time, send the hit
//! if asked to.

use abi::{CaptureKind, HitKind, Loss, SpecFlags};
use aya_ebpf::{helpers::bpf_ktime_get_ns, programs::RetProbeContext};

use crate::{emit, frames, maps, task, task::Task};

/// The return has taken the return address off the stack.
const RETURN_ADDRESS_BYTES: u64 = 8;

/// One return.
pub fn run(ctx: &RetProbeContext) -> Option<()> {
    let task = Task::current()?;
    let cookie = task::cookie(ctx);
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(thread) = maps::thread(task.key) else {
        maps::lost(Loss::UnderWay);
        return None;
    };
    // SAFETY: `regs` is the context that the kernel passed.
    let regs = unsafe { &*ctx.regs };
    let stack_pointer = regs.rsp.wrapping_sub(RETURN_ADDRESS_BYTES);
    let inside_since = thread.open_since_ns;
    let Some(frame) = frames::close_returning(thread, stack_pointer, cookie) else {
        if thread.overflow > 0 {
            thread.overflow -= 1;
        } else if let Some(totals) = cookie.and_then(|probe| maps::totals(task.process, probe)) {
            maps::add(&totals.unpaired, 1);
        } else {
            maps::lost(Loss::UnderWay);
        }
        return None;
    };
    let spec = task::spec(frame.probe)?;
    let duration = now.saturating_sub(frame.entered_ns);
    if frame.outermost != 0 {
        let totals = maps::totals(task.process, frame.probe)?;
        maps::add(&totals.timed, 1);
        maps::add(&totals.time_ns, duration);
        if inside_since != 0 && thread.inside == 0 {
            thread.closed_ns += duration;
        }
    }
    if spec.flags & SpecFlags::SEND_RETURN != 0 {
        let mut captures = frame.captures;
        for (place, capture) in captures.iter_mut().zip(&spec.captures) {
            if capture.kind == CaptureKind::Return as u8 {
                *place = regs.rax;
            }
        }
        emit::hit(&task, frame.probe, HitKind::Return, now, duration, captures);
    }
    Some(())
}
