//! Runs when a probed function is entered: counts the call, records its time, and sends the hit if requested.

use abi::{Frame, HitKind, Loss, NO_DURATION, ProbeSpec, SpecFlags, Thread, Totals};
use aya_ebpf::{helpers::bpf_ktime_get_ns, programs::ProbeContext};

use crate::{
    Ended,
    atomic::add,
    capture::{self, CapturedValues, HitContext},
    emit, frames, maps, messages, namespace, task,
    task::Task,
};

pub fn run(ctx: &ProbeContext) -> Result<(), Ended> {
    let key = namespace::current().ok_or(Ended::NotOurs)?;
    // SAFETY: `regs` is the context that the kernel passed.
    let regs = unsafe { &*ctx.regs };
    let Some(probe) = task::cookie(ctx).or_else(|| task::site(key, regs)) else {
        Task::of(key).ok_or(Ended::NotOurs)?;
        return Err(Loss::UnknownProbe.into());
    };
    let spec = task::spec(probe)?;
    let is_timed = spec.flags & SpecFlags::SPAN != 0;
    let mut thread = if is_timed { maps::thread(key) } else { None };
    let task = match &mut thread {
        Some(thread) => Task::with(key, thread),
        None => Task::of(key),
    };
    let task = task.ok_or(Ended::NotOurs)?;
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    let mut captured = CapturedValues::nothing();
    if spec.flags & SpecFlags::CAPTURES_AT_ENTRY != 0 {
        let moment = HitContext::of(&task, probe, now, regs);
        capture::at_entry(&moment, &mut captured, spec, regs);
    }
    // Not earlier: what is kept while values are read takes stack space during the deepest calls.
    let totals = maps::totals(task.process, probe).ok_or(Loss::UnknownProbe)?;
    let mut is_nested = false;
    if is_timed && thread.is_none() {
        thread = maps::new_thread(key, task.process);
    }
    let mut pending = core::ptr::null_mut();
    if let Some(thread) = thread {
        frames::close_abandoned(thread, regs.rsp, probe);
        let frame = Frame {
            stack_pointer: regs.rsp,
            entered_ns: now,
            probe,
            outermost: u8::from(is_outermost(thread, spec, probe)),
            inside: u8::from(spec.flags & SpecFlags::OUTERMOST != 0),
            valid: captured.valid as u16,
            captures: captured.values,
        };
        is_nested = spec.flags & SpecFlags::OUTERMOST != 0 && thread.inside > 0;
        if !frames::push(thread, frame) {
            add(&totals.too_deep, 1);
        }
        pending = &raw mut thread.pending;
    } else if is_timed {
        // Without a thread record the call is counted but not timed.
        add(&totals.too_deep, 1);
    }
    count(totals, is_nested);
    if spec.flags & SpecFlags::MESSAGE != 0 && !is_nested {
        messages::message_entered(&HitContext::of(&task, probe, now, regs), pending);
    }
    // Calls that a library makes internally are not its hits.
    if spec.flags & SpecFlags::SEND_ENTRY != 0 && !is_nested {
        emit::hit(
            &task,
            (probe, spec),
            HitKind::Entry,
            (now, NO_DURATION),
            &captured,
        );
    }
    Ok(())
}

/// Of a library's functions only the outermost call is timed, of any other function its own outermost call.
fn is_outermost(thread: &Thread, spec: &ProbeSpec, probe: u32) -> bool {
    if spec.flags & SpecFlags::OUTERMOST != 0 {
        thread.inside == 0
    } else {
        !frames::is_open(thread, probe)
    }
}

fn count(totals: &Totals, is_nested: bool) {
    let counter = if is_nested { &totals.nested } else { &totals.calls };
    add(counter, 1);
}
