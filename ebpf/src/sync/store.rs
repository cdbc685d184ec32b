//! Writes by itself if the kernel permits it, so that no answer is needed.

use abi::{Hold, HoldState, StoreResult};
use aya_ebpf::{
    helpers::{bpf_ktime_get_ns, bpf_probe_read_user, bpf_probe_write_user},
    programs::ProbeContext,
};

use crate::holds::{self, Reached};

pub fn run(ctx: &ProbeContext) -> Option<()> {
    let Reached { hold, thread, .. } = Reached::now(ctx)?;
    if !holds::step(hold, HoldState::Armed, HoldState::Storing) {
        return None;
    }
    // SAFETY: the helper has no preconditions.
    let since_ns = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the action is in the map, and the step has made it ours.
    let (width, misses_max) = unsafe {
        (*hold).thread = thread;
        (*hold).held_at_ns = since_ns;
        ((*hold).width, (*hold).misses_max)
    };
    let stored = match width {
        1 => exchange::<u8>(hold, |value| value as u8),
        8 => exchange::<u64>(hold, |value| value),
        _ => None,
    };
    let next = match stored {
        Some(result) => {
            // SAFETY: the action is in the map, and ours until the next step.
            unsafe { (*hold).stored = result as u64 };
            HoldState::Stored
        }
        // The page is not resident or must be copied first: retry at the next hit, or leave it to others.
        None => {
            // SAFETY: the action is in the map, and ours until the next step.
            unsafe { (*hold).misses += 1 };
            // SAFETY: the action is in the map, and ours until the next step.
            if unsafe { (*hold).misses } >= misses_max {
                HoldState::Missed
            } else {
                HoldState::Armed
            }
        }
    };
    if next as u64 != HoldState::Armed as u64 {
        holds::released(hold);
    }
    holds::step(hold, HoldState::Storing, next);
    Some(())
}

/// Writes the value if the expected one is found; `None` if the address cannot be accessed now.
#[inline(always)]
fn exchange<T: Copy + PartialEq + Into<u64>>(hold: *mut Hold, of: fn(u64) -> T) -> Option<StoreResult> {
    // SAFETY: the action is in the map.
    let (address, expected, value) = unsafe { ((*hold).address, of((*hold).expected), of((*hold).value)) };
    let place = address as *mut T;
    // SAFETY: the helpers check the address; a bad one is an error, not a fault.
    let before = unsafe { bpf_probe_read_user(place.cast_const()) }.ok()?;
    let (found, result) = if before == expected {
        // SAFETY: the helper checks the address; the user side gave that of a validated slot of this type.
        unsafe { bpf_probe_write_user(place, &raw const value) }.ok()?;
        // SAFETY: the helper checks the address; a bad one is an error, not a fault.
        let after = unsafe { bpf_probe_read_user(place.cast_const()) }.unwrap_or(value);
        (after, StoreResult::Written)
    } else {
        (before, StoreResult::Unexpected)
    };
    // SAFETY: the action is in the map, and ours until the next step.
    unsafe { (*hold).found = found.into() };
    Some(result)
}
