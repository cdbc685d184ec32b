//! What comes in from the kernel side: hits out of the ring, and the table of threads kept small.

use abi::Thread;
use aya::maps::RingBuf;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Session;
use crate::{
    clock::monotonic_ns,
    kernel::{KernelError, read_hit, read_text},
};

/// A hit takes its time when it has its place in the ring. What the clocks of two CPUs differ by, and what a CPU may see of another's
/// writes too late, is far less than this.
const CLOCK_SLACK_NS: u64 = 1_000;

/// How often the ring is emptied in a row before other work has its turn.
const DRAINS: usize = 16;

/// More hits than the ring can hold: at the end of a window all that belong to it are taken.
const ALL_HITS: usize = abi::RING_BYTES as usize / size_of::<abi::Hit>();

impl Session {
    /// The kernel side has room for so many threads; those that have ended make place.
    pub(super) fn retire_threads(&mut self, threads: &[(u64, Thread)]) -> Result<(), KernelError> {
        if threads.len() < abi::MAX_THREADS as usize / 2 {
            return Ok(());
        }
        for (key, thread) in threads {
            let Some(process) = self
                .processes
                .iter_mut()
                .find(|process| process.slot == thread.process)
            else {
                continue;
            };
            if process.retire(*key, thread)
                && let Some(kernel) = self.probes.kernel_mut()
            {
                kernel.forget_thread(*key)?;
            }
        }
        Ok(())
    }

    /// Hits came: windows that they close are evaluated at once. Counters are read first where a timed window is over too.
    pub(super) fn evaluate_hits(&mut self) -> Result<(), KernelError> {
        self.take_all_hits()?;
        let since_read = monotonic_ns().saturating_sub(self.read_ns);
        if since_read >= self.rules.shortest_window().as_nanos() as u64 {
            self.read()?;
        }
        self.evaluate();
        Ok(())
    }

    /// Takes everything out of the ring, and tells the rules up to when they have seen all, or since when hits are missing.
    ///
    /// Hits that are found in the ring when it was looked at and those that came before are taken: so when it is empty, all up to
    /// the moment before that look are known. While a hit that has its place is still being written, nothing is said of the time
    /// since the last look; the kernel wakes us when it is written.
    pub(super) fn take_all_hits(&mut self) -> Result<(), KernelError> {
        for _ in 0..DRAINS {
            let taken = self.take_hits(ALL_HITS);
            let now = monotonic_ns().saturating_sub(CLOCK_SLACK_NS);
            // A window that ended just now is closed at once, not at the next hit.
            if now < self.newest_hit_ns {
                continue;
            }
            if self.ring_is_empty() {
                return self.take_note_of_hits(now);
            }
            self.hits_left = taken > 0;
            if taken == 0 {
                break;
            }
        }
        self.take_note_of_hits(self.seen_until_ns)
    }

    /// At the end nothing is waited for any more: what is in the ring is all there is.
    pub(super) fn take_last_hits(&mut self) -> Result<(), KernelError> {
        self.take_hits(ALL_HITS);
        self.take_note_of_hits(monotonic_ns())
    }

    /// Nothing lies in the ring, nor is being written to it.
    fn ring_is_empty(&self) -> bool {
        let Some(ring) = &self.hits else { return true };
        let mut ring = [PollFd::new(ring, PollFlags::IN)];
        // A look that fails has found nothing to wait for.
        poll(&mut ring, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    fn take_note_of_hits(&mut self, seen_until: u64) -> Result<(), KernelError> {
        let Some(kernel) = self.probes.kernel() else {
            return Ok(());
        };
        let lost: u64 = kernel.losses()?.iter().map(|(_, count)| count).sum();
        let slots: Vec<u32> = self.processes.iter().map(|process| process.slot).collect();
        if lost > self.lost {
            self.rules
                .lost(slots.iter().copied(), self.seen_until_ns, monotonic_ns());
            self.lost = lost;
        }
        self.rules.watermark(slots.into_iter(), seen_until);
        self.seen_until_ns = seen_until;
        Ok(())
    }

    /// How many were taken.
    pub(super) fn take_hits(&mut self, limit: usize) -> usize {
        for taken in 0..limit {
            let Some(item) = self.hits.as_mut().and_then(RingBuf::next) else {
                self.hits_left = false;
                return taken;
            };
            if let Some(hit) = read_hit(&item) {
                self.newest_hit_ns = self.newest_hit_ns.max(hit.time_ns);
                self.rules.observe_hit(&hit, self.probes.list());
            } else if let Some(text) = read_text(&item) {
                self.rules.observe_text(&text);
            }
        }
        self.hits_left = true;
        limit
    }
}
