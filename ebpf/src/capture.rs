//! The values that a probe reads at a hit, each with a bit that says whether it could be read.
//!
//! Exported functions take numbers and records of numbers: the kernel's verifier then checks each of them
//! once, and not once for each path that leads to it.

use abi::{CAPTURES_MAX, Capture, CaptureKind, ProbeSpec, TEXT_MAX, UNKNOWN_BYTES};
use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_probe_read_user, generated::bpf_probe_read_user_str},
};

use crate::record::{record, record_mut};
use crate::{
    bytes, maps,
    registers::{self, ARGUMENTS},
    task::{self, Task},
};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct CapturedValues {
    /// In the order of the spec.
    pub values: [u64; CAPTURES_MAX],
    /// A bit for each value that could be read.
    pub valid: u64,
}

impl CapturedValues {
    /// No values. A zero known to the compiler would be filled in byte by byte, by a loop that takes longer
    /// than everything else at an entry.
    #[inline(always)]
    pub fn nothing() -> CapturedValues {
        let zero = opaque(0);
        CapturedValues {
            values: [zero; CAPTURES_MAX],
            valid: zero,
        }
    }
}

/// Process, time, arguments and return value of a hit. The stacks of all active functions have 512 bytes
/// together, so data that is rarely needed is not here.
#[repr(C)]
pub struct HitContext {
    pub time_ns: u64,
    /// The thread's key, `pid << 32 | tid`.
    pub thread: u64,
    /// Slot of the process.
    pub process: u32,
    /// Index of the probe's spec.
    pub probe: u32,
    /// The arguments passed in registers.
    pub arguments: [u64; ARGUMENTS],
    pub stack_pointer: u64,
    pub returned: u64,
}

impl HitContext {
    #[inline(always)]
    pub fn of(task: &Task, probe: u32, time_ns: u64, regs: &pt_regs) -> HitContext {
        HitContext {
            time_ns,
            thread: task.key,
            process: task.process,
            probe,
            arguments: [regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, regs.r9],
            stack_pointer: regs.rsp,
            returned: regs.rax,
        }
    }
}

/// Reads the captures of a function's entry.
pub fn at_entry(moment: &HitContext, captured: &mut CapturedValues, spec: &ProbeSpec, regs: &pt_regs) {
    for (place, capture) in spec.captures.iter().enumerate() {
        // Any register may be requested, and registers can be read only from here.
        if capture.kind == CaptureKind::Register as u8 {
            let Some(start) = registers::sum(regs, capture) else {
                continue;
            };
            captured.values[place] = start;
        }
        capture_entering(moment, captured, place as u64);
    }
}

/// Adds the captures of a function's return.
pub fn at_return(moment: &HitContext, captured: &mut CapturedValues) {
    for place in 0..CAPTURES_MAX as u64 {
        capture_returning(moment, captured, place);
    }
}

/// Reads one value if its capture belongs to a function's entry.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn capture_entering(
    moment: *const HitContext,
    captured: *mut CapturedValues,
    place: u64,
) -> u32 {
    let Some((moment, captured, capture)) = capture(moment, captured, place) else {
        return 0;
    };
    let start = if capture.kind == CaptureKind::Argument as u8 {
        registers::argument(moment, u64::from(capture.index))
    } else if capture.kind == CaptureKind::Register as u8 {
        captured.values.get(opaque(place) as usize).copied()
    } else if capture.kind == CaptureKind::VariableAtEntry as u8 {
        maps::address(moment.process, moment.probe, place as u32)
    } else if capture.kind == CaptureKind::Bytes as u8 {
        let bytes = bytes::of_call(moment);
        if bytes != UNKNOWN_BYTES {
            put(captured, place, bytes);
        }
        return 0;
    } else if capture.kind == CaptureKind::Constant as u8 {
        let [low, high, ..] = capture.offsets;
        put(captured, place, (high as u32 as u64) << 32 | low as u32 as u64);
        return 0;
    } else {
        None
    };
    start.map_or(0, |start| capture_following(moment, captured, place, start))
}

/// Reads one value if its capture belongs to a function's return.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn capture_returning(
    moment: *const HitContext,
    captured: *mut CapturedValues,
    place: u64,
) -> u32 {
    let Some((moment, captured, capture)) = capture(moment, captured, place) else {
        return 0;
    };
    let start = if capture.kind == CaptureKind::Return as u8 {
        Some(moment.returned)
    } else if capture.kind == CaptureKind::VariableAtReturn as u8 {
        maps::address(moment.process, moment.probe, place as u32)
    } else {
        None
    };
    start.map_or(0, |start| capture_following(moment, captured, place, start))
}

/// Stores the value at the end of the chain of reads. If a read fails, the capture has no value.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn capture_following(
    moment: *const HitContext,
    captured: *mut CapturedValues,
    place: u64,
    start: u64,
) -> u32 {
    let Some((moment, captured, capture)) = capture(moment, captured, place) else {
        return 0;
    };
    if let Some(value) = follow(start, capture, moment, place) {
        put(captured, place, value);
    }
    1
}

/// The capture at index `place` of the probe's spec, with the records of the hit.
#[inline(always)]
fn capture<'a>(
    moment: *const HitContext,
    captured: *mut CapturedValues,
    place: u64,
) -> Option<(&'a HitContext, &'a mut CapturedValues, &'static Capture)> {
    let moment = record(moment)?;
    let spec = task::spec(moment.probe).ok()?;
    let capture = spec.captures.get(opaque(place) as usize)?;
    Some((moment, record_mut(captured)?, capture))
}

#[inline(always)]
fn put(captured: &mut CapturedValues, place: u64, value: u64) {
    if let Some(slot) = captured.values.get_mut(opaque(place) as usize) {
        *slot = value;
        captured.valid |= 1 << place;
    }
}

#[inline(always)]
fn follow(start: u64, capture: &Capture, moment: &HitContext, place: u64) -> Option<u64> {
    let Some(last) = (capture.reads as usize).checked_sub(1) else {
        return Some(start);
    };
    let end = capture.offsets.get(opaque(last as u64) as usize)?;
    let mut at = start;
    for (index, offset) in capture.offsets.iter().enumerate() {
        if index >= last {
            break;
        }
        at = number(at.wrapping_add(i64::from(*offset) as u64), 8)?;
        if at == 0 {
            return None;
        }
    }
    let at = at.wrapping_add(i64::from(*end) as u64);
    if capture.is_text == 0 {
        number(at, capture.width)
    } else {
        text(at, capture.width, moment, place)
    }
}

/// An integer at an address of the program, with a width in bytes.
#[inline(always)]
pub fn number(address: u64, width: u8) -> Option<u64> {
    match width {
        1 => value::<u8>(address).map(u64::from),
        2 => value::<u16>(address).map(u64::from),
        4 => value::<u32>(address).map(u64::from),
        8 => value::<u64>(address),
        _ => None,
    }
}

/// An integer of the program; `None` if its page is not resident.
#[inline(always)]
fn value<T: Into<u64>>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address; a page that is not resident is an error, not a fault.
    unsafe { bpf_probe_read_user(address as *const T).ok() }
}

/// Sends a text before its hit. Returns the time that links the hit to it.
#[inline(never)]
fn text(address: u64, width: u8, moment: &HitContext, place: u64) -> Option<u64> {
    let mut entry = maps::reserve_text()?;
    let record = entry.as_mut_ptr();
    let size = opaque(u64::from(width));
    if size == 0 || size > TEXT_MAX as u64 {
        entry.discard(0);
        return None;
    }
    // SAFETY: `record` is room of the right size in the ring; its fields are written in place.
    unsafe {
        (*record).time_ns = moment.time_ns;
        (*record).probe = moment.probe;
        (*record).process = moment.process;
        (*record).thread = moment.thread as u32;
        (*record).place = place as u16;
    }
    // SAFETY: the helper writes at most size + 1 bytes, which are fewer than `bytes` has, and checks the
    // address that it reads.
    let copied = unsafe {
        let to = (&raw mut (*record).bytes).cast();
        bpf_probe_read_user_str(to, (size + 1) as u32, address as *const _)
    };
    if copied < 1 {
        entry.discard(0);
        return None;
    }
    // SAFETY: `record` is room in the ring until it is submitted. The helper counts the zero at the end,
    // which is no part of the text.
    unsafe { (*record).length = (copied - 1) as u16 };
    entry.submit(maps::wakeup_flag(false, moment.time_ns));
    Some(moment.time_ns)
}

/// Returns the value unchanged, opaque to the compiler. The compared register is then the one that is used,
/// so the verifier sees the bound; and the reads that produce the value are not moved elsewhere.
pub fn opaque(mut value: u64) -> u64 {
    // SAFETY: no instruction is executed.
    unsafe { core::arch::asm!("/* {0} */", inout(reg) value) };
    value
}
