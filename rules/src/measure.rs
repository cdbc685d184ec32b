//! The built-in measures, declared once: checker, evaluator, agent and documentation use this table.
//!
//! The agent obtains the values.

use serde::{Deserialize, Serialize};
use syntax::unit::Dimension;

/// The kind of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureKind {
    /// A running total; formulas see its change within the window.
    Counter,
    /// A level; formulas see the last value in the window.
    Gauge,
}

/// The subject of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One value for each process: formulas see a table by process.
    Process,
    /// One value for each machine: formulas see the sum over the machines of the window's processes.
    Machine,
}

macro_rules! measures {
    ($($variant:ident $name:literal $kind:ident $scope:ident $dimension:ident $doc:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Measure {
            $(#[doc = $doc] $variant,)*
        }

        impl Measure {
            /// Every measure, in the order of the documentation.
            pub const ALL: &'static [Measure] = &[$(Measure::$variant,)*];

            /// Its name in a formula.
            pub fn name(self) -> &'static str {
                match self { $(Measure::$variant => $name,)* }
            }

            pub fn kind(self) -> MeasureKind {
                match self { $(Measure::$variant => MeasureKind::$kind,)* }
            }

            pub fn scope(self) -> Scope {
                match self { $(Measure::$variant => Scope::$scope,)* }
            }

            /// Time (observed in nanoseconds), bytes, or a plain number.
            pub fn dimension(self) -> Dimension {
                match self { $(Measure::$variant => Dimension::$dimension,)* }
            }

            /// One sentence for the documentation.
            pub fn doc(self) -> &'static str {
                match self { $(Measure::$variant => $doc,)* }
            }
        }
    };
}

measures! {
    MpiTime "mpi.time" Counter Process TIME
        "Wall time spent inside MPI calls, the time a rank waits for a CPU there included.";
    MpiRunqueueTime "mpi.runqueue" Counter Process TIME
        "Part of `mpi.time` spent ready to run but waiting for a CPU; none where the kernel does not measure it.";
    MpiCalls "mpi.calls" Counter Process NONE "MPI calls made, those inside other MPI calls left out.";
    MpiBytes "mpi.bytes" Counter Process BYTES "Bytes handed to MPI for sending.";
    UsefulShare "useful.share" Gauge Process NONE
        "Share of its time that a rank is outside MPI, over complete iterations of the detected loop, else over about a second.";
    IterationTime "iteration.time" Gauge Process TIME
        "Time of an iteration of the detected loop, the mean over about two seconds; none where there is no loop.";
    ScalingThreads "scaling.threads" Gauge Process NONE
        "Threads of the largest OpenMP team in an iteration of the detected loop, in those that were measured last; none where there is no such loop.";
    ScalingSizes "scaling.sizes" Gauge Process NONE "Sizes of `scaling.threads` that were measured.";
    ScalingSpeedup "scaling.speedup" Gauge Process NONE
        "`scaling.threads` less the lost threads: an upper bound while one size was measured.";
    ScalingSerial "scaling.serial" Gauge Process NONE
        "Share of the time with one thread that more threads do not shorten, for whatever reason: the serial fraction of Karp and Flatt with the largest of the measured sizes.";
    ScalingVisit "scaling.visit" Gauge Process NONE
        "The next size of `scaling.threads` to measure, so that the fastest one is found; 0 if nothing is left to measure.";
    ScalingLoss "scaling.loss" Gauge Process NONE
        "Share of the time, watched and left, that is lost to sizes other than the first one: so far, and planned for `scaling.visit`.";
    LostSequential "lost.sequential" Gauge Process NONE "Threads lost to code outside parallel regions.";
    LostImbalance "lost.imbalance" Gauge Process NONE "Threads lost to waiting at the end of regions for the last thread.";
    LostOverhead "lost.overhead" Gauge Process NONE "Threads lost to starting and ending regions.";
    LostSmallTeams "lost.small_teams" Gauge Process NONE "Threads lost to regions with smaller teams.";
    LostInflation "lost.inflation" Gauge Process NONE
        "Threads lost to additional work, against the work of a single thread; none while one size was measured.";
    CpuTime "cpu.time" Counter Process TIME "Time on a CPU, all threads.";
    RunqueueTime "runqueue.time" Counter Process TIME "Time ready to run but waiting for a CPU, all threads.";
    RunqueueBound "runqueue.bound" Counter Process TIME
        "Part of `runqueue.time` that threads waited which are bound to fewer CPUs than the process's cgroup grants.";
    SwitchesInvoluntary "switches.involuntary" Counter Process NONE
        "Times a thread lost its CPU while it could have gone on; a yield counts as one.";
    SwitchesVoluntary "switches.voluntary" Counter Process NONE "Times a thread gave up its CPU to wait.";
    FaultsMinor "faults.minor" Counter Process NONE "Page faults served without reading a disk.";
    IoRead "io.read" Counter Process BYTES
        "Bytes that the process has read from files, pipes and sockets; none for MPI ranks, and where /proc/PID/io may not be read.";
    IoWritten "io.written" Counter Process BYTES
        "Bytes that it has written to files, pipes and sockets; none for MPI ranks, and where /proc/PID/io may not be read.";
    CpusAvailable "cpus.available" Gauge Process NONE
        "CPUs the process may use: the smaller of its allowed set and its group's quota.";
    CpusBound "cpus.bound" Gauge Process NONE
        "CPUs to which those threads are bound that wait for a CPU and are bound to fewer than the process's cgroup grants; 0 without any.";
    Threads "threads" Gauge Process NONE "Number of threads.";
    MemoryResident "memory.resident" Gauge Process BYTES "Memory the process has in RAM.";
    MemoryFreed "memory.freed" Gauge Process BYTES
        "Part of `memory.resident` that the program has freed and glibc's allocator keeps between blocks in use: an estimate, once in about ten seconds; none of less than 64 MiB.";
    CpuThrottled "cpu.throttled" Counter Machine TIME "Time the group was kept from running by its CPU quota.";
    JobCpus "job.cpus" Gauge Machine NONE
        "CPUs that the processes of the job may use together on this machine: allowed to any of them, less what quotas cut off.";
    CpusOnline "cpus.online" Gauge Machine NONE "CPUs the machine has online.";
    CpusBusyByOthers "cpus.busy_by_others" Gauge Machine NONE
        "CPUs, among those that the job may use, that other programs keep busy: all use of these CPUs less the job's, over about two seconds.";
    CpusIdle "cpus.idle" Gauge Machine NONE
        "Idle CPUs among those that the cgroups of the job grant, no more than quotas leave, over about two seconds, including those that the processes are not bound to.";
    CpusStarted "cpus.started" Gauge Machine NONE
        "CPUs that what started the job may use: its launchers, or the parents of its first processes.";
    CpusFree "cpus.free" Gauge Machine NONE
        "CPUs left for the job: those allowed to any of its processes less what others keep busy, and no more than quotas grant.";
}

impl Measure {
    /// The measure with this name in formulas.
    pub fn named(name: &str) -> Option<Measure> {
        Measure::ALL
            .iter()
            .copied()
            .find(|measure| measure.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_is_found_by_its_name_and_has_a_sentence() {
        for &measure in Measure::ALL {
            assert_eq!(Measure::named(measure.name()), Some(measure));
            assert!(measure.doc().ends_with('.'), "{}", measure.name());
        }
        assert_eq!(Measure::named("mpi"), None);
    }
}
