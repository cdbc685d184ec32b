//! Tracks messages by pair of ranks and by size: persistent requests from creation to their starts, matched
//! messages (MPI_Mprobe) until they are received, and the source of a message from any rank, which is known
//! when the call returns.

use abi::{
    AmountForm, Flow, Loss, MessageSpec, NO_ARGUMENT, Pair, Pending, ProbeSpec, Sizes, SpecFlags, Template,
    UNKNOWN_BYTES,
};
use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    helpers::{bpf_loop, bpf_probe_read_user},
    macros::map,
    maps::HashMap,
};

use crate::record::{record, record_mut};
use crate::{
    atomic::add,
    bytes::{self, FIRST, OTHER, argument},
    capture::HitContext,
    histograms,
    maps::{self, lost},
    registers::argument_or,
    task, world,
};

/// Messages between a process and each rank, by [`Pair::key`].
#[map]
pub static PAIRS: HashMap<u64, Pair> = HashMap::with_max_entries(abi::PAIRS_MAX, BPF_F_NO_PREALLOC);

/// What persistent requests carry, and the sources of matched messages: `[slot, handle]`.
#[map]
pub static REQUESTS: HashMap<[u64; 2], Template> =
    HashMap::with_max_entries(abi::REQUESTS_MAX, BPF_F_NO_PREALLOC);

/// The other end is MPI_PROC_NULL: nothing is carried.
const NO_PROCESS: i64 = -1;
/// The source may be any rank.
const ANYBODY: i64 = -2;
const UNSTATED: i64 = -3;

/// Handles the entry of an outermost call. `pending` receives what its return needs; it is null if there is
/// no room for that.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_entered(moment: *const HitContext, pending: *mut Pending) -> u32 {
    let (moment, mut pending) = (record(moment), record_mut(pending));
    let Some(moment) = moment else { return 0 };
    let Ok(spec) = task::spec(moment.probe) else {
        return 0;
    };
    // Discard the data of a call whose return was never seen.
    if let Some(pending) = &mut pending {
        pending.what = Pending::NOTHING;
    }
    let (message, process) = (&spec.message, moment.process);
    let form = message.amount.form;
    if AmountForm::Start.is(form) || AmountForm::Startall.is(form) {
        return message_started(moment);
    }
    if AmountForm::Free.is(form) {
        let request = request_at(process, argument(moment, message.amount.count));
        let _ = REQUESTS.remove([u64::from(process), request]);
        return 1;
    }
    if message.found != NO_ARGUMENT {
        return received_found(moment, message);
    }
    let end = end(moment, message.amount.peer);
    let comm = argument(moment, message.comm);
    if message.template != NO_ARGUMENT {
        prepared(moment, message, (end, comm), pending);
        return 1;
    }
    let carried = if end == NO_PROCESS {
        0
    } else {
        bytes::of_call(moment)
    };
    if spec.flags & SpecFlags::BYTES != 0 {
        message_counted(moment, carried, u32::from(end != NO_PROCESS));
    }
    if Flow::None.is(message.flow) {
        return 1;
    }
    if !Flow::Received.is(message.flow) {
        message_pass(process, comm, end, 0, carried);
    }
    if Flow::Both.is(message.flow) {
        received_too(moment, message, comm, pending);
    } else if Flow::Received.is(message.flow) {
        received(moment, message, (end, comm, carried), pending);
    }
    1
}

/// Receives a message that an earlier call matched, whose source is known from that call.
#[inline(always)]
fn received_found(moment: &HitContext, message: &MessageSpec) -> u32 {
    let pair = message_found(moment.process, argument(moment, message.found));
    let carried = if pair == FROM_NO_PROCESS {
        0
    } else {
        bytes::of_call(moment)
    };
    message_counted(moment, carried, u32::from(pair != FROM_NO_PROCESS));
    if pair != FROM_NO_PROCESS {
        message_enter(u64::from(moment.process) << 32 | pair, carried);
    }
    1
}

/// There is no pair of ranks: the message is from MPI_PROC_NULL.
const FROM_NO_PROCESS: u64 = u64::MAX;

/// Removes a matched message, whose handle is at address `place`, and returns the low half of its pair's key.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_found(process: u32, place: u64) -> u64 {
    let key = [u64::from(process), request_at(process, place)];
    // SAFETY: a template is replaced in one piece, and a message is received by one thread.
    let pair = match unsafe { REQUESTS.get(key) } {
        Some(found) if found.has_pair == 0 => FROM_NO_PROCESS,
        Some(found) => u64::from(found.pair),
        None => u64::from(Pair::RECEIVED | Pair::UNRESOLVED),
    };
    let _ = REQUESTS.remove(key);
    pair
}

/// Prepares the template of a persistent request or a matched message; its handle is known at the return.
#[inline(always)]
fn prepared(moment: &HitContext, message: &MessageSpec, (end, comm): (i64, u64), pending: Option<&mut Pending>) {
    let Some(pending) = pending else {
        lost(Loss::RequestTable);
        return;
    };
    let is_received = u64::from(Flow::Received.is(message.flow));
    let template = Template {
        bytes: if end == NO_PROCESS {
            0
        } else {
            bytes::bytes_of(moment, FIRST)
        },
        pair: key(moment.process, comm, end, is_received) as u32,
        has_pair: u32::from(end != NO_PROCESS),
    };
    *pending = Pending {
        what: Pending::REQUEST,
        place: argument(moment, message.template),
        status: if end == ANYBODY { status(moment, message) } else { 0 },
        comm,
        template,
    };
}

/// Handles the receiving half of a call that sends and receives.
#[inline(always)]
fn received_too(moment: &HitContext, message: &MessageSpec, comm: u64, pending: Option<&mut Pending>) {
    let from = end(moment, message.other.peer);
    let posted = if from == NO_PROCESS {
        0
    } else {
        bytes::bytes_of(moment, OTHER)
    };
    received(moment, message, (from, comm, posted), pending);
}

/// Counts a received message. If its source may be any rank, the status will contain it.
#[inline(always)]
fn received(
    moment: &HitContext,
    message: &MessageSpec,
    (end, comm, bytes): (i64, u64, u64),
    pending: Option<&mut Pending>,
) {
    if end == ANYBODY
        && let Some(pending) = pending
    {
        let status = status(moment, message);
        if status != 0 {
            pending.status = status;
            pending.comm = comm;
            pending.template.bytes = bytes;
            pending.what = Pending::SOURCE;
            return;
        }
    }
    message_pass(moment.process, comm, end, 1, bytes);
}

/// Address of the status; 0 if the caller ignores it.
#[inline(always)]
fn status(moment: &HitContext, message: &MessageSpec) -> u64 {
    /// MPI_STATUS_IGNORE is 0 or 1.
    const IGNORED_MAX: u64 = 1;
    let status = argument_or(moment, u64::from(message.status), 0);
    if status > IGNORED_MAX { status } else { 0 }
}

/// Handles the return of an outermost call: reads what was left open at its entry.
pub fn close(spec: &ProbeSpec, process: u32, pending: &mut Pending) {
    if spec.flags & SpecFlags::MESSAGE != 0 && pending.what != Pending::NOTHING {
        message_returned(process, pending);
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_returned(process: u32, pending: *mut Pending) -> u32 {
    let Some(pending) = record_mut(pending) else {
        return 0;
    };
    let what = pending.what;
    pending.what = Pending::NOTHING;
    if what == Pending::SOURCE {
        let end = source(process, pending.status);
        message_pass(process, pending.comm, end, 1, pending.template.bytes);
    } else if what == Pending::REQUEST {
        if pending.status != 0 {
            let end = source(process, pending.status);
            pending.template.pair = key(process, pending.comm, end, 1) as u32;
            pending.template.has_pair = u32::from(end != NO_PROCESS);
        }
        let handle = request_at(process, pending.place);
        let key = [u64::from(process), handle];
        if handle != 0 && REQUESTS.insert(key, pending.template, 0).is_err() {
            lost(Loss::RequestTable);
        }
    }
    1
}

/// The source of a message, from the status of its call.
#[inline(always)]
fn source(process: u32, status: u64) -> i64 {
    let Some(world) = world::of(process) else {
        return UNSTATED;
    };
    let place = status.wrapping_add(u64::from(world.status_source)) as *const i32;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    match unsafe { bpf_probe_read_user(place) } {
        Ok(source) if source == world.proc_null => NO_PROCESS,
        Ok(source) if source >= 0 => i64::from(source),
        _ => UNSTATED,
    }
}

/// The rank at the other end, from argument `peer`.
#[inline(always)]
fn end(moment: &HitContext, peer: u8) -> i64 {
    const NO_RANK: u64 = i32::MIN as u32 as u64;
    let Some(world) = world::of(moment.process) else {
        return UNSTATED;
    };
    let peer = argument_or(moment, u64::from(peer), NO_RANK) as i32;
    if peer == world.proc_null {
        NO_PROCESS
    } else if peer == world.any_source {
        ANYBODY
    } else if peer < 0 {
        UNSTATED
    } else {
        i64::from(peer)
    }
}

/// Key of the pair of a process and the rank at the other end.
#[inline(always)]
fn key(process: u32, comm: u64, end: i64, is_received: u64) -> u64 {
    let rank = if end < 0 {
        Pair::UNRESOLVED
    } else {
        world::world_rank(process, comm, end as u32)
    };
    Pair::key(process, is_received != 0, rank & (Pair::RECEIVED - 1))
}

/// Counts a message between the process and the other end.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_pass(process: u32, comm: u64, end: i64, is_received: u64, bytes: u64) -> u32 {
    if end == NO_PROCESS {
        return 0;
    }
    message_enter(key(process, comm, end, is_received), bytes)
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_enter(key: u64, bytes: u64) -> u32 {
    let mut known = PAIRS.get_ptr(key);
    if known.is_none() {
        // Another thread may have inserted the pair.
        let _ = PAIRS.insert(key, Pair::default(), u64::from(BPF_NOEXIST));
        known = PAIRS.get_ptr(key);
    }
    let Some(pair) = known else {
        lost(Loss::PairTable);
        return 0;
    };
    // SAFETY: the kernel returned the address of a complete `Pair`, whose words are changed by atomic
    // additions alone.
    let pair = unsafe { &*pair };
    add(&pair.messages, 1);
    if bytes != UNKNOWN_BYTES {
        add(&pair.bytes, bytes);
    }
    1
}

/// Adds what a call carries to its function's totals and sizes. A message to MPI_PROC_NULL has no size.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_counted(moment: *const HitContext, bytes: u64, has_size: u32) -> u32 {
    let Some(moment) = record(moment) else { return 0 };
    let (Ok(spec), Some(totals)) = (
        task::spec(moment.probe),
        maps::totals(moment.process, moment.probe),
    ) else {
        return 0;
    };
    if bytes == UNKNOWN_BYTES {
        add(&totals.bytes_unknown, 1);
        return 0;
    }
    add(&totals.bytes, bytes);
    if has_size != 0 {
        sized(moment.process, spec.message.row, bytes);
    }
    1
}

/// Counts a message in the histogram of sizes.
#[inline(always)]
fn sized(process: u32, row: u16, bytes: u64) {
    histograms::histogram_count(process, u32::from(row), Sizes::bucket(bytes) as u32);
}

/// The handle of the request at an address; 0 if it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn request_at(process: u32, place: u64) -> u64 {
    let is_small = world::of(process).is_some_and(|world| world.handles != 0);
    // SAFETY: the helper checks the address.
    unsafe {
        if is_small {
            bpf_probe_read_user(place as *const u32).map_or(0, u64::from)
        } else {
            bpf_probe_read_user(place as *const u64).unwrap_or_default()
        }
    }
}

/// State of a loop over persistent requests that are being started.
#[repr(C)]
struct Starting {
    place: u64,
    bytes: u64,
    process: u32,
    row: u16,
    /// Distance between requests in bytes.
    step: u16,
    /// Number of requests that were found.
    known: u32,
    zero: u32,
}

/// Counts the persistent requests that a call starts.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn message_started(moment: *const HitContext) -> u32 {
    let Some(moment) = record(moment) else { return 0 };
    let process = moment.process;
    let (Ok(spec), Some(totals)) = (task::spec(moment.probe), maps::totals(process, moment.probe)) else {
        return 0;
    };
    let amount = &spec.message.amount;
    let (place, count) = if AmountForm::Start.is(amount.form) {
        (argument(moment, amount.count), 1)
    } else {
        let count = argument_or(moment, u64::from(amount.count), 0) as i32;
        (argument(moment, amount.datatype), count.max(0) as u32)
    };
    let is_small = world::of(process).is_some_and(|world| world.handles != 0);
    let mut starting = Starting {
        place,
        bytes: 0,
        process,
        row: spec.message.row,
        step: if is_small { 4 } else { 8 },
        known: 0,
        zero: 0,
    };
    if count <= abi::COUNTS_MAX {
        let step = start as *mut core::ffi::c_void;
        // SAFETY: the callback has the signature that the helper needs, and `starting` outlives the call.
        unsafe { bpf_loop(count, step, (&raw mut starting).cast(), 0) };
    }
    add(&totals.bytes, starting.bytes);
    if starting.known != count {
        add(&totals.bytes_unknown, 1);
    }
    1
}

/// Counts the start of one request. Bytes that it receives are not part of the bytes sent.
#[inline(never)]
extern "C" fn start(index: u32, starting: *mut Starting) -> i64 {
    // SAFETY: the helper passes on the pointer that it was given, and there is no other one.
    let starting = unsafe { &mut *starting };
    let place = starting
        .place
        .wrapping_add(u64::from(index) * u64::from(starting.step));
    let key = [u64::from(starting.process), request_at(starting.process, place)];
    // SAFETY: a template is replaced in one piece, and only when its request was made anew.
    let Some(template) = (unsafe { REQUESTS.get(key) }) else {
        return 0;
    };
    let (bytes, pair) = (template.bytes, template.pair);
    if template.has_pair != 0 {
        message_enter(u64::from(starting.process) << 32 | u64::from(pair), bytes);
    }
    if bytes == UNKNOWN_BYTES {
        return 0;
    }
    starting.known += 1;
    if pair & Pair::RECEIVED == 0 {
        starting.bytes = starting.bytes.wrapping_add(bytes);
        if template.has_pair != 0 {
            sized(starting.process, starting.row, bytes);
        }
    }
    0
}
