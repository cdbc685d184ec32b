//! The one function that writes into another process.
//!
//! # Two ways, and which one is taken
//!
//! **process_vm_writev** needs no more rights than looking (the process's own user, or CAP_SYS_PTRACE), and keeps to
//! the page protection: what the program has made read-only stays as it is. It is the way of data. Its two limits:
//! - It names the target by number. A program that execs between our last look and the store (microseconds) would be
//!   written at that address, if it has a writable page there. The read that follows goes through the handle of the
//!   program that was checked, so this does not pass unseen ([`WriteError::Replaced`]).
//! - On x86-64 without fast short `rep movsb` (flag `fsrm`) the kernel copies fewer than eight bytes one by one, and a
//!   thread of the program could see half of a value. There a value of 2 or 4 bytes takes the other way.
//!
//! **/proc/PID/mem** stays with the address space that it was opened for, and stores values of any size at once, but the
//! kernel overrides page protection, and for processes of other users it asks for CAP_DAC_OVERRIDE on top. Only a
//! [`Slot`], whose page was found writable immediately before, comes here, or a `Place`, which says of which kind it is: code,
//! a word of a table of addresses, our own memory, a stack.
//!
//! **PTRACE_POKEDATA**, through a thread that is held, overrides page protection too and needs no right beside that of holding
//! it: the way of places where the user may not write /proc/PID/mem. It stores whole words.
//!
//! Neither tore a value of 2, 4 or 8 bytes in 12 million writes each (Linux 6.18, FSRM, a reader on the other core), and
//! both took 2 to 5 us.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use thiserror::Error;

use crate::address::Address;
use crate::arena::PAGE;
use crate::memory::{self, MemoryError};
use crate::place::Place;
use crate::process::{Pid, ProcessError};
use crate::ptrace::{HeldThread, PtraceError};
use crate::slot::{Slot, UnloadedError};
use crate::sys;
use crate::value::Bytes;
use crate::variable::FollowError;

/// Why nothing was written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// It holds something else than expected.
    #[error(
        "`{symbol}` of process {pid} holds {found} (bytes in memory order), not {expected} as expected: left alone"
    )]
    Unexpected {
        /// The process.
        pid: Pid,
        /// The variable.
        symbol: String,
        /// What it holds.
        found: Bytes,
        /// What was expected.
        expected: Bytes,
    },
    /// The value has another size than the slot.
    #[error("{new} is not a value of `{symbol}`")]
    WrongSize {
        /// The variable.
        symbol: String,
        /// The bytes.
        new: Bytes,
    },
    /// The program turned a pointer on the way to it elsewhere.
    #[error(
        "`{symbol}` of process {pid} is elsewhere now, for the program changed a pointer on the way: left alone"
    )]
    Moved {
        /// The process.
        pid: Pid,
        /// The variable.
        symbol: String,
    },
    /// The pointers on the way to it lead nowhere.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Code or a table holds something else than expected.
    #[error("{what} at {address} of process {pid} is not what was to be changed: left alone")]
    OtherBytes {
        /// The process.
        pid: Pid,
        /// What it is.
        what: String,
        /// Where.
        address: Address,
    },
    /// It cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// It was unloaded while the write waited.
    #[error(transparent)]
    Unloaded(#[from] UnloadedError),
    /// It began another program in the very moment of the store.
    #[error(
        "process {pid} began another program in the very moment of the write: whether that got it is not known"
    )]
    Replaced {
        /// The process.
        pid: Pid,
    },
    /// The only way that this user may take could be seen half done.
    #[error(
        "`{symbol}` of process {pid} was left alone: on this CPU (without fsrm) a write of {size} bytes could be seen half \
         done, unless it goes through /proc/{pid}/mem, which needs CAP_DAC_OVERRIDE"
    )]
    HalfSeen {
        /// The process.
        pid: Pid,
        /// The variable.
        symbol: String,
        /// Its size.
        size: usize,
    },
    /// The thread at the sync point was to be stopped first.
    #[error(transparent)]
    Stop(#[from] PtraceError),
    /// The kernel refused.
    #[error("cannot write `{symbol}` of process {pid}: {source}")]
    Io {
        /// The process.
        pid: Pid,
        /// The variable.
        symbol: String,
        /// What went wrong.
        source: io::Error,
    },
}

/// Writes `new` if the slot still holds `expected`, and gives back what is read there afterwards: `new`,
/// unless the program wrote in between. One aligned store of at most 8 bytes: no thread of the target sees
/// half of it.
pub(crate) fn commit(slot: &Slot, expected: Bytes, new: Bytes) -> Result<Bytes, WriteError> {
    let (pid, symbol) = (slot.pid(), || slot.location().symbol.clone());
    let way = checked(slot, expected, new)?;
    put(
        way,
        slot.handle(),
        pid,
        slot.location().address,
        new.as_slice(),
        &symbol,
    )?;
    read_back(slot)
}

/// All that [`commit`] does but for the store, for practice: in its place what is there is read, which takes the kernel the same way.
pub(crate) fn practise(slot: &Slot, expected: Bytes, new: Bytes) -> Result<Bytes, WriteError> {
    checked(slot, expected, new)?;
    let mut bytes = [0; Bytes::MAX];
    let bytes = &mut bytes[..new.as_slice().len()];
    // Whether it can be read so is for nobody to know.
    let _ = sys::fetch(slot.pid().number, slot.location().address.0, bytes);
    read_back(slot)
}

fn read_back(slot: &Slot) -> Result<Bytes, WriteError> {
    match slot.read() {
        Err(MemoryError::Gone { pid }) if pid.is_alive() => Err(WriteError::Replaced { pid }),
        found => Ok(found?),
    }
}

/// The way to store `new`, if it may be stored.
fn checked(slot: &Slot, expected: Bytes, new: Bytes) -> Result<Way<'static>, WriteError> {
    let (pid, symbol) = (slot.pid(), || slot.location().symbol.clone());
    if new.as_slice().len() != slot.value_type().size() {
        return Err(WriteError::WrongSize {
            symbol: symbol(),
            new,
        });
    }
    let found = slot.read()?;
    if found != expected {
        return Err(WriteError::Unexpected {
            pid,
            symbol: symbol(),
            found,
            expected,
        });
    }
    if !slot.is_still_there()? {
        return Err(WriteError::Moved {
            pid,
            symbol: symbol(),
        });
    }
    let size = new.as_slice().len();
    way(size, short_copies_are_whole(), slot.may_override()).ok_or_else(|| WriteError::HalfSeen {
        pid,
        symbol: symbol(),
        size,
    })
}

/// Writes `new` if the place still holds `expected` (of memory of our own and of a dead stack nothing is expected), and reads
/// it back. Code is written while no thread runs.
/// `held` is a thread of the process that the calling thread holds.
pub(crate) fn commit_bytes(
    place: &Place,
    expected: Option<&[u8]>,
    new: &[u8],
    held: Option<&HeldThread>,
) -> Result<(), WriteError> {
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
    match held.filter(|_| !place.may_override()) {
        None => put(Way::Overriding, handle, place.pid(), address, new, &what)?,
        Some(held) => {
            for (address, word) in words(handle, place.pid(), address, new)? {
                put(Way::Holding(held), handle, place.pid(), address, &word, &what)?;
            }
        }
    }
    if place.read()? == new {
        Ok(())
    } else {
        Err(other())
    }
}

/// The store itself. Both ways store within one page at once, and an aligned value never leaves its page.
fn put(
    way: Way<'_>,
    handle: &File,
    pid: Pid,
    address: Address,
    new: &[u8],
    symbol: &impl Fn() -> String,
) -> Result<(), WriteError> {
    let stored = match way {
        Way::Keeping => sys::store(pid.number, address.0, new),
        Way::Overriding => handle.write_at(new, address.0),
        Way::Holding(held) => match new.try_into() {
            Ok(word) => held
                .store(address.0, u64::from_le_bytes(word))
                .map(|()| new.len()),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        },
    };
    match stored {
        Ok(0) => Err(MemoryError::Gone { pid }.into()),
        Ok(_) => Ok(()),
        Err(source) if source.raw_os_error() == Some(libc::ESRCH) => Err(MemoryError::Gone { pid }.into()),
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(MemoryError::Process(ProcessError::not_permitted(pid.number, "mem")).into())
        }
        Err(source) => Err(WriteError::Io {
            pid,
            symbol: symbol(),
            source,
        }),
    }
}

/// How a value is stored.
#[derive(Debug, Clone, Copy)]
enum Way<'a> {
    /// process_vm_writev: keeps to the page protection.
    Keeping,
    /// /proc/PID/mem: overrides it.
    Overriding,
    /// PTRACE_POKEDATA: overrides it, a word at a time.
    Holding(&'a HeldThread),
}

/// The words by which `new` gets to `address`, which lies with it in one page. Up to a word is stored at once: words need not be
/// aligned, and what is beside is stored as it is. Of more, the first come first.
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

/// The way for a value of `size` bytes; none where the only one could be seen half done.
fn way(size: usize, short_copies_are_whole: bool, may_override: bool) -> Option<Way<'static>> {
    match size {
        1 | 8 => Some(Way::Keeping),
        _ if short_copies_are_whole => Some(Way::Keeping),
        _ => may_override.then_some(Way::Overriding),
    }
}

/// Asks what the first write needs to know of this machine.
pub(crate) fn look() {
    short_copies_are_whole();
}

/// Whether process_vm_writev copies a few bytes at once: the kernel chooses its copy routine by this flag.
fn short_copies_are_whole() -> bool {
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
    fn data_keeps_to_the_page_protection_wherever_it_cannot_be_seen_half_done() {
        let keeps = |way: Option<Way<'_>>| matches!(way, Some(Way::Keeping));
        for size in [1, 2, 4, 8] {
            assert!(keeps(way(size, true, false)), "{size}");
        }
        assert!(keeps(way(1, false, true)) && keeps(way(8, false, true)));
        for size in [2, 4] {
            assert!(matches!(way(size, false, true), Some(Way::Overriding)), "{size}");
            assert!(way(size, false, false).is_none(), "{size}");
        }
    }
}
