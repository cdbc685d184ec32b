//! What comes in from the kernel side: hits out of the ring, and the table of threads kept small.

use std::time::Duration;

use abi::Thread;
use aya::maps::RingBuf;

use super::Session;
use crate::{
    clock::monotonic_ns,
    kernel::{KernelError, read_hit, read_text},
};

/// A hit lies in the ring at most this long after the time that it carries: what its program does in between takes
/// microseconds, but the machine may be busy.
const HIT_DELAY: Duration = Duration::from_millis(1);

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
        // What is younger than the delay is certain only a little later.
        self.settle = Some(tokio::time::Instant::now() + 2 * HIT_DELAY);
        Ok(())
    }

    /// Takes everything out of the ring, and tells the rules up to when they have seen all, or since when hits are missing.
    pub(super) fn take_all_hits(&mut self) -> Result<(), KernelError> {
        self.take_hits_until(monotonic_ns().saturating_sub(HIT_DELAY.as_nanos() as u64))
    }

    /// At the end nothing is waited for any more: what is in the ring is all there is.
    pub(super) fn take_last_hits(&mut self) -> Result<(), KernelError> {
        self.take_hits_until(monotonic_ns())
    }

    fn take_hits_until(&mut self, seen_until: u64) -> Result<(), KernelError> {
        self.take_hits(ALL_HITS);
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

    pub(super) fn take_hits(&mut self, limit: usize) {
        for _ in 0..limit {
            let Some(item) = self.hits.as_mut().and_then(RingBuf::next) else {
                self.hits_left = false;
                return;
            };
            if let Some(hit) = read_hit(&item) {
                self.rules.observe_hit(&hit, self.probes.list());
            } else if let Some(text) = read_text(&item) {
                self.rules.observe_text(&text);
            }
        }
        self.hits_left = true;
    }
}
