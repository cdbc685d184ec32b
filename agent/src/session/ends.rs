//! Reports the end of processes through pidfds: at once, and without polling.

use std::{
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::ExitStatus,
};

use tokio::{sync::mpsc, task::JoinSet};

use super::members::Exit;
use crate::readable::Readable;

/// Maximum number of unread ends.
const ENDS_MAX: usize = 4096;

/// A process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessEnd {
    pub(super) slot: u32,
    /// `None` if the kernel does not report it.
    pub(super) exit: Option<Exit>,
}

/// Watches any number of processes until it is dropped.
pub(super) struct Ends {
    to: mpsc::Sender<ProcessEnd>,
    watches: JoinSet<()>,
}

impl Ends {
    /// The watcher, and the receiver of the ends.
    pub(super) fn new() -> (Ends, mpsc::Receiver<ProcessEnd>) {
        let (to, receiver) = mpsc::channel(ENDS_MAX);
        let watches = JoinSet::new();
        (Ends { to, watches }, receiver)
    }

    /// Watches one more process, identified by its slot. If it has ended already, that is reported at once.
    pub(super) fn watch(&mut self, pid: i32, slot: u32) {
        while self.watches.try_join_next().is_some() {}
        let sender = self.to.clone();
        self.watches.spawn(async move {
            let mut exit = None;
            if let Ok(pidfd) = Readable::end_of(pid) {
                // On an error it cannot be waited for, so it is considered ended.
                let _ = pidfd.wait().await;
                let status = tuner::wait_status(pid, pidfd.as_fd());
                exit = status.map(ExitStatus::from_raw).and_then(exit_of);
            }
            let _ = sender.send(ProcessEnd { slot, exit }).await;
        });
    }
}

fn exit_of(status: ExitStatus) -> Option<Exit> {
    let by_signal = status.signal().map(Exit::Signal);
    by_signal.or_else(|| status.code().map(Exit::Status))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn how_a_process_ended_is_known_before_and_after_it_is_collected() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut ends, mut ended) = Ends::new();
            for (slot, line, exit) in [
                (1, "read x; kill -ABRT $$", Exit::Signal(6)),
                (2, "read x; exit 3", Exit::Status(3)),
                (3, "read x; exit 0", Exit::Status(0)),
            ] {
                let child = Command::new("sh")
                    .args(["-c", line])
                    .stdin(Stdio::piped())
                    .spawn();
                let mut child = child.unwrap();
                ends.watch(child.id() as i32, slot);
                drop(child.stdin.take());
                assert_eq!(
                    ended.recv().await,
                    Some(ProcessEnd {
                        slot,
                        exit: Some(exit)
                    })
                );
                let pid = rustix::process::Pid::from_child(&child);
                let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
                let status = child.wait().unwrap().into_raw();
                let known = tuner::wait_status(child.id() as i32, pidfd.as_fd());
                assert!(known.is_none_or(|known| known == status), "{known:?} {status}");
            }
        });
    }

    #[test]
    fn no_process_is_watched_after_the_watcher_is_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let child = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let (mut first, mut second) = (child(), child());
            let (mut ends, mut ended) = Ends::new();
            ends.watch(first.id() as i32, 1);
            ends.watch(second.id() as i32, 2);
            drop(first.stdin.take());
            let first_end = ProcessEnd {
                slot: 1,
                exit: Some(Exit::Status(0)),
            };
            assert_eq!(ended.recv().await, Some(first_end));
            drop(ends);
            // If a watch continued, its sender would keep the channel open until its process ends.
            assert_eq!(ended.recv().await, None);
            drop(second.stdin.take());
            first.wait().and(second.wait()).unwrap();
        });
    }
}
