//! ptrace(2) and waitpid(2), one function for each request that is used. The only unsafe code of this folder.
#![expect(unsafe_code, reason = "no safe crate in the tree offers ptrace")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, without_provenance_mut};

use libc::{c_int, c_void, pid_t};

use crate::arch::RawRegisters;
use crate::seccomp::Instruction;

/// The type of a request in the C library's declaration of ptrace.
#[cfg(target_env = "musl")]
type PtraceRequest = c_int;
#[cfg(not(target_env = "musl"))]
type PtraceRequest = libc::c_uint;

/// Register sets: the general registers, and all states of XSAVE (include/uapi/linux/elf.h).
const NT_PRSTATUS: usize = 1;
const NT_X86_XSTATE: usize = 0x202;
/// Bound on the extended state, which has 11 KiB with tile registers.
const EXTENDED_BYTES_MAX: usize = 64 << 10;
/// The size of the kernel's signal set, not of glibc's.
const SIGNAL_SET_BYTES: usize = 8;
/// Instructions of the longest classic BPF program (BPF_MAXINSNS).
const SECCOMP_INSTRUCTIONS_MAX: usize = 4096;
const PTRACE_GETSIGMASK: PtraceRequest = 0x420a;
const PTRACE_SETSIGMASK: PtraceRequest = 0x420b;
const PTRACE_SECCOMP_GET_FILTER: PtraceRequest = 0x420c;
const PTRACE_GET_RSEQ_CONFIGURATION: PtraceRequest = 0x420f;

/// What has happened to a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadEvent {
    Stopped(StopReason),
    Ended,
}

/// Why a traced thread has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// It stopped on request.
    Interrupted,
    /// It stopped with its process by a signal.
    GroupStop,
    /// It is about to receive this signal.
    Signal(c_int),
    /// It begins or ends a system call.
    SystemCall,
    /// It stopped for another event (exec).
    Other,
}

/// Where a thread has registered its rseq area.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RseqConfiguration {
    pointer: u64,
    size: u32,
    signature: u32,
    flags: u32,
    padding: u32,
}

/// A request that takes numbers only: the kernel accesses no memory of ours.
#[derive(Clone, Copy)]
enum Command {
    Seize,
    Interrupt,
    GoOn,
    GoToSystemCall,
    Listen,
    Detach,
    Store,
}

fn command(command: Command, tid: pid_t, address: usize, data: usize) -> io::Result<()> {
    let request = match command {
        Command::Seize => libc::PTRACE_SEIZE,
        Command::Interrupt => libc::PTRACE_INTERRUPT,
        Command::GoOn => libc::PTRACE_CONT,
        Command::GoToSystemCall => libc::PTRACE_SYSCALL,
        Command::Listen => libc::PTRACE_LISTEN,
        Command::Detach => libc::PTRACE_DETACH,
        Command::Store => libc::PTRACE_POKEDATA,
    };
    // SAFETY: the kernel takes what these requests pass as numbers, and as addresses of the thread's memory.
    unsafe { transfer::<c_void>(request, tid, address, without_provenance_mut(data)) }.map(|_| ())
}

/// Returns the number with which the kernel answers.
///
/// # Safety
/// If the kernel reads or writes through `data` at this request, it must point to a live object of the type
/// and size that the request states.
unsafe fn transfer<T>(request: PtraceRequest, tid: pid_t, address: usize, data: *mut T) -> io::Result<usize> {
    // SAFETY: the caller vouches for `data`; the kernel does not read through `address`.
    let answer = unsafe { libc::ptrace(request, tid, without_provenance_mut::<c_void>(address), data) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Attaches without stopping the thread; stops at system calls are distinguished from signals.
pub(super) fn seize(tid: pid_t) -> io::Result<()> {
    let options = usize::try_from(libc::PTRACE_O_TRACESYSGOOD).unwrap_or_default();
    command(Command::Seize, tid, 0, options)
}

pub(super) fn interrupt(tid: pid_t) -> io::Result<()> {
    command(Command::Interrupt, tid, 0, 0)
}

/// Resumes it and delivers `signal` (0 for none).
pub(super) fn go_on(tid: pid_t, signal: c_int) -> io::Result<()> {
    command(Command::GoOn, tid, 0, signal.unsigned_abs() as usize)
}

/// Leaves it stopped by a signal until SIGCONT, as it would be without us.
pub(super) fn listen(tid: pid_t) -> io::Result<()> {
    command(Command::Listen, tid, 0, 0)
}

/// Resumes it until the begin or end of a system call.
pub(super) fn go_to_system_call(tid: pid_t, signal: c_int) -> io::Result<()> {
    command(Command::GoToSystemCall, tid, 0, signal.unsigned_abs() as usize)
}

/// Detaches; the thread continues.
pub(super) fn detach(tid: pid_t) -> io::Result<()> {
    command(Command::Detach, tid, 0, 0)
}

pub(super) fn registers(tid: pid_t) -> io::Result<RawRegisters> {
    let mut registers = MaybeUninit::<RawRegisters>::zeroed();
    let mut part = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: size_of::<RawRegisters>(),
    };
    // SAFETY: the part states address and size of the registers.
    unsafe { transfer(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut part)? };
    // SAFETY: a struct of plain numbers; all bytes were zeroed above.
    Ok(unsafe { registers.assume_init() })
}

pub(super) fn set_registers(tid: pid_t, registers: &RawRegisters) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: ptr::from_ref(registers).cast_mut().cast(),
        iov_len: size_of::<RawRegisters>(),
    };
    // SAFETY: the part states address and size of the registers, which this request only reads.
    unsafe { transfer(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &raw mut part) }.map(|_| ())
}

/// Its floating-point and vector state in the standard format of XSAVE.
pub(super) fn extended_state(tid: pid_t) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; EXTENDED_BYTES_MAX];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the part states address and size of the bytes.
    unsafe { transfer(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &raw mut part)? };
    bytes.truncate(part.iov_len);
    Ok(bytes)
}

/// The signals that it blocks.
pub(super) fn signal_mask(tid: pid_t) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the mask has the size of the kernel's signal set.
    unsafe { transfer(PTRACE_GETSIGMASK, tid, SIGNAL_SET_BYTES, &raw mut mask)? };
    Ok(mask)
}

/// Sets the signals that it blocks.
pub(super) fn set_signal_mask(tid: pid_t, mask: u64) -> io::Result<()> {
    let place = ptr::from_ref(&mask).cast_mut();
    // SAFETY: the mask has the size of the kernel's signal set, and this request only reads it.
    unsafe { transfer(PTRACE_SETSIGMASK, tid, SIGNAL_SET_BYTES, place) }.map(|_| ())
}

/// The address of its rseq area; `None` if it has not registered one.
pub(super) fn rseq_place(tid: pid_t) -> io::Result<Option<u64>> {
    let mut found = RseqConfiguration::default();
    let size = size_of::<RseqConfiguration>();
    // SAFETY: the record is the one that the kernel writes, and its size is stated.
    unsafe { transfer(PTRACE_GET_RSEQ_CONFIGURATION, tid, size, &raw mut found)? };
    Ok((found.pointer != 0).then_some(found.pointer))
}

/// The seccomp filter of this number, from 0; `None` if it has fewer.
pub(super) fn seccomp_filter(tid: pid_t, index: usize) -> io::Result<Option<Vec<Instruction>>> {
    let empty = libc::sock_filter {
        code: 0,
        jt: 0,
        jf: 0,
        k: 0,
    };
    // Room for the longest possible filter, since it may change between two requests.
    let mut filter = vec![empty; SECCOMP_INSTRUCTIONS_MAX];
    // SAFETY: the kernel writes the instructions of one filter, for which there is room.
    match unsafe { transfer(PTRACE_SECCOMP_GET_FILTER, tid, index, filter.as_mut_ptr()) } {
        Ok(length) => filter.truncate(length),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    }
    let instruction = |raw: libc::sock_filter| Instruction {
        code: raw.code,
        jump_true: raw.jt,
        jump_false: raw.jf,
        operand: raw.k,
    };
    Ok(Some(filter.into_iter().map(instruction).collect()))
}

/// Stores a word, ignoring page protection. Only [`crate::write`] may call it.
pub(super) fn store(tid: pid_t, address: u64, word: u64) -> io::Result<()> {
    command(Command::Store, tid, address as usize, word as usize)
}

/// The next event since the last poll; does not wait.
pub(super) fn poll(tid: pid_t) -> io::Result<Option<ThreadEvent>> {
    let mut status: c_int = 0;
    // SAFETY: `status` is a live integer.
    match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Some(ThreadEvent::Ended)),
            error => Err(error),
        },
        0 => Ok(None),
        _ => Ok(Some(event(status))),
    }
}

fn event(status: c_int) -> ThreadEvent {
    if !libc::WIFSTOPPED(status) {
        return ThreadEvent::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    ThreadEvent::Stopped(match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => StopReason::SystemCall,
        0 => StopReason::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => StopReason::Interrupted,
        libc::PTRACE_EVENT_STOP => StopReason::GroupStop,
        _ => StopReason::Other,
    })
}
