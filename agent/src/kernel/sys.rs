//! The system calls that no library wraps for us: loading a program with a chosen attach type, `uprobe_multi` links, and
//! perf events on a tracepoint. Each has a safe face. The links go away once aya has them (0.16).
#![allow(unsafe_code, reason = "raw bpf(2) and perf_event_open(2)")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use abi::Totals;
use aya_obj::generated::bpf_insn;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// The verifier writes at most this much about a program that it refuses.
const LOG_BYTES: usize = 1 << 20;

/// The attach type a program must be loaded with to be used in a `uprobe_multi` link.
pub(super) const BPF_TRACE_UPROBE_MULTI: u32 = 48;

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

const _: () = assert!(size_of::<ProgLoad>() == 72 && size_of::<LinkCreateUprobeMulti>() == 64);

#[repr(C)]
struct LinkCreateUprobeMulti {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    count: u32,
    multi_flags: u32,
    pid: u32,
    /// Without it the struct would end in padding, which the kernel wants to be zero.
    zero: u32,
}

/// `struct perf_event_attr` up to its first published size, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is a live repr(C) struct of the given size; the pointers inside it were made by the callers below
    // from slices that live until this call returns.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    owned(fd)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address<T: ?Sized>(of: *const T) -> u64 {
    of.cast::<()>() as u64
}

/// The cells of a mappable array of [`Totals`], read as shared memory: no system call for each cell.
#[derive(Debug)]
pub(super) struct Cells {
    first: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is only read, with atomic loads, and stays mapped as long as the value lives.
unsafe impl Send for Cells {}

impl Cells {
    const WORDS_PER_CELL: usize = size_of::<Totals>() / size_of::<u64>();

    pub(super) fn map(array: BorrowedFd<'_>, cells: u32) -> io::Result<Cells> {
        let words = cells as usize * Self::WORDS_PER_CELL;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                words * size_of::<u64>(),
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::SHARED,
                array,
                0,
            )
        }?;
        let first = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Cells { first, words })
    }

    pub(super) fn get(&self, index: usize) -> Option<Totals> {
        let start = index.checked_mul(Self::WORDS_PER_CELL)?;
        if start + Self::WORDS_PER_CELL > self.words {
            return None;
        }
        let mut words = [0_u64; Self::WORDS_PER_CELL];
        for (place, word) in words.iter_mut().enumerate() {
            // SAFETY: within the mapping, by the check above; the kernel's pages are aligned.
            *word = unsafe { self.first.add(start + place).as_ref() }.load(Ordering::Relaxed);
        }
        Some(bytemuck::cast(words))
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// Loads a program of the kprobe kind. On refusal the verifier's words come back with the error.
pub(super) fn load_program(
    instructions: &[bpf_insn],
    license: &CStr,
    name: &str,
    attach_type: u32,
) -> Result<OwnedFd, (io::Error, String)> {
    let mut attr = ProgLoad {
        prog_type: BPF_PROG_TYPE_KPROBE,
        insn_cnt: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        insns: address(instructions),
        license: address(license),
        expected_attach_type: attach_type,
        ..ProgLoad::default()
    };
    let length = name.len().min(attr.prog_name.len() - 1);
    attr.prog_name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let first = match bpf(BPF_PROG_LOAD, &attr) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let mut log = vec![0_u8; LOG_BYTES];
    attr.log_level = 1;
    attr.log_size = LOG_BYTES as u32;
    attr.log_buf = address::<[u8]>(log.as_mut_slice());
    match bpf(BPF_PROG_LOAD, &attr) {
        Ok(program) => Ok(program),
        Err(_) => {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Err((first, String::from_utf8_lossy(&log[..end]).into_owned()))
        }
    }
}

/// Attaches a program to many places of one file with one link. `pid` 0 means every process that maps the file.
pub(super) fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    path: &CStr,
    offsets: &[u64],
    cookies: &[u64],
    returns: bool,
    pid: u32,
) -> io::Result<OwnedFd> {
    assert_eq!(offsets.len(), cookies.len(), "one cookie for each offset");
    let attr = LinkCreateUprobeMulti {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: BPF_TRACE_UPROBE_MULTI,
        flags: 0,
        path: address(path),
        offsets: address(offsets),
        ref_ctr_offsets: 0,
        cookies: address(cookies),
        count: u32::try_from(offsets.len()).map_err(io::Error::other)?,
        multi_flags: if returns { BPF_F_UPROBE_MULTI_RETURN } else { 0 },
        pid,
        zero: 0,
    };
    bpf(BPF_LINK_CREATE, &attr)
}

/// Runs a program at every hit of a tracepoint, whichever process hits it.
pub(super) fn attach_tracepoint(id: u64, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attr = PerfEventAttr {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<PerfEventAttr>() as u32,
        config: id,
        ..PerfEventAttr::default()
    };
    const EVERY_PROCESS: libc::c_int = -1;
    const FIRST_CPU: libc::c_int = 0;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: `attr` is a live repr(C) struct that carries its own size.
    let event = owned(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attr),
            EVERY_PROCESS,
            FIRST_CPU,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC,
        )
    })?;
    for (request, argument) in [
        (PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()),
        (PERF_EVENT_IOC_ENABLE, 0),
    ] {
        // SAFETY: both requests take an integer; the descriptors are open.
        if unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}
