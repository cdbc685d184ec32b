//! Runs when a probed function is entered: counts the call, records its time, and sends the hit if requested.

use abi::{Frame, Loss, NO_DURATION, ProbeSpec, SpecFlags, Thread, Totals};
use aya_ebpf::{bindings::pt_regs, helpers::bpf_ktime_get_ns, programs::ProbeContext};

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
    if is_timed && thread.is_none() {
        thread = maps::new_thread(key, task.process);
    }
    let mut is_nested = false;
    let mut pending = core::ptr::null_mut();
    if let Some(thread) = thread {
        let call = opened(probe, spec, regs, now, &captured);
        is_nested = open(thread, spec, call, totals);
        pending = &raw mut thread.pending;
    } else if is_timed {
        // Without a thread record the call is counted but not timed.
        add(&totals.too_deep, 1);
    }
    let counter = if is_nested { &totals.nested } else { &totals.calls };
    add(counter, 1);
    if is_nested {
        // Calls that a library makes internally are neither its messages nor its hits.
        return Ok(());
    }
    if spec.flags & SpecFlags::MESSAGE != 0 {
        messages::message_entered(&HitContext::of(&task, probe, now, regs), pending);
    }
    if spec.flags & SpecFlags::SEND_ENTRY != 0 {
        emit::hit(&task, probe, spec, &captured, now, NO_DURATION);
    }
    Ok(())
}

/// The call that is entered, before its thread's record says whether it is the outermost one.
#[inline(always)]
fn opened(probe: u32, spec: &ProbeSpec, regs: &pt_regs, now: u64, captured: &CapturedValues) -> Frame {
    Frame {
        stack_pointer: regs.rsp,
        entered_ns: now,
        probe,
        outermost: 0,
        inside: u8::from(spec.flags & SpecFlags::OUTERMOST != 0),
        valid: captured.valid as u16,
        captures: captured.values,
    }
}

/// Opens a call in the record of its thread; returns whether it was made inside another call that counts at
/// its outermost level, as this one does.
#[inline(always)]
fn open(thread: &mut Thread, spec: &ProbeSpec, call: Frame, totals: &Totals) -> bool {
    frames::close_abandoned(thread, call.stack_pointer, call.probe);
    let is_nested = call.inside != 0 && thread.inside > 0;
    let outermost = u8::from(is_outermost(thread, spec, call.probe));
    if !frames::push(thread, Frame { outermost, ..call }) {
        add(&totals.too_deep, 1);
    }
    is_nested
}

/// Of a library's functions only the outermost call is timed, of any other function its own outermost call.
fn is_outermost(thread: &Thread, spec: &ProbeSpec, probe: u32) -> bool {
    if spec.flags & SpecFlags::OUTERMOST != 0 {
        thread.inside == 0
    } else {
        !frames::is_open(thread, probe)
    }
}
