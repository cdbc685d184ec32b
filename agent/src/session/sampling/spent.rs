//! What watching has cost up to a moment, function by function, and in the window that is open. Decides nothing.

use std::collections::BTreeMap;

use abi::Totals;

use super::{Metered, Session};
use crate::cost::{Function, Load, Window};

/// What was spent up to a moment.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Spent {
    pub(in crate::session) at_ns: u64,
    job_ns: u64,
    agent_ns: u64,
    /// CPU time of its hits, by function.
    pub(in crate::session) costs: BTreeMap<u32, f64>,
}

impl Spent {
    pub(in crate::session) fn of(&self, probe: u32) -> f64 {
        self.costs.get(&probe).copied().unwrap_or_default()
    }

    /// Up to now nothing more was spent but by the agent.
    pub(super) fn pass(&mut self, now_ns: u64, agent_ns: u64) {
        (self.at_ns, self.agent_ns) = (now_ns, agent_ns);
    }

    fn all(&self) -> f64 {
        self.costs.values().sum()
    }

    /// What part of the job's CPU time the hits took since then, and hits and agent together.
    pub(super) fn shares_since(&self, before: &Spent) -> Option<(f64, f64)> {
        let job_ns = self.job_ns.checked_sub(before.job_ns).filter(|ns| *ns > 0)? as f64;
        let hits = self.all() - before.all();
        let agent = self.agent_ns.saturating_sub(before.agent_ns) as f64;
        Some((hits / job_ns, (hits + agent) / job_ns))
    }
}

impl Session {
    /// What each process did in the window that is open.
    pub(super) fn windows_of_processes(&self) -> Vec<Window> {
        let prices = self.call_prices();
        let of_mpi: Vec<bool> = self
            .probes
            .list()
            .iter()
            .map(|probe| probe.mpi.is_some())
            .collect();
        let window = |process: &Metered| {
            let (last, (since, before)) = process.last().zip(process.unwatched.opened())?;
            let hits = |totals: &Totals| totals.calls + totals.nested;
            let nothing = Totals::default();
            let mut window = Window {
                length: last.moment().since(since),
                threads: last.callers.max(1),
                ..Window::default()
            };
            for (probe, totals) in last.counted.iter().enumerate() {
                let before = before.get(probe).unwrap_or(&nothing);
                let price = prices.get(&(probe as u32)).copied().unwrap_or_default();
                window.cost_ns += hits(totals).saturating_sub(hits(before)) as f64 * price;
                if of_mpi.get(probe) == Some(&true) {
                    window.inside_ns += totals.time_ns.saturating_sub(before.time_ns);
                }
            }
            let inside = last.mpi_ns.max(1) as f64;
            let waited = last.mpi_waited_ns.unwrap_or_default() as f64 / inside;
            window.waited_ns = (window.inside_ns as f64 * waited.min(1.0)) as u64;
            Some(window)
        };
        let windows = self
            .processes
            .iter()
            .map(|process| window(process).unwrap_or_default());
        let mut windows: Vec<Window> = windows.collect();
        let of_a_thread = |window: &Window| window.cost_ns / window.threads.max(1) as f64;
        let all: f64 = windows.iter().map(of_a_thread).sum();
        for window in &mut windows {
            window.others_ns = all - of_a_thread(window);
        }
        windows
    }

    /// What a call of each function costs that is probed.
    fn call_prices(&self) -> BTreeMap<u32, f64> {
        let Some(prices) = self.probes.prices() else {
            return BTreeMap::new();
        };
        let probed = self.costs.probed().iter();
        probed
            .map(|(probe, probed)| (*probe, prices.call_ns(probed)))
            .collect()
    }

    /// Up to the last reading.
    pub(in crate::session) fn spent(&self) -> Spent {
        let mut spent = Spent {
            at_ns: self.read_ns,
            agent_ns: self.costs.agent().cpu_ns,
            ..Spent::default()
        };
        let prices = self.call_prices();
        for process in &self.processes {
            let Some(last) = process.last() else { continue };
            let first = process.first().and_then(|first| first.counters);
            let first_ns = first.map_or(0, |counters| counters.cpu_ns);
            spent.job_ns += last
                .counters
                .map_or(0, |counters| counters.cpu_ns.saturating_sub(first_ns));
            for (probe, price) in &prices {
                let totals = last.counted.get(*probe as usize);
                let hits = totals.map_or(0, |totals| totals.calls + totals.nested);
                *spent.costs.entry(*probe).or_default() += hits as f64 * price;
            }
        }
        spent
    }

    /// What all costs: functions that are watched in windows as in the one since `opened`, everything else since `before`.
    pub(in crate::session) fn load(&self, before: &Spent, opened: Option<&Spent>, now: &Spent) -> Load {
        let ns = now.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        let mut load = Load {
            job: now.job_ns.saturating_sub(before.job_ns) as f64 / ns,
            // What it takes of CPUs of its own it takes from nobody.
            agent: match self.options.busy_poll {
                true => 0.0,
                false => now.agent_ns.saturating_sub(before.agent_ns) as f64 / ns,
            },
            ..Load::default()
        };
        for probe in now.costs.keys().copied() {
            let is_sampled = self.sampling.sampled.functions.contains(&probe);
            let since = opened.filter(|_| is_sampled).unwrap_or(before);
            let ns = now.at_ns.saturating_sub(since.at_ns).max(1) as f64;
            let cost = (now.of(probe) - since.of(probe)).max(0.0) / ns;
            if self.probes.is_counted(probe) && self.probes.can_take_turns() {
                load.counted += cost;
                continue;
            }
            if !self.probes.may_pause(probe) {
                load.asked += cost;
                continue;
            }
            load.functions.push(Function {
                probe,
                cost,
                is_apart: self.is_apart(probe),
            });
        }
        load
    }

    /// The window that is open has cost far more than it was to.
    pub(super) fn is_overspent(&self) -> bool {
        let (Some(most_ns), Some(kernel)) = (self.sampling.windows.most_ns(), self.probes.kernel()) else {
            return false;
        };
        let prices = self.call_prices();
        let functions = &self.sampling.sampled.functions;
        let cost = |process: &Metered| {
            let (_, before) = process.unwatched.opened()?;
            let of = functions.iter().map(|probe| {
                let before = before.get(*probe as usize).map_or(0, |totals| totals.calls);
                let calls = kernel.calls_of(process.slot, *probe).saturating_sub(before);
                calls as f64 * prices.get(probe).copied().unwrap_or_default()
            });
            Some(of.sum::<f64>())
        };
        let living = self.processes.iter().filter(|process| !process.ended);
        living.filter_map(cost).sum::<f64>() > most_ns
    }
}
