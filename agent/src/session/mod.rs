//! A session: from attaching to leaving. What it keeps, and how it begins; the loop is in `waking`. Everything it shows it shows through a
//! [`crate::snapshot::Snapshot`].

pub mod ends;
pub mod hands;
pub mod outputs;
pub mod signals;

mod act;
mod added;
mod arming;
pub mod budget;
pub mod changes;
mod cpus;
mod edges;
mod found;
mod greeting;
mod ingest;
pub mod intake;
mod leave;
pub mod log;
pub mod members;
mod options;
mod orders;
mod prefetch;
mod probing;
mod processes;
mod reading;
mod receipts;
mod requests;
mod resolve;
mod screen;
mod sequence;
mod serving;
mod switching;
mod system;
mod together;
mod waits;
mod waking;
mod warm_up;
mod written;

pub use self::edges::job_view;

use std::{collections::BTreeMap, ops::Range, time::Duration};

pub use self::options::{Options, Started};
use self::{
    added::Added,
    arming::{armed, not_watched, wanted_regions},
    budget::Budget,
    changes::Changes,
    cpus::Cpus,
    hands::Hands,
    intake::{HITS_PER_WAKE, Intake},
    log::{Header, Log},
    members::{Members, Origin},
    orders::{Ordered, process_here},
    outputs::Outputs,
    processes::candidate,
    screen::Screen,
    system::System,
    written::Written,
};
use crate::{
    actuator::Actuator,
    clock::monotonic_ns,
    control::Control,
    discover::{Job, Scout, host, job_id},
    exit::{Failure, Outcome},
    heap,
    kernel::{Closer, Kernel, KernelError, Ring},
    priority::Hurry,
    probe::{Probes, Wanted},
    profile::{Metered, Profile},
    rulebook::{RuleBook, Time},
    view::give_back_terminal,
    watchdog::{self, Progress},
};

/// Where and when a session began.
struct Start {
    host: String,
    /// What the site calls the job.
    job_id: String,
    armed_ns: u64,
    /// The same in seconds since 1970.
    armed_unix_s: f64,
}

impl Start {
    fn since_armed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns))
    }
}

/// How it shows that it lives.
#[derive(Debug, Default)]
struct Liveness {
    /// For the watchdog.
    progress: Progress,
    /// Until there are first numbers.
    hurry: Option<Hurry>,
}

/// A session whose probes are armed.
pub struct Session {
    options: Options,
    job: Job,
    scout: Scout,
    rules: RuleBook,
    screen: Screen,
    probes: Probes,
    /// Of what is probed, what is asked for in every process: what the user named, and parallel regions.
    own: Range<usize>,
    /// None in a session that may not probe.
    hits: Option<Ring>,
    /// What is known of it.
    intake: Intake,
    /// What was counted, and what it comes to.
    profile: Profile,
    /// What watching may cost.
    budget: Budget,
    system: System,
    /// What the variables hold that rules would write.
    written: Written,
    /// What was decided, and what became of it.
    changes: Changes,
    hands: Option<Hands>,
    /// What the actuator is to do for decisions that are not answered.
    ordered: BTreeMap<u64, Ordered>,
    start: Start,
    /// Who belongs to the job.
    members: Members,
    /// Of a command, who of its processes came and went.
    comings: Option<Ring>,
    cpus: Cpus,
    added: Added,
    liveness: Liveness,
    /// Its events and effects, if they are recorded.
    log: Log,
}

impl Session {
    /// Arms all probes.
    pub fn arm(
        job: Job,
        scout: Scout,
        rules: RuleBook,
        mut outputs: Outputs,
        options: Options,
    ) -> Result<Session, Failure> {
        let mut wanted = rules.wanted();
        let plain = wanted.len()..wanted.len() + options.probe.len();
        wanted.extend((options.probe.iter()).map(|name| Wanted::calls_of(name, rules.is_recorded())));
        let first = wanted.len();
        wanted.extend(wanted_regions(&job));
        let regions = first..wanted.len();
        let own = plain.start..regions.end;
        let began = monotonic_ns();
        let mut probes = armed(&job, &rules, (wanted, &own, plain.end), &options)?;
        let hits = probes.take_hits().map_err(kernel_failure)?;
        let now = monotonic_ns();
        let kernel = probes.kernel_mut().filter(|_| options.started.is_some());
        let comings = kernel
            .map(Kernel::take_comings)
            .transpose()
            .map_err(kernel_failure)?;
        let origin = match comings {
            Some(_) => Origin::Command,
            None => Origin::Attached {
                has_launcher: job.roots.iter().any(|root| root.is_launcher),
            },
        };
        let missing = not_watched(&job);
        let header = || Header::new(job.program(), origin, missing.clone(), Time(now));
        let log = Log::new(outputs.take_log(), header);
        let mut session = Session {
            log,
            screen: Screen::new(&options, outputs, comings.is_some(), Time(now)),
            members: Members::new(origin, missing, Time(now)),
            comings,
            start: Start {
                host: host(),
                job_id: job_id(&job),
                armed_ns: now,
                armed_unix_s: crate::clock::unix_s(),
            },
            budget: Budget::new(
                options.budget,
                options.busy_poll,
                regions,
                (now.saturating_sub(began), now),
            ),
            options,
            scout,
            rules,
            probes,
            own,
            hits,
            intake: Intake::new(now),
            profile: Profile::new(now),
            system: System::default(),
            written: Written::default(),
            changes: Changes::default(),
            hands: None,
            ordered: BTreeMap::new(),
            cpus: Cpus::default(),
            added: Added::default(),
            liveness: Liveness::default(),
            job,
        };
        session.begin(now).map_err(kernel_failure).map(|()| session)
    }

    /// The processes join the rules, and count from here on.
    fn begin(&mut self, now: u64) -> Result<(), KernelError> {
        self.rules.start(now);
        for (slot, member) in (0..self.probes.slots()).zip(&self.job.members) {
            let rank = member.rank.map(|rank| rank.number);
            let process = Metered::new(member.process.pid.number, rank, slot);
            self.system.open(&process);
            self.profile.processes.push(process);
            self.rules.join(slot, member, now);
            let present = members::Event::Present(process_here(slot), candidate(member));
            self.log.on(&mut self.members, present, Time(now));
        }
        self.begin_regions(now);
        // The first readings, against which the first window is held: what happens from here on is in it.
        self.read()?;
        if let Some(trace) = self.screen.trace() {
            trace.armed(self.start.armed_ns);
        }
        // All processes at once, and last: what one did while the next was attached to would belong to nothing.
        for process in &self.profile.processes {
            self.probes.watch(process.slot, process.pid)?;
        }
        Ok(())
    }

    /// Runs until the job or the user ends it. With an actuator rules may act, with a socket it can be asked; `closer` closes its probes. It hurries
    /// until there are first numbers.
    pub fn run(
        mut self,
        actuator: Option<Actuator>,
        control: Option<Control>,
        closer: Closer,
        hurry: Option<Hurry>,
    ) -> Outcome {
        self.probes.close_by(closer);
        self.liveness.hurry = hurry;
        let stream = actuator.as_ref().map(Actuator::stream);
        let stream = stream.transpose().map_err(Failure::no)?;
        watchdog::start(&self.liveness.progress, stream, give_back_terminal);
        self.system.actuator = actuator.as_ref().map(Actuator::pid);
        self.hands = actuator.map(Hands::new);
        prefetch::look_up(self.hands.as_ref(), &self.rules, &self.job.members);
        // What a session that writes asks of files again, a decision waits for.
        if self.hands.is_none() {
            self.scout.images().forget_tables();
        }
        heap::give_back();
        heap::give_back_code();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::no)?;
        runtime.block_on(self.watch(control))
    }
}

fn kernel_failure(error: KernelError) -> Failure {
    match error {
        KernelError::Permission(_) => Failure::not_permitted(error),
        KernelError::Verifier { .. } => Failure::not_there(format!(
            "{error}\nwhat works on this machine: tuneagent doctor; all that the verifier says: TUNEAGENT_LOG=debug"
        )),
        other => Failure::not_there(other),
    }
}
