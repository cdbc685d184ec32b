//! Reads counters: totals and tables of the kernel side, and counters of the operating system. Passes them to
//! the profile and the rules, and accounts for the cost. Hits are read in `hits`.

use abi::{Frame, Thread};
use job::monotonic_ns;
use job::os_metrics::{CpuLimits, CpuShare, frequency};
use probe::kernel::{Kernel, KernelError};
use profile::{Inputs, IterationBoundary, Metered, Threads, has_mpi, threads_of};

use super::{Context, Measuring};
use crate::{
    rulebook::RuleBook,
    session::{
        progress::ProgressReader,
        sequence::{self, Rings},
        target::WatchedJob,
    },
};

/// A call is in the ring this long after its end, in nanoseconds, if its thread is not preempted meanwhile.
const CALL_SLACK_NS: u64 = 2_000_000;

impl Measuring {
    pub(in crate::session) fn read(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        let calls_until_ns = monotonic_ns().saturating_sub(CALL_SLACK_NS);
        self.take_calls(context)?;
        if let Some(kernel) = self.probes.kernel_mut() {
            let target = &context.target;
            let (processes, members) = (&mut self.profile.processes, &target.job.members);
            sequence::see_through_bindings(processes, members, kernel, target.discovery.images())?;
        }
        let now = monotonic_ns();
        self.profile.read_ns = now;
        sequence::look_for_loops(&mut self.profile.processes, context.screen.trace(), now);
        self.profile.collectives.look(now);
        let has_moved = self.count()?;
        let threads = self.table_of_threads(has_moved)?;
        let share = self.look_at_shares(context.target, now);
        self.read_processes(&threads, context.target, now);
        self.profile.add_time(has_mpi(self.probes.list()));
        if let Some((share, limits)) = share {
            self.look_at_cpus(context.rules, share, &limits, now);
        }
        self.observe(context, now);
        self.observe_iterations(context.rules, calls_until_ns);
        self.take_account(now);
        // The kernel side has room for a limited number of threads; those that have ended make room.
        if threads.len() < abi::THREADS_MAX as usize / 2 {
            self.profile.keep_threads(threads);
            return Ok(());
        }
        self.retire(&threads)
    }

    /// Reads the counters of the kernel side; returns whether they have changed since the last reading.
    fn count(&mut self) -> Result<bool, KernelError> {
        let Some(kernel) = self.probes.kernel() else {
            return Ok(false);
        };
        let profile = &mut self.profile;
        // Histograms first, so that they never contain more calls than the totals.
        let slots = profile.processes.iter().map(|process| process.slot);
        let counts = |slot, rows| kernel.histogram(slot, rows);
        profile.durations.read(self.probes.list(), slots, counts);
        let mut has_moved = false;
        for process in &mut profile.processes {
            has_moved |= process.count(kernel.totals_unless(process.slot, process.counted())?);
        }
        profile.matrix.has_more |= has_moved;
        Ok(has_moved)
    }

    /// The kernel side's table of threads, sorted by process, so that each process finds its threads quickly.
    /// Reuses the last table if no total has changed since.
    fn table_of_threads(&mut self, has_moved: bool) -> Result<Vec<(u64, Thread)>, KernelError> {
        if let Some(threads) = self.profile.take_threads(has_moved) {
            return Ok(threads);
        }
        let threads = self.probes.kernel().map(Kernel::threads);
        let mut threads = threads.transpose()?.unwrap_or_default();
        threads.sort_by_cached_key(|(key, thread)| (thread.process, *key));
        Ok(threads)
    }

    /// The CPUs that the job may use, and other processes on them.
    fn look_at_shares(&mut self, target: &WatchedJob, now: u64) -> Option<(CpuShare, CpuLimits)> {
        let pids: Vec<i32> = self.profile.running().map(|process| process.pid).collect();
        let are_still = self.profile.are_still();
        self.system.memory.look(&pids, now);
        let share = (self.system.shares).look(&pids, &target.roots(), are_still, now);
        share.map(|(share, limits)| (share, limits.clone()))
    }

    fn read_processes(&mut self, threads: &[(u64, Thread)], target: &WatchedJob, now: u64) {
        let sampled = self.budget.sampling.sampled();
        let left = self.progress.as_ref().and_then(ProgressReader::left);
        let is_stale = |frame: &Frame| sampled.is_stale(frame);
        let has_waits = self.probes.kernel().is_some_and(|kernel| kernel.reports_waits);
        for process in &mut self.profile.processes {
            let cpus = self.system.shares.of(process.pid).filter(|_| !process.ended);
            let sample = self.system.sample(process);
            process.read(&Inputs {
                now_ns: now,
                counters: sample.counters,
                has_run: sample.has_run,
                system: sample.threads,
                threads: threads_of(threads, process.slot),
                is_stale: &is_stale,
                has_waits,
                cpus,
                probes: self.probes.list(),
                // The processes of a command are watched from their start.
                may_be_in_mpi: !target.is_of_command()
                    && target
                        .member(process.slot)
                        .is_some_and(|member| member.mpi.is_some()),
                regions_since_ns: self.budget.regions.since_ns,
                left_ns: left.map_or(0, |left| left.as_nanos() as u64),
            });
        }
    }

    fn look_at_cpus(&mut self, rules: &mut RuleBook, share: CpuShare, limits: &CpuLimits, now: u64) {
        let own = self.profile.running_cpu_ns();
        let busy = self.system.others.look(&share.allowed, limits, own, now);
        if self.profile.is_frequency_due(now) {
            self.profile.take_frequency(frequency(&share.allowed), now);
        }
        self.profile.has_idle_cpu = busy.is_some_and(|busy| busy.idle >= 1.0);
        if let Some(busy) = busy {
            self.budget.costs.see_idle(busy.idle, now);
        }
        rules.observe_cpus(&share, limits, busy, now);
        self.cpus.take(share, self.profile.running().count());
    }

    /// Passes the newest readings to the rules.
    fn observe(&mut self, context: &mut Context<'_>, now: u64) {
        let Context { rules, target, .. } = context;
        if let Some(progress) = &mut self.progress {
            progress.read(target, &self.profile.processes, rules, now);
        }
        let places = rules.places(self.probes.list());
        for process in self.profile.running().filter(|process| process.is_known) {
            if let Some(reading) = process.last() {
                rules.observe(process.slot, reading, self.probes.list(), &places);
            }
            rules.record_estimates(process.slot, process.estimates(), now, false);
            if let Some(member) = target.member(process.slot) {
                let wanted = || rules.would_write(member);
                let held = self.written.read(process.slot, member, wanted);
                rules.observe_variables(process.slot, held, now);
            }
        }
    }

    /// Passes begins and ends of iterations of the detected loops to the rules that follow them, in the order of
    /// time. All calls that ended up to `until_ns` were read.
    fn observe_iterations(&mut self, rules: &mut RuleBook, until_ns: u64) {
        if !rules.follows_loop() {
            return;
        }
        let until_ns = until_ns.min(self.intake.watermark_ns);
        let mut boundaries = Vec::new();
        let mut known = Vec::new();
        for process in self
            .profile
            .processes
            .iter_mut()
            .filter(|process| process.is_known)
        {
            let (of_process, known_ns) = process.take_boundaries(until_ns);
            boundaries.extend(of_process);
            known.push((process.slot, known_ns));
        }
        boundaries.sort_by_key(IterationBoundary::order);
        for boundary in boundaries {
            if let Some(number) = self.iterations.number(&boundary) {
                rules.observe_iteration(number, &boundary);
            }
        }
        for (slot, known_ns) in known {
            if self.iterations.advance(slot, known_ns) {
                rules.loop_watermark(slot, known_ns);
            }
        }
    }

    /// At the end: passes the totals of the iterations and the sampled functions of each process to the
    /// rules.
    pub(in crate::session) fn summarise(&self, rules: &mut RuleBook) {
        let now = monotonic_ns();
        for process in &self.profile.processes {
            if let Some(iterations) = process.sequence.iterations() {
                let knows_mpi = process.iterations().is_some();
                rules.summarise(process.slot, iterations, knows_mpi, now);
            }
            let since_ns = process.first().map_or(now, |first| first.at_ns);
            // Their teams are not recorded.
            if let Some(regions) = process.regions.view(true, since_ns) {
                rules.record_regions(process.slot, &regions, now);
            }
            rules.record_estimates(process.slot, process.estimates(), now, true);
        }
    }

    /// Removes the records of threads that have ended.
    fn retire(&mut self, threads: &[(u64, Thread)]) -> Result<(), KernelError> {
        self.take_out(threads, |process, (key, thread), system| {
            process.retire(key, thread, system)
        })
    }

    /// Removes the records of the threads of a process that has ended in its slot.
    pub(in crate::session) fn forget_threads_of(&mut self, slot: u32) -> Result<(), KernelError> {
        let threads = self.probes.kernel().map(Kernel::threads).transpose()?;
        let mut threads = threads.unwrap_or_default();
        threads.retain(|(_, thread)| thread.process == slot);
        self.profile.forget_threads();
        self.retire(&threads)
    }

    /// Removes those records of these threads that their processes release: the processes have taken over
    /// their totals.
    fn take_out(
        &mut self,
        threads: &[(u64, Thread)],
        let_go: impl Fn(&mut Metered, (u64, &Thread), &dyn Threads) -> bool,
    ) -> Result<(), KernelError> {
        for (key, thread) in threads {
            let system = self.system.threads(thread.process);
            let process = self.profile.find_mut(thread.process);
            if process.is_some_and(|process| let_go(process, (*key, thread), system))
                && let Some(kernel) = self.probes.kernel_mut()
            {
                kernel.forget_thread(*key)?;
            }
        }
        Ok(())
    }

    /// Calls that were open when their probes were detached would stay open for ever: removes the records of
    /// threads that have such a call, if permitted.
    pub(in crate::session) fn forget_open(
        &mut self,
        is_off: impl Fn(u32) -> bool,
        may_go: impl Fn(&Thread) -> bool,
    ) -> Result<(), KernelError> {
        let Some(kernel) = self.probes.kernel() else {
            return Ok(());
        };
        let threads: Vec<(u64, Thread)> = kernel.threads()?;
        self.profile.forget_threads();
        let has_open = |thread: &Thread| {
            let open = thread.frames.iter().take(thread.depth as usize);
            open.into_iter().any(|frame| is_off(frame.probe))
        };
        let gone = threads.into_iter();
        let gone = gone.filter(|(_, thread)| has_open(thread) && may_go(thread));
        let gone: Vec<(u64, Thread)> = gone.collect();
        self.take_out(&gone, |process, (_, thread), _| {
            process.take_over(thread);
            true
        })
    }

    /// Reads the newest calls from the rings, before they are overwritten.
    pub(in crate::session) fn take_calls(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        if self.budget.sampling.is_sequence_cut() {
            self.pass_calls(context)?;
        } else if let Some(kernel) = self.probes.kernel() {
            let rings = Rings {
                kernel,
                has_mpi: context.target.job.has_mpi(),
                has_regions: self.budget.regions.is_there(),
                are_regions_resting: self.budget.regions.since_ns.is_none(),
                are_all_here: context.target.job.size() == Some(self.profile.processes.len()),
                probes: self.probes.list(),
                prices: self.probes.prices(),
                probed: self.budget.costs.probed(),
                processes: &mut self.profile.processes,
                collectives: &mut self.profile.collectives,
                trace: context.screen.trace(),
            };
            if rings.read()? {
                self.budget.back_off.end_idle();
            }
        }
        let was_filling = self.intake.have_read_calls(monotonic_ns());
        let back_off = &mut self.budget.back_off;
        back_off.have_read_calls(was_filling);
        if let Some(kernel) = self.probes.kernel().filter(|_| !back_off.suspends_calls()) {
            kernel.sleep_until_half_full();
        }
        Ok(())
    }

    /// Skips calls that were recorded while others were not: no sequence is made of them.
    fn pass_calls(&mut self, context: &mut Context<'_>) -> Result<(), KernelError> {
        let Some(kernel) = self.probes.kernel() else {
            return Ok(());
        };
        for (place, process) in self.profile.processes.iter_mut().enumerate() {
            let Some(next) = kernel
                .calls_so_far(process.slot)
                .filter(|next| *next > process.sequence.next())
            else {
                continue;
            };
            if let Some(trace) = context.screen.trace() {
                let (_, calls) = kernel.calls(process.slot, process.sequence.next())?;
                trace.calls(process.whose(), &calls, self.probes.list());
            }
            self.profile.collectives.take(place, &[], 1, |_| false);
            process.sequence.pass(next);
            kernel.pass_calls(process.slot, next);
        }
        Ok(())
    }

    /// Accounts for the cost up to now.
    fn take_account(&mut self, now_ns: u64) {
        self.intake.turn(now_ns);
        let costs = &mut self.budget.costs;
        if costs.is_due(now_ns) {
            costs.take(now_ns, self.system.agent_cost());
        }
        let of = (self.probes.site_count(), self.probes.wanted_count());
        costs.take_probed(of, || self.probes.probed());
    }

    /// Reads what a line of `--snapshots` shows: its messages are of the same time as its calls.
    pub(in crate::session) fn read_for_snapshot(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(), KernelError> {
        self.read(context)?;
        if let Some(kernel) = self.probes.kernel()
            && self.profile.matrix.is_due_at_snapshot()
        {
            self.profile.matrix.take_between(kernel.pairs()?);
        }
        Ok(())
    }

    /// Reads the matrix if it is due, or if `must` is set: at the end, and for a complete reading.
    pub(super) fn read_matrix(&mut self, context: &mut Context<'_>, must: bool) -> Result<(), KernelError> {
        let began_ns = monotonic_ns();
        if let Some(kernel) = self.probes.kernel()
            && (must || self.profile.matrix.is_due(began_ns))
        {
            let pairs = kernel.pairs()?;
            let profile = &mut self.profile;
            profile.matrix.take(pairs, (began_ns, monotonic_ns()));
            // Ranks of several programs belong to different worlds.
            if context.target.job.roots.len() < 2 {
                (context.rules).record_sent(|| profile.matrix.view(&profile.processes), began_ns);
            }
        }
        Ok(())
    }
}
