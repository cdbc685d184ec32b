//! The only unsafe code of the crate: what no safe crate offers.
#![expect(
    unsafe_code,
    reason = "neither a signal's disposition nor process_vm_writev has a safe face in rustix"
)]

use std::io;

/// Lets the signals that end a session pass by: the actuator ends when its stream ends, with every change
/// taken back, never in the middle of one.
pub(crate) fn ignore_termination_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a constant, no handler of ours runs; it fails only for signals that cannot be
        // ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Stores `bytes` at `address` of process `pid` as its page protection allows; how many were stored. Called by
/// [`crate::write`] alone.
pub(crate) fn store(pid: i32, address: u64, bytes: &[u8]) -> io::Result<usize> {
    let ours = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let theirs = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: bytes.len(),
    };
    // SAFETY: `ours` covers `bytes`, which outlives the call and is only read; `theirs` is never touched in this
    // process, the kernel checks it in the other one; one of each is passed, and no flag.
    let stored = unsafe { libc::process_vm_writev(pid, &ours, 1, &theirs, 1, 0) };
    usize::try_from(stored).map_err(|_| io::Error::last_os_error())
}
