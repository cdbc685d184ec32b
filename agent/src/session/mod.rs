//! A session: from attaching to leaving. What it keeps, and how it begins; the loop is in `waking`. Everything it shows it shows through a
//! [`crate::snapshot::Snapshot`].

pub mod actuator_queue;
pub mod outputs;

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

pub use ::session::log;
use ::session::{budget, changes, greeting, intake, leave, members, requests};

pub use self::options::{Options, Started};
pub use self::views::job_view;
use self::{
    actuation::Actuation,
    actuator_queue::ActuatorQueue,
    arming::{Requests, not_watched},
    budget::Budget,
    changes::Changes,
    intake::HITS_PER_WAKE,
    log::{Log, LogHeader},
    measuring::{Context, Measuring},
    members::Members,
    orders::process_here,
    outputs::Outputs,
    screen::Screen,
    start::{Liveness, Start, kernel_failure},
    target::{Target, candidate},
    views::Views,
};
use crate::{
    actuator::Actuator,
    clock::monotonic_ns,
    control::Control,
    discover::{Discovery, Job},
    exit::{CommandResult, Failure},
    heap,
    kernel::{Closer, KernelError},
    priority::Hurry,
    rulebook::{RuleBook, Time},
    view::give_back_terminal,
    watchdog,
};

/// A session whose probes are armed.
pub struct Session {
    options: Options,
    start: Start,
    target: Target,
    /// Who belongs to the job.
    members: Members,
    measuring: Measuring,
    rules: RuleBook,
    /// What was decided, and what became of it.
    changes: Changes,
    actuation: Actuation,
    screen: Screen,
    liveness: Liveness,
    /// Its events and effects, if they are recorded.
    log: Log,
}

impl Session {
    pub fn arm(
        job: Job,
        discovery: Discovery,
        rules: RuleBook,
        mut outputs: Outputs,
        mut options: Options,
    ) -> Result<Session, Failure> {
        let requests = Requests::new(&rules, &options, &job);
        let (own, regions) = (requests.own.clone(), requests.regions.clone());
        let began = monotonic_ns();
        let mut probes = requests.arm(&job, &rules, &options)?;
        let hits = probes.take_hits().map_err(kernel_failure)?;
        let now = monotonic_ns();
        let start = Start::new(&job, now);
        let is_beside = options.started.is_some();
        let target = Target::new(job, discovery, options.started.take(), &mut probes)?;
        let origin = target.origin();
        let times = (now.saturating_sub(began), now);
        let budget = Budget::new(options.budget, options.busy_poll, regions, times);
        let missing = not_watched(&target.job);
        let header = || LogHeader::new(target.job.program(), origin, missing.clone(), Time(now));
        let log = Log::new(outputs.take_log(), header);
        let mut session = Session {
            log,
            screen: Screen::new((&options, is_beside), outputs, target.is_of_command(), Time(now)),
            members: Members::new(origin, missing, Time(now)),
            measuring: Measuring::new(probes, own, hits, budget, now),
            options,
            start,
            target,
            rules,
            changes: Changes::default(),
            actuation: Actuation::default(),
            liveness: Liveness::default(),
        };
        session.begin(now).map_err(kernel_failure).map(|()| session)
    }

    /// The processes join the rules, and count from here on.
    fn begin(&mut self, now: u64) -> Result<(), KernelError> {
        self.rules.start(now);
        for (slot, member) in (0..self.measuring.probes.slots()).zip(&self.target.job.members) {
            self.measuring.begin(&mut self.rules, (slot, member), now);
            let present = members::MemberEvent::Present(process_here(slot), candidate(member));
            self.log.on(&mut self.members, present, Time(now));
        }
        self.measuring.begin_regions(now);
        // The first readings, against which the first window is held: what happens from here on is in it.
        self.read()?;
        if let Some(trace) = self.screen.trace() {
            trace.armed(self.start.armed_ns);
        }
        // All processes at once, and last: what one did while the next was attached to would belong to nothing.
        self.measuring.begin_counting()
    }

    /// What measures, and what it needs of the rest.
    fn measuring(&mut self) -> (&mut Measuring, Context<'_>) {
        let context = Context {
            rules: &mut self.rules,
            target: &mut self.target,
            screen: &mut self.screen,
        };
        (&mut self.measuring, context)
    }

    fn views(&self) -> Views<'_> {
        Views {
            options: &self.options,
            start: &self.start,
            target: &self.target,
            members: &self.members,
            measuring: &self.measuring,
            rules: &self.rules,
            changes: &self.changes,
        }
    }

    /// What shows it, and what is shown.
    fn showing(&mut self) -> (&mut Screen, Views<'_>) {
        let views = Views {
            options: &self.options,
            start: &self.start,
            target: &self.target,
            members: &self.members,
            measuring: &self.measuring,
            rules: &self.rules,
            changes: &self.changes,
        };
        (&mut self.screen, views)
    }

    fn read(&mut self) -> Result<(), KernelError> {
        let (measuring, mut context) = self.measuring();
        measuring.read(&mut context)
    }

    /// Runs until the job or the user ends it. With an actuator rules may act, with a socket it can be asked; `closer` closes its probes. It hurries
    /// until there are first numbers.
    pub fn run(
        mut self,
        actuator: Option<Actuator>,
        control: Option<Control>,
        closer: Closer,
        hurry: Option<Hurry>,
    ) -> CommandResult {
        self.measuring.probes.close_by(closer);
        self.liveness.hurry = hurry;
        let stream = actuator.as_ref().map(Actuator::stream);
        let stream = stream.transpose().map_err(Failure::no)?;
        watchdog::start(&self.liveness.progress, stream, give_back_terminal);
        self.measuring.system.actuator = actuator.as_ref().map(Actuator::pid);
        self.actuation.queue = actuator.map(ActuatorQueue::new);
        prefetch::look_up(
            self.actuation.queue.as_ref(),
            &self.rules,
            &self.target.job.members,
        );
        // What a session that writes asks of files again, a decision waits for.
        if self.actuation.queue.is_none() {
            self.target.discovery.images().forget_tables();
        }
        heap::give_back();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::no)?;
        runtime.block_on(self.watch(control))
    }
}
