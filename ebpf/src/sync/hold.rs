//! Holds the thread: wakes an answering thread on another CPU and spins until it has acted, or until a bound
//! is reached.
//!
//! There are two answering threads, each bound to its own CPU. The probe wakes the one that is not on the
//! probe's CPU, so it does not matter whether the kernel would preempt the spin.

use abi::{Hold, HoldState};
use aya_ebpf::{
    bindings::BPF_RB_FORCE_WAKEUP,
    helpers::{bpf_get_smp_processor_id, bpf_loop, generated::bpf_send_signal_thread},
    programs::ProbeContext,
};

use crate::{
    atomic::{add, compare_and_swap, read, write},
    holds::{self, HOLDER, HOLDS, Reached, WAKE_FIRST, WAKE_SECOND, now_ns},
    namespace::constant,
};

/// The CPU of the first answering thread; set at load.
#[unsafe(no_mangle)]
static FIRST_CPU: u32 = 0;

#[repr(C)]
struct Wait {
    since_ns: u64,
    index: u32,
    /// 1 once the action is armed again: from then on another thread may own it.
    armed_again: u32,
}

pub fn run(ctx: &ProbeContext) -> Option<()> {
    let reached = Reached::now(ctx)?;
    let hold = reached.hold;
    let signal = read(&hold.signal);
    if signal != 0 {
        send(&reached, signal as u32);
        return None;
    }
    let holder = HOLDER.get(0)?;
    if !compare_and_swap(holder, 0, u64::from(reached.index) + 1) {
        add(&hold.passed, 1);
        return None;
    }
    keep(&reached);
    write(holder, 0);
    Some(())
}

/// Sends a signal instead of holding. The thread takes it on its way back to the program, one instruction
/// after the probed one. A debugger intercepts the signal, and the thread stands still until then.
fn send(reached: &Reached, signal: u32) {
    let hold = reached.hold;
    write(&hold.held_at_ns, now_ns());
    if !holds::step(hold, HoldState::Armed, HoldState::Done) {
        return;
    }
    // SAFETY: the helper has no preconditions.
    if unsafe { bpf_send_signal_thread(signal) } != 0 {
        holds::step(hold, HoldState::Done, HoldState::Missed);
    }
    holds::released(hold);
}

fn keep(reached: &Reached) {
    let hold = reached.hold;
    let since_ns = now_ns();
    // The answering thread reads these words once the state says that a thread is held.
    write(&hold.thread, reached.thread);
    write(&hold.held_at_ns, since_ns);
    if !holds::step(hold, HoldState::Armed, HoldState::Held) {
        return;
    }
    let mut wait = Wait {
        since_ns,
        index: reached.index,
        armed_again: 0,
    };
    if wake(reached.index) {
        let step = spin as *mut core::ffi::c_void;
        // SAFETY: the callback has the signature that the helper needs, and `wait` outlives the call.
        unsafe { bpf_loop(abi::HOLD_STEPS_MAX, step, (&raw mut wait).cast(), 0) };
        // Only a clock that stands still leads here in one of these states.
        if read(&hold.state) != HoldState::Held as u64 || !miss(hold, &mut wait) {
            holds::step(hold, HoldState::Writing, HoldState::Late);
        }
    } else {
        add(&hold.passed, 1);
        wait.armed_again = u32::from(holds::step(hold, HoldState::Held, HoldState::Armed));
    }
    if wait.armed_again == 0 {
        holds::released(hold);
    }
}

fn wake(index: u32) -> bool {
    // SAFETY: the helper has no preconditions.
    let here = unsafe { bpf_get_smp_processor_id() };
    let ring = if here == constant(&FIRST_CPU) {
        &WAKE_SECOND
    } else {
        &WAKE_FIRST
    };
    let Some(mut entry) = ring.reserve::<u64>(0) else {
        return false;
    };
    entry.write(u64::from(index));
    entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
    true
}

/// One step of a hold; returns 1 to end it.
#[inline(never)]
extern "C" fn spin(_step: u32, wait: *mut Wait) -> i64 {
    // SAFETY: the helper passes on the pointer that it was given, and there is no other one.
    let wait = unsafe { &mut *wait };
    let Some(hold) = HOLDS.get(wait.index) else {
        return 1;
    };
    let state = read(&hold.state);
    let held_ns = now_ns().wrapping_sub(wait.since_ns);
    let (answer_ns, action_ns) = (read(&hold.answer_ns_max), read(&hold.action_ns_max));
    let over = if state == HoldState::Held as u64 {
        held_ns > answer_ns && miss(hold, wait)
    } else if state == HoldState::Writing as u64 {
        held_ns > answer_ns.wrapping_add(action_ns) && holds::step(hold, HoldState::Writing, HoldState::Late)
    } else {
        true
    };
    i64::from(over)
}

/// The bound is reached without an answer: the action waits for the next hit, unless all attempts are used.
/// False if an answer came at this moment.
#[inline(always)]
fn miss(hold: &Hold, wait: &mut Wait) -> bool {
    let held_ns = now_ns().wrapping_sub(wait.since_ns);
    // These words are written by the action's holder alone.
    let (misses, missed_ns) = (read(&hold.misses), read(&hold.missed_ns));
    let is_last = misses.wrapping_add(1) >= read(&hold.misses_max);
    // Counted before the step: after it another thread may own the action.
    write(&hold.misses, misses.wrapping_add(1));
    write(&hold.missed_ns, missed_ns.wrapping_add(held_ns));
    let next = if is_last {
        HoldState::Missed
    } else {
        HoldState::Armed
    };
    if holds::step(hold, HoldState::Held, next) {
        wait.armed_again = u32::from(!is_last);
        return true;
    }
    write(&hold.misses, misses);
    write(&hold.missed_ns, missed_ns);
    false
}
