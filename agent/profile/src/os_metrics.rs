//! What the operating system counts of a process, and how fast its CPUs are clocked. Numbers alone: the
//! caller reads them.

/// Totals since the process started, as far as they were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// Time ready to run but waiting for a CPU, in nanoseconds.
    pub runqueue_ns: u64,
    /// Part of it that threads waited which are bound to fewer CPUs than the process's cgroup allows, in
    /// nanoseconds.
    pub runqueue_bound_ns: u64,
    /// CPUs that these threads are bound to; 0 where none is.
    pub cpus_bound: u64,
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
    /// Part of it that the program has freed and its allocator keeps, estimated; `None` where that is not
    /// known.
    pub freed_bytes: Option<u64>,
    /// The most memory in use so far; `None` if the kernel does not report it.
    pub resident_peak_bytes: Option<u64>,
    pub threads: u64,
}

/// The clock of a set of CPUs at one moment, in hertz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    pub least_hz: f64,
    pub mean_hz: f64,
    pub most_hz: f64,
}
