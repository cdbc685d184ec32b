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

/// Clock frequencies of a set of CPUs at one moment, in hertz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    pub least_hz: f64,
    pub mean_hz: f64,
    pub most_hz: f64,
}
