//! A session: from attaching to leaving. One loop wakes on one closed set of events (`Wake`); everything it shows it
//! shows through a [`crate::snapshot::Snapshot`].

pub mod ends;
pub mod hands;
pub mod ledger;
pub mod meter;
pub mod outputs;
pub mod probes;
pub mod signals;
mod state;

mod act;
mod added;
mod again;
mod ahead;
mod anticipate;
mod arming;
mod cost;
mod cpus;
mod durations;
mod family;
mod found;
mod history;
mod intake;
mod leave;
mod live;
mod load;
mod matrix;
mod meant;
mod newcomers;
mod options;
mod orders;
mod pace;
mod practice;
mod receipts;
pub mod regions;
mod requests;
mod sampling;
mod showing;
mod switching;
mod together;
mod told;
mod waits;

pub use self::showing::job_view;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    os::fd::AsFd,
    sync::{Arc, PoisonError},
    time::Duration,
};

use abi::Thread;
use tokio::sync::{mpsc, oneshot};

use self::{
    added::Added,
    anticipate::{Anticipation, Due},
    arming::{armed, asked_in, not_watched},
    cost::Costs,
    cpus::Cpus,
    durations::Durations,
    ends::Ends,
    family::Family,
    hands::{Hands, Receipt},
    ledger::Ledger,
    matrix::Matrix,
    meter::Metered,
    orders::Ordered,
    outputs::Outputs,
    pace::Pace,
    probes::{Probes, Wanted},
    regions::Regions,
    sampling::Sampling,
    signals::Signals,
    waits::{Ticks, next_receipt, next_tick, readable, turn_if, until},
};
pub use self::{family::Started, options::Options};
use crate::{
    actuator::Actuator,
    calls::Collectives,
    clock::monotonic_ns,
    control::{self, Answer, Asked, Control, Request},
    discover::{Job, Scout, host, job_id},
    evidence,
    exit::{Failure, Outcome},
    heap,
    http::{self, Shared},
    kernel::{Kernel, KernelError, Ring},
    priority::Hurry,
    readable::Readable,
    rulebook::RuleBook,
    snapshot::GuardView,
    view::Painter,
};

/// Counters are read at least this often.
const TICK: Duration = Duration::from_millis(500);

/// And this often while none of the processes runs.
const TICK_STILL: Duration = Duration::from_secs(1);

/// New ranks are looked for this often.
const SCAN_PERIOD: Duration = Duration::from_secs(2);

/// Hits taken from the ring before the loop looks at anything else; and gathered, where nothing falls due at them, before they are evaluated.
const HITS_PER_WAKE: usize = 4096;

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
    Due(Due),
    /// A ring of calls fills, or it is time for a window to begin or end.
    Calls,
    /// The actuator has answered.
    Receipt(Receipt),
    /// The process in this slot has ended.
    Ended(u32),
    /// The live view has keys or another size; false: none can be heard any more.
    Keys(bool),
    /// Time for the next snapshot of a series.
    Snapshot,
    /// Time for the first numbers.
    First,
    /// A process of the command came or went, or it is time to look for some.
    Family,
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
    /// Of what is probed, what is asked for in every process: what the user named, and parallel regions.
    own: Range<usize>,
    durations: Durations,
    /// None in a session that may not probe.
    hits: Option<Ring>,
    processes: Vec<Metered>,
    /// The kernel side's table of threads, as it was read last; none once it was changed.
    threads: Option<Vec<(u64, Thread)>>,
    shares: evidence::Shares,
    /// When parallel regions are probed.
    regions: Regions,
    /// Where all ranks meet.
    collectives: Collectives,
    ledger: Ledger,
    hands: Option<Hands>,
    control: Option<Control>,
    decisions: BTreeMap<u64, Ordered>,
    /// What is said of changes that no guard has judged, once the session is over.
    unjudged: BTreeMap<u64, GuardView>,
    painter: Painter,
    shared: Option<Shared>,
    host: String,
    /// What the site calls the job.
    job_id: String,
    armed_ns: u64,
    painted_ns: u64,
    /// Numbers were shown.
    has_shown: bool,
    scanned_ns: u64,
    missing: Vec<String>,
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
    /// Of a command, who belongs to it.
    family: Option<Family>,
    /// Slots that have ended because their processes run other programs now.
    replaced: BTreeSet<u32>,
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
        let named = options.probe.iter();
        wanted.extend(named.map(|function| Wanted::calls_of(function, rules.is_recorded())));
        let regions = Regions::ask(&job, &mut wanted);
        let own = plain.start..regions.wanted().end;
        let began = monotonic_ns();
        let mut probes = armed(&job, &rules, (wanted, &own, plain.end), &options)?;
        let hits = probes.kernel_mut().map(Kernel::take_hits);
        let hits = hits.transpose().map_err(kernel_failure)?;
        let now = monotonic_ns();
        let family = Family::of(&options, &mut probes).map_err(kernel_failure)?;
        let mut session = Session {
            painter: painter(&options, &outputs),
            shared: outputs.metrics.is_some().then(Shared::default),
            missing: not_watched(&job),
            sampling: Sampling::new(options.budget),
            options,
            scout,
            rules,
            outputs,
            durations: Durations::default(),
            probes,
            own,
            hits,
            processes: Vec::new(),
            threads: None,
            shares: evidence::Shares::default(),
            regions,
            collectives: Collectives::default(),
            ledger: Ledger::default(),
            hands: None,
            control: None,
            decisions: BTreeMap::new(),
            unjudged: BTreeMap::new(),
            host: host(),
            job_id: job_id(&job),
            hits_left: false,
            gathered: 0,
            newest_hit_ns: 0,
            read_ns: now,
            seen_until_ns: now,
            lost: 0,
            others: evidence::Others::default(),
            cpus: Cpus::default(),
            family,
            replaced: BTreeSet::new(),
            frequency: None,
            matrix: Matrix::default(),
            has_idle_cpu: false,
            anticipation: Anticipation::default(),
            added: Added::default(),
            costs: Costs::armed_in(now.saturating_sub(began)),
            pace: Pace::default(),
            armed_ns: now,
            painted_ns: now,
            has_shown: false,
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
        self.regions.begin(&self.probes, now);
        // The first readings, against which the first window is held: what happens from here on is in it.
        self.read()?;
        if let Some(trace) = &mut self.outputs.trace {
            trace.armed(self.armed_ns);
        }
        // All processes at once, and last: what one did while the next was attached to would belong to nothing.
        for process in &self.processes {
            self.probes.watch(process.slot, process.pid)?;
        }
        Ok(())
    }

    /// Runs until the job or the user ends it. With an actuator rules may act, with a socket it can be asked. It hurries until there are
    /// first numbers.
    pub fn run(
        mut self,
        actuator: Option<Actuator>,
        control: Option<Control>,
        hurry: Option<Hurry>,
    ) -> Outcome {
        self.pace.hurry = hurry;
        self.costs.actuator = actuator.as_ref().map(Actuator::pid);
        self.hands = actuator.map(Hands::new);
        self.look_up_ahead(&self.job.members);
        self.control = control;
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
        runtime.block_on(self.watch())
    }

    async fn watch(mut self) -> Outcome {
        let mut signals = Signals::new(self.options.started.is_some()).map_err(Failure::no)?;
        let mut ends = Ends::default();
        for process in &self.processes {
            ends.watch(process.pid, process.slot);
        }
        if let (Some(listener), Some(shared)) = (self.outputs.metrics.take(), &self.shared) {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(Failure::no)?;
            // The first scrape may come before the first tick.
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(self.snapshot());
            tokio::spawn(http::serve(listener, Arc::clone(shared)));
        }
        let (asking, mut asked) = mpsc::channel::<Asked>(REQUESTS_MAX);
        if let Some(listener) = self.control.as_mut().and_then(Control::take_listener) {
            tokio::spawn(control::serve(listener, asking.clone()));
        }
        let mut ticks = Ticks::new().map_err(Failure::no)?;
        let ends_of_family = self.family_ends().map_err(Failure::no)?;
        let (comings, over) = ends_of_family.unzip();
        let mut family = waits::ticker(family::PERIOD);
        let mut series = self.outputs.every().map(waits::ticker);
        let deadline = self
            .options
            .duration
            .map(|duration| tokio::time::Instant::now() + duration);
        let ring = self.ring().map_err(Failure::no)?;
        self.greet();
        let mut keys = self.show_live();
        let mut first = self.first_look();
        loop {
            let (due, turn, polls) = (self.next_due(), self.sampling.next(), self.polls());
            let (calls_due, hits_due) = (self.calls_due(), self.pace.hits_due());
            let wake = tokio::select! {
                biased;
                name = signals.next() => Wake::Shutdown(name),
                () = until(deadline) => Wake::Shutdown("the time is over"),
                Ok(()) = readable(over.as_ref()) => Wake::Shutdown("the command has ended"),
                Some(slot) = ends.next() => Wake::Ended(slot),
                Ok(()) = readable(comings.as_ref()) => Wake::Family,
                _ = family.tick(), if comings.is_some() => Wake::Family,
                receipt = next_receipt(&mut self.hands) => Wake::Receipt(receipt),
                pressed = showing::next_key(&mut keys) => Wake::Keys(pressed),
                Some((request, to)) = asked.recv() => Wake::Request(request, to),
                Ok(()) = ticks.next() => Wake::Tick,
                () = until(turn) => Wake::Calls,
                () = until(calls_due) => Wake::Calls,
                () = next_tick(&mut series) => Wake::Snapshot,
                () = until(first) => {
                    first = None;
                    Wake::First
                }
                () = turn_if(self.hits_left) => Wake::Hits,
                () = turn_if(polls) => Wake::Poll,
                due = due => Wake::Due(due),
                Ok(()) = readable(ring.as_ref()) => Wake::Hits,
                () = until(hits_due) => Wake::Gather,
            };
            let was_tick = matches!(wake, Wake::Tick);
            if let Some(reason) = self.wake(wake, &ends)? {
                return self.leave(reason).await;
            }
            let asked_for = match was_tick {
                true => ticks.next_after(self.tick()),
                // A rule that was added may have the shortest window, or somebody runs again.
                false => ticks.next_within(self.tick()),
            };
            asked_for.map_err(Failure::no)?;
        }
    }

    /// Handles one event; gives the reason when the session is over.
    fn wake(&mut self, wake: Wake, ends: &Ends) -> Result<Option<&'static str>, Failure> {
        match wake {
            Wake::Shutdown(reason) => return Ok(Some(reason)),
            Wake::Receipt(receipt) => self.receive(receipt),
            Wake::Keys(true) => return Ok(self.hear_keys()),
            Wake::Keys(false) => self.painter.end(),
            Wake::Request(request, to) => return Ok(self.answer(request, to)),
            Wake::Poll => self.poll_hits().map_err(kernel_failure)?,
            Wake::Due(due) => self.look_out(due).map_err(kernel_failure)?,
            Wake::Hits if self.rules.has_probed_windows() => self.evaluate_hits().map_err(kernel_failure)?,
            Wake::Gather if self.rules.has_probed_windows() => self.gather_hits().map_err(kernel_failure)?,
            Wake::Hits | Wake::Gather => {
                self.take_hits(HITS_PER_WAKE);
            }
            Wake::Family => self.take_family().map_err(kernel_failure)?,
            Wake::Calls => {
                self.take_calls().map_err(kernel_failure)?;
                self.mind_regions().map_err(kernel_failure)?;
                self.take_turns().map_err(kernel_failure)?;
            }
            Wake::Snapshot => {
                self.read().map_err(kernel_failure)?;
                let snapshot = self.snapshot();
                self.outputs.add(&snapshot);
            }
            Wake::First => {
                self.show_first().map_err(kernel_failure)?;
                self.pace.hurry = None;
            }
            Wake::Ended(slot) => {
                self.replaced.remove(&slot);
                self.end_process(slot)?;
                if self.replaced.is_empty() && self.processes.iter().all(|process| process.ended) {
                    return Ok(Some("the program has ended"));
                }
            }
            Wake::Tick => {
                self.take_all_hits().map_err(kernel_failure)?;
                self.read().map_err(kernel_failure)?;
                self.mind_regions().map_err(kernel_failure)?;
                self.look_at_cost().map_err(kernel_failure)?;
                self.read_matrix(false).map_err(kernel_failure)?;
                self.evaluate();
                self.try_again();
                if self.family.is_none() {
                    self.look_for_replaced()?;
                    self.look_for_newcomers(ends)?;
                }
                self.show();
                if self.pace.have_ticked(self.is_still(), cost::own_cpu_ns()) {
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
        let longest = match self.is_still() {
            true if self.may_linger() => return self.pace.idle_tick(),
            true => TICK_STILL,
            false => TICK,
        };
        let shortest = longest.min(self.rules.shortest_window());
        shortest.max(Duration::from_millis(50))
    }

    /// Nothing has happened for a while, nobody looks at a picture, and all windows may last longer than they say.
    fn may_linger(&self) -> bool {
        self.pace.is_idle() && self.rules.may_linger() && !self.painter.is_live()
    }

    /// None of the processes has run between the last two readings, and no change is being judged. The processes of a command come and go.
    fn is_still(&self) -> bool {
        let are_still = !self.processes.is_empty() && self.processes.iter().all(Metered::is_still);
        are_still && self.family.is_none() && self.rules.on_trial().is_empty()
    }

    /// The ring's descriptor, to wait on.
    fn ring(&self) -> io::Result<Option<Readable>> {
        let ring = self.hits.as_ref();
        ring.map(|ring| Readable::new(ring.as_fd().try_clone_to_owned()?))
            .transpose()
    }

    /// Reads all counters.
    fn read(&mut self) -> Result<(), KernelError> {
        self.take_calls()?;
        let now = monotonic_ns();
        self.read_ns = now;
        self.look_for_loops(now);
        // First, so that none of them has more calls than are counted.
        let slots = self.processes.iter().map(|process| process.slot);
        self.durations.read(&self.probes, slots);
        let mut has_moved = false;
        for process in &mut self.processes {
            has_moved |= process.count(&self.probes)?;
        }
        self.matrix.has_more |= has_moved;
        let threads = self.table_of_threads(has_moved)?;
        let running = self.processes.iter().filter(|process| !process.ended);
        let pids: Vec<i32> = running.map(|process| process.pid).collect();
        let roots = self.job.roots.iter().map(|root| root.process.pid.number);
        let are_still = self.processes.iter().all(Metered::is_still);
        let roots: Vec<i32> = roots.collect();
        let share = self.shares.look(&pids, &roots, are_still, now);
        let share = share.map(|(share, reach)| (share, reach.clone()));
        for process in &mut self.processes {
            let cpus = self.shares.of(process.pid).filter(|_| !process.ended);
            let watching = (self.regions.since_ns(), &self.sampling.sampled);
            let threads = intake::threads_of(&threads, process.slot);
            process.read(&self.probes, threads, watching, cpus, now);
        }
        let running = || self.processes.iter().filter(|process| !process.ended);
        if let Some((share, reach)) = share {
            let own = running().filter_map(|process| Some(process.last()?.counters?.cpu_ns));
            let own = own.sum();
            let busy = self.others.look((&share.allowed, &reach), own, now);
            let is_old =
                |(read_ns, _): (u64, _)| now.saturating_sub(read_ns) >= SCAN_PERIOD.as_nanos() as u64;
            if self.frequency.is_none_or(is_old) {
                self.frequency = Some((now, evidence::Frequency::of(&share.allowed)));
            }
            self.has_idle_cpu = busy.is_some_and(|busy| busy.idle >= 1.0);
            self.rules.observe_cpus(&share, busy, now);
            self.cpus.take(share);
        }
        let places = self.rules.places(self.probes.list());
        for process in running().filter(|process| process.is_known) {
            if let Some(reading) = process.last() {
                let functions = (self.probes.list(), &places);
                self.rules.observe(process.slot, reading, functions);
            }
        }
        self.take_account(now);
        if !self.retire_threads(&threads)? {
            self.threads = Some(threads);
        }
        Ok(())
    }

    fn end_process(&mut self, slot: u32) -> Result<(), Failure> {
        let has_ended = |process: &Metered| process.slot == slot && process.ended;
        if self.processes.iter().any(has_ended) {
            return Ok(());
        }
        self.take_all_hits().map_err(kernel_failure)?;
        // The last totals are still on the kernel side; those of /proc are gone with the process.
        self.read().map_err(kernel_failure)?;
        let Some(process) = self.processes.iter_mut().find(|process| process.slot == slot) else {
            return Ok(());
        };
        process.ended = true;
        self.others.forget();
        self.probes.forget(process.pid).map_err(kernel_failure)?;
        if process.is_known {
            self.rules.leave(slot, monotonic_ns());
        }
        Ok(())
    }
}

fn painter(options: &Options, outputs: &Outputs) -> Painter {
    match options.started {
        None => Painter::new(options.plain || outputs.report_is_stdout()),
        Some(_) => Painter::beside(),
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
