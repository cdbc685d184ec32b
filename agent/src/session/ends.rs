//! Tells when a process ends, from its pidfd: at once, and without looking at it again and again.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::mpsc;

use crate::readable::Readable;

/// Ends that may wait to be heard.
const ENDS_MAX: usize = 4096;

/// Watches any number of processes.
pub(super) struct Ends(mpsc::Sender<u32>);

impl Ends {
    /// With where the slot of each process comes out that has ended.
    pub(super) fn new() -> (Ends, mpsc::Receiver<u32>) {
        let (sender, receiver) = mpsc::channel(ENDS_MAX);
        (Ends(sender), receiver)
    }

    /// Watches one more process, known by its slot. One that has ended already is told at once.
    pub(super) fn watch(&self, pid: i32, slot: u32) {
        let sender = self.0.clone();
        tokio::spawn(async move {
            if let Some(pidfd) = open(pid) {
                // An error means that it cannot be waited for: then it is taken for ended.
                let _ = pidfd.wait().await;
            }
            let _ = sender.send(slot).await;
        });
    }
}

fn open(pid: i32) -> Option<Readable> {
    Readable::new(pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?).ok()
}
