//! The cost of watching up to a moment, function by function, and the load in the open sampling window.
//! Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use profile::cost::{BudgetFunction, Load};
use profile::{Profile, hits};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallNeed {
    /// A rule or a recording needs each of them.
    Each,
    /// Rules only count them.
    Count,
    /// Only the profile needs them.
    Profile,
    /// As `Profile`, in windows of their own ([`super::Regions`]).
    Regions,
}

#[derive(Clone, Copy, Debug)]
pub struct WatchedFunction<'a> {
    pub name: &'a str,
    pub price_ns: f64,
    /// Why its calls are needed.
    pub need: CallNeed,
    /// It is not part of a sequence of calls.
    pub is_apart: bool,
}

/// All functions, by number.
pub type Functions<'a> = BTreeMap<u32, WatchedFunction<'a>>;

/// Costs up to a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    pub at_ns: u64,
    /// CPU time of the job since the first readings, in nanoseconds.
    pub job_ns: u64,
    /// CPU time of the agent, in nanoseconds.
    pub agent_ns: u64,
    /// CPU time of hits by function, in nanoseconds.
    pub costs: BTreeMap<u32, f64>,
}

impl Spent {
    /// The costs up to the last reading.
    pub fn of(profile: &Profile, functions: &Functions<'_>, agent_ns: u64) -> Spent {
        let mut spent = Spent {
            at_ns: profile.read_ns,
            agent_ns,
            ..Spent::default()
        };
        for process in &profile.processes {
            let Some(last) = process.last() else { continue };
            let first = process.first().and_then(|first| first.counters);
            let first_ns = first.map_or(0, |counters| counters.cpu_ns);
            spent.job_ns += last
                .counters
                .map_or(0, |counters| counters.cpu_ns.saturating_sub(first_ns));
            for (probe, watched) in functions {
                let hits = last.counted.get(*probe as usize).map_or(0, hits);
                *spent.costs.entry(*probe).or_default() += hits as f64 * watched.price_ns;
            }
        }
        spent
    }

    pub(crate) fn of_function(&self, probe: u32) -> f64 {
        self.costs.get(&probe).copied().unwrap_or_default()
    }

    /// Moves to `now_ns`: since the last check only the agent spent CPU time.
    pub fn pass(&mut self, now_ns: u64, agent_ns: u64) {
        (self.at_ns, self.agent_ns) = (now_ns, agent_ns);
    }

    fn all(&self) -> f64 {
        self.costs.values().sum()
    }

    /// The share of the job's CPU time that hits took since then, and hits and agent together.
    pub(crate) fn shares_since(&self, before: &Spent) -> Option<(f64, f64)> {
        let job_ns = self.job_ns.checked_sub(before.job_ns).filter(|ns| *ns > 0)? as f64;
        let hits = self.all() - before.all();
        let agent = self.agent_ns.saturating_sub(before.agent_ns) as f64;
        Some((hits / job_ns, (hits + agent) / job_ns))
    }

    /// The load in CPUs: of `sampled` functions since `opened` (the open window), of the rest since `before`.
    pub(crate) fn load_since(
        &self,
        before: &Spent,
        opened: Option<&Spent>,
        sampled: &BTreeSet<u32>,
        functions: &Functions<'_>,
    ) -> Load {
        let ns = self.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        let mut load = Load {
            job: self.job_ns.saturating_sub(before.job_ns) as f64 / ns,
            agent: self.agent_ns.saturating_sub(before.agent_ns) as f64 / ns,
            ..Load::default()
        };
        for (probe, watched) in functions {
            let since = opened.filter(|_| sampled.contains(probe)).unwrap_or(before);
            let ns = self.at_ns.saturating_sub(since.at_ns).max(1) as f64;
            let cost = (self.of_function(*probe) - since.of_function(*probe)).max(0.0) / ns;
            match watched.need {
                CallNeed::Count => load.counted += cost,
                CallNeed::Each | CallNeed::Regions => load.requested += cost,
                CallNeed::Profile => load.functions.push(BudgetFunction {
                    probe: *probe,
                    cost,
                    is_apart: watched.is_apart,
                }),
            }
        }
        load
    }
}
