//! The only unsafe code of the crate, in addition to `ptrace/sys`: system calls that no safe crate offers.
#![expect(
    unsafe_code,
    reason = "neither a signal's disposition, nor process_vm_writev and _readv, nor PROCMAP_QUERY, nor the clock or the wait status of \
              another process has a safe face in rustix"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Ignores the signals that end a session: the actuator ends when its stream ends, with every change
/// reverted, never in the middle of one.
pub(crate) fn ignore_termination_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a constant, no handler of ours runs; it fails only for signals that cannot be
        // ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Stores `bytes` at `address` of process `pid`, respecting its page protection. Returns how many were
/// stored. Only [`crate::write`] may call it.
pub(crate) fn store(pid: i32, address: u64, bytes: &[u8]) -> io::Result<usize> {
    let ours = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let theirs = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: bytes.len(),
    };
    // SAFETY: `ours` covers `bytes`, which outlives the call and is only read; `theirs` is never touched in
    // this process, the kernel checks it in the other one; one of each is passed, and no flag.
    let stored = unsafe { libc::process_vm_writev(pid, &ours, 1, &theirs, 1, 0) };
    usize::try_from(stored).map_err(|_| io::Error::last_os_error())
}

/// Fills `bytes` from `address` of process `pid`, with the counterpart of the system call of [`store`].
/// Returns how many were read.
pub(crate) fn fetch(pid: i32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let ours = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let theirs = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: bytes.len(),
    };
    // SAFETY: `ours` covers `bytes`, which outlives the call and has no other reference; `theirs` is never
    // touched in this process, the kernel checks it in the other one; one of each is passed, and no flag.
    let read = unsafe { libc::process_vm_readv(pid, &ours, 1, &theirs, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// `struct procmap_query` of linux/fs.h: the query and the kernel's answer.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct MappingQuery {
    size: u64,
    query_flags: u64,
    address: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) flags: u64,
    page_size: u64,
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    pub(crate) device_major: u32,
    pub(crate) device_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name_address: u64,
    build_id_address: u64,
}

impl MappingQuery {
    pub(crate) const READABLE: u64 = 1;
    pub(crate) const WRITABLE: u64 = 2;
    pub(crate) const EXECUTABLE: u64 = 4;
    pub(crate) const SHARED: u64 = 8;
    /// `_IOWR('f', 17, struct procmap_query)`.
    const REQUEST: libc::Ioctl = (3 << 30 | size_of::<MappingQuery>() << 16 | 0x66 << 8 | 17) as libc::Ioctl;
}

/// The mapping that has the byte at `address`, queried through an open /proc/PID/maps. Errors: ENOENT if
/// there is none, ENOTTY before Linux 6.11.
pub(crate) fn mapping(maps: &File, address: u64) -> io::Result<MappingQuery> {
    let mut query = MappingQuery {
        size: size_of::<MappingQuery>() as u64,
        address,
        ..MappingQuery::default()
    };
    // SAFETY: the kernel reads and writes `size` bytes at `query`, which is as large and outlives the call;
    // without sizes of their own it writes neither a name nor a build id.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), MappingQuery::REQUEST, &raw mut query) };
    match result {
        0 => Ok(query),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The wait status of the process of a pidfd, once its parent has collected it; `None` before, and before Linux 6.15.
pub(crate) fn wait_status(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let wanted = u64::from(libc::PIDFD_INFO_EXIT);
    // SAFETY: the structure has integers only, for which zeros are valid.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    info.mask = wanted;
    // SAFETY: `info` has the size that the request number states, and outlives the call, which writes no more.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    (result == 0 && info.mask & wanted != 0).then_some(info.exit_code)
}

/// The clock of the CPU time of all threads of a process; `None` if there is no such process.
pub(crate) fn cpu_clock(pid: i32) -> Option<libc::clockid_t> {
    let mut clock = 0;
    // SAFETY: the kernel's answer is written to `clock`, which outlives the call; an unused number is an
    // error.
    let result = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    (result == 0).then_some(clock)
}

/// The value of such a clock in nanoseconds; `None` once the process is gone.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is written to `time`, which outlives the call; an invalid clock is an error.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
