//! Data of the operating system, read from /proc: counters of the processes, CPUs that they may use and the
//! use of these by others, and the agent's own consumption.

use std::{fs::File, os::unix::fs::FileExt};

use procfs::{ProcError, process::Process};
use rustix::time::{ClockId, clock_gettime};

use job::os_metrics::{self, Sampler};
use profile::cost::AgentCost;
use profile::{Counters, Metered, Threads, UnknownThreads};

/// The readers of /proc, and their state.
#[derive(Debug, Default)]
pub(super) struct System {
    /// CPUs that the job may use.
    pub(super) shares: os_metrics::Shares,
    pub(super) others: os_metrics::Others,
    /// Memory limits of the cgroups of the job.
    pub(super) memory: os_metrics::MemoryGroups,
    /// The actuator's process id, if there is one.
    pub(super) actuator: Option<i32>,
    /// By slot; the inner `None` if /proc cannot be read.
    samplers: Vec<Option<(i32, Option<Sampler>)>>,
    /// Our own statm file, which stays open so that a reading takes one system call.
    statm: Option<File>,
}

/// A reading of one process.
pub(super) struct Sample<'a> {
    pub(super) counters: Option<Counters>,
    /// `None` if nothing can be read.
    pub(super) has_run: Option<bool>,
    pub(super) threads: &'a dyn Threads,
}

impl System {
    /// Starts reading a process. Its directory in /proc stays open, and refers to it even when its id is
    /// reused.
    pub(super) fn open(&mut self, process: &Metered) {
        let place = process.slot as usize;
        if self.samplers.len() <= place {
            self.samplers.resize_with(place + 1, || None);
        }
        let is_same = |known: &(i32, Option<Sampler>)| known.0 == process.pid;
        if let Some(known) = self.samplers.get_mut(place)
            && !known.as_ref().is_some_and(is_same)
        {
            let sampler = (!process.is_foreign).then(|| Sampler::open(process.pid).ok());
            *known = Some((process.pid, sampler.flatten()));
        }
    }

    /// Reads the counters of a process.
    pub(super) fn sample(&mut self, process: &Metered) -> Sample<'_> {
        self.open(process);
        let granted = self.shares.granted();
        let known = self.samplers.get_mut(process.slot as usize);
        let sampler = known.and_then(Option::as_mut).and_then(|known| known.1.as_mut());
        let Some(sampler) = sampler else {
            return Sample {
                counters: None,
                has_run: None,
                threads: &UnknownThreads,
            };
        };
        sampler.set_reach(granted);
        // Ranks of MPI are no processes of a pipeline.
        sampler.count_bytes(process.rank.is_none());
        let counters = (!process.ended).then(|| sampler.sample().ok()).flatten();
        Sample {
            counters,
            has_run: Some(sampler.has_run()),
            threads: sampler,
        }
    }

    /// The threads of a process, as read last.
    pub(super) fn threads(&self, slot: u32) -> &dyn Threads {
        let known = self.samplers.get(slot as usize).and_then(Option::as_ref);
        let sampler = known.and_then(|known| known.1.as_ref());
        sampler.map_or(&UnknownThreads, |sampler| sampler)
    }

    /// Consumption of agent and actuator since they began.
    pub(super) fn agent_cost(&mut self) -> AgentCost {
        let mut sum = self.own();
        if let Some(actuator) = self.actuator.and_then(of_process) {
            sum.cpu_ns += actuator.cpu_ns;
            let both = sum.resident_bytes.zip(actuator.resident_bytes);
            sum.resident_bytes = both.map(|(own, actuator)| own + actuator);
        }
        sum
    }

    fn own(&mut self) -> AgentCost {
        if self.statm.is_none() {
            self.statm = File::open("/proc/self/statm").ok();
        }
        AgentCost {
            cpu_ns: own_cpu_ns(),
            starting_ns: 0,
            resident_bytes: self.statm.as_ref().and_then(resident_bytes),
        }
    }
}

/// CPU time of this process, in nanoseconds.
pub(super) fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Parses the second number of a statm.
fn resident_bytes(statm: &File) -> Option<u64> {
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * procfs::page_size())
}

/// `None` if it has ended.
fn of_process(pid: i32) -> Option<AgentCost> {
    match Process::new(pid).and_then(|process| process.stat()) {
        Ok(stat) => Some(AgentCost {
            cpu_ns: (stat.utime + stat.stime) * 1_000_000_000 / procfs::ticks_per_second(),
            starting_ns: 0,
            resident_bytes: Some(stat.rss * procfs::page_size()),
        }),
        Err(ProcError::NotFound(_)) => None,
        Err(_) => Some(AgentCost::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_and_memory_are_read() {
        let mut system = System::default();
        let first = system.agent_cost();
        assert!(
            first.cpu_ns > 0 && first.resident_bytes > Some(100_000),
            "{first:?}"
        );
        assert!(system.agent_cost().cpu_ns >= first.cpu_ns);
    }

    #[test]
    fn memory_that_proc_does_not_have_is_none_rather_than_0() {
        // A file with unexpected content.
        let mut system = System {
            statm: File::open("/dev/null").ok(),
            ..System::default()
        };
        assert_eq!(system.agent_cost().resident_bytes, None);
        assert_eq!(of_process(i32::MAX), None, "nobody has that number");
    }

    #[test]
    fn a_process_is_read_as_long_as_its_slot_is_its_own() {
        let us = std::process::id() as i32;
        let mut system = System::default();
        let sample = system.sample(&Metered::new(us, None, 2));
        assert!(sample.counters.is_some() && sample.threads.lives(us, true));
        let gone = Metered::unknown(us, 2);
        assert!(
            system.sample(&gone).counters.is_some(),
            "it goes on as the same process"
        );
        let other = system.sample(&Metered::new(i32::MAX, None, 2));
        assert_eq!((other.counters, other.has_run), (None, None));
        assert!(other.threads.lives(us, true), "nothing is known of its threads");
        assert!(system.sample(&Metered::unknown(us, 0)).counters.is_none());
    }
}
