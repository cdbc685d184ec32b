//! Safe wrappers of system calls that no library offers: loading a program with a chosen attach type,
//! `uprobe_multi` links, raw tracepoints, perf events on a tracepoint, maps as shared memory, real-time
//! priority, and a signal's disposition. Those for links become unnecessary once aya supports them (0.16).
#![allow(
    unsafe_code,
    reason = "raw bpf(2), perf_event_open(2), mmap(2), sched_setscheduler(2) and signal(2)"
)]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use aya_obj::generated::bpf_insn;
use rustix::mm::{MapFlags, ProtFlags, mmap};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_BTF_LOAD: libc::c_int = 18;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PERF_EVENT: u32 = 41;
/// Type of programs that run at probes.
pub(super) const BPF_PROG_TYPE_KPROBE: u32 = 2;
/// Type of programs that run at a tracepoint with its raw arguments.
pub(super) const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_EVENT_IOC_SET_BPF: libc::Ioctl = 0x4004_2408;
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = 0x2400;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// The longest log of the verifier about a program that it refuses.
const LOG_BYTES: usize = 1 << 20;

/// The attach type with which a program must be loaded for a `uprobe_multi` link.
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
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

const _: () = assert!(size_of::<ProgLoad>() == 112 && size_of::<LinkCreateUprobeMulti>() == 64);
const _: () = assert!(size_of::<ProgTestRun>() == 80);

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
    /// Replaces trailing padding, which the kernel requires to be zero.
    zero: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreatePerfEvent {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    /// Replaces trailing padding, which the kernel requires to be zero.
    zero: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgTestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    /// Replaces trailing padding, which the kernel requires to be zero.
    zero: u32,
}

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
    /// Replaces trailing padding, which the kernel requires to be zero.
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
    // SAFETY: `attr` is a live repr(C) struct of the given size; the pointers inside it were made by the
    // callers below from slices that live until this call returns.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    owned(fd)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just returned this descriptor to us, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address<T: ?Sized>(of: *const T) -> u64 {
    of.cast::<()>() as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A part of a map of the kernel side as shared memory, in words: accesses need no system call.
#[derive(Debug)]
pub(super) struct Mapping {
    first: NonNull<AtomicU64>,
    words: usize,
    access: Access,
}

// SAFETY: the memory is only touched with atomic operations, and stays mapped as long as the value lives.
unsafe impl Send for Mapping {}
// SAFETY: all accesses are atomic operations, so several threads may do them at the same time.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `words` words from `offset` (bytes, start of a page) on.
    pub(super) fn of(map: BorrowedFd<'_>, offset: u64, words: usize, access: Access) -> io::Result<Mapping> {
        let bytes = words * size_of::<u64>();
        let protection = match access {
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
            Access::Read => ProtFlags::READ,
        };
        let anywhere = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let address = unsafe { mmap(anywhere, bytes, protection, MapFlags::SHARED, map, offset) }?;
        let first = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { first, words, access })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `of` mapped this many words, at the start of a page; they stay mapped as long as `self` lives, and the
        // kernel's side changes each of them in one piece.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    fn range(&self, first: usize, number: usize) -> Option<&[AtomicU64]> {
        self.words().get(first..first.checked_add(number)?)
    }

    /// The current value of a word; `None` after the last one.
    pub(super) fn load(&self, index: usize, order: Ordering) -> Option<u64> {
        self.words().get(index).map(|word| word.load(order))
    }

    /// Copies the current values of words, one by one; `None` if there are fewer.
    pub(super) fn copy(&self, first: usize, to: &mut [u64]) -> Option<()> {
        let words = self.range(first, to.len())?;
        for (word, now) in to.iter_mut().zip(words) {
            *word = now.load(Ordering::Relaxed);
        }
        Some(())
    }

    /// Whether the words from `first` on equal these now, one by one; `None` if there are fewer.
    pub(super) fn has(&self, first: usize, words: &[u64]) -> Option<bool> {
        let mut now = self.range(first, words.len())?.iter().zip(words);
        Some(now.all(|(now, word)| now.load(Ordering::Relaxed) == *word))
    }

    /// A word, for changing; `None` if the mapping is read-only.
    pub(super) fn word(&self, index: usize) -> Option<&AtomicU64> {
        self.words().get(index).filter(|_| self.access == Access::Write)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `of` mapped, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// The input for loading a program.
pub(super) struct ProgramInput<'a> {
    pub(super) instructions: &'a [bpf_insn],
    pub(super) license: &'a CStr,
    pub(super) name: &'a str,
    /// One of the program types above.
    pub(super) kind: u32,
    pub(super) attach_type: u32,
    /// The types of its functions, for `bpf_loop`.
    pub(super) types: Option<Types<'a>>,
}

pub(super) struct Types<'a> {
    /// The result of [`load_btf`].
    pub(super) btf: BorrowedFd<'a>,
    /// One record for each function.
    pub(super) functions: &'a [u8],
    pub(super) record_size: usize,
}

pub(super) fn load_btf(bytes: &[u8]) -> io::Result<OwnedFd> {
    let attr = BtfLoad {
        btf: address(bytes),
        btf_size: u32::try_from(bytes.len()).map_err(io::Error::other)?,
        ..BtfLoad::default()
    };
    bpf(BPF_BTF_LOAD, &attr)
}

/// Loads a program. If it is refused, the verifier's log is returned with the error.
pub(super) fn load_program(text: &ProgramInput<'_>) -> Result<OwnedFd, (io::Error, String)> {
    let mut attr = ProgLoad {
        prog_type: text.kind,
        insn_cnt: u32::try_from(text.instructions.len()).unwrap_or(u32::MAX),
        insns: address(text.instructions),
        license: address(text.license),
        expected_attach_type: text.attach_type,
        ..ProgLoad::default()
    };
    let length = text.name.len().min(attr.prog_name.len() - 1);
    attr.prog_name[..length].copy_from_slice(&text.name.as_bytes()[..length]);
    if let Some(types) = &text.types {
        attr.prog_btf_fd = types.btf.as_raw_fd() as u32;
        attr.func_info = address(types.functions);
        attr.func_info_rec_size = types.record_size as u32;
        attr.func_info_cnt = (types.functions.len() / types.record_size.max(1)) as u32;
    }
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

/// Places of one file, each with its cookie and its semaphore; all slices have the same length.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) offsets: &'a [u64],
    pub(super) cookies: &'a [u64],
    pub(super) semaphores: &'a [u64],
}

impl Places<'_> {
    pub(super) const ONE: Places<'static> = Places {
        offsets: &[0],
        cookies: &[1],
        semaphores: &[0],
    };
}

/// Attaches a program to many places of one file with one link. `pid` 0 stands for every process that maps
/// the file.
pub(super) fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    path: &CStr,
    places: Places<'_>,
    pid: u32,
) -> io::Result<OwnedFd> {
    let count = places.offsets.len();
    assert_eq!(count, places.cookies.len(), "one cookie for each offset");
    assert_eq!(count, places.semaphores.len(), "one semaphore for each offset");
    let has_semaphore = places.semaphores.iter().any(|semaphore| *semaphore != 0);
    let attr = LinkCreateUprobeMulti {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: BPF_TRACE_UPROBE_MULTI,
        flags: 0,
        path: address(path),
        offsets: address(places.offsets),
        ref_ctr_offsets: if has_semaphore {
            address(places.semaphores)
        } else {
            0
        },
        cookies: address(places.cookies),
        count: u32::try_from(count).map_err(io::Error::other)?,
        multi_flags: 0,
        pid,
        zero: 0,
    };
    bpf(BPF_LINK_CREATE, &attr)
}

/// Runs a program at every hit of a tracepoint of the kernel, until the descriptor is closed.
pub(super) fn open_raw_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attr = RawTracepointOpen {
        name: address(name.as_ptr()),
        prog_fd: program.as_raw_fd() as u32,
        zero: 0,
    };
    bpf(BPF_RAW_TRACEPOINT_OPEN, &attr)
}

/// Runs a program for raw tracepoints once in this thread, with these arguments. Returns its result.
pub(super) fn run_raw_tracepoint(program: BorrowedFd<'_>, arguments: &[u64]) -> io::Result<u32> {
    let mut attr = ProgTestRun {
        prog_fd: program.as_raw_fd() as u32,
        ctx_size_in: u32::try_from(size_of_val(arguments)).map_err(io::Error::other)?,
        // The kernel refuses an address without a size.
        ctx_in: if arguments.is_empty() {
            0
        } else {
            address(arguments)
        },
        ..ProgTestRun::default()
    };
    let size = size_of::<ProgTestRun>();
    // SAFETY: `attr` is a live repr(C) struct of the given size, which the kernel enters the result into;
    // `arguments` lives until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attr, size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(attr.retval)
}

/// Runs a program at every hit of a tracepoint, of every process and on every CPU: the event itself belongs
/// to one CPU, which must be online. With a cookie the program gets it at each hit (kernels since 5.15); the
/// second descriptor then keeps it attached.
pub(super) fn attach_tracepoint(
    id: u64,
    cpu: libc::c_int,
    program: BorrowedFd<'_>,
    cookie: Option<u64>,
) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let attr = PerfEventAttr {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<PerfEventAttr>() as u32,
        config: id,
        ..PerfEventAttr::default()
    };
    const EVERY_PROCESS: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    const OPEN: libc::c_long = libc::SYS_perf_event_open;
    let (attr, flags) = (&raw const attr, PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a live repr(C) struct that carries its own size.
    let event = owned(unsafe { libc::syscall(OPEN, attr, EVERY_PROCESS, cpu, NO_GROUP, flags) })?;
    let link = match cookie {
        None => {
            ioctl(&event, PERF_EVENT_IOC_SET_BPF, program.as_raw_fd())?;
            None
        }
        Some(cookie) => {
            let attr = LinkCreatePerfEvent {
                prog_fd: program.as_raw_fd() as u32,
                target_fd: event.as_raw_fd() as u32,
                attach_type: BPF_PERF_EVENT,
                flags: 0,
                cookie,
            };
            Some(bpf(BPF_LINK_CREATE, &attr)?)
        }
    };
    ioctl(&event, PERF_EVENT_IOC_ENABLE, 0)?;
    Ok((event, link))
}

fn ioctl(event: &OwnedFd, request: libc::Ioctl, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: both requests of our callers take an integer; the descriptors are open.
    if unsafe { libc::ioctl(event.as_raw_fd(), request, argument) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether the kernel has uprobe(2), which replaces probed nops by calls: it accepts only calls from the
/// kernel's own code.
pub(super) fn has_uprobe_call() -> bool {
    // The number is that of x86-64; elsewhere it may be another call.
    const UPROBE: Option<libc::c_long> = if cfg!(target_arch = "x86_64") {
        Some(336)
    } else {
        None
    };
    let Some(number) = UPROBE else { return false };
    // SAFETY: the call takes no arguments, and from here it does nothing.
    let refused = unsafe { libc::syscall(number) } < 0;
    refused && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO)
}

/// Gives one of our threads the lowest real-time priority, which is above all normal threads, or removes it.
pub(super) fn set_real_time(thread: rustix::thread::Pid, real_time: bool) -> io::Result<()> {
    let (policy, priority): (_, libc::c_int) = if real_time {
        (libc::SCHED_FIFO, 1)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    let thread = thread.as_raw_nonzero().get();
    // The wrapper of musl always fails, since POSIX has a class for each process and Linux for each thread.
    // SAFETY: `priority` is a live integer, of which the struct that the call reads consists.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// From now on, exceeding the file size limit (`ulimit -f`) fails with EFBIG instead of a signal that would
/// end the process. Programs that this process executes inherit it.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a constant, no handler of ours runs; it fails only for signals that cannot be
    // ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
