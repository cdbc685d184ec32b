//! Who hit the probe, and which probe it was.

use abi::{Loss, ProbeSpec};
use aya_ebpf::{
    EbpfContext,
    bindings::{bpf_pidns_info, pt_regs},
    helpers::{bpf_get_attach_cookie, bpf_get_current_pid_tgid, bpf_get_ns_current_pid_tgid},
};

use crate::maps::{self, PROBES, PROCESSES, SITES};

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
        let key = match maps::namespace() {
            None => bpf_get_current_pid_tgid(),
            Some((device, inode)) => in_namespace(device, inode)?,
        };
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

fn in_namespace(device: u64, inode: u64) -> Option<u64> {
    let mut info = bpf_pidns_info { pid: 0, tgid: 0 };
    let size = size_of::<bpf_pidns_info>() as u32;
    // SAFETY: `info` is on the stack and `size` is its size.
    let failed = unsafe { bpf_get_ns_current_pid_tgid(device, inode, &raw mut info, size) };
    (failed == 0).then_some(u64::from(info.tgid) << 32 | u64::from(info.pid))
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
