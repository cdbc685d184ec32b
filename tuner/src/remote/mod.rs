//! System calls made by a thread of the program for us: mapping and unmapping our memory.
//!
//! By one change of its registers, a held thread is sent through `syscall; ret` in the C library's code, on a
//! prepared stack whose signal frame would restore it ([`crate::arch::x86_64::frame`]). Then we restore its
//! registers. So if we die at any time, the thread continues where it was.
//!
//! The program may have seccomp filters that kill it at a system call that it never makes by itself: they are
//! evaluated before anything of a thread is changed ([`Task`], `crate::seccomp`).
//!
//! `standing` reads where held threads are and what they will return to; `worker` finds a suitable thread.

mod standing;
mod worker;

use std::os::unix::fs::FileExt;
use std::time::Duration;

pub(crate) use self::standing::StackView;
pub(crate) use self::worker::{
    HeldResult, RemoteSetup, STOP_WAIT, TRY_WAIT, ThreadSearch, fill, in_the_way, insist, is_ours,
    refuse_function, unmap, unmap_held, with_all,
};
use crate::address::{Address, LinkAddress};
use crate::arch::{
    RawRegisters,
    x86_64::{self as arch, Sleep, frame},
};
use crate::arena::{Arena, PAGE};
use crate::error::ActionError;
use crate::place::{ProcessMemory, is_main_stack};
use crate::process::Pid;
use crate::ptrace::HeldThread;
use crate::seccomp::SystemCall;
use crate::space::AddressSpace;
use crate::unwind::Unwinder;
use crate::write::{self, HeldThreads};

/// Bytes of stack that a stub or a system call needs, with some for the called function. A thread with less
/// is not used.
const STACK_ROOM: u64 = 64 << 10;
/// Our system calls take microseconds; a machine under load may be late.
const SYSTEM_CALL_WAIT: Duration = Duration::from_secs(2);
/// Bytes of files, in all, that are searched for the two instructions.
const SEARCHED_BYTES_MAX: u64 = 256 << 20;
const MAP_FIXED_NOREPLACE: i32 = 0x10_0000;

/// Instructions of the program through which it makes a system call for us.
#[derive(Debug)]
pub(crate) struct Gate {
    system_call: Address,
    signal_return: Address,
    /// All addresses to which signal handlers return.
    pub(crate) signal_returns: Vec<Address>,
    unwinder: Unwinder,
}

impl Gate {
    /// Searches the program's own code.
    pub(crate) fn find(space: &AddressSpace) -> Result<Gate, ActionError> {
        let pid = space.process.pid;
        refuse_locked(pid)?;
        let mut searched = 0;
        let (mut system_calls, mut signal_returns) = (Vec::new(), Vec::new());
        for module in &space.modules {
            for segment in module.image.segments.iter().filter(|segment| segment.executable) {
                searched += segment.file_size;
                if searched > SEARCHED_BYTES_MAX {
                    break;
                }
                let mut code = vec![0; usize::try_from(segment.file_size).unwrap_or_default()];
                if module
                    .image
                    .file()
                    .read_exact_at(&mut code, segment.offset.0)
                    .is_err()
                {
                    continue;
                }
                let place = |at: usize| module.address(LinkAddress(segment.address.0 + at as u64));
                for at in memory_calls(&code) {
                    if code[at..].starts_with(&frame::SYSTEM_CALL_AND_RETURN) {
                        system_calls.push(place(at));
                    }
                    for pattern in frame::SIGNAL_RETURNS {
                        if code[..at + 2].ends_with(pattern) {
                            signal_returns.push(place(at + 2 - pattern.len()));
                        }
                    }
                }
            }
        }
        let missing = |why| ActionError::NoWay { pid, why };
        Ok(Gate {
            system_call: *system_calls
                .first()
                .ok_or(missing("its code has no `syscall; ret`"))?,
            signal_return: *signal_returns
                .first()
                .ok_or(missing("its code has no return from signal handlers"))?,
            signal_returns,
            unwinder: Unwinder::new(&space.modules),
        })
    }

    /// Checks that both are still in memory: a uprobe may have been attached to one since.
    fn check(&self, memory: &ProcessMemory) -> Result<(), ActionError> {
        let mut found = [0; 9];
        let count = frame::SYSTEM_CALL_AND_RETURN.len();
        memory.read(self.system_call, &mut found[..count])?;
        let mut is_there = found[..count] == frame::SYSTEM_CALL_AND_RETURN;
        memory.read(self.signal_return, &mut found)?;
        is_there &= frame::SIGNAL_RETURNS
            .iter()
            .any(|pattern| found.starts_with(pattern));
        match is_there {
            true => Ok(()),
            false => Err(ActionError::NoWay {
                pid: memory.pid(),
                why: "its C library has been changed in memory (a probe on a system call?)",
            }),
        }
    }
}

/// Offsets of `syscall` instructions; some may be other bytes.
fn memory_calls(code: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memchr::memmem::find_iter(code, &frame::SYSTEM_CALL_AND_RETURN[..2])
}

/// A shadow stack would fault at our `ret`; strict seccomp kills at any other system call.
fn refuse_locked(pid: Pid) -> Result<(), ActionError> {
    let status = std::fs::read_to_string(pid.proc_path("status")).unwrap_or_default();
    let has = |key: &str, value: &str| {
        status.lines().any(|line| {
            line.strip_prefix(key)
                .is_some_and(|rest| rest.split_whitespace().any(|word| word == value))
        })
    };
    let why = match () {
        () if has("x86_Thread_features:", "shstk") => Some("it runs with a shadow stack"),
        () if has("Seccomp:", "1") => {
            Some("it runs in strict seccomp mode, where any system call of ours would kill it")
        }
        () => None,
    };
    why.map_or(Ok(()), |why| Err(ActionError::NoWay { pid, why }))
}

/// Why a thread must not execute anything for us; `None` if nothing prevents it.
pub(crate) fn obstacle(
    thread: &HeldThread,
    registers: &RawRegisters,
    memory: &ProcessMemory,
) -> Option<String> {
    let stack = arch::stack(registers);
    let room = |map: &crate::maps::Mapping| is_main_stack(map) || stack.0 - map.start.0 >= STACK_ROOM;
    let why = match memory.mapping(stack, 1) {
        _ if thread.is_stopped_by_signal() => "the process is stopped by a signal (SIGCONT continues it)",
        _ if !arch::is_native(registers) => "it runs 32-bit code",
        _ if in_restartable_sequence(thread, memory) => "it is in a restartable sequence",
        None => "its stack is nowhere",
        Some(map) if !map.permissions.write => "its stack is nowhere",
        Some(map) if !room(map) => "its stack is nearly full",
        Some(_) => return None,
    };
    Some(format!("thread {}: {why}", thread.tid()))
}

/// In such a sequence the kernel could no longer restart it.
fn in_restartable_sequence(thread: &HeldThread, memory: &ProcessMemory) -> bool {
    // The second word of `struct rseq` points to the sequence that was entered last.
    let place = thread.rseq_place();
    place.is_some_and(|place| {
        memory
            .word(Address(place + 8))
            .is_ok_and(|sequence| sequence != 0)
    })
}

/// What a thread is to do for us.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task<'a> {
    Map(&'a Arena),
    /// Map an arena for code that calls this function, either now or whenever the program reaches it.
    Call(&'a Arena, &'a str),
    Unmap(&'a Arena),
}

impl Task<'_> {
    /// Why the thread's seccomp filters do not permit the task: checks all its system calls, including those
    /// for reverting it, and the signal return by which the frame on the thread's stack restores it.
    fn refuse(self, thread: &HeldThread, pid: Pid, gate: &Gate) -> Result<(), ActionError> {
        let (Task::Map(arena) | Task::Call(arena, _) | Task::Unmap(arena)) = self;
        let mapped = match self {
            Task::Unmap(_) => Vec::new(),
            Task::Map(_) | Task::Call(..) => mappings(arena),
        };
        let made = |number: i64, arguments| SystemCall {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            instruction: Some(gate.system_call.0 + frame::SYSTEM_CALL_BYTES),
            arguments,
        };
        let mut calls: Vec<_> = mapped
            .into_iter()
            .map(|arguments| ("mmap", made(libc::SYS_mmap, arguments.map(Some))))
            .collect();
        // If the kernel maps the arena at another address, that mapping is unmapped.
        calls.push(("munmap", made(libc::SYS_munmap, [None; 6])));
        calls.push(("rt_sigreturn", SystemCall::any(libc::SYS_rt_sigreturn as u32)));
        let filters = thread.seccomp_filters();
        let despite = arena.despite_seccomp;
        let function = |name| filters.refuse_function(name, despite);
        let why = filters.refuse(&calls, despite).or_else(|| match self {
            Task::Call(_, name) => function(name),
            Task::Map(_) | Task::Unmap(_) => None,
        });
        let tid = thread.tid();
        why.map_or(Ok(()), |why| Err(ActionError::Seccomp { pid, tid, why }))
    }
}

/// The arguments of the system calls that map an arena.
fn mappings(arena: &Arena) -> Vec<[u64; 6]> {
    let number = |value: i32| u64::from(value.unsigned_abs());
    let flags = number(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | MAP_FIXED_NOREPLACE);
    let part = |address: Address, bytes: u64, protection: i32| {
        [address.0, bytes, number(protection), flags, u64::MAX, 0]
    };
    let code = part(arena.address, arena.code_bytes, libc::PROT_READ | libc::PROT_EXEC);
    let data = part(arena.data(), arena.data_bytes, libc::PROT_READ | libc::PROT_WRITE);
    match arena.data_bytes {
        0 => vec![code],
        _ => vec![code, data],
    }
}

/// A held thread that works for us.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    thread: &'a mut HeldThread,
    pid: Pid,
    gate: &'a Gate,
    original: RawRegisters,
    signal_mask: u64,
    stack: Address,
    is_away: bool,
    /// Bytes of its extended state.
    pub(crate) extended_bytes: usize,
}

impl<'a> Worker<'a> {
    /// Prepares its stack for a task that its seccomp filters permit. The thread itself is not changed yet.
    pub(crate) fn begin(
        thread: &'a mut HeldThread,
        memory: &ProcessMemory,
        gate: &'a Gate,
        task: Task<'_>,
    ) -> Result<Worker<'a>, ActionError> {
        let original = thread.registers()?;
        let pid = memory.pid();
        if let Some(why) = obstacle(thread, &original, memory) {
            return Err(ActionError::NoThread {
                pid,
                waited_ms: 0,
                why,
            });
        }
        gate.check(memory)?;
        task.refuse(thread, pid, gate)?;
        let extended = thread.extended_state()?;
        let signal_mask = thread.signal_mask()?;
        let registers = arch::resumable(&original, Sleep::Afresh);
        let state = frame::ThreadState {
            registers: &registers,
            extended: &extended,
            signal_mask,
        };
        let top = Address(arch::stack(&original).0.wrapping_sub(crate::arch::RED_ZONE));
        let no_frame = ActionError::NoWay {
            pid,
            why: "its vector registers are of an unknown kind",
        };
        let laid = frame::frame(&state, top, gate.signal_return).ok_or(no_frame)?;
        for (offset, piece) in pages(laid.address, &laid.bytes) {
            let place = memory.stack(arch::stack(&original), offset, piece.len())?;
            write::commit_bytes(&place, None, piece, HeldThreads::One(thread))?;
        }
        Ok(Worker {
            thread,
            pid,
            gate,
            original,
            signal_mask,
            stack: laid.address,
            is_away: false,
            extended_bytes: extended.len(),
        })
    }

    fn system_call(
        &mut self,
        what: &'static str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, ActionError> {
        let registers = arch::system_call(
            &self.original,
            self.gate.system_call,
            self.stack,
            number.cast_unsigned(),
            arguments,
        );
        self.is_away = true;
        self.thread.set_registers(&registers)?;
        // Not earlier: if we die between the two steps, the frame restores the mask.
        self.thread.set_signal_mask(u64::MAX)?;
        self.thread.run_to_system_call(SYSTEM_CALL_WAIT)?;
        self.thread.run_to_system_call(SYSTEM_CALL_WAIT)?;
        let result = arch::returned(&self.thread.registers()?);
        match u32::try_from(result.wrapping_neg()) {
            Ok(error @ 1..4096) => Err(ActionError::SystemCall {
                pid: self.pid,
                what,
                source: std::io::Error::from_raw_os_error(error.cast_signed()),
            }),
            _ => Ok(result.cast_unsigned()),
        }
    }

    /// Maps an arena at its planned address only.
    pub(crate) fn map(&mut self, arena: &Arena) -> Result<(), ActionError> {
        mappings(arena)
            .into_iter()
            .try_for_each(|arguments| self.map_part(arguments))
    }

    fn map_part(&mut self, arguments: [u64; 6]) -> Result<(), ActionError> {
        let what = "map memory";
        let [address, bytes, ..] = arguments;
        let mapped = self.system_call(what, libc::SYS_mmap, arguments)?;
        if mapped == address {
            return Ok(());
        }
        // A kernel before 4.17 treats the address as a hint.
        self.system_call(what, libc::SYS_munmap, [mapped, bytes, 0, 0, 0, 0])?;
        let source = std::io::Error::from_raw_os_error(libc::EEXIST);
        Err(ActionError::SystemCall {
            pid: self.pid,
            what,
            source,
        })
    }

    /// Unmaps an arena. No thread may be in it.
    pub(crate) fn unmap(&mut self, arena: &Arena) -> Result<(), ActionError> {
        let arguments = [arena.address.0, arena.size(), 0, 0, 0, 0];
        self.system_call("unmap memory", libc::SYS_munmap, arguments)
            .map(|_| ())
    }

    pub(crate) fn thread(&self) -> &HeldThread {
        self.thread
    }

    /// The address at which it continues.
    pub(crate) fn resumes_at(&self) -> Address {
        arch::instruction(&self.original)
    }

    /// Sends it to `code`, which returns to where the thread was. From here on it does not depend on us.
    pub(crate) fn enter(mut self, code: Address) -> Result<(), ActionError> {
        let registers = arch::entering(&arch::resumable(&self.original, Sleep::GoOn), code);
        self.back(&registers)
    }

    /// Restores its registers. If it was in a system call, the kernel restarts that, or ends it because of a
    /// signal that has arrived meanwhile.
    pub(crate) fn end(mut self) -> Result<(), ActionError> {
        if !self.is_away {
            return Ok(());
        }
        self.thread.run_to_the_program(SYSTEM_CALL_WAIT)?;
        let registers = self.original;
        self.back(&registers)
    }

    fn back(&mut self, registers: &RawRegisters) -> Result<(), ActionError> {
        if self.is_away {
            self.thread.set_signal_mask(self.signal_mask)?;
        }
        self.thread.set_registers(registers)?;
        self.is_away = false;
        Ok(())
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // After an error. If this fails too, the frame restores the registers.
        if self.is_away {
            let registers = arch::resumable(&self.original, Sleep::GoOn);
            let _ = self.back(&registers);
        }
    }
}

/// Splits bytes at page boundaries.
pub(crate) fn pages(address: Address, bytes: &[u8]) -> impl Iterator<Item = (Address, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = address.0 + at as u64;
        let to_page_end = (PAGE - start % PAGE) as usize;
        let piece = bytes
            .get(at..)?
            .get(..to_page_end.min(bytes.len() - at))
            .filter(|piece| !piece.is_empty())?;
        at += piece.len();
        Some((Address(start), piece))
    })
}
