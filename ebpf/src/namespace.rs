//! Numbers of processes and threads in the agent's pid namespace. Shared by both objects.

use aya_ebpf::{
    bindings::bpf_pidns_info,
    helpers::{bpf_get_current_pid_tgid, bpf_get_ns_current_pid_tgid},
};

/// Device and inode of the agent's pid namespace; both 0 if it is the initial one. Set at load.
#[unsafe(no_mangle)]
static NAMESPACE_DEVICE: u64 = 0;
#[unsafe(no_mangle)]
static NAMESPACE_INODE: u64 = 0;

/// A value that the user side sets before the program is loaded.
pub fn constant<T: Copy>(value: &'static T) -> T {
    // SAFETY: `value` is a valid reference; the volatile read keeps the compiler from using the initial
    // value.
    unsafe { core::ptr::read_volatile(value) }
}

/// The current thread as `pid << 32 | tid`; `None` if it has no number in the agent's namespace.
pub fn current() -> Option<u64> {
    let inode = constant(&NAMESPACE_INODE);
    if inode == 0 {
        return Some(bpf_get_current_pid_tgid());
    }
    let mut info = bpf_pidns_info { pid: 0, tgid: 0 };
    let size = size_of::<bpf_pidns_info>() as u32;
    let device = constant(&NAMESPACE_DEVICE);
    // SAFETY: `info` is on the stack and `size` is its size.
    let failed = unsafe { bpf_get_ns_current_pid_tgid(device, inode, &raw mut info, size) };
    (failed == 0).then_some(u64::from(info.tgid) << 32 | u64::from(info.pid))
}
