//! How a module's time divides, by the two gates of the source's equation (9): without input it is starved,
//! without room for output it is blocked, and otherwise it is busy, or waits for a CPU.

use crate::format::percent;
use serde::{Deserialize, Serialize};

/// Shares of a module's time; together 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Computes, or waits for something outside the streams.
    pub busy: f64,
    /// The part of `busy` without a CPU: waits for a disk, a network, a clock.
    pub outside: f64,
    /// Could run, and has no CPU.
    pub waits_for_cpu: f64,
    /// Has no item to take, and waits for one.
    pub starved: f64,
    /// Waits for room for its output.
    pub blocked: f64,
}

crate::fieldwise::fieldwise! {
    TimeShares { busy, outside, waits_for_cpu, starved, blocked }
}

/// What a module mostly does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleVerdict {
    ComputeBound,
    WaitsForCpu,
    Starved,
    Blocked,
}

impl ModuleVerdict {
    pub const ALL: [ModuleVerdict; 4] = [
        ModuleVerdict::ComputeBound,
        ModuleVerdict::WaitsForCpu,
        ModuleVerdict::Starved,
        ModuleVerdict::Blocked,
    ];

    pub fn words(self) -> &'static str {
        match self {
            ModuleVerdict::ComputeBound => "compute-bound",
            ModuleVerdict::WaitsForCpu => "waits for a CPU",
            ModuleVerdict::Starved => "starved",
            ModuleVerdict::Blocked => "blocked",
        }
    }
}

impl TimeShares {
    /// The greatest share decides; of equal ones, the earlier of: busy, waits for a CPU, starved, blocked.
    pub fn verdict(&self) -> ModuleVerdict {
        let shares = [
            (ModuleVerdict::ComputeBound, self.busy),
            (ModuleVerdict::WaitsForCpu, self.waits_for_cpu),
            (ModuleVerdict::Starved, self.starved),
            (ModuleVerdict::Blocked, self.blocked),
        ];
        let mut most = shares[0];
        for one in shares {
            if one.1 > most.1 {
                most = one;
            }
        }
        most.0
    }

    /// The part of the busy time in which it has no CPU, as an addition to the busy time; empty if it is small.
    pub(crate) fn asleep(&self) -> String {
        match self.outside >= 0.05 {
            true => format!(
                " ({} of it asleep: disk, network or timer)",
                percent(self.outside / self.busy)
            ),
            false => String::new(),
        }
    }

    /// What it does, by its verdict. A module that is mostly asleep while it is busy is not bound by computing.
    pub(crate) fn words(&self, verdict: ModuleVerdict) -> &'static str {
        match verdict {
            ModuleVerdict::ComputeBound if self.outside > self.busy / 2.0 => "I/O-bound",
            _ => verdict.words(),
        }
    }

    /// The share in which it holds others up: it has input and room, and is not done.
    pub fn holds(&self) -> f64 {
        self.busy + self.waits_for_cpu
    }

    /// TimeShares of amounts of time, of which none is negative.
    pub(crate) fn of(busy: f64, outside: f64, waits_for_cpu: f64, starved: f64, blocked: f64) -> TimeShares {
        let sum = busy + waits_for_cpu + starved + blocked;
        if sum <= 0.0 {
            return TimeShares::default();
        }
        TimeShares {
            busy: busy / sum,
            outside: outside / sum,
            waits_for_cpu: waits_for_cpu / sum,
            starved: starved / sum,
            blocked: blocked / sum,
        }
    }
}
