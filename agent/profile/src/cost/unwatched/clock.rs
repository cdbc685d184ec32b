//! The time of a program: how long it could make calls between two readings.

/// The time of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountTime {
    pub at_ns: u64,
    /// CPU time of the process.
    pub cpu_ns: u64,
    /// Time for which its threads waited for a CPU, summed.
    pub waited_ns: u64,
}

impl CountTime {
    /// The time that passed since `before`.
    pub fn since(self, before: CountTime) -> CountTime {
        CountTime {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }

    /// Of this length, the time in which so many threads ran or slept. Threads that make no calls count with their CPU
    /// time, too.
    fn active_ns(self, threads: u64) -> u64 {
        let all = self.at_ns.saturating_mul(threads.max(1));
        all.saturating_sub(self.waited_ns).max(self.cpu_ns)
    }

    pub(super) fn by(self, clock: ProgramClock) -> u64 {
        match clock {
            ProgramClock::Cpu => self.cpu_ns,
            ProgramClock::Active { threads } => self.active_ns(threads),
        }
    }
}

/// The time by which a program makes its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProgramClock {
    /// CPU time: that of a program that computes, also if it is preempted or idle for a while.
    #[default]
    Cpu,
    /// Time in which these threads run or sleep: that of a program that sleeps between its calls.
    Active { threads: u64 },
}
