//! Hits out of the ring: takes them, evaluates the windows that they close, and looks for them without sleeping where a decision is likely. What is known
//! of them is kept in [`super::intake`].

use std::time::Duration;

use super::{
    Session,
    intake::{Drain, Expected, HITS_PER_WAKE},
    waits,
};
use crate::{clock::monotonic_ns, kernel::KernelError};

/// So much earlier than a decision is likely it is warmed up for, in nanoseconds: that takes about as long from a cold start as the decision does.
const WARM_UP_NS: u64 = 400_000;

/// From the last hit to the order, at most; so much longer than the hit itself is the order awaited.
const DECISION: Duration = Duration::from_micros(300);

/// So long hits are looked for until whoever asks something, and the clock, have their turn, in nanoseconds.
const POLL_NS: u64 = 2_000_000;

/// How often the ring is emptied in a row before other work has its turn.
const DRAINS: usize = 16;

/// More hits than the ring can hold: at the end of a window all that belong to it are taken.
const ALL_HITS: usize = abi::RING_BYTES as usize / abi::Hit::SHORT_BYTES;

/// So long a hit takes at most from being counted to its place in the ring, where its thread is let run.
const UNDER_WAY: Duration = Duration::from_millis(1);

/// How often it is tried at the end of a session to read what is being written.
const LAST_LOOKS: usize = 100;

impl Session {
    /// Hits came: windows that they close are evaluated at once. Counters are read first where a timed window is over too.
    pub(super) fn evaluate_hits(&mut self) -> Result<(), KernelError> {
        self.take_all_hits()?;
        let newest_ns = self.measuring.intake.evaluate();
        if self.rules.take_may_decide() && self.actuation.queue.is_some() {
            self.measuring.intake.prediction.fell_due(newest_ns);
            // An actuator that wakes on the same CPU would be in the way.
            if !self.options.busy_poll {
                self.actuation.expect(Duration::ZERO, None);
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
        let taken = self.take_hits(HITS_PER_WAKE);
        let are_enough = self.measuring.intake.gather(taken);
        match self.rules.has_due() || are_enough {
            true => self.evaluate_hits(),
            false => Ok(()),
        }
    }

    /// Hits are to be looked for without sleeping. While a change is under way the actuator has the CPU.
    pub(super) fn polls(&self) -> bool {
        self.options.busy_poll && self.rules.has_probed_windows() && !self.actuation.is_busy()
    }

    /// Looks for hits for a while. What a decision takes is warmed up first, by both of us: what was not done for a while is slow to do.
    pub(super) fn poll_hits(&mut self) -> Result<(), KernelError> {
        if self.actuation.queue.is_some() {
            // With a CPU of its own the actuator need not sleep either.
            let look_out = match self.options.has_second_cpu {
                true => Duration::from_nanos(POLL_NS) + DECISION,
                false => Duration::ZERO,
            };
            self.warm_up(look_out);
            // On the same one it has its turn now, not when the order comes.
            std::thread::yield_now();
        }
        let until = monotonic_ns() + POLL_NS;
        while monotonic_ns() < until && self.polls() {
            match self.measuring.ring_is_empty() {
                true => std::hint::spin_loop(),
                false => self.evaluate_hits()?,
            }
        }
        Ok(())
    }

    /// A moment before the next decision is likely to fall due; never where nothing can be changed.
    pub(super) fn expected(&self) -> impl Future<Output = Expected> + use<> {
        let may = self.actuation.queue.is_some() && !self.options.busy_poll;
        let next = may.then(|| self.measuring.next_expected()).flatten();
        waits::expected(next)
    }

    /// Looks for the hit that lets a decision fall due, without sleeping, until it is there or its time has passed.
    pub(super) fn look_out(&mut self, expected: Expected) -> Result<(), KernelError> {
        let now = monotonic_ns();
        if now > expected.until_ns {
            return Ok(());
        }
        self.measuring.budget.back_off.have_predicted();
        std::thread::sleep(Duration::from_nanos(
            expected.from_ns.saturating_sub(now + WARM_UP_NS),
        ));
        let longest = |now| Duration::from_nanos(expected.until_ns.saturating_sub(now)) + DECISION;
        let now = monotonic_ns();
        if now < expected.from_ns {
            self.warm_up(longest(now));
        } else {
            self.actuation.expect(longest(now), None);
        }
        let last = self.measuring.intake.prediction.last_ns();
        while monotonic_ns() < expected.until_ns && self.measuring.intake.prediction.last_ns() == last {
            match self.measuring.ring_is_empty() {
                true => std::hint::spin_loop(),
                false => self.evaluate_hits()?,
            }
        }
        Ok(())
    }

    /// Takes everything out of the ring, and tells the rules up to when all hits have been read, or since when some are missing.
    ///
    /// If the ring was empty at a time, every hit before it has been read. While a hit that has its place is still being written, nothing is
    /// said of the time since the last look, and we look once more.
    pub(super) fn take_all_hits(&mut self) -> Result<(), KernelError> {
        for _ in 0..DRAINS {
            let taken = self.take_hits(ALL_HITS);
            // A window that ended just now is closed at once, not at the next hit.
            let Some(until_ns) = self.measuring.intake.known_until(monotonic_ns()) else {
                continue;
            };
            // Before the last look into the ring, which has what was handed over meanwhile.
            let is_empty = self.read_parted()? && self.measuring.ring_is_empty();
            match self.measuring.intake.drained(taken, until_ns, is_empty) {
                Drain::Again => {}
                Drain::Stuck => break,
                Drain::UpTo(watermark_ns) => {
                    self.rules.forget_parted();
                    self.measuring.advance(&mut self.rules, watermark_ns);
                    return Ok(());
                }
            }
        }
        let watermark_ns = self.measuring.intake.watermark_ns();
        self.measuring.advance(&mut self.rules, watermark_ns);
        Ok(())
    }

    /// At the end nothing is waited for any more: what is in the ring is all there is. No hit counts from here on, so that what was counted and
    /// what came or was lost are of the same hits; one that is being counted gets the time to be sent.
    pub(super) fn take_last_hits(&mut self) -> Result<(), KernelError> {
        for process in self.measuring.profile.running() {
            self.measuring.probes.forget(process.pid)?;
        }
        std::thread::sleep(UNDER_WAY);
        self.take_hits(ALL_HITS);
        self.read_last()?;
        self.take_hits(ALL_HITS);
        self.measuring.advance(&mut self.rules, monotonic_ns());
        Ok(())
    }

    /// Reads what was added up until now, if a hit has parted it that was not covered by a watermark. False while something of it is
    /// being written.
    pub(super) fn read_parted(&mut self) -> Result<bool, KernelError> {
        if !self.rules.has_parted() {
            return Ok(true);
        }
        // Those of whom nothing but this is known yet.
        self.take_comings();
        Ok(self.measuring.read_partial_sums(&mut self.rules))
    }

    /// At the end of a session: who writes then is waited for a moment, and missing from then on.
    pub(super) fn read_last(&mut self) -> Result<(), KernelError> {
        for _ in 0..LAST_LOOKS {
            if self.read_parted()? {
                return Ok(());
            }
            std::thread::yield_now();
        }
        self.measuring.lose_hits(&mut self.rules);
        Ok(())
    }

    /// Takes so many hits; those of processes that nobody told of yet once that was read. How many were taken.
    pub(super) fn take_hits(&mut self, limit: usize) -> usize {
        let mut taken = self.measuring.take_hits(&mut self.rules, (0, limit));
        while let Err(unknown) = taken {
            self.take_comings();
            let before = self.measuring.observe_unknown(&unknown, &mut self.rules);
            taken = self.measuring.take_hits(&mut self.rules, (before, limit));
        }
        taken.unwrap_or(limit)
    }

    /// Decides and orders once without the write; then the actuator looks out for the order for so long without sleeping.
    fn warm_up(&mut self, look_out: Duration) {
        // What was aggregated belongs to what is decided, and less is left to read then.
        self.measuring.read_partial_sums(&mut self.rules);
        let decision = self.rules.rehearse(monotonic_ns());
        let like = decision.and_then(|decision| self.resolver().without_write(&decision));
        self.actuation.expect(look_out, like);
    }
}
