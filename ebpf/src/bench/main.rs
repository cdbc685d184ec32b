//! A synthetic producer: puts hits into the ring of a session as fast as a CPU can, with the function that
//! probes use to send them. A separate object for benchmarks and tests of the ring's reader; no session loads
//! it.
//!
//! Nothing is attached: the programs are run one by one (BPF_PROG_TEST_RUN), with arguments.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unstable_features, reason = "inline assembly for this target")]

#[allow(dead_code, reason = "this object needs only some of these instructions")]
#[path = "../atomic.rs"]
mod atomic;
#[allow(
    dead_code,
    reason = "of what a session keeps, only the ring and its losses are used"
)]
#[path = "../maps.rs"]
mod maps;
#[allow(dead_code, reason = "shared with the objects that know processes")]
#[path = "../namespace.rs"]
mod namespace;
#[path = "../object.rs"]
mod object;

use core::ffi::c_void;

use abi::{HitKind, HitRecord};
use aya_ebpf::{bindings::BPF_RB_PROD_POS, helpers::bpf_loop, programs::RawTracePointContext};

/// Properties common to the produced hits.
#[repr(C)]
struct Producing {
    /// Number of the first hit.
    first: u64,
    /// The thread to which the hits are attributed.
    thread: u32,
    /// A decision may be due at them.
    decides: u32,
}

/// Puts hits into the ring. Arguments: number of the first hit, count, and the thread, with bit 32 set if a
/// decision may be due at the hits. Hits that do not fit count as losses, as for a probe. Returns the number
/// of attempts, which aya's macro for such programs does not permit.
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/sys_enter")]
pub extern "C" fn produce(ctx: *mut c_void) -> i32 {
    let ctx = RawTracePointContext::new(ctx);
    let (first, count, thread): (u64, u64, u64) = (ctx.arg(0), ctx.arg(1), ctx.arg(2));
    let mut producing = Producing {
        first,
        thread: thread as u32,
        decides: (thread >> 32) as u32,
    };
    // SAFETY: the callback has the signature that the helper needs, and `producing` outlives the call.
    unsafe { bpf_loop(count as u32, put as *mut c_void, (&raw mut producing).cast(), 0) as i32 }
}

/// Produces one hit: a return at the first probe of the first process, with its number as a captured value.
#[inline(never)]
extern "C" fn put(index: u32, producing: *mut Producing) -> i64 {
    // SAFETY: the helper passes on the pointer that it was given, and there is no other one.
    let producing = unsafe { &*producing };
    let number = producing.first.wrapping_add(u64::from(index));
    let mut hit = HitRecord {
        time_ns: 0,
        duration_ns: number & 0xffff,
        probe: 0,
        process: 0,
        thread: producing.thread,
        kind: HitKind::Return as u16,
        valid: 1,
        captures: [0; abi::CAPTURES_MAX],
    };
    hit.captures[0] = number;
    maps::send(hit, producing.decides != 0, |_| ());
    0
}

/// Number of bytes put into the ring so far, the lowest 32 bits.
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/sys_enter")]
pub extern "C" fn position(_ctx: *mut c_void) -> i32 {
    maps::HITS.query(u64::from(BPF_RB_PROD_POS)) as i32
}
