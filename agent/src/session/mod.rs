//! A session: from attaching to leaving. One loop wakes on one closed set of events (`Wake`); everything it shows it
//! shows through a [`Snapshot`].

pub mod ends;
pub mod hands;
pub mod ledger;
pub mod meter;
pub mod outputs;
pub mod probes;
pub mod signals;

mod act;
mod history;
mod intake;
mod leave;
mod live;
mod meant;
mod newcomers;
mod orders;
mod requests;
mod together;

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    os::fd::AsFd,
    sync::{Arc, PoisonError},
    time::Duration,
};

use aya::maps::{MapData, RingBuf};
use tokio::sync::{mpsc, oneshot};

use self::{
    ends::Ends,
    hands::{Hands, Receipt},
    ledger::Ledger,
    meter::Metered,
    orders::Ordered,
    outputs::Outputs,
    probes::{ArmError, Probes, Wanted},
    signals::Signals,
};
use crate::{
    actuator::Actuator,
    clock::monotonic_ns,
    control::{self, Answer, Asked, Control, Request},
    discover::{Job, Member, Scout, host},
    evidence,
    exit::{Failure, Outcome},
    http::{self, Shared},
    kernel::{Kernel, KernelError},
    readable::Readable,
    rulebook::RuleBook,
    snapshot::{GuardView, JobView, Snapshot},
    view::{self, Painter},
};

/// Counters are read at least this often.
const TICK: Duration = Duration::from_millis(500);

/// The screen is repainted at every second tick at most; plain lines come this often.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);

/// New ranks are looked for this often.
const SCAN_PERIOD: Duration = Duration::from_secs(2);

/// Hits taken from the ring before the loop looks at anything else.
const HITS_PER_WAKE: usize = 4096;

/// Requests that may wait for an answer.
const REQUESTS_MAX: usize = 8;

/// What was asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The target as it was typed.
    pub typed: String,
    /// Rules may write.
    pub applies: bool,
    /// What the guard confirmed stays at the end.
    pub keep: bool,
    /// Ends by itself.
    pub duration: Option<Duration>,
    /// Lines, no screen.
    pub plain: bool,
    /// Functions whose calls are counted.
    pub probe: Vec<String>,
    /// Attach with tracefs.
    pub force_tracefs: bool,
    /// Why this session may not probe; it then has what /proc tells, and nothing else.
    pub cannot_probe: Option<String>,
    /// To be said at the start.
    pub notes: Vec<String>,
}

/// Everything that can wake the loop.
#[derive(Debug)]
enum Wake {
    /// Time to read counters and evaluate.
    Tick,
    /// Hits lie in the ring.
    Hits,
    /// The actuator has answered.
    Receipt(Receipt),
    /// The process in this slot has ended.
    Ended(u32),
    /// Somebody asks through the control socket.
    Request(Request, oneshot::Sender<Answer>),
    /// The session is over, for this reason.
    Shutdown(&'static str),
}

/// A session whose probes are armed.
pub struct Session {
    options: Options,
    job: Job,
    scout: Scout,
    rules: RuleBook,
    outputs: Outputs,
    probes: Probes,
    /// Of what is probed, what the user named.
    plain: Range<usize>,
    /// None in a session that may not probe.
    hits: Option<RingBuf<MapData>>,
    processes: Vec<Metered>,
    ledger: Ledger,
    hands: Option<Hands>,
    control: Option<Control>,
    decisions: BTreeMap<u64, Ordered>,
    /// How the decisions got from their windows to the actuator.
    paths: BTreeMap<u64, act::Path>,
    /// What is said of changes that no guard has judged, once the session is over.
    unjudged: BTreeMap<u64, GuardView>,
    painter: Painter,
    shared: Option<Shared>,
    host: String,
    armed_ns: u64,
    painted_ns: u64,
    scanned_ns: u64,
    missing: Vec<String>,
    /// Hits were left in the ring. The kernel wakes us again only once it was found empty.
    hits_left: bool,
    /// The time of the newest hit.
    newest_hit_ns: u64,
    /// When the counters were read last.
    read_ns: u64,
    /// All hits up to this time were taken.
    seen_until_ns: u64,
    /// Losses on the kernel side that the rules know of.
    lost: u64,
    others: evidence::Others,
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
        wanted.extend(options.probe.iter().map(|function| Wanted::calls_of(function)));
        let asked = job.members.iter().map(|member| asked_in(&rules, &plain, member));
        let asked: Vec<Vec<bool>> = asked.collect();
        let is_asked = asked.iter().flatten().any(|asked| *asked);
        let is_without = !is_asked && job.members.iter().all(|member| member.mpi.is_none());
        let mut probes = match &options.cannot_probe {
            Some(why) => Probes::none(&job, vec![why.clone()]),
            // There may be rules to come that want some.
            None if is_without => {
                let armed = Probes::arm(&job, wanted, asked, options.force_tracefs);
                armed.unwrap_or_else(|_| Probes::none(&job, Vec::new()))
            }
            None => Probes::arm(&job, wanted, asked, options.force_tracefs).map_err(arm_failure)?,
        };
        let must_probe = !options.probe.is_empty() || rules.is_empty();
        if probes.site_count() == 0 && probes.kernel().is_some() && must_probe {
            return Err(nothing_to_probe(&probes));
        }
        let hits = probes.kernel_mut().map(Kernel::take_hits);
        let hits = hits.transpose().map_err(kernel_failure)?;
        let now = monotonic_ns();
        let painter = Painter::new(options.plain || outputs.report_is_stdout());
        let mut session = Session {
            shared: outputs.metrics.is_some().then(Shared::default),
            missing: job
                .unreachable
                .iter()
                .map(|(pid, why)| format!("process {pid} is not watched: {why}"))
                .collect(),
            options,
            scout,
            rules,
            outputs,
            probes,
            plain,
            hits,
            processes: Vec::new(),
            ledger: Ledger::default(),
            hands: None,
            control: None,
            decisions: BTreeMap::new(),
            paths: BTreeMap::new(),
            unjudged: BTreeMap::new(),
            painter,
            host: host(),
            hits_left: false,
            newest_hit_ns: 0,
            read_ns: now,
            seen_until_ns: now,
            lost: 0,
            others: evidence::Others::default(),
            armed_ns: now,
            painted_ns: now,
            scanned_ns: now,
            job,
        };
        session.begin(now).map_err(kernel_failure)?;
        Ok(session)
    }

    /// The processes join the rules, and count from here on.
    fn begin(&mut self, now: u64) -> Result<(), KernelError> {
        self.rules.start(now);
        for (slot, member) in (0..self.probes.slots()).zip(&self.job.members) {
            let rank = member.rank.map(|rank| rank.number);
            self.processes
                .push(Metered::new(member.process.pid.number, rank, slot));
            self.rules.join(slot, member, now);
        }
        // The first readings, against which the first window is held: what happens from here on is in it.
        self.read()?;
        // All processes at once, and last: what one did while the next was attached to would belong to nothing.
        for process in &self.processes {
            self.probes.watch(process.slot, process.pid)?;
        }
        Ok(())
    }

    /// Runs until the job or the user ends it. With an actuator rules may act, with a socket it can be asked.
    pub fn run(mut self, actuator: Option<Actuator>, control: Option<Control>) -> Outcome {
        self.hands = actuator.map(Hands::new);
        self.control = control;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::no)?;
        runtime.block_on(self.watch())
    }

    async fn watch(mut self) -> Outcome {
        let mut signals = Signals::new().map_err(Failure::no)?;
        let mut ends = Ends::default();
        for process in &self.processes {
            ends.watch(process.pid, process.slot);
        }
        if let (Some(listener), Some(shared)) = (self.outputs.metrics.take(), &self.shared) {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(Failure::no)?;
            tokio::spawn(http::serve(listener, Arc::clone(shared)));
        }
        let (asking, mut asked) = mpsc::channel::<Asked>(REQUESTS_MAX);
        if let Some(listener) = self.control.as_mut().and_then(Control::take_listener) {
            tokio::spawn(control::serve(listener, asking.clone()));
        }
        let mut tick = self.tick();
        let mut ticker = ticker(tick);
        let deadline = self
            .options
            .duration
            .map(|duration| tokio::time::Instant::now() + duration);
        let ring = self.ring().map_err(Failure::no)?;
        self.greet();
        loop {
            let wake = tokio::select! {
                biased;
                name = signals.next() => Wake::Shutdown(name),
                () = until(deadline) => Wake::Shutdown("the time is over"),
                Some(slot) = ends.next() => Wake::Ended(slot),
                receipt = next_receipt(&mut self.hands) => Wake::Receipt(receipt),
                Some((request, to)) = asked.recv() => Wake::Request(request, to),
                _ = ticker.tick() => Wake::Tick,
                () = at_once_if(self.hits_left) => Wake::Hits,
                Ok(()) = readable(ring.as_ref()) => Wake::Hits,
            };
            if let Some(reason) = self.wake(wake, &ends)? {
                return self.leave(reason).await;
            }
            // A rule that was added or removed may have the shortest window.
            if tick != self.tick() {
                tick = self.tick();
                ticker = self::ticker(tick);
            }
        }
    }

    /// Handles one event; gives the reason when the session is over.
    fn wake(&mut self, wake: Wake, ends: &Ends) -> Result<Option<&'static str>, Failure> {
        match wake {
            Wake::Shutdown(reason) => return Ok(Some(reason)),
            Wake::Receipt(receipt) => self.receive(receipt),
            Wake::Request(request, to) => return Ok(self.answer(request, to)),
            Wake::Hits if self.rules.has_probed_windows() => self.evaluate_hits().map_err(kernel_failure)?,
            Wake::Hits => {
                self.take_hits(HITS_PER_WAKE);
            }
            Wake::Ended(slot) => {
                self.end_process(slot)?;
                if self.processes.iter().all(|process| process.ended) {
                    return Ok(Some("the program has ended"));
                }
            }
            Wake::Tick => {
                self.take_all_hits().map_err(kernel_failure)?;
                self.read().map_err(kernel_failure)?;
                self.evaluate();
                self.look_for_newcomers(ends)?;
                self.show();
                if self.is_settled() {
                    return Ok(Some("all changes are confirmed"));
                }
            }
        }
        Ok(None)
    }

    /// How often counters are read and windows of a length evaluated.
    fn tick(&self) -> Duration {
        let shortest = TICK.min(self.rules.shortest_window());
        shortest.max(Duration::from_millis(50))
    }

    /// The ring's descriptor, to wait on.
    fn ring(&self) -> io::Result<Option<Readable>> {
        let ring = self.hits.as_ref();
        ring.map(|ring| Readable::new(ring.as_fd().try_clone_to_owned()?))
            .transpose()
    }

    fn greet(&mut self) {
        let snapshot = self.snapshot();
        self.painter.say(&view::header(&snapshot));
        let watched = snapshot.job.watched;
        let what = if self.probes.kernel().is_none() {
            "no function is watched, what /proc tells is all there is".to_owned()
        } else if snapshot.job.mpi.is_some() {
            format!("{watched} MPI functions watched (not local ones such as MPI_Wtime)")
        } else {
            format!("{} watched", crate::format::plural(watched, "function"))
        };
        let writes = if self.options.applies {
            "Rules may write"
        } else {
            "Nothing is written"
        };
        self.painter.say(&format!("armed: {what}. {writes}. Ctrl-C ends"));
        if self.probes.strangers_pay() {
            self.painter.say(
                "note: other programs here that use the same library pay for the probes too, about 1 us a call",
            );
        }
        let missing: Vec<String> = self
            .probes
            .missing()
            .iter()
            .chain(&self.missing)
            .cloned()
            .collect();
        missing
            .iter()
            .for_each(|missing| self.painter.say(&format!("missing: {missing}")));
        for note in &self.options.notes {
            self.painter.say(note);
        }
    }

    /// Reads all counters.
    fn read(&mut self) -> Result<(), KernelError> {
        let now = monotonic_ns();
        self.read_ns = now;
        let threads = self.probes.kernel().map(Kernel::threads);
        let threads = threads.transpose()?.unwrap_or_default();
        for process in &mut self.processes {
            process.read(&self.probes, &threads, now)?;
        }
        let running = || self.processes.iter().filter(|process| !process.ended);
        let pids: Vec<i32> = running().map(|process| process.pid).collect();
        if let Some(share) = evidence::available(&pids) {
            let own = running().filter_map(|process| Some(process.last()?.counters?.cpu_ns));
            let own = own.sum();
            let roots = self.job.roots.iter().map(|root| root.process.pid.number);
            let reach = evidence::usable(&pids.iter().copied().chain(roots).collect::<Vec<_>>());
            let busy = self.others.look((&share.allowed, &reach), own, now);
            self.rules.observe_cpus(&share, busy, now);
        }
        for process in running() {
            if let Some(reading) = process.last() {
                self.rules.observe(process.slot, reading, self.probes.list());
            }
        }
        self.retire_threads(&threads)
    }

    fn end_process(&mut self, slot: u32) -> Result<(), Failure> {
        self.take_all_hits().map_err(kernel_failure)?;
        // The last totals are still on the kernel side; those of /proc are gone with the process.
        self.read().map_err(kernel_failure)?;
        let Some(process) = self.processes.iter_mut().find(|process| process.slot == slot) else {
            return Ok(());
        };
        process.ended = true;
        self.others.forget();
        self.probes.forget(process.pid).map_err(kernel_failure)?;
        self.rules.leave(slot, monotonic_ns());
        Ok(())
    }

    fn show(&mut self) {
        let snapshot = self.snapshot();
        if let Some(shared) = &self.shared {
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = snapshot.clone();
        }
        let now = monotonic_ns();
        let period = if self.painter.is_screen() {
            2 * TICK
        } else {
            PLAIN_PERIOD
        };
        if now.saturating_sub(self.painted_ns) + TICK.as_nanos() as u64 / 2 < period.as_nanos() as u64 {
            return;
        }
        self.painted_ns = now;
        if self.painter.is_screen() {
            self.painter.paint(&view::screen(&snapshot));
        } else {
            view::summary(&snapshot)
                .iter()
                .for_each(|line| self.painter.say(line));
        }
    }

    /// The state now.
    fn snapshot(&self) -> Snapshot {
        let kernel = self.probes.kernel();
        let mut lost = kernel.and_then(|kernel| kernel.losses().ok()).unwrap_or_default();
        lost.extend(self.rules.losses());
        Snapshot {
            job: JobView {
                host: self.host.clone(),
                ..job_view(&self.job, self.probes.list().len())
            },
            elapsed: Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns)),
            period: self
                .processes
                .iter()
                .map(Metered::period)
                .max()
                .unwrap_or_default(),
            processes: self
                .processes
                .iter()
                .map(|process| process.view(self.probes.list()))
                .collect(),
            rules: self.rules.views(),
            findings: self.ledger.findings(),
            changes: self.ledger.changes(&self.trials()),
            lost,
            under_way: kernel
                .and_then(|kernel| kernel.under_way().ok())
                .unwrap_or_default(),
            missing: self
                .probes
                .missing()
                .iter()
                .chain(&self.missing)
                .cloned()
                .collect(),
        }
    }
}

/// What is shown of a job.
pub fn job_view(job: &Job, watched: usize) -> JobView {
    let mpi = job.members.iter().find_map(|member| member.mpi.as_ref());
    JobView {
        program: job.program(),
        user: job
            .members
            .first()
            .map(|member| member.process.user())
            .unwrap_or_default(),
        host: String::new(),
        launcher: job.launcher().map(|launcher| launcher.pid.number),
        size: job.size(),
        mpi: mpi.map(|mpi| {
            (
                mpi.implementation.name.to_owned(),
                mpi.implementation.version.clone(),
            )
        }),
        library: mpi.map(|mpi| mpi.library.clone()),
        watched,
    }
}

/// Which of the wanted are asked for in a process: what the user named is asked for in all.
fn asked_in(rules: &RuleBook, plain: &Range<usize>, member: &Member) -> Vec<bool> {
    let mut asked = rules.asked_in(member);
    asked.resize(asked.len().max(plain.end), false);
    plain.clone().for_each(|number| asked[number] = true);
    asked
}

fn nothing_to_probe(probes: &Probes) -> Failure {
    let missing = probes.missing().join("\n");
    Failure::not_there(format!("there is nothing to probe\n{missing}"))
}

fn arm_failure(error: ArmError) -> Failure {
    match error {
        ArmError::Kernel(error) => kernel_failure(error),
        error @ (ArmError::Capture(_) | ArmError::TooManyFunctions { .. } | ArmError::NoMore(_)) => {
            Failure::not_there(format!("nothing was attached: {error}"))
        }
    }
}

fn kernel_failure(error: KernelError) -> Failure {
    match error {
        KernelError::Permission(_) => Failure::not_permitted(error),
        other => Failure::not_there(other),
    }
}

fn ticker(period: Duration) -> tokio::time::Interval {
    let mut ticker = tokio::time::interval(period);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticker
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Never, without a ring.
async fn readable(ring: Option<&Readable>) -> io::Result<()> {
    match ring {
        Some(ring) => ring.wait().await,
        None => std::future::pending().await,
    }
}

async fn at_once_if(now: bool) {
    if !now {
        std::future::pending::<()>().await;
    }
}

/// The next receipt; never, without hands or when they have ended.
async fn next_receipt(hands: &mut Option<Hands>) -> Receipt {
    match hands {
        Some(hands) => match hands.receipt().await {
            Some(receipt) => receipt,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
