//! Sends a hit individually, or aggregates it.

use abi::{HitKind, HitRecord, Loss, NO_DURATION, ProbeSpec, SpecFlags};

use crate::{aggregate, capture::CapturedValues, maps, task::Task};

/// Handles one hit; its duration is [`NO_DURATION`] at an entry. A hit that is sent gets its time when it is
/// sent. A hit that cannot be aggregated is sent, so that each hit is counted in one of the two ways.
#[inline(always)]
pub fn hit(
    task: &Task,
    probe: u32,
    spec: &ProbeSpec,
    captured: &CapturedValues,
    time_ns: u64,
    duration_ns: u64,
) {
    let whose = u64::from(task.process) << 32 | u64::from(probe);
    let added = match duration_ns {
        NO_DURATION => SpecFlags::SUM_ENTRY,
        _ => SpecFlags::SUM_RETURN,
    };
    if spec.flags & added != 0 {
        if aggregate::hit_aggregate(captured, &spec.partial_sum, whose, time_ns, duration_ns) != 0 {
            return;
        }
        maps::lost(Loss::SentAlone);
    }
    send(captured, spec.flags, whose, task.thread(), duration_ns);
}

/// Not inlined: the record must not be on the stack of the deepest call chain (512 bytes in total).
#[inline(never)]
fn send(captured: &CapturedValues, flags: u32, whose: u64, thread: u32, duration_ns: u64) {
    let (process, probe) = ((whose >> 32) as u32, whose as u32);
    let kind = match duration_ns {
        NO_DURATION => HitKind::Entry,
        _ => HitKind::Return,
    };
    let hit = HitRecord {
        time_ns: 0,
        duration_ns,
        probe,
        process,
        thread,
        kind: kind as u16,
        valid: captured.valid as u16,
        captures: captured.values,
    };
    maps::send(hit, flags & SpecFlags::DECIDES != 0, |sent_ns| {
        if flags & SpecFlags::PARTS != 0 {
            aggregate::part(process, sent_ns);
        }
    });
}
