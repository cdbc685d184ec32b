//! The values that a probe reads at a hit, each with a bit that says whether it could be read.

use abi::{Capture, CaptureKind, MAX_CAPTURES, ProbeSpec};
use aya_ebpf::{bindings::pt_regs, helpers::bpf_probe_read_user, programs::ProbeContext};

use crate::{bytes, maps, task::Task};

/// What was read.
#[derive(Clone, Copy)]
pub struct Captured {
    /// The values, in the order of the spec.
    pub values: [u64; MAX_CAPTURES],
    /// A bit for each that could be read.
    pub valid: u16,
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
pub fn at_entry(ctx: &ProbeContext, spec: &ProbeSpec, task: &Task, probe: u32) -> Captured {
    let mut captured = Captured::of([0; MAX_CAPTURES], 0);
    for (place, capture) in spec.captures.iter().enumerate() {
        if capture.kind == CaptureKind::Argument as u8 {
            captured.put(place, bytes::argument(ctx, capture.index));
        } else if capture.kind == CaptureKind::VariableAtEntry as u8 {
            captured.put(place, variable(task, probe, place, capture));
        }
    }
    captured
}

/// Adds what can be read only when the function has returned.
pub fn at_return(captured: &mut Captured, regs: &pt_regs, spec: &ProbeSpec, task: &Task, probe: u32) {
    for (place, capture) in spec.captures.iter().enumerate() {
        if capture.kind == CaptureKind::Return as u8 {
            captured.put(place, Some(regs.rax));
        } else if capture.kind == CaptureKind::VariableAtReturn as u8 {
            captured.put(place, variable(task, probe, place, capture));
        }
    }
}

fn variable(task: &Task, probe: u32, place: usize, capture: &Capture) -> Option<u64> {
    let address = maps::address(task.process, probe, place as u32)?;
    // SAFETY: the helper checks the address; a page that is not resident is an error, not a fault.
    unsafe {
        match capture.width {
            1 => bpf_probe_read_user(address as *const u8).ok().map(u64::from),
            2 => bpf_probe_read_user(address as *const u16).ok().map(u64::from),
            4 => bpf_probe_read_user(address as *const u32).ok().map(u64::from),
            8 => bpf_probe_read_user(address as *const u64).ok(),
            _ => None,
        }
    }
}
