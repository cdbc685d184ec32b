//! Hits out of the ring, and what was aggregated of them in the kernel: into the rules, up to the watermark. What is known of them is kept in
//! [`crate::session::intake`].

use abi::{HitRecord, SumCell};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Measuring;
use crate::{
    clock::monotonic_ns,
    kernel::{is_filling, read_hit, read_sum_cell, read_text},
    rulebook::RuleBook,
    session::{intake::Expected, sources::Due},
};

/// What lies in the ring for the rules.
#[derive(Debug)]
enum Record {
    Hit(HitRecord),
    /// The kernel side needed the place of what it had aggregated.
    PartialSum(SumCell),
}

/// A record of a process that nobody told of yet: the telling is on its way. It is observed once that was read.
#[derive(Debug)]
#[must_use]
pub(in crate::session) struct Unknown {
    record: Box<Record>,
    /// Records that were taken before it.
    before: usize,
}

impl Measuring {
    /// Takes records until `limit` were taken, of which there are `taken` already, or until one comes whose process is unknown. How many were taken;
    /// where that was all, who sends hits knows when we look again.
    pub(in crate::session) fn take_hits(
        &mut self,
        rules: &mut RuleBook,
        (taken, limit): (usize, usize),
    ) -> Result<usize, Unknown> {
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
    pub(in crate::session) fn observe_unknown(&mut self, unknown: &Unknown, rules: &mut RuleBook) -> usize {
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
        // One that came before this was said wakes nobody.
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
    pub(in crate::session) fn advance(&mut self, rules: &mut RuleBook, watermark_ns: u64) {
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
        rules.lost(slots, self.intake.watermark_ns(), monotonic_ns());
    }

    /// Reads what was aggregated up until now; the rules may have it at any time. False while something of it is being written.
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

    /// When the next decision is likely to fall due; none where every CPU is wanted by others, or where the agent takes too much.
    fn next_expected(&self) -> Option<Expected> {
        let is_free = self.profile.has_idle_cpu && !self.budget.back_off.rests_from_predictions();
        let next = || self.intake.prediction.next(monotonic_ns());
        is_free.then(next).flatten()
    }
}
