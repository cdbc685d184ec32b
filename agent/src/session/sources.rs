//! Everything that a session waits for: descriptors, timers, channels, as one closed set of events. Decides
//! nothing.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
    time::Duration,
};

use probe::kernel::{Kernel, Ring, Service};
use report::view::{Input, Keys};
use session::request::{Answer, Request};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, Interval},
};

use super::{
    actuator_queue::{ActuatorQueue, OrderReceipt},
    ends::ProcessEnd,
    intake::Expected,
    measuring::Measuring,
    members,
    nodes::{NODE_STARTER_ENDED, Nodes, next_carried},
    screen::next_input,
    signals::Signals,
    target::WatchedJob,
    waits::{self, Ticks, instant, next_receipt, next_tick, readable, turn_if, until},
};
use crate::{
    control::{self, PendingRequest},
    nodes::Carried,
    readable::Readable,
    watchdog::LoopStep,
};

/// Maximum number of requests that wait for an answer.
const REQUESTS_MAX: usize = 8;

/// The first numbers cover this time: enough for a hundred calls of a program that makes any, and short
/// enough for the user.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// Everything that can wake the loop.
#[derive(Debug)]
pub(super) enum Wake {
    /// Time to read counters and evaluate.
    Tick,
    /// Hits are in the ring.
    Hits,
    /// Time to read hits that are not due.
    Gather,
    /// Time to poll for hits.
    Poll,
    /// A decision is about to be due.
    Due(Expected),
    /// A ring of calls fills, or a sampling window must begin or end.
    Calls,
    Receipt(OrderReceipt),
    Ended(ProcessEnd),
    /// Input of the user at the live view; `None` if nothing can be read from the terminal any more.
    Input(Option<Input>),
    /// Time for the next snapshot of a series.
    Snapshot,
    /// Time for the first numbers.
    First,
    Closed,
    /// A process of the command started or ended, or it is time to search for some.
    Family,
    /// A request through the control socket.
    Request(Request, oneshot::Sender<Answer>),
    /// A message of another machine of the job.
    Carried(Carried),
    /// The session ends, for this reason.
    Shutdown(&'static str),
}

impl Wake {
    /// The step of the loop that handles the event.
    pub(super) fn step(&self) -> LoopStep {
        match self {
            Wake::Tick | Wake::First => LoopStep::ReadCounters,
            Wake::Hits | Wake::Gather | Wake::Poll | Wake::Due(_) => LoopStep::ReadHits,
            Wake::Calls => LoopStep::ReadCalls,
            Wake::Receipt(_) => LoopStep::TakeReceipt,
            Wake::Ended(_) => LoopStep::EndProcess,
            Wake::Input(_) => LoopStep::AnswerKey,
            Wake::Snapshot => LoopStep::WriteSnapshot,
            Wake::Closed => LoopStep::AttachProbes,
            Wake::Family => LoopStep::AttachToProcesses,
            Wake::Request(..) | Wake::Carried(_) => LoopStep::AnswerRequest,
            Wake::Shutdown(_) => LoopStep::Leave,
        }
    }
}

/// Times of other work, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// A sampling window begins or ends.
    pub(super) turn_ns: Option<u64>,
    /// Rings of calls must be read.
    pub(super) calls_ns: Option<u64>,
    /// Hits must be read.
    pub(super) hits_ns: Option<u64>,
    /// Hits were left in the ring.
    pub(super) has_hits_left: bool,
    /// Poll for hits without sleeping.
    pub(super) polls: bool,
    pub(super) expected: Option<Expected>,
}

/// Everything that is waited for.
pub(super) struct Sources {
    signals: Signals,
    ends: mpsc::Receiver<ProcessEnd>,
    hits: Option<Readable>,
    closed: Option<Readable>,
    family_events: Option<Readable>,
    /// Standard input, where its end is that of the session, and what that means.
    over: Option<(Readable, &'static str)>,
    /// Readable once the actuator has ended.
    actuator: Option<Readable>,
    /// The node's service, if the probes are its own.
    service: Option<(Readable, Service)>,
    family: Interval,
    pub(super) ticks: Ticks,
    series: Option<Interval>,
    deadline: Option<Instant>,
    /// When the first numbers are due.
    first: Option<Instant>,
    pub(super) keys: Option<Keys>,
    requesting: mpsc::Sender<PendingRequest>,
    requested: mpsc::Receiver<PendingRequest>,
    /// The control socket is served as long as this exists to answer.
    serving: JoinSet<io::Result<()>>,
}

impl Sources {
    /// For a session of at most `duration` that writes a snapshot every `series`. In the session of a
    /// command, Ctrl-C is left to the command. Must be called inside the tokio runtime.
    pub(super) fn new(
        target: &WatchedJob,
        measuring: &Measuring,
        ends: mpsc::Receiver<ProcessEnd>,
        actuator: Option<&ActuatorQueue>,
        duration: Option<Duration>,
        series: Option<Duration>,
    ) -> io::Result<Sources> {
        let signals = Signals::new(target.started.is_some())?;
        let waited = |descriptor: Option<BorrowedFd<'_>>| {
            let descriptor = descriptor.map(|descriptor| Readable::new(descriptor.try_clone_to_owned()?));
            descriptor.transpose()
        };
        let service = measuring.probes.kernel().and_then(Kernel::service);
        let service = waited(service.map(Service::stream))?.zip(service.cloned());
        let (requesting, requested) = mpsc::channel::<PendingRequest>(REQUESTS_MAX);
        let stdin = io::stdin();
        let is_started_by_session = target.nodes.as_ref().is_some_and(|nodes| nodes.ends_with_input);
        // The parent process holds the other end open as long as the command runs, and the node starter as long as the
        // coordinator's session does.
        let over = match target.family_events.is_some() {
            true => Some("the command has ended"),
            false => is_started_by_session.then_some(NODE_STARTER_ENDED),
        };
        Ok(Sources {
            signals,
            ends,
            ticks: Ticks::new()?,
            family_events: waited(target.family_events.as_ref().map(Ring::as_fd))?,
            actuator: actuator.and_then(|queue| Readable::end_of(queue.pid).ok()),
            service,
            over: waited(over.map(|_| stdin.as_fd()))?.zip(over),
            hits: waited(measuring.hits.as_ref().map(Ring::as_fd))?,
            closed: waited(measuring.probes.closed_stream())?,
            family: waits::ticker(Duration::from_nanos(members::BEGIN_SCAN_NS)),
            series: series.map(waits::ticker),
            deadline: duration.map(|duration| Instant::now() + duration),
            // In the session of a command, which uses the terminal, there are none.
            first: (!target.is_of_command()).then(|| Instant::now() + FIRST_LOOK),
            keys: None,
            requesting,
            requested,
            serving: JoinSet::new(),
        })
    }

    /// Accepts requests on this socket.
    pub(super) fn serve(&mut self, listener: UnixListener) {
        self.serving
            .spawn(control::serve(listener, self.requesting.clone()));
    }

    /// The requests that wait for an answer.
    pub(super) fn requests(&mut self) -> impl Iterator<Item = PendingRequest> {
        std::iter::from_fn(|| self.requested.try_recv().ok())
    }

    /// The event that wakes the session next; simultaneous events come in this order.
    pub(super) async fn next(
        &mut self,
        due: Due,
        queue: &mut Option<ActuatorQueue>,
        nodes: &mut Option<Nodes>,
    ) -> Wake {
        let [turn, calls, hits] = [due.turn_ns, due.calls_ns, due.hits_ns].map(|ns| ns.map(instant));
        tokio::select! {
            biased;
            name = self.signals.next() => Wake::Shutdown(name),
            () = until(self.deadline) => Wake::Shutdown("--duration reached"),
            name = input_end(self.over.as_ref()) => Wake::Shutdown(name),
            // Without it nothing could be reverted.
            Ok(()) = readable(self.actuator.as_ref()) => Wake::Shutdown("the actuator was lost, and its stand-in reverts"),
            () = ended(self.service.as_ref()) => Wake::Shutdown("the node's service has ended, and its probes with it"),
            Some(end) = self.ends.recv() => Wake::Ended(end),
            Ok(()) = readable(self.family_events.as_ref()) => Wake::Family,
            _ = self.family.tick(), if self.family_events.is_some() => Wake::Family,
            receipt = next_receipt(queue) => Wake::Receipt(receipt),
            input = next_input(&mut self.keys) => Wake::Input(input),
            Some((request, to)) = self.requested.recv() => Wake::Request(request, to),
            carried = next_carried(nodes) => Wake::Carried(carried),
            Ok(()) = self.ticks.next() => Wake::Tick,
            () = until(turn) => Wake::Calls,
            () = until(calls) => Wake::Calls,
            Ok(()) = readable(self.closed.as_ref()) => Wake::Closed,
            () = next_tick(&mut self.series) => Wake::Snapshot,
            () = until(self.first) => {
                self.first = None;
                Wake::First
            }
            () = turn_if(due.has_hits_left) => Wake::Hits,
            () = turn_if(due.polls) => Wake::Poll,
            expected = waits::expected(due.expected) => Wake::Due(expected),
            Ok(()) = readable(self.hits.as_ref()) => Wake::Hits,
            () = until(hits) => Wake::Gather,
        }
    }
}

/// Waits for the end of standard input; returns what it means.
async fn input_end(over: Option<&(Readable, &'static str)>) -> &'static str {
    match over {
        Some((readable, name)) if readable.wait().await.is_ok() => name,
        _ => std::future::pending().await,
    }
}

/// Waits for the end of the service. Its replies, which are read when they come, also wake.
async fn ended(service: Option<&(Readable, Service)>) {
    let Some((readable, service)) = service else {
        return std::future::pending().await;
    };
    while readable.wait().await.is_ok() && !service.has_ended() {}
}
