//! The program's own number of the iteration that a hit begins, used if several processes must act at the
//! same iteration.

use abi::{Hold, HoldState, KEY_IN_MEMORY};
use aya_ebpf::{helpers::bpf_probe_read_user, programs::ProbeContext};

use crate::{
    atomic::{read, write},
    holds,
};

/// Whether this hit is the wanted one. Records its number; a greater one than wanted ends the action.
pub fn is_wanted(ctx: &ProbeContext, hold: &Hold, thread: u64) -> bool {
    let source = read(&hold.key_source);
    if source == 0 {
        return true;
    }
    let Some(number) = number(ctx, source, read(&hold.key_address), read(&hold.key_width)) else {
        return false;
    };
    write(&hold.thread, thread);
    write(
        &hold.key_step,
        number.wrapping_sub(read(&hold.key_last) as i64) as u64,
    );
    write(&hold.key_last, number as u64);
    let wanted = read(&hold.key_wanted) as i64;
    if number > wanted && holds::step(hold, HoldState::Armed, HoldState::GoneBy) {
        holds::released(hold);
    }
    number == wanted
}

fn number(ctx: &ProbeContext, source: u64, address: u64, width: u64) -> Option<i64> {
    let word: u64 = match source {
        1 => ctx.arg(0)?,
        2 => ctx.arg(1)?,
        3 => ctx.arg(2)?,
        4 => ctx.arg(3)?,
        5 => ctx.arg(4)?,
        6 => ctx.arg(5)?,
        KEY_IN_MEMORY if width == 4 => {
            // SAFETY: the helper checks the address; a bad one is an error, not a fault.
            u64::from(unsafe { bpf_probe_read_user(address as *const u32) }.ok()?)
        }
        // SAFETY: the helper checks the address; a bad one is an error, not a fault.
        KEY_IN_MEMORY => unsafe { bpf_probe_read_user(address as *const u64) }.ok()?,
        _ => return None,
    };
    Some(if width == 4 {
        i64::from(word as i32)
    } else {
        word as i64
    })
}
