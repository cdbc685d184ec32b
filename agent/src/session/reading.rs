//! What is read at a tick: counters, CPU times, what else runs on the CPUs; the rules hear of it. Hits and calls are taken in `intake`.

use super::{SCAN_PERIOD, Session, intake, meter::Metered, sequence};
use crate::{clock::monotonic_ns, evidence, kernel::KernelError};

impl Session {
    /// Reads all counters.
    pub(super) fn read(&mut self) -> Result<(), KernelError> {
        self.take_calls()?;
        let now = monotonic_ns();
        self.read_ns = now;
        sequence::look_for_loops(&mut self.processes, self.screen.trace(), now);
        self.collectives.look(now);
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
            if let Some(busy) = busy {
                self.costs.see_idle(busy.idle, now);
            }
            self.rules.observe_cpus(&share, busy, now);
            self.cpus.take(share);
        }
        let places = self.rules.places(self.probes.list());
        for process in running().filter(|process| process.is_known) {
            if let Some(reading) = process.last() {
                let functions = (self.probes.list(), &places);
                self.rules.observe(process.slot, reading, functions);
            }
            self.rules
                .record_estimates(process.slot, process.estimates(), now, false);
            if let Some(member) = self.job.members.get(process.slot as usize) {
                let wanted = || self.rules.would_write(member);
                let held = self.written.read(process.slot, member, wanted);
                self.rules.observe_variables(process.slot, held, now);
            }
        }
        self.take_account(now);
        if !self.retire_threads(&threads)? {
            self.threads = Some(threads);
        }
        Ok(())
    }
}
