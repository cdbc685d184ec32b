//! A session: from attaching to leaving. What it keeps, and how it begins; the loop is in `waking`. Everything it shows it shows through a
//! [`crate::snapshot::Snapshot`].

pub mod ends;
pub mod hands;
pub mod meter;
pub mod outputs;
pub mod signals;

mod act;
mod added;
mod ahead;
mod anticipate;
mod arming;
pub mod changes;
mod cost;
mod counting;
mod cpus;
mod durations;
mod edges;
mod found;
mod greeting;
mod intake;
mod leave;
mod load;
mod matrix;
mod meant;
pub mod members;
mod options;
mod orders;
mod pace;
mod practice;
mod processes;
mod reading;
mod receipts;
pub mod regions;
mod requests;
mod sampling;
mod screen;
mod sequence;
mod serving;
mod switching;
mod together;
mod waits;
mod waking;
mod written;

pub use self::edges::job_view;

use std::{collections::BTreeMap, ops::Range, time::Duration};

use abi::Thread;

pub use self::options::{Options, Started};
use self::{
    added::Added,
    anticipate::Anticipation,
    arming::{armed, not_watched},
    changes::Changes,
    cost::Costs,
    cpus::Cpus,
    durations::Durations,
    hands::Hands,
    matrix::Matrix,
    members::{Members, Origin},
    meter::Metered,
    orders::{Ordered, process_here},
    outputs::Outputs,
    pace::Pace,
    processes::candidate,
    regions::Regions,
    sampling::Sampling,
    screen::Screen,
    written::Written,
};
use crate::{
    actuator::Actuator,
    calls::Collectives,
    clock::monotonic_ns,
    control::Control,
    discover::{Job, Scout, host, job_id},
    evidence,
    exit::{Failure, Outcome},
    heap,
    kernel::{Closer, Kernel, KernelError, Ring},
    priority::Hurry,
    probe::{Probes, Wanted},
    rulebook::{RuleBook, Time},
    view::give_back_terminal,
    watchdog,
};

/// The clock of CPUs is read this often.
const SCAN_PERIOD: Duration = Duration::from_secs(2);

/// Hits taken from the ring before the loop looks at anything else; and gathered, where nothing falls due at them, before they are evaluated.
const HITS_PER_WAKE: usize = 4096;

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
    durations: Durations,
    /// None in a session that may not probe.
    hits: Option<Ring>,
    processes: Vec<Metered>,
    /// The kernel side's table of threads, as it was read last; none once it was changed.
    threads: Option<Vec<(u64, Thread)>>,
    shares: evidence::Shares,
    /// What the variables hold that rules would write.
    written: Written,
    /// When parallel regions are probed.
    regions: Regions,
    /// Where all ranks meet.
    collectives: Collectives,
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
    /// Hits were left in the ring. The kernel wakes us again only once it was found empty.
    hits_left: bool,
    /// Hits that were taken since they were evaluated last.
    gathered: usize,
    /// The time of the newest hit.
    newest_hit_ns: u64,
    /// When the counters were read last.
    read_ns: u64,
    /// All hits up to this time were taken.
    seen_until_ns: u64,
    /// Losses on the kernel side that the rules know of.
    lost: u64,
    others: evidence::Others,
    cpus: Cpus,
    /// The clock of the CPUs that may be used, and when it was read.
    frequency: Option<(u64, Option<evidence::Frequency>)>,
    matrix: Matrix,
    /// A CPU was idle when it was last looked.
    has_idle_cpu: bool,
    anticipation: Anticipation,
    added: Added,
    costs: Costs,
    /// What is watched in windows.
    sampling: Sampling,
    pace: Pace,
}

impl Session {
    /// Arms all probes.
    pub fn arm(
        job: Job,
        scout: Scout,
        rules: RuleBook,
        outputs: Outputs,
        options: Options,
    ) -> Result<Session, Failure> {
        let mut wanted = rules.wanted();
        let plain = wanted.len()..wanted.len() + options.probe.len();
        wanted.extend((options.probe.iter()).map(|name| Wanted::calls_of(name, rules.is_recorded())));
        let regions = Regions::ask(&job, &mut wanted);
        let own = plain.start..regions.wanted().end;
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
        let mut session = Session {
            screen: Screen::new(&options, outputs, comings.is_some(), Time(now)),
            members: Members::new(origin, not_watched(&job), Time(now)),
            comings,
            start: Start {
                host: host(),
                job_id: job_id(&job),
                armed_ns: now,
                armed_unix_s: crate::clock::unix_s(),
            },
            sampling: Sampling::new(options.budget),
            options,
            scout,
            rules,
            durations: Durations::default(),
            probes,
            own,
            hits,
            processes: Vec::new(),
            threads: None,
            shares: evidence::Shares::default(),
            written: Written::default(),
            regions,
            collectives: Collectives::default(),
            changes: Changes::default(),
            hands: None,
            ordered: BTreeMap::new(),
            hits_left: false,
            gathered: 0,
            newest_hit_ns: 0,
            read_ns: now,
            seen_until_ns: now,
            lost: 0,
            others: evidence::Others::default(),
            cpus: Cpus::default(),
            frequency: None,
            matrix: Matrix::default(),
            has_idle_cpu: false,
            anticipation: Anticipation::default(),
            added: Added::default(),
            costs: Costs::armed_in(now.saturating_sub(began)),
            pace: Pace::default(),
            job,
        };
        session.begin(now).map_err(kernel_failure).map(|()| session)
    }

    /// The processes join the rules, and count from here on.
    fn begin(&mut self, now: u64) -> Result<(), KernelError> {
        self.rules.start(now);
        for (slot, member) in (0..self.probes.slots()).zip(&self.job.members) {
            let rank = member.rank.map(|rank| rank.number);
            self.processes
                .push(Metered::new(member.process.pid.number, rank, slot));
            self.rules.join(slot, member, now);
            self.members.begin(process_here(slot), candidate(member));
        }
        self.regions.begin(&self.probes, now);
        // The first readings, against which the first window is held: what happens from here on is in it.
        self.read()?;
        if let Some(trace) = self.screen.trace() {
            trace.armed(self.start.armed_ns);
        }
        // All processes at once, and last: what one did while the next was attached to would belong to nothing.
        for process in &self.processes {
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
        self.pace.hurry = hurry;
        let stream = actuator.as_ref().map(Actuator::stream);
        let stream = stream.transpose().map_err(Failure::no)?;
        watchdog::start(&self.pace.progress, stream, give_back_terminal);
        self.costs.actuator = actuator.as_ref().map(Actuator::pid);
        self.hands = actuator.map(Hands::new);
        self.look_up_ahead(&self.job.members);
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
