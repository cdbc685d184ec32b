//! Waits in the event loop until a descriptor is readable. The only module that registers descriptors with
//! it.
#![allow(unsafe_code, reason = "registering a descriptor with the event loop")]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{Interest, unix::AsyncFd};

/// A descriptor that the event loop waits for.
#[derive(Debug)]
pub(crate) struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Registers the descriptor. Must be called inside the tokio runtime.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Readable> {
        // SAFETY: the descriptor is owned by the value that is registered, which no other code can close or
        // take out, so it stays open and the same for as long as it is registered.
        let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        registered.map(Readable).map_err(io::Error::from)
    }

    /// A descriptor that is readable once the process has ended. Must be called inside the tokio runtime.
    pub(crate) fn end_of(pid: i32) -> io::Result<Readable> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Readable::new(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
    }

    /// Waits until there is something to read. Readiness that a previous call has reported is not reported
    /// again.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

impl AsFd for Readable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
