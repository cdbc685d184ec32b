//! Sends a hit on its own, or has it added up.

use abi::{Hit, HitKind};

use crate::{aggregate, capture::Captured, maps, task::Task};

/// One hit; `duration_ns` is [`abi::NO_DURATION`] at an entry. It gets its time when it is sent.
pub fn hit(task: &Task, probe: u32, kind: HitKind, duration_ns: u64, captured: &Captured) {
    let hit = Hit {
        time_ns: 0,
        duration_ns,
        probe,
        process: task.process,
        thread: task.thread(),
        kind: kind as u16,
        valid: captured.valid as u16,
        captures: captured.values,
    };
    if aggregate::hit_is_added_up(&hit) == 0 {
        maps::send(hit);
    }
}
