//! Writes by itself if the kernel permits it, so that no answer is needed.

use abi::{Hold, HoldState, StoreResult};
use aya_ebpf::{
    helpers::{bpf_probe_read_user, bpf_probe_write_user},
    programs::ProbeContext,
};

use crate::{
    atomic::{read, write},
    holds::{self, Reached},
};

pub fn run(ctx: &ProbeContext) -> Option<()> {
    let Reached { hold, thread, .. } = Reached::now(ctx)?;
    if !holds::step(hold, HoldState::Armed, HoldState::Storing) {
        return None;
    }
    // The step has made the action ours until the next one.
    write(&hold.thread, thread);
    write(&hold.held_at_ns, holds::now_ns());
    let stored = match read(&hold.width) {
        1 => exchange::<u8>(hold, |value| value as u8),
        8 => exchange::<u64>(hold, |value| value),
        _ => None,
    };
    let next = match stored {
        Some(result) => {
            write(&hold.stored, result as u64);
            HoldState::Stored
        }
        // The page is not resident or must be copied first: retry at the next hit, or leave it to others.
        None => {
            let misses = read(&hold.misses) + 1;
            write(&hold.misses, misses);
            if misses >= read(&hold.misses_max) {
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
fn exchange<T: Copy + PartialEq + Into<u64>>(hold: &Hold, of: fn(u64) -> T) -> Option<StoreResult> {
    let (expected, value) = (of(read(&hold.expected)), of(read(&hold.value)));
    let place = read(&hold.address) as *mut T;
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
    write(&hold.found, found.into());
    Some(result)
}
