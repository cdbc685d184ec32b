//! Hits out of the ring, and what was aggregated of them in the kernel: into the rules, up to the watermark.
//! What is known of them is kept in [`crate::session::intake`].

use std::time::Duration;

use abi::{HitRecord, SumCell};
use job::monotonic_ns;
use probe::kernel::{KernelError, is_filling, read_hit, read_sum_cell, read_text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Context, Measuring};
use crate::{
    rulebook::RuleBook,
    session::{
        intake::{Drain, Expected, HITS_PER_WAKE},
        sources::Due,
    },
};

/// How often the ring is emptied in a row before other work has its turn.
const DRAINS: usize = 16;

/// More hits than the ring can hold: at the end of a window all that belong to it are taken.
const ALL_HITS: usize = abi::RING_BYTES as usize / abi::HitRecord::SHORT_BYTES;

/// So long a hit takes at most from being counted to its place in the ring, where its thread is let run.
const UNDER_WAY: Duration = Duration::from_millis(1);

/// How often it is tried at the end of a session to read what is being written.
const LAST_LOOKS: usize = 100;

/// What lies in the ring for the rules.
#[derive(Debug)]
enum Record {
    Hit(HitRecord),
    /// The kernel side needed the place of what it had aggregated.
    PartialSum(SumCell),
}

/// A record of a process whose coming is not read yet. It is observed once that was read.
#[derive(Debug)]
#[must_use]
struct Unknown {
    record: Box<Record>,
    /// Records that were taken before it.
    before: usize,
}

impl Measuring {
    /// Takes all hits and what was aggregated, and reads counters first where a timed window is over too. Up
    /// to when windows are to be closed.
    pub(in crate::session) fn take_due(&mut self, context: &mut Context<'_>) -> Result<u64, KernelError> {
        self.take_all_hits(context);
        let newest_ns = self.intake.evaluate();
        if context.rules.take_may_decide() && context.actuation.may_order() {
            self.intake.prediction.fell_due(newest_ns);
            context.actuation.expect_at_once();
        }
        let now = monotonic_ns();
        if !context.rules.has_timed_window_over(now) {
            return Ok(now);
        }
        self.read(context)?;
        Ok(monotonic_ns())
    }

    /// Takes hits that caused no wake-up: they need not be evaluated one by one. True if one came at which
    /// something falls due, or if more came than are kept so.
    pub(in crate::session) fn gather(&mut self, context: &mut Context<'_>) -> bool {
        let taken = self.take_hits(context, HITS_PER_WAKE);
        context.rules.has_probed_windows() && (self.intake.gather(taken) || context.rules.has_due())
    }

    /// Takes everything out of the ring, and advances the watermark of the rules: the time up to which all
    /// hits have been read.
    ///
    /// If the ring was empty at a time, every hit before it has been read. While a hit that has its place is
    /// still being written, the watermark stays, and we look once more. Where hits come faster than they are
    /// taken the ring is never empty: then as many are taken as it can hold, which are all that were in it at
    /// the beginning.
    pub(in crate::session) fn take_all_hits(&mut self, context: &mut Context<'_>) {
        let began_ns = monotonic_ns();
        let mut left = ALL_HITS;
        let mut watermark_ns = None;
        for _ in 0..DRAINS {
            let taken = self.take_hits(context, left);
            left = left.saturating_sub(taken);
            if left == 0 {
                let until_ns = self.intake.known_before(began_ns);
                watermark_ns = self.read_parted(context).then_some(until_ns);
                break;
            }
            // A window that ended just now is closed at once, not at the next hit.
            let Some(until_ns) = self.intake.known_until(monotonic_ns()) else {
                continue;
            };
            // Before the last look into the ring, which has what was handed over meanwhile.
            let is_empty = self.read_parted(context) && self.ring_is_empty();
            match self.intake.drained(taken, until_ns, is_empty) {
                Drain::Again => {}
                Drain::Stuck => break,
                Drain::UpTo(until_ns) => {
                    context.rules.forget_parted();
                    watermark_ns = Some(until_ns);
                    break;
                }
            }
        }
        let watermark_ns = watermark_ns.unwrap_or(self.intake.watermark_ns);
        self.advance(context.rules, watermark_ns);
    }

    /// At the end nothing is waited for any more: what is in the ring is all there is. No hit counts from
    /// here on, so that what was counted and what came or was lost are of the same hits; one that is being
    /// counted gets the time to be sent. Who writes an aggregate then is waited for a moment, and missing
    /// from then on.
    pub(in crate::session) fn take_last_hits(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(), KernelError> {
        for process in self.profile.running() {
            self.probes.forget(process.pid)?;
        }
        std::thread::sleep(UNDER_WAY);
        self.take_hits(context, ALL_HITS);
        let mut looks = 1;
        while !self.read_parted(context) {
            if looks == LAST_LOOKS {
                self.lose_hits(context.rules);
                break;
            }
            looks += 1;
            std::thread::yield_now();
        }
        self.take_hits(context, ALL_HITS);
        self.advance(context.rules, monotonic_ns());
        Ok(())
    }

    /// Reads what was added up until now, if a hit has parted it that was not covered by a watermark. False
    /// while something of it is being written.
    fn read_parted(&mut self, context: &mut Context<'_>) -> bool {
        if !context.rules.has_parted() {
            return true;
        }
        // Those of whom nothing but this is known yet.
        self.take_comings(context);
        self.read_partial_sums(context.rules)
    }

    /// Takes at most so many hits; those of a process whose coming is not read yet are kept until it is.
    /// Returns how many were taken.
    fn take_hits(&mut self, context: &mut Context<'_>, limit: usize) -> usize {
        let mut taken = self.take_known(context.rules, (0, limit));
        while let Err(unknown) = taken {
            self.take_comings(context);
            let before = self.observe_unknown(&unknown, context.rules);
            taken = self.take_known(context.rules, (before, limit));
        }
        taken.unwrap_or(limit)
    }

    /// Takes records until `limit` were taken, of which there are `taken` already, or until one comes whose
    /// process is unknown. How many were taken; where that was all, who sends hits knows when we look again.
    fn take_known(&mut self, rules: &mut RuleBook, (taken, limit): (usize, usize)) -> Result<usize, Unknown> {
        for taken in taken..limit {
            let item = match (self.probes.kernel(), &mut self.hits) {
                (Some(kernel), Some(ring)) => kernel.take_hit(ring),
                _ => None,
            };
            let Some(item) = item else {
                self.rest_from_hits(taken > 0);
                return Ok(taken);
            };
            let (hit, text, partial_sum) = (read_hit(item), read_text(item), read_sum_cell(item));
            if is_filling(item) {
                self.intake.fills();
                continue;
            }
            self.partial_sums.events.received += 1;
            let unknown = |record| Unknown {
                record: Box::new(record),
                before: taken,
            };
            if let Some(hit) = hit {
                if !self.knows(hit.process) {
                    return Err(unknown(Record::Hit(hit)));
                }
                self.observe_hit(&hit, taken == 0, rules);
            } else if let Some(text) = text {
                rules.observe_text(&text);
            } else if let Some(partial_sum) = partial_sum {
                if !self.knows(partial_sum.process) {
                    return Err(unknown(Record::PartialSum(partial_sum)));
                }
                self.partial_sums.hand_over(partial_sum, &self.probes, rules);
            }
        }
        self.intake.leave();
        Ok(limit)
    }

    /// Observes what was held back; gives how many records were taken with it.
    fn observe_unknown(&mut self, unknown: &Unknown, rules: &mut RuleBook) -> usize {
        match &*unknown.record {
            Record::Hit(hit) => self.observe_hit(hit, unknown.before == 0, rules),
            Record::PartialSum(partial_sum) => self.partial_sums.hand_over(*partial_sum, &self.probes, rules),
        }
        unknown.before + 1
    }

    fn knows(&self, slot: u32) -> bool {
        let process = self.profile.processes.get(slot as usize);
        process.is_some_and(|process| process.pid != 0)
    }

    /// Of hits that are taken together the first lay there longest.
    fn observe_hit(&mut self, hit: &HitRecord, is_first: bool, rules: &mut RuleBook) {
        self.intake.take(hit.time_ns, is_first.then(monotonic_ns));
        rules.observe_hit(hit, self.probes.list());
    }

    /// The ring was emptied: hits at which nothing falls due may lie for a while, if there were any.
    fn rest_from_hits(&mut self, has_found: bool) {
        let Some(due_ns) = self.intake.emptied(has_found, monotonic_ns()) else {
            return;
        };
        if let Some(kernel) = self.probes.kernel() {
            kernel.look_at(due_ns);
        }
        // A hit that came before the deadline was set causes no wake-up.
        if due_ns == 0 && !self.ring_is_empty() {
            self.intake.leave();
        }
    }

    /// Nothing lies in the ring, nor is being written to it.
    pub(in crate::session) fn ring_is_empty(&self) -> bool {
        // What cannot be looked at is not waited for.
        let readable = self.hits.as_ref().filter(|ring| !ring.is_out_of_reach());
        let Some(ring) = readable else { return true };
        let mut ring = [PollFd::new(ring, PollFlags::IN)];
        // A look that fails has found nothing to wait for.
        poll(&mut ring, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    /// The watermark: all hits up to this time were taken, but for those that were lost.
    fn advance(&mut self, rules: &mut RuleBook, watermark_ns: u64) {
        let Some(kernel) = self.probes.kernel() else {
            return;
        };
        let lost: u64 = kernel.losses().iter().map(|(_, count)| count).sum();
        if self.intake.lose(lost) {
            self.lose_hits(rules);
        }
        let slots = self.profile.known_slots().into_iter();
        rules.watermark(slots, watermark_ns);
        self.intake.advance(watermark_ns);
    }

    /// Hits are missing since all were known.
    pub(in crate::session) fn lose_hits(&mut self, rules: &mut RuleBook) {
        let slots = self.profile.known_slots().into_iter();
        rules.lost(slots, self.intake.watermark_ns, monotonic_ns());
    }

    /// Reads what was aggregated up until now; the rules may have it at any time. False while something of it
    /// is being written.
    pub(in crate::session) fn read_partial_sums(&mut self, rules: &mut RuleBook) -> bool {
        let slots = self.profile.processes.iter().map(|process| process.slot);
        self.partial_sums.read(&self.probes, rules, slots, monotonic_ns())
    }

    /// What is due besides what wakes the session. A decision is expected where it may act.
    pub(in crate::session) fn due(&self, polls: bool, may_act: bool) -> Due {
        let (intake, sampling) = (&self.intake, &self.budget.sampling);
        Due {
            turn_ns: sampling.next_ns(),
            calls_ns: intake.calls_due_ns(sampling.is_open()),
            hits_ns: intake.due_ns(),
            has_hits_left: intake.is_left(),
            polls,
            expected: may_act.then(|| self.next_expected()).flatten(),
        }
    }

    /// When the next decision is likely to fall due; none where every CPU is wanted by others, or where the
    /// agent takes too much.
    fn next_expected(&self) -> Option<Expected> {
        let is_free = self.profile.has_idle_cpu && !self.budget.back_off.rests_from_predictions();
        let next = || self.intake.prediction.next(monotonic_ns());
        is_free.then(next).flatten()
    }
}
