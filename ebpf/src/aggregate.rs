//! Aggregates hits that need not be sent individually, by process, probe and key. Nothing blocks, and no sum
//! is overwritten before it was read. A hit that cannot be aggregated is left to the caller.

use abi::{Loss, SharedWord, SumCell, SumSpec, SumValue, ValueSums};
use aya_ebpf::{bindings::BPF_F_MMAPABLE, macros::map, maps::Array};

use crate::record::record;
use crate::{
    atomic::{self, compare_and_swap, read, write},
    capture::{CapturedValues, opaque},
    maps::{self, HITS},
    namespace::constant,
};

/// Two cells, for even and odd keys, for each aggregating probe of a process: (slot × SUM_COUNT + number) ×
/// 2, plus 1 for odd keys. The user side sets the size at load and reads the cells as shared memory.
#[map]
pub static PARTIAL_SUMS: Array<SumCell> = Array::with_max_entries(2, BPF_F_MMAPABLE);

/// The current epoch of each process, by slot. The user side sets the size at load.
#[map]
pub static EPOCHS: Array<Epoch> = Array::with_max_entries(1, 0);

/// The time between two sent hits that end an epoch; hits within it are aggregated together.
#[repr(C)]
pub struct Epoch {
    /// Number of such hits so far.
    number: SharedWord,
    /// Time of the last one.
    since_ns: SharedWord,
}

/// Time of the user side's last read of partial sums, by its own clock; shared memory that it writes.
#[map]
pub static LOOKED: Array<SharedWord> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Number of aggregating probes of one process in PARTIAL_SUMS; set at load.
#[unsafe(no_mangle)]
static SUM_COUNT: u32 = 0;

/// Aggregated values stay below this bound, so that doubles represent them exactly.
const BOUND: u64 = 1 << 53;

/// Hits per cell: the squares of this many values below [`BOUND`] fit into 128 bits.
const HITS_MAX: u64 = 1 << 20;

/// Attempts to lock a cell.
const TRIES: usize = 8;

const NOTHING: ValueSums = ValueSums {
    sum_low: 0,
    sum_high: 0,
    squares_low: 0,
    squares_high: 0,
    least: i64::MAX,
    greatest: i64::MIN,
};

/// The data of a hit.
struct Seen<'a> {
    captured: &'a CapturedValues,
    process: u32,
    probe: u32,
    time_ns: u64,
    duration_ns: u64,
}

/// Aggregates a hit; returns 1 if it need not be sent. `whose` is the slot of the process, with the index of
/// the probe's spec in the lower half.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn hit_aggregate(
    captured: *const CapturedValues,
    spec: *const SumSpec,
    whose: u64,
    time_ns: u64,
    duration_ns: u64,
) -> u32 {
    let (Some(captured), Some(spec)) = (record(captured), record(spec)) else {
        return 0;
    };
    let hit = Seen {
        captured,
        process: (whose >> 32) as u32,
        probe: whose as u32,
        time_ns,
        duration_ns,
    };
    u32::from(add(spec, &hit).is_some())
}

/// Begins a new epoch of a process.
pub fn part(process: u32, since_ns: u64) {
    if let Some(epoch) = EPOCHS.get(process) {
        // Written first: a reader that finds the new number also finds its start.
        write(&epoch.since_ns, since_ns);
        atomic::add(&epoch.number, 1);
    }
}

/// Number and start of a process's current epoch.
#[inline(always)]
fn epoch(process: u32) -> Option<(u64, u64)> {
    let epoch = EPOCHS.get(process)?;
    Some((read(&epoch.number), read(&epoch.since_ns)))
}

#[inline(always)]
fn add(spec: &SumSpec, hit: &Seen<'_>) -> Option<()> {
    let number = u32::from(spec.number).checked_sub(1)?;
    let count = constant(&SUM_COUNT);
    if number >= count {
        return None;
    }
    let mut values = [0; abi::SUMMED_MAX];
    for (place, (value, of)) in values.iter_mut().zip(&spec.of).enumerate() {
        if place >= usize::from(spec.values) {
            break;
        }
        *value = number_of(of, hit)?;
    }
    let (key, since_ns) = if spec.key.place == SumValue::NOTHING {
        epoch(hit.process)?
    } else {
        (number_of(&spec.key, hit)? as u64, 0)
    };
    let cell = (hit.process * count + number) * 2 + (key as u32 & 1);
    let (partial_sum, looked) = (PARTIAL_SUMS.get_ptr_mut(cell)?, LOOKED.get(0)?);
    // SAFETY: the kernel returned the address of a complete `SumCell`.
    let version = lock(unsafe { &(*partial_sum).version })?;
    // SAFETY: the kernel returned the address of a complete `SumCell`, and it has no other writer while its
    // version is odd.
    let partial_sum = unsafe { &mut *partial_sum };
    // The hit may have been delayed on its way here. A reader that has read the cell meanwhile stored the
    // time first and takes everything up to it as known; and an epoch has no hits from before its start. So
    // the later of these two and the hit's time is used: reading the clock again would add nothing and cost
    // as much as the rest of this function.
    let time_ns = hit.time_ns.max(since_ns).max(read(looked));
    if partial_sum.key != key || partial_sum.count == 0 || partial_sum.count >= HITS_MAX {
        hand_over(partial_sum, hit.time_ns);
        partial_sum.generation += 1;
        partial_sum.key = key;
        partial_sum.count = 0;
        partial_sum.first_ns = time_ns;
        partial_sum.last_ns = time_ns;
        partial_sum.probe = hit.probe;
        partial_sum.process = hit.process;
        partial_sum.number = u64::from(spec.number);
        partial_sum.sums = [NOTHING; abi::SUMMED_MAX];
    }
    partial_sum.count += 1;
    // The thread with the earliest hit need not be the first to arrive here.
    partial_sum.first_ns = partial_sum.first_ns.min(time_ns);
    partial_sum.last_ns = partial_sum.last_ns.max(time_ns);
    for (place, (sums, value)) in partial_sum.sums.iter_mut().zip(values).enumerate() {
        if place >= usize::from(spec.values) {
            break;
        }
        sum(sums, value);
    }
    // A plain write suffices: there is no other writer now, and the processor (x86-64) keeps the order of
    // writes. The compiler must keep it, too: it assumes that the assembly may read all memory.
    // SAFETY: no instruction is executed.
    unsafe { core::arch::asm!("") };
    write(&partial_sum.version, version + 1);
    Some(())
}

/// A value of the hit; `None` if it could not be read or is too large.
#[inline(always)]
fn number_of(of: &SumValue, hit: &Seen<'_>) -> Option<i64> {
    let place = opaque(u64::from(of.place));
    let raw = if place < abi::CAPTURES_MAX as u64 {
        if hit.captured.valid >> place & 1 == 0 {
            return None;
        }
        hit.captured.values[place as usize]
    } else if place == u64::from(SumValue::DURATION) {
        hit.duration_ns
    } else {
        0
    };
    let shift = u32::from(of.shift) & 63;
    let up = raw << shift;
    let (value, size) = if of.is_signed != 0 {
        let value = up as i64 >> shift;
        (value, value.unsigned_abs())
    } else {
        ((up >> shift) as i64, up >> shift)
    };
    (size < BOUND).then_some(value)
}

/// Locks the cell that has this version, which is odd from now on. Another thread of the process that holds
/// the lock needs a fraction of a microsecond, unless it was interrupted; that case is not waited for.
#[inline(always)]
fn lock(version: &SharedWord) -> Option<u64> {
    for _ in 0..TRIES {
        let even = read(version);
        if even & 1 == 0 && compare_and_swap(version, even, even + 1) {
            return Some(even + 1);
        }
    }
    None
}

/// Sends the content of a cell that another key needs. The wake-up flag is read before room is reserved: no
/// decision is due at this record, so it may wait for the next hit. If there is no room, the reader is awake.
#[inline(always)]
fn hand_over(partial_sum: &SumCell, now_ns: u64) {
    if partial_sum.count > 0
        && HITS
            .output::<SumCell>(partial_sum, maps::wakeup_flag(false, now_ns))
            .is_err()
    {
        maps::lost(Loss::RingFull);
    }
}

/// Adds a value below [`BOUND`].
#[inline(always)]
fn sum(sums: &mut ValueSums, value: i64) {
    let low = sums.sum_low.wrapping_add(value as u64);
    let carry = u64::from(low < value as u64);
    sums.sum_low = low;
    sums.sum_high = sums
        .sum_high
        .wrapping_add((value >> 63) as u64)
        .wrapping_add(carry);
    let size = value.unsigned_abs();
    let (upper, lower) = (size >> 32, size & 0xffff_ffff);
    let middle = upper * lower;
    add_to_squares(sums, lower * lower, upper * upper);
    add_to_squares(sums, middle << 33, middle >> 31);
    sums.least = sums.least.min(value);
    sums.greatest = sums.greatest.max(value);
}

#[inline(always)]
fn add_to_squares(sums: &mut ValueSums, low: u64, high: u64) {
    let sum = sums.squares_low.wrapping_add(low);
    let carry = u64::from(sum < low);
    sums.squares_low = sum;
    sums.squares_high = sums.squares_high.wrapping_add(high).wrapping_add(carry);
}
