//! A probed function returns: close the call that was entered with this stack pointer, add its time, count it by that or send the
//! hit if asked to.

use abi::{Call, Durations, Frame, HitKind, Loss, ProbeSpec, SpecFlags};
use aya_ebpf::{EbpfContext, bindings::pt_regs, helpers::bpf_ktime_get_ns};

use crate::{
    capture::{self, Captured, Moment},
    emit, frames, histograms, maps, messages, namespace, task,
    task::Task,
};

/// How far a return that was carried out already has moved the stack pointer: it has taken the return address off.
pub const AFTER_RETURN: u64 = 8;

/// At the function's own return instruction the return address is still there.
pub const AT_INSTRUCTION: u64 = 0;

/// One return. `moved` is [`AFTER_RETURN`] or [`AT_INSTRUCTION`].
pub fn run(ctx: &impl EbpfContext, moved: u64) -> Option<()> {
    let key = namespace::current()?;
    // SAFETY: the context that the kernel passed is the registers.
    let regs = unsafe { &*ctx.as_ptr().cast::<pt_regs>() };
    let Some(thread) = maps::thread(key) else {
        Task::of(key)?;
        maps::lost(Loss::UnderWay);
        return None;
    };
    let task = Task::with(key, thread)?;
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    // After the return the address is the caller's; at the instruction it is a site like any other.
    let is_at_site = moved == AT_INSTRUCTION;
    let site = || is_at_site.then(|| task::site(key, regs)).flatten();
    let probe = task::cookie(ctx).or_else(site);
    let stack_pointer = regs.rsp.wrapping_sub(moved);
    let inside_since = thread.open_since_ns;
    let Some(place) = frames::close_returning(thread, stack_pointer, probe) else {
        if thread.overflow > 0 {
            thread.overflow -= 1;
        } else if let Some(totals) = probe.and_then(|probe| maps::totals(task.process, probe)) {
            maps::add(&totals.unpaired, 1);
        }
        // Without a probe it is an end that several functions share, of which this call was none.
        return None;
    };
    let frame = frames::at(thread, place);
    let (probe, entered_ns, is_outermost) = (frame.probe, frame.entered_ns, frame.outermost != 0);
    let spec = task::spec(probe)?;
    let duration = now.saturating_sub(entered_ns);
    if is_outermost {
        let totals = maps::totals(task.process, probe)?;
        maps::add(&totals.timed, 1);
        maps::add(&totals.time_ns, duration);
        if inside_since != 0 && thread.inside == 0 {
            thread.closed_ns += duration;
            thread.waited_ns += task::waited_ns().saturating_sub(thread.waited_before_ns);
        }
        messages::close(spec, task.process, &mut thread.pending);
        if spec.flags & SpecFlags::SEQUENCE != 0 {
            let call = Call {
                number: 0,
                probe,
                site: call_site(regs, stack_pointer, moved),
                entered_ns,
                duration_ns: duration,
                closed_ns: thread.closed_ns,
                thread: task.thread(),
                stack: stack_pointer as u32,
            };
            maps::enter_call(task.process, call);
        }
    }
    // What a library calls within itself is no hit of it.
    let is_nested = spec.flags & SpecFlags::OUTERMOST != 0 && !is_outermost;
    if spec.flags & SpecFlags::DURATIONS != 0 && !is_nested {
        histograms::histogram_count(task.process, spec.durations, Durations::bucket(duration) as u32);
    }
    if spec.flags & SpecFlags::SEND_RETURN != 0 && !is_nested {
        let frame = frames::at(thread, place);
        hit(&task, spec, regs, frame, (now, duration));
    }
    Some(())
}

/// Sends the hit of a call that was open in a frame, with all that was captured.
#[inline(always)]
fn hit(task: &Task, spec: &ProbeSpec, regs: &pt_regs, frame: &Frame, (now, duration): (u64, u64)) {
    let probe = frame.probe;
    let mut captured = Captured {
        values: frame.captures,
        valid: u64::from(frame.valid),
    };
    if spec.flags & SpecFlags::CAPTURES_AT_RETURN != 0 {
        capture::at_return(&Moment::of(task, probe, now, regs), &mut captured);
    }
    emit::hit(task, (probe, spec), HitKind::Return, (now, duration), &captured);
}

/// After a return proper the next instruction is the caller's; before it the stack says which it will be.
fn call_site(regs: &pt_regs, stack_pointer: u64, moved: u64) -> u64 {
    match moved {
        AFTER_RETURN => regs.rip,
        _ => capture::number(stack_pointer, 8).unwrap_or_default(),
    }
}
