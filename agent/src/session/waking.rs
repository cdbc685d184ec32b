//! The loop of a session: waits for one of a closed set of events ([`Wake`]) and handles it. Hits have a
//! separate path: windows that they close are evaluated at once, and hits are polled for without sleeping
//! when a decision is likely.

use std::time::Duration;

use job::monotonic_ns;
use probe::kernel::KernelError;

use super::{
    Session,
    actuation::POLL,
    intake::Expected,
    kernel_failure,
    measuring::Measuring,
    nodes::{self, Nodes, Peers},
    parts::Event,
    sources::{Sources, Wake},
};
use crate::{
    control::Control,
    exit::{CommandResult, Failure},
    heap,
    rulebook::Time,
    watchdog::LoopStep,
};

impl Session {
    pub(super) async fn watch(mut self, (mut control, nodes): Peers) -> CommandResult {
        self.target.nodes = nodes.map(Nodes::new).transpose().map_err(Failure::failed)?;
        let ended = self.target.watch_ends(&self.measuring.profile.processes);
        let (queue, period) = (self.actuation.queue.as_ref(), self.screen.series_period());
        let duration = self.options.duration;
        let sources = Sources::new(&self.target, &self.measuring, ended, queue, duration, period);
        let mut sources = sources.map_err(Failure::failed)?;
        if let Some(listener) = control.as_mut().and_then(Control::take_listener) {
            sources.serve(listener);
        }
        let (screen, views) = self.showing();
        sources.keys = screen.begin(&views, Time(monotonic_ns()))?;
        loop {
            let due = self.measuring.due(&self.rules, &self.actuation);
            let (queue, nodes) = (&mut self.actuation.queue, &mut self.target.nodes);
            let wake = sources.next(due, queue, nodes).await;
            self.liveness.begin(wake.step(), monotonic_ns());
            let was_tick = matches!(wake, Wake::Tick);
            self.wake(wake).map_err(kernel_failure)?;
            if let Some(reason) = self.parts.over() {
                return self.leave(reason, sources, control).await;
            }
            let tick = self.measuring.tick(&self.rules, &self.target, &self.screen);
            let next = match was_tick {
                true => sources.ticks.next_after(tick),
                // A rule that was added may have the shortest window, or a process runs again.
                false => sources.ticks.next_within(tick),
            };
            next.map_err(Failure::failed)?;
            self.liveness.begin(LoopStep::Waiting, monotonic_ns());
        }
    }

    fn wake(&mut self, wake: Wake) -> Result<(), KernelError> {
        match wake {
            Wake::Shutdown(reason) => self.parts.end(reason),
            Wake::Receipt(receipt) => self.receive(receipt),
            Wake::Input(Some(input)) => self.take_input(input),
            Wake::Input(None) => self.screen.end_live(),
            Wake::Carried(carried) => self.measure(|_, context| nodes::take(context, carried)),
            Wake::Request(request, to) => self.answer((request, to)),
            Wake::Poll => self.poll_hits()?,
            Wake::Due(expected) => self.look_out(expected)?,
            Wake::Hits if self.rules.has_probed_windows() => self.evaluate_hits()?,
            Wake::Hits | Wake::Gather => {
                if self.measure(Measuring::gather) {
                    self.evaluate_hits()?;
                }
            }
            Wake::Family => self.measure(Measuring::take_family)?,
            Wake::Closed => self.measure(Measuring::take_closed)?,
            Wake::Calls => self.measure(Measuring::at_calls)?,
            Wake::Ended(end) => self.measure(|measuring, context| measuring.process_ended(context, end))?,
            Wake::Snapshot => {
                self.measure(Measuring::read_for_snapshot)?;
                let (screen, views) = self.showing();
                screen.add_to_series(&views);
            }
            Wake::First => {
                self.measure(Measuring::read)?;
                let (screen, views) = self.showing();
                screen.show_first(&views);
                self.measure(Measuring::look_at_cost)?;
                self.liveness.real_time = None;
            }
            Wake::Tick => self.tick()?,
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), KernelError> {
        self.measure(Measuring::at_tick)?;
        self.evaluate(monotonic_ns());
        let news = self.rules.recording_news().into_iter();
        let news = news.chain(self.liveness.stalled.take());
        news.for_each(|news| self.on(Event::NotMeasured(news)));
        self.on(Event::Tick);
        self.measure(Measuring::look_for_members)?;
        let report = self.showing().1.due_report();
        self.measure(|measuring, context| measuring.judge_contract(report, context));
        let due = nodes::is_due(&self.target).then(|| self.showing().1.snapshot());
        let acts = self.measure(|_, context| nodes::tick(context, due));
        self.follow(acts);
        let (screen, views) = self.showing();
        screen.show(&views, Time(monotonic_ns()));
        if self.measure(Measuring::has_become_idle) {
            // Memory used at the start is not needed while nothing happens.
            heap::give_back();
        }
        Ok(())
    }

    /// Hits came: windows that they close are evaluated at once.
    fn evaluate_hits(&mut self) -> Result<(), KernelError> {
        self.measure(Measuring::take_due).map(|now| self.evaluate(now))
    }

    fn polls(&self) -> bool {
        self.actuation.polls(&self.rules)
    }

    /// Polls for hits for a while. Session and actuator first warm up for a decision, because code that was
    /// not used for a while is slow.
    fn poll_hits(&mut self) -> Result<(), KernelError> {
        if self.actuation.may_order() {
            self.warm_up(self.actuation.look_out());
            // On the same CPU, the actuator runs now, rather than when the order comes.
            std::thread::yield_now();
        }
        self.look_for_hits(monotonic_ns() + POLL.as_nanos() as u64, Session::polls)
    }

    /// Polls for the hit that makes a decision due, without sleeping, until it comes or the predicted time is
    /// over.
    fn look_out(&mut self, expected: Expected) -> Result<(), KernelError> {
        let Some(sleep) = expected.sleep(monotonic_ns()) else {
            return Ok(());
        };
        self.measuring.budget.back_off.have_predicted();
        std::thread::sleep(sleep);
        let now = monotonic_ns();
        match now < expected.from_ns {
            true => self.warm_up(expected.longest(now)),
            false => self.actuation.expect(expected.longest(now), None),
        }
        let last = self.measuring.intake.prediction.last_ns;
        let is_awaited = |session: &Session| session.measuring.intake.prediction.last_ns == last;
        self.look_for_hits(expected.until_ns, is_awaited)
    }

    /// Polls for hits without sleeping, until this time and while `goes_on` holds.
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

    /// Decides and orders once without the write; then the actuator polls for the order for `look_out`
    /// without sleeping.
    fn warm_up(&mut self, look_out: Duration) {
        // The partial sums belong to the decision, and reading them now leaves less to read then.
        self.measuring.read_partial_sums(&mut self.rules);
        let decision = self.rules.warm_up(monotonic_ns());
        let like = decision.and_then(|decision| self.resolver().without_write(&decision));
        self.actuation.expect(look_out, like);
    }
}
