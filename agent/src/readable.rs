//! Waiting in the event loop until a descriptor can be read. The one place that registers descriptors with
//! it.
#![allow(unsafe_code, reason = "registering a descriptor with the event loop")]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// A descriptor that the event loop waits on.
#[derive(Debug)]
pub(crate) struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Registers. Must run inside the runtime.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Readable> {
        // SAFETY: the descriptor is owned by the value that is registered, which no other code can close or
        // take out, so it stays open and the same for as long as it is registered.
        let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        registered.map(Readable).map_err(io::Error::from)
    }

    /// Waits until there is something to read. What became readable before the last call that returned is not
    /// reported again.
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
