//! The maps and their accessors.

use abi::{
    Alarm, Call, Filling, HitRecord, Loss, ProbeSpec, RingHead, SharedWord, TextRecord, Thread, Totals,
};
use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::bpf_ktime_get_ns,
    macros::map,
    maps::{Array, HashMap, RingBuf, ring_buf::RingBufEntry},
};

use crate::{
    atomic::{add, compare_and_swap, fetch_and_add, read},
    namespace::constant,
};

/// The spec of each probe; the index is its cookie less one.
#[map]
pub static PROBES: Array<ProbeSpec> = Array::with_max_entries(abi::PROBES_MAX, 0);

/// The watched processes: pid → slot.
#[map]
pub static PROCESSES: HashMap<u32, u32> = HashMap::with_max_entries(abi::PROCESSES_MAX, 0);

/// Number of changes of PROCESSES. Every writer of PROCESSES increments it afterwards; the user side does so
/// in shared memory.
#[map]
pub static CHANGES: Array<SharedWord> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// One cell per process and probe: slot × PROBE_COUNT + probe. The user side sets the size at load and reads
/// the cells as shared memory.
#[map]
pub static TOTALS: Array<Totals> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Addresses of captured variables in each process: one for each capture, in the order of TOTALS; 0 if there
/// is none. The user side sets the size at load.
#[map]
pub static ADDRESSES: Array<u64> = Array::with_max_entries(1, 0);

/// The state of each thread; the key is `pid << 32 | tid`.
#[map]
pub static THREADS: HashMap<u64, Thread> = HashMap::with_max_entries(abi::THREADS_MAX, 0);

/// A zeroed thread record: it is larger than a program's stack.
#[map]
pub static NEW_THREAD: Array<Thread> = Array::with_max_entries(1, 0);

/// Probe by process and address, for links without cookies: `[pid, address]` → spec index.
#[map]
pub static SITES: HashMap<[u64; 2], u32> = HashMap::with_max_entries(abi::SITES_MAX, BPF_F_NO_PREALLOC);

/// The newest calls of each process, in one ring each: slot × RING_SIZE + number of the call. The user side
/// sets the size at load and reads the rings as shared memory.
#[map]
pub static CALLS: Array<Call> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// State of each ring, by slot.
#[map]
pub static HEADS: Array<RingHead> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Call sites inside language bindings of MPI, such as `mpi_barrier_` of Fortran: `[slot, address]` → bytes
/// on the stack from the return address to that of the binding's caller.
#[map]
pub static BINDINGS: HashMap<[u64; 2], u64> =
    HashMap::with_max_entries(abi::BINDING_SITES_MAX, BPF_F_NO_PREALLOC);

#[map]
pub static HITS: RingBuf = RingBuf::with_byte_size(abi::RING_BYTES, 0);

/// State of the reader of HITS, which decides when it is woken. Shared memory for the user side.
#[map]
pub static ALARM: Array<Alarm> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Loss counters, indexed by [`Loss`]. The user side reads them each time it reads hits, as shared memory, so
/// without a system call.
#[map]
pub static LOSSES: Array<SharedWord> = Array::with_max_entries(Loss::COUNT, BPF_F_MMAPABLE);

/// Number of probes of one process in TOTALS; set at load.
#[unsafe(no_mangle)]
static PROBE_COUNT: u32 = 0;

/// Size of each ring in calls, a power of two; set at load.
#[unsafe(no_mangle)]
static RING_SIZE: u32 = 0;

/// Records a call, which has the number 0 so far, in the ring of its process, and sets its number.
pub fn enter_call(process: u32, call: Call) {
    let size = constant(&RING_SIZE);
    let Some(head) = HEADS.get(process) else {
        return;
    };
    let number = fetch_and_add(&head.next, 1);
    let place = process * size + (number as u32 & size.wrapping_sub(1));
    let Some(entry) = CALLS.get_ptr_mut(place) else {
        return;
    };
    // SAFETY: the kernel returned the address of a complete `Call`. The user side reads word by word, and
    // takes the call as complete only if it finds its number, which is written last.
    unsafe {
        (&raw mut (*entry).number).write_volatile(0);
        entry.write_volatile(call);
        (&raw mut (*entry).number).write_volatile(number as u32 + 1);
    }
    if number.wrapping_sub(read(&head.read)) >= u64::from(size / 2) {
        report_filling(process);
    }
}

/// Distance on the stack from this return address to that of the binding's caller, in bytes; `None` if it is
/// not a call site of a binding.
#[inline(always)]
pub fn binding(process: u32, site: u64) -> Option<u64> {
    // SAFETY: the value is read at once; an entry is never changed.
    unsafe { BINDINGS.get(&[u64::from(process), site]) }.copied()
}

/// Whether calls of this process pass through bindings.
#[inline(always)]
pub fn has_bindings(process: u32) -> bool {
    HEADS
        .get(process)
        .is_some_and(|head| read(&head.has_bindings) != 0)
}

/// Wakes the user side once for all rings until it sleeps again, because it reads all of them then. If there
/// is no room for the record, it is awake.
fn report_filling(process: u32) {
    let Some(first) = HEADS.get(0) else {
        return;
    };
    if compare_and_swap(&first.is_asleep, 1, 0)
        && let Some(mut entry) = HITS.reserve::<Filling>(0)
    {
        entry.write(Filling {
            process: u64::from(process),
        });
        // Hits that were submitted without a wake-up may precede it.
        entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
    }
}

pub fn totals(process: u32, probe: u32) -> Option<&'static Totals> {
    let count = constant(&PROBE_COUNT);
    if probe >= count {
        return None;
    }
    TOTALS.get(process * count + probe)
}

/// Address of a captured variable in a process.
pub fn address(process: u32, probe: u32, capture: u32) -> Option<u64> {
    let cell = process * constant(&PROBE_COUNT) + probe;
    ADDRESSES
        .get(cell * abi::CAPTURES_MAX as u32 + capture)
        .copied()
        .filter(|address| *address != 0)
}

pub fn thread(key: u64) -> Option<&'static mut Thread> {
    let pointer = THREADS.get_ptr_mut(key)?;
    // SAFETY: the kernel returned the address of a complete `Thread`, which lives as long as the program
    // runs; only the thread itself runs programs under its own key, so there is no other reference.
    Some(unsafe { &mut *pointer })
}

/// Creates the record of a thread.
pub fn new_thread(key: u64, process: u32) -> Option<&'static mut Thread> {
    let zeros = NEW_THREAD.get(0)?;
    if THREADS.insert(key, zeros, 0).is_err() {
        lost(Loss::ThreadTable);
        return None;
    }
    let thread = thread(key)?;
    thread.process = process;
    Some(thread)
}

pub fn changes() -> u64 {
    CHANGES.get(0).map_or(0, read)
}

pub fn changed() {
    if let Some(changes) = CHANGES.get(0) {
        add(changes, 1);
    }
}

pub fn lost(what: Loss) {
    if let Some(counter) = LOSSES.get(what as u32) {
        add(counter, 1);
    }
}

/// Sends a hit, or counts its loss. Its time is taken after room in the ring was reserved: a reader that
/// finds the ring empty then knows that it has read every hit up to that moment, even if a program was
/// preempted in between. `timed` is called with the time before the hit becomes visible. `decides`: a
/// decision may be due.
#[inline(always)]
pub fn send(hit: HitRecord, decides: bool, timed: impl FnOnce(u64)) {
    let is_sent = match hit.is_short() {
        true => put(hit, decides, timed, |hit| {
            // SAFETY: a hit is longer than that, and without padding.
            unsafe {
                (&raw const *hit)
                    .cast::<[u64; HitRecord::SHORT_BYTES / 8]>()
                    .read()
            }
        }),
        false => put(hit, decides, timed, |hit| *hit),
    };
    if !is_sent {
        lost(Loss::RingFull);
    }
}

/// Puts the hit into the ring in the form that `sent` returns; false if there was no room.
#[inline(always)]
fn put<T: 'static>(
    hit: HitRecord,
    decides: bool,
    timed: impl FnOnce(u64),
    sent: impl FnOnce(&HitRecord) -> T,
) -> bool {
    let Some(mut entry) = HITS.reserve::<T>(0) else {
        return false;
    };
    // SAFETY: the helper has no preconditions.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    timed(time_ns);
    entry.write(sent(&HitRecord { time_ns, ..hit }));
    entry.submit(wakeup_flag(decides, time_ns));
    true
}

/// Reserves room for a text in the ring, to be filled and submitted; counts a loss.
pub fn reserve_text() -> Option<RingBufEntry<TextRecord>> {
    let entry = HITS.reserve::<TextRecord>(0);
    if entry.is_none() {
        lost(Loss::RingFull);
    }
    entry
}

/// The wake-up flag for submitting a record. Call it after `reserve`: the reader sets ASLEEP first and then
/// checks the ring, so either it sees this record or we see ASLEEP and wake it. Only the reader sets ASLEEP
/// again, after it has drained the ring.
#[inline(always)]
pub fn wakeup_flag(decides: bool, now_ns: u64) -> u64 {
    let Some(alarm) = ALARM.get(0) else { return 0 };
    if read(&alarm.state) == Alarm::UNSET {
        return 0;
    }
    let is_due = decides
        || now_ns >= read(&alarm.looks_ns)
        || HITS.query(u64::from(BPF_RB_AVAIL_DATA)) >= u64::from(abi::RING_BYTES / 2);
    u64::from(
        match is_due && compare_and_swap(&alarm.state, Alarm::ASLEEP, Alarm::AWAKE) {
            true => BPF_RB_FORCE_WAKEUP,
            false => BPF_RB_NO_WAKEUP,
        },
    )
}
