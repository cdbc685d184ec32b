//! Passes hits from the ring, and their partial sums from the kernel, to the rules, up to the watermark. The
//! state of this intake is in [`crate::session::intake`].

use std::time::Duration;

use abi::{HitRecord, SumCell};
use job::monotonic_ns;
use probe::kernel::{KernelError, is_filling, read_hit, read_sum_cell, read_text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Context, Measuring};
use crate::{
    rulebook::RuleBook,
    session::{
        actuation::Actuation,
        intake::{Drain, Expected, HITS_PER_WAKE},
        sources::Due,
    },
};

/// How often the ring is emptied in a row before other work is done.
const DRAINS: usize = 16;

/// How long hits are read in a row before other events are handled. If hits come faster than they are read,
/// sampling windows must still end on time.
const PASS_NS: u64 = 10_000_000;

/// More hits than the ring can hold. At the end of a window all of its hits are read.
const ALL_HITS: usize = abi::RING_BYTES as usize / abi::HitRecord::SHORT_BYTES;

/// Maximum time from the count of a hit to its place in the ring, if its thread is not preempted.
const IN_FLIGHT_GRACE: Duration = Duration::from_millis(1);

/// Maximum number of tries to read records that are being written at the end of a session.
const LAST_LOOKS: usize = 100;

/// A record of the ring for the rules.
#[derive(Debug)]
enum Record {
    Hit(HitRecord),
    /// A partial sum that the kernel side sent because it needed the room.
    PartialSum(SumCell),
}

/// A record of a process whose arrival has not been read yet. It is observed after the arrival was read.
#[derive(Debug)]
#[must_use]
struct Unknown {
    record: Box<Record>,
    /// Number of records that were taken before it.
    before: usize,
}

impl Measuring {
    /// Takes all hits and partial sums, and first reads counters if a timed window is over too. Returns the
    /// time up to which windows may be closed.
    pub(in crate::session) fn take_due(&mut self, context: &mut Context<'_>) -> Result<u64, KernelError> {
        self.take_more_hits(context);
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

    /// Takes hits that caused no wake-up, because they need not be evaluated one by one. Returns true if one
    /// of them is due, or if more came than may be kept in this way.
    pub(in crate::session) fn gather(&mut self, context: &mut Context<'_>) -> bool {
        let taken = self.take_hits(context, HITS_PER_WAKE);
        context.rules.has_probed_windows() && (self.intake.gather(taken) || context.rules.has_due())
    }

    /// Drains the ring, and advances the rules' watermark: the time up to which all hits have been read.
    ///
    /// If the ring was empty at a time, every hit before it has been read. While a hit is being written to
    /// its reserved place, the watermark stays, and the ring is read again. If hits come faster than they are
    /// read, the ring is never empty: then as many are read as it can hold, which includes all that were in
    /// it at the beginning.
    pub(in crate::session) fn take_all_hits(&mut self, context: &mut Context<'_>) {
        // The remainder of an interrupted pass would leave the hits that came since it began.
        self.intake.forget_pass();
        self.drain(context, u64::MAX);
    }

    /// As [`Measuring::take_all_hits`], for a limited time. If there are more, the watermark stays, and the
    /// next call goes on.
    pub(in crate::session) fn take_more_hits(&mut self, context: &mut Context<'_>) {
        self.drain(context, PASS_NS);
    }

    fn drain(&mut self, context: &mut Context<'_>, time_ns: u64) {
        let now_ns = monotonic_ns();
        let until_ns = now_ns.saturating_add(time_ns);
        let mut pass = self.intake.pass(now_ns, ALL_HITS);
        let (mut watermark_ns, mut drains) = (None, 0);
        while drains < DRAINS {
            let taken = self.take_hits(context, pass.left.min(HITS_PER_WAKE));
            pass.left -= taken.min(pass.left);
            if pass.left == 0 {
                let known_ns = self.intake.known_before(pass.began_ns);
                watermark_ns = self.read_parted(context).then_some(known_ns);
                break;
            }
            let may_be_empty = taken < HITS_PER_WAKE;
            if !may_be_empty && monotonic_ns() >= until_ns {
                self.intake.interrupt(pass);
                break;
            }
            drains += usize::from(may_be_empty);
            // A window that has just ended is closed at once, not at the next hit.
            let known_ns = self.intake.known_until(monotonic_ns()).filter(|_| may_be_empty);
            let Some(known_ns) = known_ns else { continue };
            // Before the last check of the ring, which contains sums that the kernel side sent meanwhile.
            let is_empty = self.read_parted(context) && self.ring_is_empty();
            match self.intake.drained(taken, known_ns, is_empty) {
                Drain::Again => {}
                Drain::Stuck => break,
                Drain::UpTo(known_ns) => {
                    context.rules.forget_parted();
                    watermark_ns = Some(known_ns);
                    break;
                }
            }
        }
        let watermark_ns = watermark_ns.unwrap_or(self.intake.watermark_ns);
        self.advance(context.rules, watermark_ns);
    }

    /// At the end nothing is waited for: the ring contains all remaining hits. No further hits are counted,
    /// so that counters and hits (received or lost) agree. A hit that is being counted gets time to be sent;
    /// an aggregate that is being written gets a moment, and is missing afterwards.
    pub(in crate::session) fn take_last_hits(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(), KernelError> {
        for process in self.profile.running() {
            self.probes.forget(process.pid)?;
        }
        std::thread::sleep(IN_FLIGHT_GRACE);
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

    /// Reads the partial sums if a separating hit was not covered by a watermark. Returns false while one of
    /// them is being written.
    fn read_parted(&mut self, context: &mut Context<'_>) -> bool {
        if !context.rules.has_parted() {
            return true;
        }
        // Processes whose first record is a partial sum.
        self.take_family_events(context);
        self.read_partial_sums(context.rules)
    }

    /// Takes at most `limit` hits. Those of a process whose arrival is not read yet are kept until it is.
    /// Returns the number of hits.
    fn take_hits(&mut self, context: &mut Context<'_>, limit: usize) -> usize {
        let mut taken = self.take_known(context.rules, 0, limit);
        while let Err(unknown) = taken {
            self.take_family_events(context);
            let before = self.observe_unknown(&unknown, context.rules);
            taken = self.take_known(context.rules, before, limit);
        }
        taken.unwrap_or(limit)
    }

    /// Takes records until `limit` were taken, `taken` of them before, or until one of an unknown process.
    /// Returns their number. Once the ring is empty, the kernel side is informed when it will be read again.
    fn take_known(&mut self, rules: &mut RuleBook, taken: usize, limit: usize) -> Result<usize, Unknown> {
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

    /// Observes a record that was held back; returns the number of records including it.
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

    /// Of the hits that are taken together, the first has waited longest.
    fn observe_hit(&mut self, hit: &HitRecord, is_first: bool, rules: &mut RuleBook) {
        self.intake.take(hit.time_ns, is_first.then(monotonic_ns));
        rules.observe_hit(hit, self.probes.list());
    }

    /// The ring was drained: hits that are not due may wait in it for a while, if there were any.
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

    /// Whether the ring has no record, complete or being written.
    pub(in crate::session) fn ring_is_empty(&self) -> bool {
        // An inaccessible ring is not waited for.
        let readable = self.hits.as_ref().filter(|ring| !ring.is_out_of_reach());
        let Some(ring) = readable else { return true };
        let mut ring = [PollFd::new(ring, PollFlags::IN)];
        // If the poll fails, there is nothing to wait for.
        poll(&mut ring, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    /// Sets the watermark: all hits up to this time were taken, except lost ones.
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

    /// Reports to the rules that hits were lost since the watermark.
    pub(in crate::session) fn lose_hits(&mut self, rules: &mut RuleBook) {
        let slots = self.profile.known_slots().into_iter();
        rules.lost(slots, self.intake.watermark_ns, monotonic_ns());
    }

    /// Reads the partial sums so far, which may be passed to the rules at any time. Returns false while one
    /// of them is being written.
    pub(in crate::session) fn read_partial_sums(&mut self, rules: &mut RuleBook) -> bool {
        let slots = self.profile.processes.iter().map(|process| process.slot);
        self.partial_sums.read(&self.probes, rules, slots, monotonic_ns())
    }

    /// The times at which the session must wake up by itself. A decision is predicted if it can have effects.
    pub(in crate::session) fn due(&mut self, rules: &RuleBook, actuation: &Actuation) -> Due {
        self.update_trials(rules);
        let (intake, sampling) = (&self.intake, &self.budget.sampling);
        Due {
            turn_ns: sampling.next_ns(),
            calls_ns: intake.calls_due_ns(sampling.is_open()),
            hits_ns: intake.due_ns(),
            has_hits_left: intake.is_left(),
            polls: actuation.polls(rules),
            expected: actuation.predicts().then(|| self.next_expected()).flatten(),
        }
    }

    /// When the next decision is likely to be due; `None` if other processes need every CPU, or if the agent
    /// uses too much CPU time.
    fn next_expected(&self) -> Option<Expected> {
        let is_free = self.profile.has_idle_cpu && !self.budget.back_off.suspends_predictions();
        let next = || self.intake.prediction.next(monotonic_ns());
        is_free.then(next).flatten()
    }
}
