//! One writer per process: a lock that the kernel releases when its holder ends, for any reason.
//!
//! The lock is an flock on /proc/PID/mem of the target. That file belongs to exactly one process (pid and
//! start time), is shared by every state directory of the machine, needs no creation or clean-up, and
//! /proc/locks names its holder. Only processes with read access to the target can open it, so no other one
//! can hold the lock to keep us out. Its limits: a process in a container that mounts a /proc of its own
//! locks another file, and a user can keep the lock of their own processes (and is named then).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use crate::author;
use crate::memory;
use crate::process::{Pid, Process, ProcessError};

/// Retries, and the pause between them, of a lock without a known holder: if another thread of ours starts a
/// program while we release a lock, that program has a copy of the descriptor until its exec.
const TRIES_MAX: usize = 20;
const RETRY_AFTER: Duration = Duration::from_millis(1);

#[derive(Debug, Error)]
pub enum LockError {
    #[error("process {pid} is being tuned by {}", holder_text(.holder))]
    Held {
        pid: Pid,
        /// The holder, if the kernel names it.
        holder: Option<Holder>,
    },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot lock process {pid}: {error}")]
    Io { pid: Pid, error: io::Error },
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process. For a session it is not the actuator, which has the lock, but the agent, which the user
    /// knows.
    pub pid: i32,
    pub user: String,
}

fn holder_text(holder: &Option<Holder>) -> String {
    match holder {
        Some(Holder { pid, user }) => format!(
            "process {pid} of {user}, and one process may write at a time: tuneagent session stop {pid} ends that session"
        ),
        None => "another process, and one process may write at a time".to_owned(),
    }
}

/// The right to write into one process, until it is dropped.
#[derive(Debug)]
pub struct WriterLock {
    _memory: File,
}

impl WriterLock {
    /// Takes the lock, or returns its holder. Does not wait for a holder that the kernel can name.
    pub fn acquire(pid: Pid) -> Result<WriterLock, LockError> {
        let memory = memory::open(pid, OpenOptions::new().read(true))?;
        let mut tries_left = TRIES_MAX;
        loop {
            match flock(&memory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(WriterLock { _memory: memory }),
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => {
                    let error = errno.into();
                    return Err(LockError::Io { pid, error });
                }
            }
            tries_left -= 1;
            let holder = holder(&memory);
            let is_another = holder
                .as_ref()
                .is_some_and(|holder| holder.pid.unsigned_abs() != std::process::id());
            if is_another || tries_left == 0 {
                let holder = holder.map(Holder::named);
                return Err(LockError::Held { pid, holder });
            }
            std::thread::sleep(RETRY_AFTER);
        }
    }
}

/// The holder of the write lock of a process; `None` if there is none, or if it cannot be determined.
pub fn writer_of(pid: Pid) -> Option<Holder> {
    let memory = memory::open(pid, OpenOptions::new().read(true)).ok()?;
    holder(&memory).map(Holder::named)
}

impl Holder {
    fn named(self) -> Holder {
        let session = || {
            let holder = Process::open(self.pid).ok()?;
            let parent = Process::open(holder.parent).ok()?;
            (parent.executable == holder.executable).then_some(parent.pid.number)
        };
        Holder {
            pid: session().unwrap_or(self.pid),
            ..self
        }
    }
}

fn holder(memory: &File) -> Option<Holder> {
    let meta = memory.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let pid = holder_in(&fs::read_to_string("/proc/locks").ok()?, major, minor, meta.ino())?;
    let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    Some(Holder {
        pid,
        user: author::user_name(uid),
    })
}

/// Parses a line of /proc/locks: `1: FLOCK  ADVISORY  WRITE 1234 00:15:22658 0 EOF`; a waiter's line has an
/// arrow.
fn holder_in(locks: &str, major: u32, minor: u32, inode: u64) -> Option<i32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, "WRITE", pid, place, ..] if place == file => pid.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_the_process_with_the_lock_not_the_one_that_waits() {
        let locks = "1: POSIX  ADVISORY  WRITE 9 00:15:22658 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 8 00:15:22658 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 1234 00:15:22658 0 EOF\n";
        assert_eq!(holder_in(locks, 0, 0x15, 22658), Some(1234));
        assert_eq!(holder_in(locks, 0, 0x15, 1), None);
    }
}
