//! The bytes that a call hands over, from its arguments.

use abi::{ByteRule, SizeLayout};
use aya_ebpf::{helpers::bpf_probe_read_user, programs::ProbeContext};

const IN_HANDLE: u8 = SizeLayout::InHandle as u8;
const AT_POINTER: u8 = SizeLayout::AtPointer as u8;

/// count × size of the datatype; `None` when either cannot be told.
pub fn of_call(ctx: &ProbeContext, rule: &ByteRule) -> Option<u64> {
    if is_in_place(ctx, rule)? {
        return None;
    }
    let count: u64 = argument(ctx, rule.count_argument)?;
    let count = if rule.count_width == 4 {
        i64::from(count as i32)
    } else {
        count as i64
    };
    let datatype = argument(ctx, rule.type_argument)?;
    product(u64::try_from(count).ok()?, size(datatype, rule)?)
}

/// The product, unless a factor is beyond what a message can be (then it was no count or no size). The target has no
/// 128-bit multiplication, which an overflow check would need.
fn product(count: u64, size: u64) -> Option<u64> {
    const LIMIT: u64 = 1 << 32;
    (count < LIMIT && size < LIMIT).then(|| count.wrapping_mul(size))
}

fn is_in_place(ctx: &ProbeContext, rule: &ByteRule) -> Option<bool> {
    if rule.buffer_argument == ByteRule::NO_BUFFER {
        return Some(false);
    }
    let in_place = match rule.layout {
        IN_HANDLE => ByteRule::IN_PLACE_IN_HANDLE,
        _ => ByteRule::IN_PLACE_AT_POINTER,
    };
    Some(argument(ctx, rule.buffer_argument)? == in_place)
}

fn size(datatype: u64, rule: &ByteRule) -> Option<u64> {
    /// The upper byte of the handle of a built-in type, in MPICH and its descendants.
    const BUILT_IN: u64 = 0x4c;
    match rule.layout {
        IN_HANDLE => ((datatype >> 24) & 0xff == BUILT_IN).then_some((datatype >> 8) & 0xff),
        AT_POINTER => {
            let place = datatype.wrapping_add(u64::from(rule.size_offset)) as *const u64;
            // SAFETY: the helper checks the address; a bad one is an error, not a fault.
            unsafe { bpf_probe_read_user(place) }.ok()
        }
        _ => None,
    }
}

/// An integer argument of the probed function. Those beyond the sixth are on the stack, above the return address.
pub fn argument(ctx: &ProbeContext, index: u8) -> Option<u64> {
    const IN_REGISTERS: u8 = 6;
    match index {
        0 => ctx.arg(0),
        1 => ctx.arg(1),
        2 => ctx.arg(2),
        3 => ctx.arg(3),
        4 => ctx.arg(4),
        5 => ctx.arg(5),
        _ => {
            let place = 8 + 8 * u64::from(index - IN_REGISTERS);
            // SAFETY: `regs` is the context of this program, and the helper checks the address.
            unsafe { bpf_probe_read_user(((*ctx.regs).rsp + place) as *const u64) }.ok()
        }
    }
}
