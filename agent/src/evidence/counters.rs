//! Counters of a process that only grow, summed over its threads.
//!
//! The kernel keeps them by thread, and those of a thread that ended are gone from /proc: what was seen of it stays in the
//! sum, what it did after the last look is lost (less than one period per thread that ends).

use std::collections::HashMap;

use procfs::{
    ProcResult,
    process::{Process, Task},
};

/// Totals since the process started, as far as they were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// Time ready to run but waiting for a CPU, in nanoseconds.
    pub runqueue_ns: u64,
    /// Times that the kernel took the CPU away.
    pub switches_involuntary: u64,
    /// Times that it gave the CPU up itself.
    pub switches_voluntary: u64,
    /// Page faults served without the disk.
    pub faults_minor: u64,
    /// Page faults that the disk was read for.
    pub faults_major: u64,
    /// Memory in use, in bytes, now.
    pub resident_bytes: u64,
    /// The most memory in use so far; `None` where the kernel does not tell.
    pub resident_peak_bytes: Option<u64>,
    /// Threads now.
    pub threads: u64,
}

/// Reads the counters of one process again and again. It holds the process's directory in /proc open, which keeps
/// belonging to this process when its number is used again.
#[derive(Debug)]
pub struct Sampler {
    process: Process,
    threads: HashMap<i32, OfThread>,
    sum: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfThread {
    cpu_ns: u64,
    runqueue_ns: u64,
    involuntary: u64,
    voluntary: u64,
}

impl Sampler {
    /// Opens the process.
    pub fn open(pid: i32) -> ProcResult<Sampler> {
        Ok(Sampler {
            process: Process::new(pid)?,
            threads: HashMap::new(),
            sum: Counters::default(),
        })
    }

    /// Reads all counters. An error means that the process is gone, or that it may not be looked at.
    pub fn sample(&mut self) -> ProcResult<Counters> {
        let stat = self.process.stat()?;
        let mut seen = HashMap::with_capacity(self.threads.len());
        for task in self.process.tasks()?.flatten() {
            // A thread may end between the listing and the read.
            let Ok(now) = OfThread::read(&task) else { continue };
            let before = self.threads.get(&task.tid).copied().unwrap_or_default();
            // A number that is used again starts from zero: what it shows is then all new.
            let before = if now.cpu_ns < before.cpu_ns {
                OfThread::default()
            } else {
                before
            };
            self.sum.cpu_ns += now.cpu_ns.saturating_sub(before.cpu_ns);
            self.sum.runqueue_ns += now.runqueue_ns.saturating_sub(before.runqueue_ns);
            self.sum.switches_involuntary += now.involuntary.saturating_sub(before.involuntary);
            self.sum.switches_voluntary += now.voluntary.saturating_sub(before.voluntary);
            seen.insert(task.tid, now);
        }
        self.sum.threads = seen.len() as u64;
        self.threads = seen;
        self.sum.faults_minor = stat.minflt;
        self.sum.faults_major = stat.majflt;
        let status = self.process.status();
        self.sum.resident_peak_bytes = status.ok().and_then(|status| status.vmhwm).map(|kib| kib * 1024);
        self.sum.resident_bytes = stat.rss * procfs::page_size();
        Ok(self.sum)
    }

    /// Whether this thread of the process still runs.
    pub fn has_thread(&self, thread: i32) -> bool {
        self.process.task_from_tid(thread).is_ok()
    }
}

impl OfThread {
    fn read(task: &Task) -> ProcResult<OfThread> {
        let schedule = task.schedstat()?;
        let status = task.status()?;
        Ok(OfThread {
            cpu_ns: schedule.sum_exec_runtime,
            runqueue_ns: schedule.run_delay,
            involuntary: status.nonvoluntary_ctxt_switches.unwrap_or(0),
            voluntary: status.voluntary_ctxt_switches.unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_and_keep_what_ended_threads_did() {
        let mut sampler = Sampler::open(std::process::id() as i32).unwrap();
        let before = sampler.sample().unwrap();
        let (seen, wait) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let during = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sum = 0_u64;
                for i in 0..20_000_000_u64 {
                    sum = std::hint::black_box(sum ^ i);
                }
                seen.wait();
                wait.wait();
            });
            seen.wait();
            let during = sampler.sample().unwrap();
            wait.wait();
            during
        });
        let after = sampler.sample().unwrap();
        assert!(during.cpu_ns > before.cpu_ns + 1_000_000, "{before:?} {during:?}");
        assert!(after.cpu_ns >= during.cpu_ns && after.threads < during.threads + 1);
        assert!(after.resident_bytes > 0);
    }
}
