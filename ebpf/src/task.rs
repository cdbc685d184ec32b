//! Who hit the probe, and which probe it was.

use abi::{Loss, ProbeSpec};
use aya_ebpf::{
    EbpfContext,
    bindings::pt_regs,
    helpers::bpf_get_attach_cookie,
};

use crate::{
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
    /// The current thread; `None` for processes that nobody asked about.
    pub fn current() -> Option<Task> {
        let key = namespace::current()?;
        // SAFETY: values of this map are replaced by the user side alone, and a u32 is read in one piece.
        let process = unsafe { PROCESSES.get((key >> 32) as u32) }?;
        Some(Task {
            key,
            process: *process,
        })
    }

    /// The thread's own number.
    pub fn thread(&self) -> u32 {
        self.key as u32
    }

    /// The process's number.
    fn pid(&self) -> u64 {
        self.key >> 32
    }
}

/// Index of the probe's spec from the link's cookie; `None` when the kernel gives links no cookies.
pub fn cookie(ctx: &impl EbpfContext) -> Option<u32> {
    // SAFETY: the context is the one that the kernel passed to this program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    (cookie as u32).checked_sub(1)
}

/// Index of the spec of the probe at this address.
pub fn site(task: &Task, regs: &pt_regs) -> Option<u32> {
    // SAFETY: as for PROCESSES.
    unsafe { SITES.get([task.pid(), regs.rip]) }.copied()
}

/// The spec of a probe.
pub fn spec(probe: u32) -> Option<&'static ProbeSpec> {
    let spec = PROBES.get(probe);
    if spec.is_none() {
        maps::lost(Loss::UnknownProbe);
    }
    spec
}
