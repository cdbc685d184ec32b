//! The current thread and its probe.

use abi::{Loss, ProbeSpec, Thread};
use aya_ebpf::{
    EbpfContext,
    bindings::pt_regs,
    helpers::{bpf_get_attach_cookie, bpf_get_current_task, bpf_probe_read_kernel},
};

use crate::{
    family,
    maps::{self, PROBES, PROCESSES, SITES},
    namespace,
};

/// The current thread, if its process is watched.
pub struct Task {
    /// `pid << 32 | tid`, the key of the thread's record.
    pub key: u64,
    /// Slot of the process.
    pub process: u32,
}

impl Task {
    /// The thread with this key; `None` if its process is not watched.
    pub fn of(key: u64) -> Option<Task> {
        // SAFETY: a value of this map is not changed once it is there, and a u32 is read in one piece.
        let process = match unsafe { PROCESSES.get((key >> 32) as u32) } {
            Some(slot) => *slot,
            None => family::slot(key)?,
        };
        Some(Task { key, process })
    }

    /// As [`Task::of`], but caches the process in the thread's record until a process starts or ends: this
    /// saves a look-up at most hits.
    pub fn with(key: u64, thread: &mut Thread) -> Option<Task> {
        // Read before the look-up: a change in between is noticed at the next hit.
        let changes = maps::changes();
        if thread.known_at != changes {
            thread.process = Task::of(key)?.process;
            thread.known_at = changes;
        }
        let process = thread.process;
        Some(Task { key, process })
    }

    pub fn thread(&self) -> u32 {
        self.key as u32
    }
}

/// Offset of a thread's run-queue time in the kernel's `task_struct`; set at load, 0 if unknown.
#[unsafe(no_mangle)]
static WAITED_OFFSET: u32 = 0;

/// Time since its start for which the current thread was runnable but waited for a CPU, in nanoseconds. It
/// runs now, so no wait is in progress.
pub fn waited_ns() -> u64 {
    let offset = namespace::constant(&WAITED_OFFSET);
    if offset == 0 {
        return 0;
    }
    // SAFETY: the helper has no preconditions.
    let record = unsafe { bpf_get_current_task() };
    let place = record.wrapping_add(u64::from(offset)) as *const u64;
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    unsafe { bpf_probe_read_kernel(place) }.unwrap_or_default()
}

/// Index of the probe's spec from the link's cookie; `None` if the kernel gives links no cookies.
pub fn cookie(ctx: &impl EbpfContext) -> Option<u32> {
    // SAFETY: the context is the one that the kernel passed to this program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    (cookie as u32).checked_sub(1)
}

/// Index of the spec of the probe at the current address in a thread's process.
pub fn site(key: u64, regs: &pt_regs) -> Option<u32> {
    // SAFETY: a value of this map is not changed once it is there, and a u32 is read in one piece.
    unsafe { SITES.get([key >> 32, regs.rip]) }.copied()
}

pub fn spec(probe: u32) -> Result<&'static ProbeSpec, Loss> {
    PROBES.get(probe).ok_or(Loss::UnknownProbe)
}
