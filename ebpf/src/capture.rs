//! The values that a probe reads at a hit, each with a bit that says whether it could be read.

use abi::{Capture, CaptureKind, MAX_CAPTURES, MAX_READS, MAX_TEXT, ProbeSpec, UNKNOWN_BYTES};
use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_probe_read_user, generated::bpf_probe_read_user_str},
    programs::ProbeContext,
};

use crate::{bytes, maps, registers, task::Task};

/// What was read.
#[derive(Clone, Copy)]
pub struct Captured {
    /// The values, in the order of the spec.
    pub values: [u64; MAX_CAPTURES],
    /// A bit for each that could be read.
    pub valid: u16,
}

/// Whose hit it is, and when.
pub struct Moment<'a> {
    /// The thread.
    pub task: &'a Task,
    /// Index of the probe's spec.
    pub probe: u32,
    /// When.
    pub time_ns: u64,
}

impl Captured {
    /// What was read before.
    pub fn of(values: [u64; MAX_CAPTURES], valid: u16) -> Captured {
        Captured { values, valid }
    }

    fn put(&mut self, place: usize, value: Option<u64>) {
        if let (Some(value), Some(slot)) = (value, self.values.get_mut(place)) {
            *slot = value;
            self.valid |= 1 << place;
        }
    }
}

/// What can be read at a function's entry.
pub fn at_entry(ctx: &ProbeContext, spec: &ProbeSpec, moment: &Moment) -> Captured {
    let mut captured = Captured::of([0; MAX_CAPTURES], 0);
    for (place, capture) in spec.captures.iter().enumerate() {
        if capture.kind == CaptureKind::Argument as u8 {
            let start = bytes::argument(ctx, capture.index);
            captured.put(
                place,
                start.and_then(|start| follow(start, capture, moment, place)),
            );
        } else if capture.kind == CaptureKind::VariableAtEntry as u8 {
            captured.put(place, variable(capture, moment, place));
        } else if capture.kind == CaptureKind::Bytes as u8 {
            let bytes = bytes::of_call(ctx, spec, moment.task.process);
            captured.put(place, (bytes != UNKNOWN_BYTES).then_some(bytes));
        } else if capture.kind == CaptureKind::Register as u8 {
            let start = registers::sum(ctx, capture);
            captured.put(
                place,
                start.and_then(|start| follow(start, capture, moment, place)),
            );
        } else if capture.kind == CaptureKind::Constant as u8 {
            let [low, high, ..] = capture.offsets;
            captured.put(place, Some((high as u32 as u64) << 32 | low as u32 as u64));
        }
    }
    captured
}

/// Adds what can be read only when the function has returned.
pub fn at_return(captured: &mut Captured, regs: &pt_regs, spec: &ProbeSpec, moment: &Moment) {
    for (place, capture) in spec.captures.iter().enumerate() {
        if capture.kind == CaptureKind::Return as u8 {
            captured.put(place, follow(regs.rax, capture, moment, place));
        } else if capture.kind == CaptureKind::VariableAtReturn as u8 {
            captured.put(place, variable(capture, moment, place));
        }
    }
}

fn variable(capture: &Capture, moment: &Moment, place: usize) -> Option<u64> {
    let address = maps::address(moment.task.process, moment.probe, place as u32)?;
    follow(address, capture, moment, place)
}

/// The value at the end of the chain. A read that fails on the way leaves the capture without a value.
fn follow(start: u64, capture: &Capture, moment: &Moment, place: usize) -> Option<u64> {
    let last = (capture.reads as usize).checked_sub(1);
    let Some(last) = last else { return Some(start) };
    let mut at = start;
    for (index, offset) in capture.offsets.iter().enumerate() {
        if index >= MAX_READS {
            return None;
        }
        at = at.wrapping_add(i64::from(*offset) as u64);
        if index == last {
            return if capture.is_text == 0 {
                number(at, capture.width)
            } else {
                text(at, capture.width, moment, place)
            };
        }
        at = number(at, 8)?;
        if at == 0 {
            return None;
        }
    }
    None
}

/// What stands at an address of the program.
pub fn number(address: u64, width: u8) -> Option<u64> {
    // SAFETY: the helper checks the address; a page that is not resident is an error, not a fault.
    unsafe {
        match width {
            1 => bpf_probe_read_user(address as *const u8).ok().map(u64::from),
            2 => bpf_probe_read_user(address as *const u16).ok().map(u64::from),
            4 => bpf_probe_read_user(address as *const u32).ok().map(u64::from),
            8 => bpf_probe_read_user(address as *const u64).ok(),
            _ => None,
        }
    }
}

/// Sends a text ahead of its hit; what stands in for it there is the time.
#[inline(never)]
fn text(address: u64, width: u8, moment: &Moment, place: usize) -> Option<u64> {
    let mut entry = maps::reserve_text()?;
    let record = entry.as_mut_ptr();
    let size = opaque(u64::from(width));
    if size == 0 || size > MAX_TEXT as u64 {
        entry.discard(0);
        return None;
    }
    // SAFETY: `record` is room of the right size in the ring; its fields are written in place. The helper writes at most
    // size + 1 bytes, which are fewer than `bytes` has, and checks the address that it reads.
    let copied = unsafe {
        (*record).time_ns = moment.time_ns;
        (*record).probe = moment.probe;
        (*record).process = moment.task.process;
        (*record).thread = moment.task.thread();
        (*record).place = place as u16;
        let to = (&raw mut (*record).bytes).cast();
        bpf_probe_read_user_str(to, (size + 1) as u32, address as *const _)
    };
    if copied < 1 {
        entry.discard(0);
        return None;
    }
    // SAFETY: as above. The zero at the end is counted by the helper and no part of the text.
    unsafe { (*record).length = (copied - 1) as u16 };
    entry.submit(0);
    Some(moment.time_ns)
}

/// The same value, of which the compiler knows nothing: what is compared is the very register that is passed on, or the verifier
/// does not see the bound; and what was read to have it is read there and not elsewhere.
pub fn opaque(mut value: u64) -> u64 {
    // SAFETY: no instruction is executed.
    unsafe { core::arch::asm!("/* {0} */", inout(reg) value) };
    value
}
