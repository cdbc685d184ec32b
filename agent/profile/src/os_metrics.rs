//! Counters that the operating system keeps for a process, and the clock frequency of its CPUs. Plain data:
//! the caller reads it.

/// Totals since the process started, as far as they were observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of children that have ended and were waited for, and of theirs, in nanoseconds.
    pub children_ns: u64,
    /// Time ready to run but waiting for a CPU, in nanoseconds.
    pub runqueue_ns: u64,
    /// The part of `runqueue_ns` of threads that are bound to fewer CPUs than the process's cgroup allows, in
    /// nanoseconds.
    pub runqueue_bound_ns: u64,
    /// CPUs that these threads are bound to; 0 if there are none.
    pub cpus_bound: u64,
    /// Times that the kernel preempted a thread.
    pub switches_involuntary: u64,
    /// Times that a thread gave up the CPU itself.
    pub switches_voluntary: u64,
    /// Page faults served without disk access.
    pub faults_minor: u64,
    /// Page faults that needed disk access.
    pub faults_major: u64,
    /// Memory in use at the moment, in bytes.
    pub resident_bytes: u64,
    /// Estimated part of it that the program has freed but its allocator keeps; `None` if unknown.
    pub freed_bytes: Option<u64>,
    /// Peak memory in use; `None` if the kernel does not report it.
    pub resident_peak_bytes: Option<u64>,
    pub threads: u64,
    /// Bytes read from and written to files, pipes and sockets; `None` if that may not be read.
    pub moved_bytes: Option<(u64, u64)>,
    /// It was stopped (SIGSTOP, a debugger) at the last sample.
    pub is_stopped: bool,
}

impl Counters {
    /// What was added since `before`; what is a state, such as memory in use, is that of `self`.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            children_ns: self.children_ns.saturating_sub(before.children_ns),
            runqueue_ns: self.runqueue_ns.saturating_sub(before.runqueue_ns),
            runqueue_bound_ns: self.runqueue_bound_ns.saturating_sub(before.runqueue_bound_ns),
            switches_involuntary: self
                .switches_involuntary
                .saturating_sub(before.switches_involuntary),
            switches_voluntary: self.switches_voluntary.saturating_sub(before.switches_voluntary),
            faults_minor: self.faults_minor.saturating_sub(before.faults_minor),
            faults_major: self.faults_major.saturating_sub(before.faults_major),
            moved_bytes: self.moved_bytes.map(|(read, written)| {
                let (read_before, written_before) = before.moved_bytes.unwrap_or_default();
                (
                    read.saturating_sub(read_before),
                    written.saturating_sub(written_before),
                )
            }),
            ..*self
        }
    }
}

/// How often the kernel enforced the memory limits of a cgroup (`memory.events`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Times that processes were throttled, and had to give back memory, above `memory.high`.
    pub high: u64,
    /// Times that memory was about to exceed `memory.max`, so that the kernel had to reclaim some.
    pub max: u64,
    /// Times that this did not suffice.
    pub oom: u64,
    /// Processes of the group that the OOM killer ended.
    pub oom_kill: u64,
}

impl MemoryEvents {
    /// What was added since `before`.
    pub fn since(&self, before: &MemoryEvents) -> MemoryEvents {
        MemoryEvents {
            high: self.high.saturating_sub(before.high),
            max: self.max.saturating_sub(before.max),
            oom: self.oom.saturating_sub(before.oom),
            oom_kill: self.oom_kill.saturating_sub(before.oom_kill),
        }
    }
}

/// A cgroup whose memory is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryGroup {
    /// Its path below the mount, as in "/slurm/job_4".
    pub cgroup: String,
    /// `memory.max`; `None` without a limit.
    pub limit_bytes: Option<u64>,
    /// `memory.high`; `None` without one.
    pub high_bytes: Option<u64>,
    pub events: MemoryEvents,
}

/// What the OOM killer did in the cgroup of a process since the session began.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OutOfMemory {
    /// The cgroup of the process.
    pub cgroup: String,
    /// Processes of this cgroup that it ended.
    pub kills: u64,
    /// The cgroup whose limit was reached, which may be one above, and the limit in bytes; `None` if no limit was: the
    /// machine was out of memory.
    pub reached: Option<(String, u64)>,
}

/// Clock frequencies of a set of CPUs at one moment, in hertz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    pub least_hz: f64,
    pub mean_hz: f64,
    pub most_hz: f64,
}
