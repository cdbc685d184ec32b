//! The bytes that a call sends or receives, from its arguments; [`UNKNOWN_BYTES`] if unknown.

use abi::{Amount, AmountForm, MessageSpec, NO_ARGUMENT, SizeLayout, SpecFlags, UNKNOWN_BYTES};
use aya_ebpf::helpers::{bpf_loop, bpf_probe_read_user};

use crate::record::record;
use crate::{capture::HitContext, registers::argument_or, task, world};

pub fn of_call(moment: &HitContext) -> u64 {
    bytes_of(moment, OF_CALL)
}

/// Selects the first of the two amounts of a call.
pub const FIRST: u64 = 0;
pub const OTHER: u64 = 1;
/// Selects the amount that counts as the call's bytes: the other one if the call works in place.
const OF_CALL: u64 = 2;

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn bytes_of(moment: *const HitContext, which: u64) -> u64 {
    let Some(moment) = record(moment) else {
        return UNKNOWN_BYTES;
    };
    let Ok(spec) = task::spec(moment.probe) else {
        return UNKNOWN_BYTES;
    };
    if which == OF_CALL && spec.flags & SpecFlags::BYTES == 0 {
        return UNKNOWN_BYTES;
    }
    let is_other = which == OTHER || (which == OF_CALL && is_in_place(moment, &spec.message));
    let message = &spec.message;
    let amount = if is_other { &message.other } else { &message.amount };
    let form = amount.form;
    if AmountForm::None.is(form) {
        return 0;
    }
    let datatype = argument(moment, amount.datatype);
    let is_typed_by_rank = AmountForm::CountsAndTypes.is(form);
    let count = if AmountForm::Element.is(form) {
        1
    } else if AmountForm::One.is(form) {
        one_count(moment, message, amount)
    } else if AmountForm::PerRank.is(form) {
        product(one_count(moment, message, amount), u64::from(ranks(moment, message)))
    } else if AmountForm::Counts.is(form) || is_typed_by_rank {
        let types = if is_typed_by_rank { datatype } else { 0 };
        sum(moment, message, amount, types)
    } else if AmountForm::OwnCount.is(form) {
        own_count(moment, message, amount)
    } else {
        UNKNOWN_BYTES
    };
    let size = if is_typed_by_rank {
        1
    } else {
        size_of_type(
            moment.process,
            datatype,
            u32::from(message.layout),
            u32::from(message.size_offset),
        )
    };
    product(count, size)
}

/// An argument; [`UNREAD`] if it does not exist or cannot be read.
pub fn argument(moment: &HitContext, index: u8) -> u64 {
    argument_or(moment, u64::from(index), UNREAD)
}

/// The product; [`UNKNOWN_BYTES`] if a factor is unknown or larger than a message can be (then it was not a
/// count or size). The target has no 128-bit multiplication, which an overflow check would need.
fn product(count: u64, size: u64) -> u64 {
    const COUNT_MAX: u64 = 1 << 43;
    const SIZE_MAX: u64 = 1 << 20;
    const BOTH_MAX: u64 = 1 << 31;
    let fits = (count < COUNT_MAX && size < SIZE_MAX) || (count < BOTH_MAX && size < BOTH_MAX);
    if fits {
        count.wrapping_mul(size)
    } else {
        UNKNOWN_BYTES
    }
}

fn is_in_place(moment: &HitContext, message: &MessageSpec) -> bool {
    if message.buffer == NO_ARGUMENT {
        return false;
    }
    let in_place = if SizeLayout::InHandle.is(message.layout) {
        MessageSpec::IN_PLACE_IN_HANDLE
    } else {
        MessageSpec::IN_PLACE_AT_POINTER
    };
    argument_or(moment, u64::from(message.buffer), 0) == in_place
}

/// A count of four or eight bytes; [`UNKNOWN_BYTES`] if it is negative.
fn counted(raw: u64, width: u32) -> u64 {
    let count = if width == 4 {
        i64::from(raw as i32)
    } else {
        raw as i64
    };
    if count < 0 { UNKNOWN_BYTES } else { count as u64 }
}

fn one_count(moment: &HitContext, message: &MessageSpec, amount: &Amount) -> u64 {
    counted(argument(moment, amount.count), u32::from(message.count_width))
}

/// Number of ranks of the communicator; 0 if unknown.
fn ranks(moment: &HitContext, message: &MessageSpec) -> u32 {
    world::world_ranks(moment.process, argument(moment, message.comm))
}

fn own_count(moment: &HitContext, message: &MessageSpec, amount: &Amount) -> u64 {
    let own = world::world_own_rank(moment.process, argument(moment, message.comm));
    if own == u32::MAX {
        return UNKNOWN_BYTES;
    }
    count_at(argument(moment, amount.count), own, u32::from(message.count_width))
}

/// The count of a rank in an array of counts.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn count_at(counts: u64, rank: u32, width: u32) -> u64 {
    let place = counts.wrapping_add(u64::from(rank) * u64::from(width));
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    let raw = unsafe {
        if width == 4 {
            bpf_probe_read_user(place as *const u32).map(u64::from)
        } else {
            bpf_probe_read_user(place as *const u64)
        }
    };
    raw.map_or(UNKNOWN_BYTES, |raw| counted(raw, width))
}

/// State of a sum in progress.
#[repr(C)]
struct Sum {
    counts: u64,
    /// Address of the array of datatypes; 0 if all counts have the same type.
    types: u64,
    total: u64,
    width: u8,
    layout: u8,
    size_offset: u16,
    /// Number of counts added.
    added: u32,
    process: u32,
    zero: u32,
}

/// The sum of the counts of all ranks. `types` is the address of an array of datatypes, whose sizes multiply
/// the counts, or 0.
#[inline(always)]
fn sum(moment: &HitContext, message: &MessageSpec, amount: &Amount, types: u64) -> u64 {
    let ranks = ranks(moment, message);
    let counts = argument(moment, amount.count);
    if ranks == 0 || ranks > abi::COUNTS_MAX {
        return UNKNOWN_BYTES;
    }
    let mut sum = Sum {
        counts,
        types,
        total: 0,
        width: message.count_width,
        layout: message.layout,
        size_offset: message.size_offset,
        added: 0,
        process: moment.process,
        zero: 0,
    };
    let step = add_count as *mut core::ffi::c_void;
    // SAFETY: the callback has the signature that the helper needs, and `sum` outlives the call.
    unsafe { bpf_loop(ranks, step, (&raw mut sum).cast(), 0) };
    if sum.added == ranks {
        sum.total
    } else {
        UNKNOWN_BYTES
    }
}

/// Adds the count of one rank. Returns 1 to end the sum, which is incomplete then.
#[inline(never)]
extern "C" fn add_count(rank: u32, sum: *mut Sum) -> i64 {
    // SAFETY: the helper passes on the pointer that it was given, and there is no other one.
    let sum = unsafe { &mut *sum };
    let mut count = count_at(sum.counts, rank, u32::from(sum.width));
    if sum.types != 0 && count != 0 {
        count = product(
            count,
            size_of_type(
                sum.process,
                type_at(sum.types, rank, sum.layout),
                u32::from(sum.layout),
                u32::from(sum.size_offset),
            ),
        );
    }
    if count == UNKNOWN_BYTES {
        return 1;
    }
    sum.total = sum.total.wrapping_add(count);
    sum.added += 1;
    0
}

/// The datatype of a rank in an array of datatypes; 0 if it cannot be read.
fn type_at(types: u64, rank: u32, layout: u8) -> u64 {
    let rank = u64::from(rank);
    // SAFETY: the helper checks the address.
    unsafe {
        if SizeLayout::InHandle.is(layout) {
            bpf_probe_read_user(types.wrapping_add(4 * rank) as *const u32).map_or(0, u64::from)
        } else {
            bpf_probe_read_user(types.wrapping_add(8 * rank) as *const u64).unwrap_or_default()
        }
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn size_of_type(process: u32, datatype: u64, layout: u32, offset: u32) -> u64 {
    /// The upper byte of the handle of a built-in type, in MPICH and its descendants.
    const BUILT_IN: u64 = 0x4c;
    let layout = layout as u8;
    if SizeLayout::InHandle.is(layout) {
        match (datatype >> 24) & 0xff {
            BUILT_IN => (datatype >> 8) & 0xff,
            _ => world::world_type_size(process, datatype),
        }
    } else if SizeLayout::AtPointer.is(layout) {
        let place = datatype.wrapping_add(u64::from(offset)) as *const u64;
        // SAFETY: the helper checks the address; a bad one is an error, not a fault.
        unsafe { bpf_probe_read_user(place) }.unwrap_or(UNKNOWN_BYTES)
    } else {
        UNKNOWN_BYTES
    }
}

/// Stands for an argument that cannot be read: not a valid handle, count or address.
pub const UNREAD: u64 = u64::MAX;
