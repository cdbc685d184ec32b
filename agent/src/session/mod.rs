//! A session, from attaching to leaving: its state and its begin. The loop is in `waking`. All output goes
//! through a [`profile::Snapshot`].

pub(crate) mod actuator_queue;
pub(crate) mod nodes;
pub(crate) mod outputs;

mod actuation;
mod arming;
mod cpus;
mod ending;
mod ends;
mod events;
mod found;
mod measuring;
mod options;
mod orders;
mod partial_sums;
mod prefetch;
mod progress;
mod receipts;
mod resolve;
mod screen;
mod sequence;
mod signals;
mod sources;
mod start;
mod switching;
mod system;
mod target;
mod together;
mod views;
mod waits;
mod waking;
mod warm_up;
mod written;

use session::{budget, changes, error, greeting, intake, leave, members, parts, requests};

use self::{
    actuation::Actuation,
    actuator_queue::ActuatorQueue,
    arming::{Requests, setup},
    budget::Budget,
    measuring::{Context, Measuring},
    outputs::Outputs,
    parts::Parts,
    progress::ProgressReader,
    requests::Check,
    screen::Screen,
    start::{Liveness, Start, kernel_failure},
    target::WatchedJob,
    views::Views,
};
pub(crate) use self::{nodes::Peers, options::Options, options::Started, views::job_view};
use crate::{
    actuator::Actuator,
    exit::{CommandResult, Failure},
    heap,
    priority::RealTimeClass,
    rulebook::{self, RuleBook, Time},
    watchdog,
};
use job::{Discovery, Job, monotonic_ns};
use probe::kernel::Closer;
use report::view::give_back_terminal;

/// A session whose probes are attached.
pub(crate) struct Session {
    options: Options,
    start: Start,
    target: WatchedJob,
    parts: Parts,
    measuring: Measuring,
    rules: RuleBook,
    actuation: Actuation,
    screen: Screen,
    liveness: Liveness,
}

impl Session {
    pub(crate) fn arm(
        job: Job,
        discovery: Discovery,
        rules: RuleBook,
        mut outputs: Outputs,
        mut options: Options,
    ) -> Result<Session, Failure> {
        let progress = ProgressReader::of(&options, &job, &rules)?;
        let contract = options.contract.take();
        let requests = Requests::new(&rules, &options, &job);
        let (own, regions) = (requests.own.clone(), requests.regions.clone());
        let began = monotonic_ns();
        let mut probes = requests.arm(&job, &rules, &options)?;
        let hits = probes.take_hits().map_err(kernel_failure)?;
        let now = monotonic_ns();
        let start = Start::new(&job, now);
        let is_beside = options.started.is_some();
        let target = WatchedJob::new(job, discovery, options.started.take(), &mut probes)?;
        let profile = profile::Profile::new(now, options.baseline);
        let arming_ns = now.saturating_sub(began);
        let budget = Budget::new(options.budget, options.busy_poll, regions, arming_ns, now);
        let setup = setup(&options, &target, now);
        let log = outputs.take_log();
        let check: Check = |given| rulebook::checked(given).map_err(|failure| failure.error);
        let mut session = Session {
            screen: Screen::new(&options, is_beside, outputs, target.is_of_command(), Time(now)),
            parts: Parts::new(setup, log, check),
            measuring: Measuring::new(probes, own, hits, budget, progress, contract, profile),
            actuation: Actuation::new(&options),
            options,
            start,
            target,
            rules,
            liveness: Liveness::default(),
        };
        let started = session.measure(|measuring, context| measuring.start(context, now));
        started.map_err(kernel_failure).map(|()| session)
    }

    /// Runs a function of `Measuring` with the other parts that it needs.
    fn measure<T>(&mut self, what: impl FnOnce(&mut Measuring, &mut Context<'_>) -> T) -> T {
        let mut context = Context {
            rules: &mut self.rules,
            target: &mut self.target,
            screen: &mut self.screen,
            parts: &mut self.parts,
            actuation: &self.actuation,
        };
        what(&mut self.measuring, &mut context)
    }

    /// The screen, and the data to show.
    fn showing(&mut self) -> (&mut Screen, Views<'_>) {
        let views = Views {
            options: &self.options,
            start: &self.start,
            target: &self.target,
            parts: &self.parts,
            measuring: &self.measuring,
            rules: &self.rules,
        };
        (&mut self.screen, views)
    }

    /// Runs until the job or the user ends it. With an actuator rules may act; with a control socket it
    /// answers requests; `closer` closes its probes. Keeps its raised priority until there are first numbers.
    pub(crate) fn run(
        mut self,
        actuator: Option<Actuator>,
        peers: Peers,
        closer: Closer,
        real_time: Option<RealTimeClass>,
    ) -> CommandResult {
        self.measuring.probes.close_by(closer);
        self.liveness.real_time = real_time;
        let stream = actuator.as_ref().map(Actuator::stream);
        let stream = stream.transpose().map_err(Failure::failed)?;
        watchdog::start(&self.liveness.progress, stream, give_back_terminal);
        self.measuring.system.actuator = actuator.as_ref().map(Actuator::pid);
        self.actuation.queue = actuator.map(ActuatorQueue::new);
        match &self.actuation.queue {
            Some(queue) => prefetch::look_up(queue, &self.rules, &self.target.job.members),
            // If the session writes, the tables are kept, because reading them again would delay a decision.
            None => self.target.discovery.images().forget_tables(),
        }
        heap::give_back();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::failed)?;
        runtime.block_on(self.watch(peers))
    }
}
