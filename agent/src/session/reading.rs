//! Reads what was counted: totals and tables of the kernel side, counters of the operating system. ActuatorQueue it to the profile and the rules, and takes
//! account of what it costs. Hits are taken in `ingest`.

use std::collections::BTreeSet;

use abi::{Frame, Thread};

use super::{Session, budget::Shown, probing::functions, sequence};
use crate::{
    clock::{CpuClock, monotonic_ns},
    cost::{CostView, Moment},
    evidence::{CpuShare, Frequency},
    kernel::{Kernel, KernelError},
    profile::{Inputs, Metered, Threads, threads_of},
    snapshot::MatrixView,
};

impl Session {
    /// Reads all counters.
    pub(super) fn read(&mut self) -> Result<(), KernelError> {
        self.take_calls()?;
        let now = monotonic_ns();
        self.measuring.profile.read_ns = now;
        sequence::look_for_loops(&mut self.measuring.profile.processes, self.screen.trace(), now);
        self.measuring.profile.collectives.look(now);
        let has_moved = self.count()?;
        let threads = self.table_of_threads(has_moved)?;
        let share = self.look_at_shares(now);
        self.read_processes(&threads, now);
        if let Some((share, reach)) = share {
            self.look_at_cpus(share, &reach, now);
        }
        self.observe(now);
        self.take_account(now);
        // The kernel side has room for so many threads; those that have ended make place.
        if threads.len() < abi::MAX_THREADS as usize / 2 {
            self.measuring.profile.keep_threads(threads);
            return Ok(());
        }
        self.retire(&threads)
    }

    /// Takes what the kernel side has counted; true where that is more than at the last reading.
    fn count(&mut self) -> Result<bool, KernelError> {
        let Some(kernel) = self.measuring.probes.kernel() else {
            return Ok(false);
        };
        let profile = &mut self.measuring.profile;
        // First, so that none of them has more calls than are counted.
        let slots = profile.processes.iter().map(|process| process.slot);
        let counts = |slot, rows| kernel.histogram(slot, rows);
        profile
            .durations
            .read(self.measuring.probes.list(), slots, counts);
        let mut has_moved = false;
        for process in &mut profile.processes {
            has_moved |= process.count(kernel.totals_unless(process.slot, process.counted())?);
        }
        profile.matrix.has_more |= has_moved;
        Ok(has_moved)
    }

    /// The kernel side's table, in the order of processes: each is to find its own without a look at those of all. As it was read last where
    /// no total has moved since.
    fn table_of_threads(&mut self, has_moved: bool) -> Result<Vec<(u64, Thread)>, KernelError> {
        if let Some(threads) = self.measuring.profile.take_threads(has_moved) {
            return Ok(threads);
        }
        let threads = self.measuring.probes.kernel().map(Kernel::threads);
        let mut threads = threads.transpose()?.unwrap_or_default();
        threads.sort_by_cached_key(|(key, thread)| (thread.process, *key));
        Ok(threads)
    }

    /// What the job may use of the CPUs, and which are within its reach.
    fn look_at_shares(&mut self, now: u64) -> Option<(CpuShare, BTreeSet<usize>)> {
        let pids: Vec<i32> = self
            .measuring
            .profile
            .running()
            .map(|process| process.pid)
            .collect();
        let roots = self.target.job.roots.iter().map(|root| root.process.pid.number);
        let roots: Vec<i32> = roots.collect();
        let are_still = self.measuring.profile.are_still();
        let share = self.measuring.system.shares.look(&pids, &roots, are_still, now);
        share.map(|(share, reach)| (share, reach.clone()))
    }

    fn read_processes(&mut self, threads: &[(u64, Thread)], now: u64) {
        let sampled = self.measuring.budget.sampling.sampled();
        let is_stale = |frame: &Frame| sampled.is_stale(frame);
        let has_waits = self.measuring.probes.kernel().is_some_and(Kernel::tells_waits);
        for process in &mut self.measuring.profile.processes {
            let cpus = self
                .measuring
                .system
                .shares
                .of(process.pid)
                .filter(|_| !process.ended);
            let sample = self.measuring.system.sample(process);
            process.read(&Inputs {
                now_ns: now,
                counters: sample.counters,
                has_run: sample.has_run,
                system: sample.threads,
                threads: threads_of(threads, process.slot),
                is_stale: &is_stale,
                has_waits,
                cpus,
                probes: self.measuring.probes.list(),
                regions_since_ns: self.measuring.budget.regions.since_ns(),
            });
        }
    }

    fn look_at_cpus(&mut self, share: CpuShare, reach: &BTreeSet<usize>, now: u64) {
        let own = self.measuring.profile.running_cpu_ns();
        let busy = self
            .measuring
            .system
            .others
            .look((&share.allowed, reach), own, now);
        if self.measuring.profile.is_frequency_due(now) {
            self.measuring
                .profile
                .take_frequency(Frequency::of(&share.allowed), now);
        }
        self.measuring.profile.has_idle_cpu = busy.is_some_and(|busy| busy.idle >= 1.0);
        if let Some(busy) = busy {
            self.measuring.budget.costs.see_idle(busy.idle, now);
        }
        self.rules.observe_cpus(&share, busy, now);
        self.measuring.cpus.take(share);
    }

    /// ActuatorQueue the newest readings to the rules.
    fn observe(&mut self, now: u64) {
        let places = self.rules.places(self.measuring.probes.list());
        for process in self
            .measuring
            .profile
            .running()
            .filter(|process| process.is_known)
        {
            if let Some(reading) = process.last() {
                let functions = (self.measuring.probes.list(), &places);
                self.rules.observe(process.slot, reading, functions);
            }
            self.rules
                .record_estimates(process.slot, process.estimates(), now, false);
            if let Some(member) = self.target.job.members.get(process.slot as usize) {
                let wanted = || self.rules.would_write(member);
                let held = self.measuring.written.read(process.slot, member, wanted);
                self.rules.observe_variables(process.slot, held, now);
            }
        }
    }

    /// A process that has just joined: what it does until the next window is not seen.
    pub(super) fn take_in(&mut self, process: &mut Metered, now_ns: u64) {
        self.measuring.system.open(process);
        let cpu_ns = CpuClock::of(process.pid).and_then(CpuClock::ns);
        let at = Moment {
            at_ns: now_ns,
            cpu_ns: cpu_ns.unwrap_or(now_ns),
        };
        process.join(at, self.measuring.budget.sampling.sampled().gap());
    }

    /// Takes out the records of threads that have ended.
    fn retire(&mut self, threads: &[(u64, Thread)]) -> Result<(), KernelError> {
        self.take_out(threads, |process, (key, thread), system| {
            process.retire(key, thread, system)
        })
    }

    /// Takes out the records of the threads of a process that has ended in its slot.
    pub(super) fn forget_threads_of(&mut self, slot: u32) -> Result<(), KernelError> {
        let threads = self.measuring.probes.kernel().map(Kernel::threads).transpose()?;
        let mut threads = threads.unwrap_or_default();
        threads.retain(|(_, thread)| thread.process == slot);
        self.measuring.profile.forget_threads();
        self.retire(&threads)
    }

    /// Takes out the records of those of these threads that their processes let go of: what they were is theirs from then on.
    fn take_out(
        &mut self,
        threads: &[(u64, Thread)],
        let_go: impl Fn(&mut Metered, (u64, &Thread), &dyn Threads) -> bool,
    ) -> Result<(), KernelError> {
        for (key, thread) in threads {
            let system = self.measuring.system.threads(thread.process);
            let process = self.measuring.profile.find_mut(thread.process);
            if process.is_some_and(|process| let_go(process, (*key, thread), system))
                && let Some(kernel) = self.measuring.probes.kernel_mut()
            {
                kernel.forget_thread(*key)?;
            }
        }
        Ok(())
    }

    /// Calls that were open when their probes were taken off would be open for ever: records of threads that have one go, where they may.
    pub(super) fn forget_open(
        &mut self,
        is_off: impl Fn(u32) -> bool,
        may_go: impl Fn(&Thread) -> bool,
    ) -> Result<(), KernelError> {
        let Some(kernel) = self.measuring.probes.kernel() else {
            return Ok(());
        };
        let threads: Vec<(u64, Thread)> = kernel.threads()?;
        self.measuring.profile.forget_threads();
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

    /// Calls that were recorded while others were not: no sequence is made of them.
    pub(super) fn pass_calls(&mut self) -> Result<(), KernelError> {
        let Some(kernel) = self.measuring.probes.kernel() else {
            return Ok(());
        };
        for (place, process) in self.measuring.profile.processes.iter_mut().enumerate() {
            let Some(next) = kernel
                .calls_so_far(process.slot)
                .filter(|next| *next > process.sequence.next())
            else {
                continue;
            };
            if let Some(trace) = self.screen.trace() {
                let (_, calls) = kernel.calls(process.slot, process.sequence.next())?;
                trace.calls(process.whose(), &calls, self.measuring.probes.list());
            }
            self.measuring.profile.collectives.take(place, &[], 1, |_| false);
            process.sequence.pass(next);
            kernel.pass_calls(process.slot, next);
        }
        Ok(())
    }

    /// Takes note of what is spent up to now.
    fn take_account(&mut self, now_ns: u64) {
        self.measuring.intake.turn(now_ns);
        let costs = &mut self.measuring.budget.costs;
        if costs.is_due(now_ns) {
            costs.take(now_ns, self.measuring.system.agent_cost());
        }
        let of = (
            self.measuring.probes.site_count(),
            self.measuring.probes.wanted_count(),
        );
        costs.take_probed(of, || self.measuring.probes.probed());
    }

    /// What all came to.
    pub(super) fn cost(&self) -> Option<CostView> {
        let shown = Shown {
            prices: self.measuring.probes.prices()?,
            profile: &self.measuring.profile,
            probes: self.measuring.probes.list(),
            held: self.changes.held(),
            unread: self.measuring.intake.unread(),
            armed_ns: self.start.armed_ns,
        };
        let view = self.measuring.budget.view(shown, || {
            functions(&self.measuring.probes, &self.measuring.budget.costs)
        });
        Some(view)
    }

    /// Reads the matrix, where it is time to; `must` at the end, and when somebody asks for everything.
    pub(super) fn read_matrix(&mut self, must: bool) -> Result<(), KernelError> {
        let began_ns = monotonic_ns();
        if let Some(kernel) = self.measuring.probes.kernel()
            && (must || self.measuring.profile.matrix.is_due(began_ns))
        {
            let pairs = kernel.pairs()?;
            self.measuring
                .profile
                .matrix
                .take(pairs, (began_ns, monotonic_ns()));
        }
        Ok(())
    }

    /// What was lost so far, of hits, of the matrix and of what rules want.
    pub(super) fn lost_by_kind(&self) -> Vec<(&'static str, u64)> {
        let kernel = self.measuring.probes.kernel();
        let of_hits = kernel.map(Kernel::losses);
        let of_matrix = kernel.map(Kernel::losses_of_matrix);
        let of_kernel = of_hits.into_iter().chain(of_matrix).flatten();
        of_kernel.chain(self.rules.losses()).collect()
    }

    /// None where MPI is not probed, and where programs are looked at together: their ranks are not of one world.
    pub(super) fn matrix(&self) -> Option<MatrixView> {
        let is_one = self.target.job.roots.len() < 2 && self.calls().has_sequence();
        is_one.then(|| {
            self.measuring
                .profile
                .matrix
                .view(&self.measuring.profile.processes)
        })
    }
}
