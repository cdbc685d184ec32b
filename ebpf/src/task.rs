//! Who hit the probe, and which probe it was.

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
    /// `pid << 32 | tid`: the key of its record.
    pub key: u64,
    /// Slot of its process.
    pub process: u32,
}

impl Task {
    /// The current thread, whose key this is; `None` for processes that are not watched.
    pub fn of(key: u64) -> Option<Task> {
        // SAFETY: a value of this map is not changed once it is there, and a u32 is read in one piece.
        let process = match unsafe { PROCESSES.get((key >> 32) as u32) } {
            Some(slot) => *slot,
            None => family::slot(key)?,
        };
        Some(Task { key, process })
    }

    /// The same with its record, which knows the process as long as none has come or gone: that saves a
    /// look-up at most hits.
    pub fn with(key: u64, thread: &mut Thread) -> Option<Task> {
        // Before the look-up: what changes meanwhile is noticed the next time.
        let changes = maps::changes();
        if thread.known_at != changes {
            thread.process = Task::of(key)?.process;
            thread.known_at = changes;
        }
        let process = thread.process;
        Some(Task { key, process })
    }

    /// The thread's own number.
    pub fn thread(&self) -> u32 {
        self.key as u32
    }
}

/// Where the kernel keeps, in the record of a thread, how long it was ready to run but waited for a CPU; set
/// at load, 0 when it is not known.
#[unsafe(no_mangle)]
static WAITED_OFFSET: u32 = 0;

/// How long the current thread was ready to run but waited for a CPU, since it began. As it runs now, no wait
/// is under way.
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

/// Index of the probe's spec from the link's cookie; `None` when the kernel gives links no cookies.
pub fn cookie(ctx: &impl EbpfContext) -> Option<u32> {
    // SAFETY: the context is the one that the kernel passed to this program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    (cookie as u32).checked_sub(1)
}

/// Index of the spec of the probe at this address in the process of a thread.
pub fn site(key: u64, regs: &pt_regs) -> Option<u32> {
    // SAFETY: as for PROCESSES.
    unsafe { SITES.get([key >> 32, regs.rip]) }.copied()
}

/// The spec of a probe.
pub fn spec(probe: u32) -> Option<&'static ProbeSpec> {
    let spec = PROBES.get(probe);
    if spec.is_none() {
        maps::lost(Loss::UnknownProbe);
    }
    spec
}
