//! The loop of a session: it wakes on one closed set of events (`Wake`), and does what each asks for. What there is to be done stands elsewhere.

use std::{io, os::fd::AsFd, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    HITS_PER_WAKE, Session,
    actuator_queue::Receipt,
    changes::Event,
    ends::Ends,
    intake::Expected,
    kernel_failure,
    members::{self, Machine},
    orders::process_here,
    screen::next_input,
    signals::Signals,
    system::own_cpu_ns,
    waits::{self, Ticks, instant, next_receipt, next_tick, readable, turn_if, until},
};
use crate::{
    clock::monotonic_ns,
    control::{self, Asked, Control},
    exit::{Failure, Outcome},
    heap,
    readable::Readable,
    request::{Answer, Request},
    view::Input,
    watchdog::Step,
};

/// Requests that may wait for an answer.
const REQUESTS_MAX: usize = 8;

/// Everything that can wake the loop.
#[derive(Debug)]
enum Wake {
    /// Time to read counters and evaluate.
    Tick,
    /// Hits lie in the ring.
    Hits,
    /// Time to take hits at which nothing falls due.
    Gather,
    /// Time to look for hits without being woken by them.
    Poll,
    /// A decision is about to fall due.
    Due(Expected),
    /// A ring of calls fills, or it is time for a window to begin or end.
    Calls,
    /// The actuator has answered.
    Receipt(Receipt),
    /// The process in this slot has ended.
    Ended(u32),
    /// The user did something at the live view; none: nothing can be read from the terminal any more.
    Input(Option<Input>),
    /// Time for the next snapshot of a series.
    Snapshot,
    /// Time for the first numbers.
    First,
    /// Links were closed.
    Closed,
    /// A process of the command came or went, or it is time to look for some.
    Family,
    /// Somebody asks through the control socket.
    Request(Request, oneshot::Sender<Answer>),
    /// The session is over, for this reason.
    Shutdown(&'static str),
}

/// What the loop does then.
fn step_of(wake: &Wake) -> Step {
    match wake {
        Wake::Tick | Wake::First => Step::ReadCounters,
        Wake::Hits | Wake::Gather | Wake::Poll | Wake::Due(_) => Step::ReadHits,
        Wake::Calls => Step::ReadCalls,
        Wake::Receipt(_) => Step::TakeReceipt,
        Wake::Ended(_) => Step::EndProcess,
        Wake::Input(_) => Step::AnswerKey,
        Wake::Snapshot => Step::WriteSnapshot,
        Wake::Closed => Step::AttachProbes,
        Wake::Family => Step::AttachToProcesses,
        Wake::Request(..) => Step::AnswerRequest,
        Wake::Shutdown(_) => Step::Leave,
    }
}

impl Session {
    pub(super) async fn watch(mut self, mut control: Option<Control>) -> Outcome {
        let mut signals = Signals::new(self.target.started.is_some()).map_err(Failure::no)?;
        let mut ends = Ends::default();
        for process in &self.measuring.profile.processes {
            ends.watch(process.pid, process.slot);
        }
        if let Some(listener) = self.screen.take_listener() {
            // The first scrape may come before the first tick.
            let snapshot = self.snapshot();
            self.screen.serve(listener, snapshot)?;
        }
        let (asking, mut asked) = mpsc::channel::<Asked>(REQUESTS_MAX);
        if let Some(listener) = control.as_mut().and_then(Control::take_listener) {
            tokio::spawn(control::serve(listener, asking.clone()));
        }
        let mut ticks = Ticks::new().map_err(Failure::no)?;
        let ends_of_family = self.family_ends().map_err(Failure::no)?;
        let (comings, over) = ends_of_family.unzip();
        let mut family = waits::ticker(Duration::from_nanos(members::BEGIN_SCAN_NS));
        let mut series = self.screen.series_period().map(waits::ticker);
        let deadline = self.options.duration;
        let deadline = deadline.map(|duration| Instant::now() + duration);
        let ring = self.ring().map_err(Failure::no)?;
        let closed = self.closed_links().map_err(Failure::no)?;
        self.greet();
        let snapshot = self.snapshot();
        let mut keys = self.screen.begin_live(snapshot);
        let mut first = self.first_look();
        loop {
            let [turn, calls_due, hits_due] = self.due();
            let (expected, polls) = (self.expected(), self.polls());
            let wake = tokio::select! {
                biased;
                name = signals.next() => Wake::Shutdown(name),
                () = until(deadline) => Wake::Shutdown("the time is over"),
                Ok(()) = readable(over.as_ref()) => Wake::Shutdown("the command has ended"),
                Some(slot) = ends.next() => Wake::Ended(slot),
                Ok(()) = readable(comings.as_ref()) => Wake::Family,
                _ = family.tick(), if comings.is_some() => Wake::Family,
                receipt = next_receipt(&mut self.actuation.queue) => Wake::Receipt(receipt),
                input = next_input(&mut keys) => Wake::Input(input),
                Some((request, to)) = asked.recv() => Wake::Request(request, to),
                Ok(()) = ticks.next() => Wake::Tick,
                () = until(turn) => Wake::Calls,
                () = until(calls_due) => Wake::Calls,
                Ok(()) = readable(closed.as_ref()) => Wake::Closed,
                () = next_tick(&mut series) => Wake::Snapshot,
                () = until(first) => {
                    first = None;
                    Wake::First
                }
                () = turn_if(self.measuring.intake.is_left()) => Wake::Hits,
                () = turn_if(polls) => Wake::Poll,
                expected = expected => Wake::Due(expected),
                Ok(()) = readable(ring.as_ref()) => Wake::Hits,
                () = until(hits_due) => Wake::Gather,
            };
            let was_tick = matches!(wake, Wake::Tick);
            if let Some(reason) = self.wake(wake, &ends)? {
                return self.leave(reason, (asked, control)).await;
            }
            let asked_for = match was_tick {
                true => ticks.next_after(self.tick()),
                // A rule that was added may have the shortest window, or somebody runs again.
                false => ticks.next_within(self.tick()),
            };
            asked_for.map_err(Failure::no)?;
            self.liveness.progress.begin(Step::Waiting);
        }
    }

    /// When a sampling window begins or ends, and when rings of calls and hits are to be read.
    fn due(&self) -> [Option<Instant>; 3] {
        let sampling = &self.measuring.budget.sampling;
        let calls_due_ns = self.measuring.intake.calls_due_ns(sampling.is_open());
        [sampling.next_ns(), calls_due_ns, self.measuring.intake.due_ns()].map(|due_ns| due_ns.map(instant))
    }

    /// Handles one event; gives the reason when the session is over.
    fn wake(&mut self, wake: Wake, ends: &Ends) -> Result<Option<&'static str>, Failure> {
        self.liveness.progress.begin(step_of(&wake));
        match wake {
            Wake::Shutdown(reason) => return Ok(Some(reason)),
            Wake::Receipt(receipt) => self.receive(receipt),
            Wake::Input(Some(input)) => return Ok(self.take_input(input)),
            Wake::Input(None) => self.screen.end_live(),
            Wake::Request(request, to) => return Ok(self.answer(request, to)),
            Wake::Poll => self.poll_hits().map_err(kernel_failure)?,
            Wake::Due(expected) => self.look_out(expected).map_err(kernel_failure)?,
            Wake::Hits if self.rules.has_probed_windows() => self.evaluate_hits().map_err(kernel_failure)?,
            Wake::Gather if self.rules.has_probed_windows() => self.gather_hits().map_err(kernel_failure)?,
            Wake::Hits | Wake::Gather => {
                self.take_hits(HITS_PER_WAKE);
            }
            Wake::Family => self.take_family().map_err(kernel_failure)?,
            Wake::Closed => {
                let (measuring, mut context) = self.measuring();
                measuring.take_closed(&mut context).map_err(kernel_failure)?;
            }
            Wake::Calls => {
                let (measuring, mut context) = self.measuring();
                measuring.at_calls(&mut context).map_err(kernel_failure)?;
            }
            Wake::Snapshot => {
                self.read().map_err(kernel_failure)?;
                let snapshot = self.snapshot();
                self.screen.add_to_series(&snapshot);
            }
            Wake::First => {
                self.read().map_err(kernel_failure)?;
                let snapshot = self.snapshot();
                self.screen.show_first(snapshot);
                self.liveness.hurry = None;
            }
            Wake::Ended(slot) => {
                let ended = members::Event::Ended(process_here(slot));
                return self.members_on(ended, Some(ends)).map_err(kernel_failure);
            }
            Wake::Tick => {
                self.take_all_hits().map_err(kernel_failure)?;
                let (measuring, mut context) = self.measuring();
                measuring.at_tick(&mut context).map_err(kernel_failure)?;
                self.evaluate(monotonic_ns());
                self.say_news_of_recording();
                self.change(Event::Tick);
                if !self.target.is_of_command() {
                    let tick = members::Event::Tick(Machine::HERE);
                    self.members_on(tick, Some(ends)).map_err(kernel_failure)?;
                }
                self.show();
                if self.has_become_idle() {
                    // What the beginning took is not needed while nothing happens.
                    heap::give_back();
                    heap::give_back_code();
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

    /// The descriptors to wait on: of the ring of comings, and the one that ends with the command. None without a command.
    fn family_ends(&self) -> io::Result<Option<(Readable, Readable)>> {
        let Some(comings) = &self.target.comings else {
            return Ok(None);
        };
        let comings = Readable::new(comings.as_fd().try_clone_to_owned()?)?;
        // Whoever started us holds the other end as long as the command runs.
        let over = Readable::new(io::stdin().as_fd().try_clone_to_owned()?)?;
        Ok(Some((comings, over)))
    }

    /// What tells that links were closed, to wait on.
    fn closed_links(&self) -> io::Result<Option<Readable>> {
        let stream = self.measuring.probes.closed_stream();
        stream
            .map(|stream| Readable::new(stream.try_clone_to_owned()?))
            .transpose()
    }

    /// The ring's descriptor, to wait on.
    fn ring(&self) -> io::Result<Option<Readable>> {
        let ring = self.measuring.hits.as_ref();
        ring.map(|ring| Readable::new(ring.as_fd().try_clone_to_owned()?))
            .transpose()
    }
}
