//! The one module that writes into another process; `put` is its one function that stores bytes there.
//!
//! # The ways, and which one is taken
//!
//! **/proc/PID/mem** stays with the address space that it was opened for: if the process executes another
//! program between the last check and the store, that program is not written. It stores values of any size at
//! once, but the kernel overrides page protection, and for processes of other users it also requires
//! CAP_DAC_OVERRIDE. It is used for data whenever the user may open it, and only for a [`WritablePlace`], whose page
//! is checked to be writable immediately before; and for a `Place`, which states its kind: code, a word of a
//! table of addresses, our own memory, a stack.
//!
//! **process_vm_writev** needs no more rights than reading (the process's own user, or CAP_SYS_PTRACE), and
//! respects page protection. It is used for data otherwise. Its two limits:
//! - It names the target by number. A program that execs between the last check and the store (microseconds)
//!   would be written at that address, if it has a writable page there. The read that follows goes through
//!   the handle of the program that was checked, so this is detected ([`WriteError::Replaced`]).
//! - On x86-64 without fast short `rep movsb` (flag `fsrm`) the kernel copies fewer than eight bytes one by
//!   one, and a thread of the program could see half of a value. There a value of 2 or 4 bytes is refused.
//!
//! **PTRACE_POKEDATA**, through a held thread, also overrides page protection and needs no right other than
//! that of holding the thread. It is used for places if the user may not write /proc/PID/mem. It stores words
//! of 8 bytes.
//!
//! The first two tore no value of 2, 4 or 8 bytes in 12 million writes each (Linux 6.18, FSRM, a reader on
//! the other core), and both took 2 to 5 us.
//!
//! # Libraries that are unloaded
//!
//! A library can be unloaded, and another be mapped in its place, between any check and the store. So the
//! mapping is checked immediately before the store and again after it. If it is another file by then, the old
//! bytes are restored, and the write has failed ([`WriteError::WentElsewhere`]): it is never reported as a
//! success. Until then the other library can see the value: for a microsecond, or longer if we lose the CPU
//! in between.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use plan::{Bytes, Value, ValueType};
use thiserror::Error;

use crate::address::Address;
use crate::arena::PAGE;
use crate::memory::{self, MemoryError};
use crate::place::Place;
use crate::process::{Pid, ProcessError};
use crate::ptrace::{HeldThread, PtraceError, Stopped};
use crate::space::SpaceError;
use crate::sys;
use crate::variable::FollowError;
use crate::writable_place::{UnloadedError, WritablePlace, WritablePlaceError};

#[derive(Debug, Error)]
pub enum WriteError {
    #[error(
        "`{symbol}` of process {pid} holds {}, not {} as expected: the program changed it meanwhile; left alone",
        shown(*.value_type, *.found), shown(*.value_type, *.expected)
    )]
    Unexpected {
        pid: Pid,
        symbol: String,
        value_type: ValueType,
        found: Bytes,
        expected: Bytes,
    },
    /// The value and the place differ in size.
    #[error("{new} is not a value of `{symbol}`: expected as many bytes as it has")]
    WrongSize { symbol: String, new: Bytes },
    /// The program changed a pointer that leads to the variable.
    #[error(
        "`{symbol}` of process {pid} has moved: the program changed a pointer that leads to it; not written"
    )]
    Moved { pid: Pid, symbol: String },
    /// A pointer that leads to the variable is invalid.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Code or a table does not hold the expected bytes.
    #[error("{what} at {address} of process {pid} is not what was to be changed: left alone")]
    OtherBytes {
        pid: Pid,
        what: String,
        address: Address,
    },
    /// Code is written only while all threads of the process are held.
    #[error("{what} of process {pid} was not changed: threads of the process run")]
    Running { pid: Pid, what: String },
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Unloaded(#[from] UnloadedError),
    #[error(transparent)]
    WritablePlace(WritablePlaceError),
    /// The module was unloaded between the check and the store.
    #[error(
        "`{symbol}` of process {pid} was unloaded in the instant of the write, and was not changed: {}", .found.text()
    )]
    WentElsewhere {
        pid: Pid,
        symbol: String,
        found: StrayWrite,
    },
    /// The value was stored, but the kernel permits neither to read it nor to restore the old one.
    #[error("`{symbol}` of process {pid} COULD NOT BE READ BACK, AND ITS OLD VALUE NOT RESTORED")]
    Unverified { pid: Pid, symbol: String },
    /// The process executed another program during the store.
    #[error("process {pid} called exec during the write; the new program may have been written to")]
    Replaced { pid: Pid },
    /// The only method available to this user could be seen half done.
    #[error(
        "`{symbol}` of process {pid} was left alone: on this CPU (without fsrm) a write of {size} bytes could be seen half \
         done, unless it goes through /proc/{pid}/mem, which needs CAP_DAC_OVERRIDE"
    )]
    HalfSeen { pid: Pid, symbol: String, size: usize },
    /// The thread at the sync point could not be stopped before the store.
    #[error(transparent)]
    Stop(#[from] PtraceError),
    #[error("cannot write `{symbol}` of process {pid}: {error}")]
    Io {
        pid: Pid,
        symbol: String,
        error: io::Error,
    },
}

/// The value of these bytes; the bytes themselves if they are no value of the type.
fn shown(value_type: ValueType, bytes: Bytes) -> String {
    match Value::from_bytes(value_type, bytes) {
        Ok(value) => value.to_string(),
        Err(_) => format!("{bytes} (bytes in memory order)"),
    }
}

/// What became of a value whose variable was unloaded during the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrayWrite {
    /// The value was in the new mapping, and the old bytes were restored.
    Restored,
    /// The value is not in memory.
    Nowhere,
    /// The value is in the new mapping and could not be replaced.
    Left,
}

impl StrayWrite {
    fn text(self) -> &'static str {
        match self {
            StrayWrite::Restored => "the value was written to another mapping, whose old bytes were restored",
            StrayWrite::Nowhere => "the value is nowhere",
            StrayWrite::Left => {
                "the value was written to another mapping, WHOSE OLD BYTES COULD NOT BE RESTORED"
            }
        }
    }
}

/// Called at the instants at which a crash, or an action of the program, decides the outcome of a change.
/// They do something in tests only.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// The intent is in the journal, nothing is written.
    pub after_intent: fn(),
    /// All checks are done, and the next step stores the value.
    pub before_store: fn(),
    /// The value is written, the outcome is not in the journal.
    pub after_write: fn(),
    /// After each step of an action that takes several steps.
    pub underway: fn(),
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks {
            after_intent: || {},
            before_store: || {},
            after_write: || {},
            underway: || {},
        }
    }
}

impl Hooks {
    /// Runs `write` between `after_intent` and `after_write`.
    pub(crate) fn around<T>(self, write: impl FnOnce() -> T) -> T {
        (self.after_intent)();
        let written = write();
        (self.after_write)();
        written
    }
}

/// Writes `new` if the place still holds `expected`, and returns what is read back: `new`, unless the program
/// wrote in between. One aligned store of at most 8 bytes: no thread of the target sees half of it.
/// `before_store` is called when all checks are done.
pub(crate) fn commit(
    place: &WritablePlace,
    expected: Bytes,
    new: Bytes,
    before_store: fn(),
) -> Result<Bytes, WriteError> {
    let method = checked(place, expected, new)?;
    before_store();
    store(place, method, new)?;
    match place.stays() || place.check_again().is_ok() {
        true => read_back(place, method).map_err(|error| unverified(place, method, expected, error)),
        false => Err(stray(place, method, expected, new)),
    }
}

/// A value that cannot be read back must not stay: stores the old value again, but not into another program.
fn unverified(
    place: &WritablePlace,
    method: WriteMethod<'_>,
    expected: Bytes,
    error: WriteError,
) -> WriteError {
    let is_gone = matches!(error, WriteError::Replaced { .. }) || !place.pid().is_alive();
    if is_gone || store(place, method, expected).is_ok() {
        return error;
    }
    WriteError::Unverified {
        pid: place.pid(),
        symbol: place.location().symbol.clone(),
    }
}

/// Warm-up: does all that [`commit`] does, with a read instead of the store. The read takes the same path
/// through the kernel.
pub(crate) fn warm_up(place: &WritablePlace, expected: Bytes, new: Bytes) -> Result<Bytes, WriteError> {
    let method = checked(place, expected, new)?;
    if matches!(method, WriteMethod::ProcessVm) {
        let mut bytes = [0; Bytes::MAX];
        let bytes = &mut bytes[..new.as_slice().len()];
        // The result is not needed.
        let _ = sys::fetch(place.pid().number, place.location().address.0, bytes);
    }
    read_back(place, method)
}

fn store(place: &WritablePlace, method: WriteMethod<'_>, value: Bytes) -> Result<(), WriteError> {
    let location = place.location();
    let symbol = || location.symbol.clone();
    put(
        method,
        place.handle(),
        place.pid(),
        location.address,
        value.as_slice(),
        &symbol,
    )
}

fn read_back(place: &WritablePlace, method: WriteMethod<'_>) -> Result<Bytes, WriteError> {
    match place.read() {
        // The handle is bound to the program that has gone; the store may have reached its successor.
        Err(MemoryError::Gone { pid }) if matches!(method, WriteMethod::ProcessVm) && pid.is_alive() => {
            Err(WriteError::Replaced { pid })
        }
        found => Ok(found?),
    }
}

/// The mapping changed during the store: restores the bytes that the store replaced, if it did.
fn stray(place: &WritablePlace, method: WriteMethod<'_>, expected: Bytes, new: Bytes) -> WriteError {
    let found = match read_back(place, method) {
        Ok(found) if found == new => match store(place, method, expected) {
            Ok(()) => StrayWrite::Restored,
            Err(_) => StrayWrite::Left,
        },
        Ok(_) | Err(WriteError::Memory(MemoryError::Unmapped { .. })) => StrayWrite::Nowhere,
        Err(error) => return error,
    };
    WriteError::WentElsewhere {
        pid: place.pid(),
        symbol: place.location().symbol.clone(),
        found,
    }
}

/// The method to store `new`, if all checks permit it. The value is compared last.
fn checked(place: &WritablePlace, expected: Bytes, new: Bytes) -> Result<WriteMethod<'static>, WriteError> {
    let (pid, symbol) = (place.pid(), || place.location().symbol.clone());
    let size = new.as_slice().len();
    if size != place.value_type().size() {
        return Err(WriteError::WrongSize {
            symbol: symbol(),
            new,
        });
    }
    let method = method(size, short_copies_are_complete(), place.may_override()).ok_or_else(|| {
        WriteError::HalfSeen {
            pid,
            symbol: symbol(),
            size,
        }
    })?;
    check_place(place, method)?;
    let found = place.read()?;
    if found != expected {
        return Err(WriteError::Unexpected {
            pid,
            symbol: symbol(),
            value_type: place.value_type(),
            found,
            expected,
        });
    }
    Ok(method)
}

/// Checks that the place is still what was validated.
fn check_place(place: &WritablePlace, method: WriteMethod<'_>) -> Result<(), WriteError> {
    // In the program's own mappings only the page protection can have changed, and process_vm_writev respects
    // it.
    if !(place.stays() && matches!(method, WriteMethod::ProcessVm)) {
        place.check_again().map_err(|error| match error {
            WritablePlaceError::ModuleGone { .. }
            | WritablePlaceError::Memory(MemoryError::Unmapped { .. }) => place.unloaded().into(),
            WritablePlaceError::Memory(error) | WritablePlaceError::Space(SpaceError::Memory(error)) => {
                error.into()
            }
            error => WriteError::WritablePlace(error),
        })?;
    }
    if place.is_still_there()? {
        return Ok(());
    }
    Err(WriteError::Moved {
        pid: place.pid(),
        symbol: place.location().symbol.clone(),
    })
}

/// The threads of the process that the calling thread holds while bytes are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HeldThreads<'a> {
    None,
    One(&'a HeldThread),
    All(&'a Stopped),
}

impl<'a> HeldThreads<'a> {
    /// A thread through which words can be stored.
    fn thread(self) -> Option<&'a HeldThread> {
        match self {
            HeldThreads::None => None,
            HeldThreads::One(thread) => Some(thread),
            HeldThreads::All(stopped) => stopped.threads().first(),
        }
    }
}

/// Writes `new` if the place still holds `expected` (`None` for our own memory and for unused stack), and
/// reads it back.
///
/// # Errors
/// If code is to be written while threads run, or the place does not hold what is expected.
pub(crate) fn commit_bytes(
    place: &Place,
    expected: Option<&[u8]>,
    new: &[u8],
    held: HeldThreads<'_>,
) -> Result<(), WriteError> {
    if place.is_code() && !matches!(held, HeldThreads::All(_)) {
        return Err(WriteError::Running {
            pid: place.pid(),
            what: place.what().to_owned(),
        });
    }
    let other = || WriteError::OtherBytes {
        pid: place.pid(),
        what: place.what().to_owned(),
        address: place.address(),
    };
    if new.len() != place.length() {
        return Err(other());
    }
    if let Some(expected) = expected
        && place.read()? != expected
    {
        return Err(other());
    }
    let (handle, address) = (place.handle(), place.address());
    let what = || place.what().to_owned();
    match held.thread().filter(|_| !place.may_override()) {
        None => put(WriteMethod::ProcMem, handle, place.pid(), address, new, &what)?,
        Some(held) => {
            for (address, word) in words(handle, place.pid(), address, new)? {
                put(
                    WriteMethod::Poke(held),
                    handle,
                    place.pid(),
                    address,
                    &word,
                    &what,
                )?;
            }
        }
    }
    if place.read()? == new {
        Ok(())
    } else {
        Err(other())
    }
}

/// The store itself. Every method stores bytes within one page at once, and an aligned value never crosses a
/// page.
fn put(
    method: WriteMethod<'_>,
    handle: &File,
    pid: Pid,
    address: Address,
    new: &[u8],
    symbol: &impl Fn() -> String,
) -> Result<(), WriteError> {
    let stored = match method {
        WriteMethod::ProcessVm => sys::store(pid.number, address.0, new),
        WriteMethod::ProcMem => handle.write_at(new, address.0),
        WriteMethod::Poke(held) => match new.try_into() {
            Ok(word) => held
                .store(address.0, u64::from_le_bytes(word))
                .map(|()| new.len()),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        },
    };
    match stored {
        Ok(0) => Err(MemoryError::Gone { pid }.into()),
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(MemoryError::Gone { pid }.into()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(MemoryError::Process(ProcessError::not_permitted(pid.number, "mem")).into())
        }
        Err(error) => Err(WriteError::Io {
            pid,
            symbol: symbol(),
            error,
        }),
    }
}

/// How a value is stored.
#[derive(Debug, Clone, Copy)]
enum WriteMethod<'a> {
    /// process_vm_writev: respects page protection.
    ProcessVm,
    /// /proc/PID/mem: overrides page protection, and writes nothing after an exec.
    ProcMem,
    /// PTRACE_POKEDATA: overrides page protection, stores one word of 8 bytes.
    Poke(&'a HeldThread),
}

/// The words to store at their addresses so that `new` is at `address`; all bytes are in one page. Up to 8
/// bytes take one store: words need not be aligned, and the neighbouring bytes are stored unchanged. More
/// bytes are stored in ascending order.
fn words(
    handle: &File,
    pid: Pid,
    address: Address,
    new: &[u8],
) -> Result<Vec<(Address, [u8; 8])>, WriteError> {
    const WORD: usize = size_of::<u64>();
    let end = address.0 + new.len() as u64;
    let page_end = address.0 / PAGE * PAGE + PAGE;
    let first = if new.len() < WORD {
        address.0.min(page_end - WORD as u64)
    } else {
        address.0
    };
    let mut bytes = vec![0; (end.max(first + WORD as u64) - first) as usize];
    memory::read(handle, pid, Address(first), &mut bytes)?;
    let into = (address.0 - first) as usize;
    bytes[into..into + new.len()].copy_from_slice(new);
    let last = bytes.len() - WORD;
    let starts = (0..last).step_by(WORD).chain([last]);
    let word = |at: usize| {
        bytes[at..]
            .first_chunk::<WORD>()
            .map(|word| (Address(first + at as u64), *word))
    };
    Ok(starts.filter_map(word).collect())
}

/// The method for a value of `size` bytes; `None` if the only one could be seen half done.
fn method(size: usize, short_copies_are_complete: bool, may_override: bool) -> Option<WriteMethod<'static>> {
    match size {
        _ if may_override => Some(WriteMethod::ProcMem),
        2 | 4 if !short_copies_are_complete => None,
        _ => Some(WriteMethod::ProcessVm),
    }
}

/// Reads in advance what the first write must know about this machine.
pub(crate) fn look() {
    short_copies_are_complete();
}

/// Whether process_vm_writev copies a few bytes at once: the kernel chooses its copy routine by this flag.
fn short_copies_are_complete() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut flags = cpus.lines().filter(|line| line.starts_with("flags")).peekable();
        flags.peek().is_some() && flags.all(|line| line.split_ascii_whitespace().any(|flag| flag == "fsrm"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_through_the_handle_of_the_program_that_was_checked_wherever_it_may_be_written() {
        for size in [1, 2, 4, 8] {
            for short_copies_are_complete in [true, false] {
                let chosen = method(size, short_copies_are_complete, true);
                assert!(matches!(chosen, Some(WriteMethod::ProcMem)), "{size}");
            }
            assert!(
                matches!(method(size, true, false), Some(WriteMethod::ProcessVm)),
                "{size}"
            );
        }
        assert!(matches!(method(1, false, false), Some(WriteMethod::ProcessVm)));
        assert!(matches!(method(8, false, false), Some(WriteMethod::ProcessVm)));
        for size in [2, 4] {
            assert!(method(size, false, false).is_none(), "{size}");
        }
    }
}
