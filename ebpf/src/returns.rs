//! Runs when a probed function is left, by a return instruction or by the last jump before one: closes the
//! call that was entered with this stack pointer, adds its time, and aggregates or sends the hit if
//! requested.

use abi::{Call, Durations, ExitSite, Frame, Loss, ProbeSpec, SpecFlags, Thread};
use aya_ebpf::{
    EbpfContext,
    bindings::pt_regs,
    helpers::{bpf_get_attach_cookie, bpf_ktime_get_ns},
    programs::ProbeContext,
};

use crate::{
    Ended,
    atomic::add,
    capture::{self, CapturedValues, HitContext},
    emit, frames, histograms, maps, messages, namespace, task,
    task::Task,
};

/// Handles an instruction that may end a call.
pub fn run(ctx: &ProbeContext) -> Result<(), Ended> {
    // SAFETY: the context is the one that the kernel passed to this program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    // SAFETY: the kernel passed the registers.
    let regs = unsafe { &*ctx.regs };
    if !ExitSite::is_exit(cookie, regs.eflags) {
        return Err(Ended::NotOurs);
    }
    let key = namespace::current().ok_or(Ended::NotOurs)?;
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    let probe = match cookie as u32 {
        0 => task::site(key, regs).map_or(frames::ANY_PROBE, u64::from),
        own => u64::from(own - 1),
    };
    let Some(thread) = maps::thread(key) else {
        return left_unseen(key, probe, now);
    };
    let task = Task::with(key, thread).ok_or(Ended::NotOurs)?;
    let stack_pointer = regs.rsp.wrapping_add(ExitSite::depth(cookie));
    let inside_since = thread.open_since_ns;
    let Some(place) = frames::close_returning(thread, stack_pointer, probe) else {
        unmatched(thread, task.process, probe);
        return Err(Ended::NotOurs);
    };
    let frame = frames::at(thread, place);
    let (probe, entered_ns, is_outermost) = (frame.probe, frame.entered_ns, frame.outermost != 0);
    let spec = task::spec(probe)?;
    let duration = now.saturating_sub(entered_ns);
    if is_outermost {
        let totals = maps::totals(task.process, probe).ok_or(Loss::UnknownProbe)?;
        add(&totals.timed, 1);
        add(&totals.time_ns, duration);
        if inside_since != 0 && thread.inside == 0 {
            thread.closed_ns += duration;
            thread.waited_ns += task::waited_ns().saturating_sub(thread.waited_before_ns);
        }
        messages::close(spec, task.process, &mut thread.pending);
        if spec.flags & SpecFlags::SEQUENCE != 0 {
            let call = Call {
                number: 0,
                probe,
                site: call_site(task.process, stack_pointer),
                entered_ns,
                duration_ns: duration,
                closed_ns: thread.closed_ns,
                thread: task.thread(),
                stack: stack_pointer as u32,
            };
            maps::enter_call(task.process, call);
        }
    }
    // Calls that a library makes internally are not its hits.
    let is_nested = spec.flags & SpecFlags::OUTERMOST != 0 && !is_outermost;
    if spec.flags & SpecFlags::DURATIONS != 0 && !is_nested {
        histograms::histogram_count(task.process, spec.durations, Durations::bucket(duration) as u32);
    }
    if spec.flags & SpecFlags::SEND_RETURN != 0 && !is_nested {
        let frame = frames::at(thread, place);
        hit(&task, spec, regs, frame, now, duration);
    }
    Ok(())
}

/// The return address on the stack; for a call through language bindings, that of the outermost binding.
#[inline(always)]
fn call_site(process: u32, stack_pointer: u64) -> u64 {
    let mut site = capture::number(stack_pointer, 8).unwrap_or_default();
    if !maps::has_bindings(process) {
        return site;
    }
    let mut place = stack_pointer;
    for _ in 0..abi::BINDINGS_MAX {
        let Some(to_caller) = maps::binding(process, site) else {
            break;
        };
        place = place.wrapping_add(to_caller);
        let Some(caller) = capture::number(place, 8) else {
            break;
        };
        site = caller;
    }
    site
}

/// A thread without a record leaves a call: that was under way when its probes were armed. It was inside until now.
#[inline(always)]
fn left_unseen(key: u64, probe: u64, now: u64) -> Result<(), Ended> {
    let task = Task::of(key).ok_or(Ended::NotOurs)?;
    let spec = task::spec(probe as u32).ok();
    let spec = spec.filter(|spec| spec.flags & SpecFlags::OUTERMOST != 0);
    if let Some(thread) = spec.and_then(|_| maps::new_thread(key, task.process)) {
        thread.left_unseen_ns = now;
    }
    Err(Loss::UnderWay.into())
}

/// No open call ends here. Functions may share an exit, so it may belong to one that is not probed.
#[inline(always)]
fn unmatched(thread: &mut Thread, process: u32, probe: u64) {
    if probe == frames::ANY_PROBE {
        return;
    }
    if thread.overflow > 0 {
        thread.overflow -= 1;
    } else if let Some(totals) = maps::totals(process, probe as u32) {
        add(&totals.unpaired, 1);
    }
}

/// Sends the hit of the call that was open in a frame, with all its captures.
#[inline(always)]
fn hit(task: &Task, spec: &ProbeSpec, regs: &pt_regs, frame: &Frame, now: u64, duration: u64) {
    let probe = frame.probe;
    let mut captured = CapturedValues {
        values: frame.captures,
        valid: u64::from(frame.valid),
    };
    if spec.flags & SpecFlags::CAPTURES_AT_RETURN != 0 {
        capture::at_return(&HitContext::of(task, probe, now, regs), &mut captured);
    }
    emit::hit(task, probe, spec, &captured, now, duration);
}
