//! Reports the end of processes through pidfds: at once, and without polling.

use tokio::{sync::mpsc, task::JoinSet};

use crate::readable::Readable;

/// Maximum number of unread ends.
const ENDS_MAX: usize = 4096;

/// Watches any number of processes until it is dropped.
pub(super) struct Ends {
    to: mpsc::Sender<u32>,
    watches: JoinSet<()>,
}

impl Ends {
    /// The watcher, and the receiver of the slots of ended processes.
    pub(super) fn new() -> (Ends, mpsc::Receiver<u32>) {
        let (to, receiver) = mpsc::channel(ENDS_MAX);
        let watches = JoinSet::new();
        (Ends { to, watches }, receiver)
    }

    /// Watches one more process, identified by its slot. If it has ended already, that is reported at once.
    pub(super) fn watch(&mut self, pid: i32, slot: u32) {
        while self.watches.try_join_next().is_some() {}
        let sender = self.to.clone();
        self.watches.spawn(async move {
            if let Ok(pidfd) = Readable::end_of(pid) {
                // On an error it cannot be waited for, so it is considered ended.
                let _ = pidfd.wait().await;
            }
            let _ = sender.send(slot).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

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
            assert_eq!(ended.recv().await, Some(1));
            drop(ends);
            // If a watch continued, its sender would keep the channel open until its process ends.
            assert_eq!(ended.recv().await, None);
            drop(second.stdin.take());
            first.wait().and(second.wait()).unwrap();
        });
    }
}
