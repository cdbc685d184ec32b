//! What comes in from the kernel side: hits out of the ring, and the table of threads kept small.

use std::time::Duration;

use abi::Thread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{HITS_PER_WAKE, Session, anticipate::Due, hands::Hands, meter::Metered};
use crate::{
    clock::monotonic_ns,
    kernel::{Kernel, KernelError, is_filling, read_hit, read_tally, read_text},
};

/// A hit takes its time when it has its place in the ring. What the clocks of two CPUs differ by, and what a CPU may see of another's
/// writes too late, is far less than this.
const CLOCK_SLACK_NS: u64 = 1_000;

/// What the loop's clock may be late by, and what practising takes.
const CLOCK_OF_LOOP: Duration = Duration::from_micros(1_800);

/// So much earlier than a decision is likely it is practised, in nanoseconds: it takes about as long from a cold start as the decision does.
const PRACTICE_NS: u64 = 400_000;

/// From the last hit to the order, at most; so much longer than the hit itself is the order awaited.
const DECISION: Duration = Duration::from_micros(300);

/// So long hits are looked for until whoever asks something, and the clock, have their turn, in nanoseconds.
const POLL_NS: u64 = 2_000_000;

/// How often the ring is emptied in a row before other work has its turn.
const DRAINS: usize = 16;

/// More hits than the ring can hold: at the end of a window all that belong to it are taken.
const ALL_HITS: usize = abi::RING_BYTES as usize / abi::Hit::SHORT_BYTES;

/// Of a table that is in the order of processes, the threads of one.
pub(super) fn threads_of(table: &[(u64, Thread)], slot: u32) -> &[(u64, Thread)] {
    let first = table.partition_point(|(_, thread)| thread.process < slot);
    let end = table.partition_point(|(_, thread)| thread.process <= slot);
    &table[first..end]
}

/// So long a hit takes at most from being counted to its place in the ring, where its thread is let run.
const UNDER_WAY: Duration = Duration::from_millis(1);

impl Session {
    /// The kernel side's table, in the order of processes: each is to find its own without a look at those of all. As it was read last where
    /// no total has moved since.
    pub(super) fn table_of_threads(&mut self, has_moved: bool) -> Result<Vec<(u64, Thread)>, KernelError> {
        if let Some(threads) = self.threads.take().filter(|_| !has_moved) {
            return Ok(threads);
        }
        let threads = self.probes.kernel().map(Kernel::threads);
        let mut threads = threads.transpose()?.unwrap_or_default();
        threads.sort_by_cached_key(|(key, thread)| (thread.process, *key));
        Ok(threads)
    }

    /// The kernel side has room for so many threads; those that have ended make place. True where the table was looked through for them.
    pub(super) fn retire_threads(&mut self, threads: &[(u64, Thread)]) -> Result<bool, KernelError> {
        if threads.len() < abi::MAX_THREADS as usize / 2 {
            return Ok(false);
        }
        self.retire_gone(threads)?;
        Ok(true)
    }

    /// Takes out the records of the threads of a process that has ended in its slot.
    pub(super) fn forget_threads_of(&mut self, slot: u32) -> Result<(), KernelError> {
        let threads = self.probes.kernel().map(Kernel::threads).transpose()?;
        let mut threads = threads.unwrap_or_default();
        threads.retain(|(_, thread)| thread.process == slot);
        self.threads = None;
        self.retire_gone(&threads)
    }

    fn retire_gone(&mut self, threads: &[(u64, Thread)]) -> Result<(), KernelError> {
        self.take_out(threads, Metered::retire)
    }

    /// Takes out the records of those of these threads that their processes let go of: what they were is theirs from then on.
    pub(super) fn take_out(
        &mut self,
        threads: &[(u64, Thread)],
        let_go: impl Fn(&mut Metered, u64, &Thread) -> bool,
    ) -> Result<(), KernelError> {
        for (key, thread) in threads {
            let mut processes = self.processes.iter_mut();
            let process = processes.find(|process| process.slot == thread.process);
            if process.is_some_and(|process| let_go(process, *key, thread))
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
        self.gathered = 0;
        if let (true, Some(hands)) = (self.rules.take_may_decide(), &self.hands) {
            self.anticipation.fell_due(self.newest_hit_ns);
            // An actuator that wakes on the same CPU would be in the way.
            if !self.options.busy_poll {
                hands.expect(monotonic_ns(), Duration::ZERO, None);
            }
        }
        let mut now = monotonic_ns();
        if self.rules.has_timed_window_over(now) {
            self.read()?;
            now = monotonic_ns();
        }
        self.evaluate(now);
        Ok(())
    }

    /// It is time to look for hits that wake nobody: nothing falls due at them, and they need not be evaluated one by one. Unless one that
    /// does came meanwhile, or more than are kept so.
    pub(super) fn gather_hits(&mut self) -> Result<(), KernelError> {
        self.gathered += self.take_hits(HITS_PER_WAKE);
        match self.rules.has_due() || self.gathered >= HITS_PER_WAKE {
            true => self.evaluate_hits(),
            false => Ok(()),
        }
    }

    /// Hits are to be looked for without sleeping. While a change is under way the actuator has the CPU.
    pub(super) fn polls(&self) -> bool {
        let is_changing = || self.hands.as_ref().is_some_and(Hands::is_busy);
        self.options.busy_poll && self.rules.has_probed_windows() && !is_changing()
    }

    /// Looks for hits for a while. What a decision takes is practised first, by both of us: what was not done for a while is slow to do.
    pub(super) fn poll_hits(&mut self) -> Result<(), KernelError> {
        if self.hands.is_some() {
            // With a CPU of its own the actuator need not sleep either.
            let look_out = match self.options.has_second_cpu {
                true => Duration::from_nanos(POLL_NS) + DECISION,
                false => Duration::ZERO,
            };
            self.practise(look_out);
            // On the same one it has its turn now, not when the order comes.
            std::thread::yield_now();
        }
        let until = monotonic_ns() + POLL_NS;
        while monotonic_ns() < until && self.polls() {
            match self.ring_is_empty() {
                true => std::hint::spin_loop(),
                false => self.evaluate_hits()?,
            }
        }
        Ok(())
    }

    /// When the next decision is likely to fall due: a moment before it, for the clock of the loop counts milliseconds. Never where
    /// nothing can be changed, where every CPU is wanted by others, or where the agent takes too much.
    pub(super) fn next_due(&self) -> impl Future<Output = Due> + use<> {
        let is_free = self.has_idle_cpu && !self.pace.lets_decisions_come();
        let may = self.hands.is_some() && is_free && !self.options.busy_poll;
        let now = monotonic_ns();
        let due = may.then(|| self.anticipation.next(now)).flatten();
        let before = due.map(|due| Duration::from_nanos(due.from_ns - now).saturating_sub(CLOCK_OF_LOOP));
        async move {
            match (due, before) {
                (Some(due), Some(before)) => {
                    // Already that near: the hits that come before the last one must not let it be missed.
                    if !before.is_zero() {
                        tokio::time::sleep(before).await;
                    }
                    due
                }
                _ => std::future::pending().await,
            }
        }
    }

    /// Looks for the hit that lets a decision fall due, without sleeping, until it is there or its time has passed.
    pub(super) fn look_out(&mut self, due: Due) -> Result<(), KernelError> {
        let now = monotonic_ns();
        if now > due.until_ns {
            return Ok(());
        }
        self.pace.have_looked_out();
        std::thread::sleep(Duration::from_nanos(
            due.from_ns.saturating_sub(now + PRACTICE_NS),
        ));
        let longest = |now| Duration::from_nanos(due.until_ns.saturating_sub(now)) + DECISION;
        let now = monotonic_ns();
        if now < due.from_ns {
            self.practise(longest(now));
        } else if let Some(hands) = &self.hands {
            hands.expect(now, longest(now), None);
        }
        let last = self.anticipation.last_ns();
        while monotonic_ns() < due.until_ns && self.anticipation.last_ns() == last {
            match self.ring_is_empty() {
                true => std::hint::spin_loop(),
                false => self.evaluate_hits()?,
            }
        }
        Ok(())
    }

    /// Takes everything out of the ring, and tells the rules up to when they have seen all, or since when hits are missing.
    ///
    /// Hits that are found in the ring when it was looked at and those that came before are taken: so when it is empty, all up to
    /// the moment before that look are known. While a hit that has its place is still being written, nothing is said of the time
    /// since the last look, and we look again.
    pub(super) fn take_all_hits(&mut self) -> Result<(), KernelError> {
        for _ in 0..DRAINS {
            let taken = self.take_hits(ALL_HITS);
            let now = monotonic_ns().saturating_sub(CLOCK_SLACK_NS);
            // A window that ended just now is closed at once, not at the next hit.
            if now < self.newest_hit_ns {
                continue;
            }
            // Before the last look into the ring, which has what was handed over meanwhile.
            let is_read = self.read_parted()?;
            if is_read && self.ring_is_empty() {
                self.rules.forget_parted();
                self.take_note_of_hits(now);
                return Ok(());
            }
            // Nobody wakes us when what was being written or added up is.
            self.hits_left = true;
            if taken == 0 {
                break;
            }
        }
        self.take_note_of_hits(self.seen_until_ns);
        Ok(())
    }

    /// At the end nothing is waited for any more: what is in the ring is all there is. No hit counts from here on, so that what was counted and
    /// what came or was lost are of the same hits; one that is being counted gets the time to be sent.
    pub(super) fn take_last_hits(&mut self) -> Result<(), KernelError> {
        for process in self.processes.iter().filter(|process| !process.ended) {
            self.probes.forget(process.pid)?;
        }
        std::thread::sleep(UNDER_WAY);
        self.take_hits(ALL_HITS);
        self.read_last()?;
        self.take_hits(ALL_HITS);
        self.take_note_of_hits(monotonic_ns());
        Ok(())
    }

    /// The ring was emptied: hits at which nothing falls due may lie for a while, if there were any.
    fn rest_from_hits(&mut self, has_found: bool) {
        let Some(due_ns) = self.pace.have_read_hits(has_found, monotonic_ns()) else {
            return;
        };
        if let Some(kernel) = self.probes.kernel() {
            kernel.look_at(due_ns);
        }
        // One that came before this was said wakes nobody.
        self.hits_left = due_ns == 0 && !self.ring_is_empty();
    }

    /// Nothing lies in the ring, nor is being written to it.
    fn ring_is_empty(&self) -> bool {
        // What cannot be looked at is not waited for.
        let readable = self.hits.as_ref().filter(|ring| !ring.is_out_of_reach());
        let Some(ring) = readable else { return true };
        let mut ring = [PollFd::new(ring, PollFlags::IN)];
        // A look that fails has found nothing to wait for.
        poll(&mut ring, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    fn take_note_of_hits(&mut self, seen_until: u64) {
        let Some(kernel) = self.probes.kernel() else {
            return;
        };
        let lost: u64 = kernel.losses().iter().map(|(_, count)| count).sum();
        if lost > self.lost {
            self.lose_hits();
            self.lost = lost;
        }
        self.rules.watermark(self.known_slots().into_iter(), seen_until);
        self.seen_until_ns = seen_until;
    }

    /// Hits are missing since all were known.
    pub(super) fn lose_hits(&mut self) {
        let slots = self.known_slots().into_iter();
        self.rules.lost(slots, self.seen_until_ns, monotonic_ns());
    }

    fn known_slots(&self) -> Vec<u32> {
        let known = self.processes.iter().filter(|process| process.is_known);
        known.map(|process| process.slot).collect()
    }

    /// How many were taken. Where that was all, who sends hits knows when we look again.
    pub(super) fn take_hits(&mut self, limit: usize) -> usize {
        for taken in 0..limit {
            let item = match (self.probes.kernel(), &mut self.hits) {
                (Some(kernel), Some(ring)) => kernel.take_hit(ring),
                _ => None,
            };
            let Some(item) = item else {
                self.hits_left = false;
                self.rest_from_hits(taken > 0);
                return taken;
            };
            let (hit, text, tally) = (read_hit(item), read_text(item), read_tally(item));
            if is_filling(item) {
                self.pace.is_filling = true;
                continue;
            }
            self.added.events.received += 1;
            if let Some(hit) = hit {
                self.meet(hit.process);
                self.newest_hit_ns = self.newest_hit_ns.max(hit.time_ns);
                // Of hits that are taken together the first lay there longest.
                if taken == 0 {
                    self.costs.read_hit(hit.time_ns, monotonic_ns());
                }
                self.rules.observe_hit(&hit, self.probes.list());
            } else if let Some(text) = text {
                self.rules.observe_text(&text);
            } else if let Some(tally) = tally {
                self.take_handed_over(tally);
            }
        }
        self.hits_left = true;
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_finds_its_threads_in_the_table_of_all() {
        let thread = |key: u64, process: u32| {
            let thread = Thread {
                process,
                ..Thread::default()
            };
            (key, thread)
        };
        let table = [thread(7, 0), thread(9, 0), thread(3, 2), thread(1, 5)];
        let of = |slot| -> Vec<u64> { threads_of(&table, slot).iter().map(|(key, _)| *key).collect() };
        let found: Vec<Vec<u64>> = (0..7).map(of).collect();
        assert_eq!(
            found,
            [vec![7, 9], vec![], vec![3], vec![], vec![], vec![1], vec![]]
        );
    }
}
