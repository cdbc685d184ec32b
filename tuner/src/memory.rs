//! The memory of another process, for reading. The handle is bound to the address space that it was opened
//! for, so that after an exec it reads nothing instead of the bytes of another program.
//!
//! Cannot write; see [`crate::write`].

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use thiserror::Error;

use crate::address::Address;
use crate::process::{Pid, Process, ProcessError};

/// Why memory could not be read.
#[derive(Debug, Error)]
pub enum MemoryError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The program that the handle was opened for is no longer there.
    #[error("process {pid} has ended, or runs another program now")]
    Gone { pid: Pid },
    #[error("process {pid} has nothing readable at {address}")]
    Unmapped { pid: Pid, address: Address },
    #[error("cannot read the memory of process {pid} at {address}: {error}")]
    Io {
        pid: Pid,
        address: Address,
        error: io::Error,
    },
}

/// The memory of a process, for reading.
#[derive(Debug)]
pub struct Memory {
    pid: Pid,
    file: Arc<File>,
}

impl Memory {
    pub fn open(process: &Process) -> Result<Memory, MemoryError> {
        Ok(Memory {
            pid: process.pid,
            file: Arc::new(open(process.pid, OpenOptions::new().read(true))?),
        })
    }

    /// For a process without memory so far: nothing can be read.
    pub(crate) fn none(pid: Pid) -> io::Result<Memory> {
        let file = Arc::new(File::open("/dev/null")?);
        Ok(Memory { pid, file })
    }

    /// Uses an open handle.
    pub(crate) fn through(pid: Pid, file: Arc<File>) -> Memory {
        Memory { pid, file }
    }

    pub fn read(&self, address: Address, bytes: &mut [u8]) -> Result<(), MemoryError> {
        read(&self.file, self.pid, address, bytes)
    }

    /// The 8-byte word at `address`.
    pub fn word(&self, address: Address) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Refuses programs with more rights than their user, opens /proc/PID/mem and then checks that the process is
/// still the same: only in this order is the handle certain to belong to it.
pub(crate) fn open(pid: Pid, options: &OpenOptions) -> Result<File, ProcessError> {
    pid.refuse_privileged()?;
    let path = pid.proc_path("mem");
    let file = options.open(&path).map_err(|error| pid.io_error(&path, error))?;
    pid.check_alive()?;
    Ok(file)
}

/// Fills `bytes` through an open handle.
pub(crate) fn read(file: &File, pid: Pid, address: Address, bytes: &mut [u8]) -> Result<(), MemoryError> {
    let mut done = 0;
    while done < bytes.len() {
        let at = address.0.wrapping_add(done as u64);
        match file.read_at(&mut bytes[done..], at) {
            // The kernel reads zero bytes exactly if the address space is gone.
            Ok(0) => return Err(MemoryError::Gone { pid }),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                return Err(MemoryError::Unmapped {
                    pid,
                    address: Address(at),
                });
            }
            Err(error) => {
                return Err(MemoryError::Io {
                    pid,
                    address: Address(at),
                    error,
                });
            }
        }
    }
    Ok(())
}
