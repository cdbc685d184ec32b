//! The loop of a session: waits for one of a closed set of events ([`Wake`]) and does what it asks for. Hits have a way of their own: windows that
//! they close are evaluated at once, and they are looked for without sleeping where a decision is likely.

use std::time::Duration;

use tokio::{task::JoinSet, time::Instant};

use super::{
    HITS_PER_WAKE, Session,
    changes::ChangeEvent,
    intake::{Drain, Expected},
    kernel_failure,
    members::{self, MachineId},
    orders::process_here,
    sources::{Sources, Wake},
    system::own_cpu_ns,
};
use crate::{
    clock::monotonic_ns,
    control::{self, Control},
    exit::{CommandResult, Failure},
    heap,
    kernel::KernelError,
    rulebook::Time,
    watchdog::LoopStep,
};

/// The first numbers are of so much time: enough for a hundred calls of a program that makes any, and nobody waits for them.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// So much earlier than a decision is likely it is warmed up for, in nanoseconds: that takes about as long from a cold start as the decision does.
const WARM_UP_NS: u64 = 400_000;

/// From the last hit to the order, at most; so much longer than the hit itself is the order awaited.
const DECISION: Duration = Duration::from_micros(300);

/// So long hits are looked for until whoever asks something, and the clock, have their turn, in nanoseconds.
const POLL_NS: u64 = 2_000_000;

/// How often the ring is emptied in a row before other work has its turn.
const DRAINS: usize = 16;

/// More hits than the ring can hold: at the end of a window all that belong to it are taken.
const ALL_HITS: usize = abi::RING_BYTES as usize / abi::HitRecord::SHORT_BYTES;

/// So long a hit takes at most from being counted to its place in the ring, where its thread is let run.
const UNDER_WAY: Duration = Duration::from_millis(1);

/// How often it is tried at the end of a session to read what is being written.
const LAST_LOOKS: usize = 100;

impl Session {
    pub(super) async fn watch(mut self, mut control: Option<Control>) -> CommandResult {
        let ended = self.target.watch_ends(&self.measuring.profile.processes);
        let times = (self.options.duration, self.screen.series_period());
        let mut sources = Sources::new(&self.target, &self.measuring, ended, times).map_err(Failure::no)?;
        let (screen, views) = self.showing();
        screen.serve(&views)?;
        let mut serving = JoinSet::new();
        if let Some(listener) = control.as_mut().and_then(Control::take_listener) {
            serving.spawn(control::serve(listener, sources.requesting()));
        }
        let (screen, views) = self.showing();
        screen.greet(&views, Time(monotonic_ns()));
        sources.keys = screen.begin_live(&views);
        // Beside a command, which has the terminal, there are none.
        sources.first = (!self.target.is_of_command()).then(|| Instant::now() + FIRST_LOOK);
        loop {
            // A decision is expected only where something can be changed.
            let may_act = self.actuation.queue.is_some() && !self.options.busy_poll;
            let due = self.measuring.due(self.polls(), may_act);
            let wake = sources.next(due, &mut self.actuation.queue).await;
            self.liveness.progress.begin(wake.step());
            let was_tick = matches!(wake, Wake::Tick);
            if let Some(reason) = self.on(wake).map_err(kernel_failure)? {
                return self.leave(reason, (sources, control)).await;
            }
            let next = match was_tick {
                true => sources.ticks.next_after(self.tick()),
                // A rule that was added may have the shortest window, or somebody runs again.
                false => sources.ticks.next_within(self.tick()),
            };
            next.map_err(Failure::no)?;
            self.liveness.progress.begin(LoopStep::Waiting);
        }
    }

    /// Handles one event; gives the reason when the session is over.
    fn on(&mut self, wake: Wake) -> Result<Option<&'static str>, KernelError> {
        match wake {
            Wake::Shutdown(reason) => return Ok(Some(reason)),
            Wake::Receipt(receipt) => self.receive(receipt),
            Wake::Input(Some(input)) => return Ok(self.take_input(input)),
            Wake::Input(None) => self.screen.end_live(),
            Wake::Request(request, to) => return Ok(self.answer(request, to)),
            Wake::Poll => self.poll_hits()?,
            Wake::Due(expected) => self.look_out(expected)?,
            Wake::Hits if self.rules.has_probed_windows() => self.evaluate_hits()?,
            Wake::Gather if self.rules.has_probed_windows() => self.gather_hits()?,
            Wake::Hits | Wake::Gather => {
                self.take_hits(HITS_PER_WAKE);
            }
            Wake::Family => self.take_family()?,
            Wake::Closed => {
                let (measuring, mut context) = self.measuring();
                measuring.take_closed(&mut context)?;
            }
            Wake::Calls => {
                let (measuring, mut context) = self.measuring();
                measuring.at_calls(&mut context)?;
            }
            Wake::Snapshot => {
                self.read()?;
                let (screen, views) = self.showing();
                screen.add_to_series(&views);
            }
            Wake::First => {
                self.read()?;
                let (screen, views) = self.showing();
                screen.show_first(&views);
                self.liveness.hurry = None;
            }
            Wake::Ended(slot) => {
                let ended = members::MemberEvent::Ended(process_here(slot));
                return self.members_on(ended);
            }
            Wake::Tick => {
                self.take_all_hits()?;
                let (measuring, mut context) = self.measuring();
                measuring.at_tick(&mut context)?;
                self.evaluate(monotonic_ns());
                self.say_news_of_recording();
                self.change(ChangeEvent::Tick);
                if !self.target.is_of_command() {
                    let tick = members::MemberEvent::Tick(MachineId::HERE);
                    self.members_on(tick)?;
                }
                let (screen, views) = self.showing();
                screen.show(&views, Time(monotonic_ns()));
                if self.has_become_idle() {
                    // What the beginning took is not needed while nothing happens.
                    heap::give_back();
                }
                if self.is_settled() {
                    return Ok(Some("all changes are confirmed"));
                }
            }
        }
        Ok(None)
    }

    /// How often counters are read and windows of a length evaluated.
    fn tick(&self) -> Duration {
        self.measuring.tick(&self.rules, &self.target, &self.screen)
    }

    /// A tick is over. True where nothing has happened for a while, the first time.
    fn has_become_idle(&mut self) -> bool {
        let is_still = self.measuring.is_still(&self.rules, &self.target);
        self.measuring.budget.back_off.have_ticked(is_still, own_cpu_ns())
    }

    /// With --keep a session ends by itself when everything that was changed is confirmed.
    fn is_settled(&self) -> bool {
        self.options.keep && self.changes.is_settled()
    }

    /// Hits came: windows that they close are evaluated at once. Counters are read first where a timed window is over too.
    fn evaluate_hits(&mut self) -> Result<(), KernelError> {
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
    fn gather_hits(&mut self) -> Result<(), KernelError> {
        let taken = self.take_hits(HITS_PER_WAKE);
        let are_enough = self.measuring.intake.gather(taken);
        match self.rules.has_due() || are_enough {
            true => self.evaluate_hits(),
            false => Ok(()),
        }
    }

    /// Hits are to be looked for without sleeping. While a change is under way the actuator has the CPU.
    fn polls(&self) -> bool {
        self.options.busy_poll && self.rules.has_probed_windows() && !self.actuation.is_busy()
    }

    /// Looks for hits for a while. What a decision takes is warmed up first, by both of us: what was not done for a while is slow to do.
    fn poll_hits(&mut self) -> Result<(), KernelError> {
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
        self.look_for_hits(monotonic_ns() + POLL_NS, Session::polls)
    }

    /// Looks for the hit that lets a decision fall due, without sleeping, until it is there or its time has passed.
    fn look_out(&mut self, expected: Expected) -> Result<(), KernelError> {
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
        let is_awaited = |session: &Session| session.measuring.intake.prediction.last_ns() == last;
        self.look_for_hits(expected.until_ns, is_awaited)
    }

    /// Looks for hits without sleeping, until this time and as long as `goes_on` holds.
    fn look_for_hits(
        &mut self,
        until_ns: u64,
        goes_on: impl Fn(&Session) -> bool,
    ) -> Result<(), KernelError> {
        while monotonic_ns() < until_ns && goes_on(self) {
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
    fn read_parted(&mut self) -> Result<bool, KernelError> {
        if !self.rules.has_parted() {
            return Ok(true);
        }
        // Those of whom nothing but this is known yet.
        self.take_comings();
        Ok(self.measuring.read_partial_sums(&mut self.rules))
    }

    /// At the end of a session: who writes then is waited for a moment, and missing from then on.
    fn read_last(&mut self) -> Result<(), KernelError> {
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
    fn take_hits(&mut self, limit: usize) -> usize {
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
        let decision = self.rules.warm_up(monotonic_ns());
        let like = decision.and_then(|decision| self.resolver().without_write(&decision));
        self.actuation.expect(look_out, like);
    }
}
