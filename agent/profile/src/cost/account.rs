//! Computes the cost of calls from their prices, and its share of the job's CPU time.

use std::{collections::BTreeMap, time::Duration};

use crate::format::in_sentence;

use super::{BudgetShare, price::Prices, unwatched::PRICE_ERROR};

/// If a program is slowed down by more than this share, the output says how to reduce it.
pub const TOO_MUCH: f64 = 0.01;

/// A mean that exceeds the budget by less than this part of it is within it.
const ABOVE_MIN: f64 = 0.05;

/// If sampling spares a smaller part of the budget, when the mean cost will be within it is not predicted.
const SPARED_MIN: f64 = 0.1;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeCost {
    pub name: String,
    /// How the kernel executes the instruction under its probe.
    pub site: &'static str,
    /// Calls, nested ones included.
    pub calls: u64,
    pub call_ns: f64,
    pub ns: f64,
}

/// Holds and stops for one kind of action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldTotals {
    /// Changes that were attempted with a hold or stop, made or not.
    pub changes: u64,
    /// Time for which threads were held, in nanoseconds.
    pub ns: u64,
}

/// The consumption of the agent's own processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCost {
    /// CPU time before all probes were attached: finding and reading the program's files, and attaching.
    pub starting_ns: u64,
    /// CPU time since then, in nanoseconds.
    pub cpu_ns: u64,
    /// Memory in use, in bytes; `None` if /proc does not report it.
    pub resident_bytes: Option<u64>,
}

/// The costs in the last period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentCost {
    /// Cost of the probes as share of the job's CPU time; `None` if the job used none.
    pub probes: Option<f64>,
    /// The most expensive probe, and its share of the job's CPU time.
    pub most_expensive: Option<(String, f64)>,
    /// CPUs that the agent used.
    pub agent: Option<f64>,
    /// Cost of agent and probes together, as share of the job's CPU time.
    pub together: Option<f64>,
    /// The estimated slowdown of the program.
    pub slowdown: Option<Slowdown>,
}

/// Estimated slowdown of the program by watching, as shares of its time. The real one is less if a rank would
/// have waited for another one meanwhile, and more if hits cost more than their price, which is measured on
/// an idle CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slowdown {
    /// Caused by probes, in the process that they delay most. Hits in several busy threads of a process are
    /// assumed to run at the same time.
    pub probes: f64,
    /// Caused by the agent while no CPU was idle: ranks that wait for each other all lose the time that it
    /// takes from one.
    pub agent: f64,
    /// CPUs that the processes used or waited for.
    pub wanted: f64,
    /// For most of the time no CPU was idle.
    pub is_full: bool,
}

impl Slowdown {
    pub fn all(self) -> f64 {
        self.probes + self.agent
    }

    /// Accounts for one process: the time of its probes, its CPU time, the time in which it did not wait for a
    /// CPU, and the CPUs that it used or waited for.
    pub fn delay(&mut self, probes_ns: f64, cpu_ns: u64, unhindered_ns: u64, wanted: f64) {
        let had_ns = cpu_ns.max(unhindered_ns);
        if had_ns > 0 {
            self.probes = self.probes.max(probes_ns / had_ns as f64);
        }
        self.wanted += wanted;
    }

    /// Accounts for the agent, which used `cpus`; no CPU was idle for the part `full` of the time. It delays
    /// processes only while they want a CPU, so those that sleep lose nothing.
    pub fn delay_by_agent(&mut self, cpus: f64, full: f64) {
        self.agent = cpus * full * self.wanted.min(1.0);
        self.is_full = full > 0.5;
    }
}

/// Measures the part of the time in which no CPU was idle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fullness {
    full_ns: f64,
    all_ns: f64,
}

impl Fullness {
    /// Adds a period of `ns` in which `idle` CPUs were idle on average.
    pub fn add(&mut self, idle: f64, ns: u64) {
        self.full_ns += (1.0 - idle).clamp(0.0, 1.0) * ns as f64;
        self.all_ns += ns as f64;
    }

    /// From 0 to 1; 1 if unknown.
    pub fn part(self) -> f64 {
        match self.all_ns > 0.0 {
            true => self.full_ns / self.all_ns,
            false => 1.0,
        }
    }
}

/// How long hits stayed in the ring until they were read. Each read counts its oldest hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadView {
    /// The longest recent delay, in nanoseconds.
    pub recent_ns: u64,
    /// The longest delay, in nanoseconds.
    pub most_ns: u64,
    pub reads: u64,
    /// Reads in which the oldest hit had waited for longer than the limit.
    pub late: u64,
}

/// The functions that are sampled in windows, and the part of the time that the windows take.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowsView {
    pub functions: Vec<String>,
    /// Windows as part of the time.
    pub part: f64,
    /// The budget that is enforced.
    pub budget: BudgetShare,
    /// Some of the functions belong to the sequence of calls.
    pub cuts_sequence: bool,
}

impl WindowsView {
    /// The names of at most `most` functions.
    pub fn names(&self, most: usize) -> String {
        let (named, others) = self.functions.split_at(self.functions.len().min(most));
        let named: Vec<String> = named.iter().map(|name| in_sentence(name)).collect();
        match (&named[..], others.len()) {
            ([one], 0) => one.clone(),
            ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
            (_, 1) => format!("{} and 1 more function", named.join(", ")),
            (_, more) => format!("{} and {more} more functions", named.join(", ")),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostView {
    pub prices: Prices,
    /// T_Instr: from the start of the search for functions until all probes were attached, in nanoseconds.
    /// The program ran meanwhile.
    pub arming_ns: u64,
    /// T_Mon by function, the most expensive first.
    pub probes: Vec<ProbeCost>,
    /// CPU time of the job's processes since the probes were armed, in nanoseconds.
    pub job_ns: u64,
    pub held: BTreeMap<&'static str, HoldTotals>,
    pub agent: AgentCost,
    /// The estimated slowdown over the complete session.
    pub slowdown: Slowdown,
    pub recent: RecentCost,
    /// How long hits stayed in the ring until they were read; `None` without hits.
    pub unread: Option<UnreadView>,
    /// What is sampled in windows now; `None` if everything is watched all the time.
    pub windows: Option<WindowsView>,
    /// The most expensive function of which a rule or a recording needs every call.
    pub required: Option<String>,
    /// The session makes a recording (`--record`).
    pub is_recorded: bool,
}

impl CostView {
    pub fn probes_ns(&self) -> f64 {
        self.probes.iter().map(|probe| probe.ns).sum()
    }

    /// T_Mon as share of the job's CPU time; `None` if the job used none.
    pub fn probes_share(&self) -> Option<f64> {
        share(self.probes_ns(), self.job_ns)
    }

    /// Cost of probes and agent together, as share of the job's CPU time.
    pub fn together(&self) -> Option<f64> {
        share(self.probes_ns() + self.agent.cpu_ns as f64, self.job_ns)
    }

    /// Whether the mean cost since the start is above the budget of the sampling windows: before functions were
    /// sampled, all were watched. `None` if nothing is sampled, or if it is not above.
    pub fn above_budget(&self, elapsed: Duration) -> Option<AboveBudget> {
        let budget = self.windows.as_ref()?.budget.0?;
        let elapsed_ns = elapsed.as_nanos() as f64;
        // As for the windows, a job that waits more than it computes counts as one that uses a full CPU.
        let of_ns = (self.job_ns as f64).max(elapsed_ns);
        let (allowed, agent_ns) = (budget * of_ns / elapsed_ns, self.agent.cpu_ns as f64);
        let above_ns = self.probes_ns() + agent_ns - budget * of_ns;
        if above_ns <= ABOVE_MIN * allowed * elapsed_ns {
            return None;
        }
        // Windows are planned for prices that are too low by the error of prices.
        let spared = |agent: f64| (allowed - agent) * (1.0 - 1.0 / (1.0 + PRICE_ERROR));
        let spared = self.recent.agent.map(spared);
        let spared = spared.filter(|spared| *spared > SPARED_MIN * allowed);
        Some(AboveBudget {
            is_of_one_cpu: (self.job_ns as f64) < elapsed_ns,
            share: (self.probes_ns() + agent_ns) / of_ns,
            agent: agent_ns / of_ns,
            until_ns: spared.map(|spared| elapsed_ns + above_ns / spared),
        })
    }
}

/// A mean cost above the budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AboveBudget {
    /// The job uses less than one CPU, so that the budget is a share of a CPU.
    pub is_of_one_cpu: bool,
    /// As share of the job's CPU time, or of a CPU.
    pub share: f64,
    /// The part of it that is the agent's own.
    pub agent: f64,
    /// When it will be within the budget, in nanoseconds since the start; `None` if the agent has used too much
    /// of the budget recently to predict it.
    pub until_ns: Option<f64>,
}

/// `None` if the total is zero.
fn share(ns: f64, of_ns: u64) -> Option<f64> {
    (of_ns > 0).then(|| ns / of_ns as f64)
}

/// Calls in a period, summed over processes, and the CPU time of these processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    calls: BTreeMap<usize, u64>,
    /// CPU time of all processes.
    pub job_ns: u64,
}

impl Account {
    /// Adds one process: its calls by probe, and its CPU time.
    pub fn add(&mut self, calls: impl IntoIterator<Item = (usize, u64)>, cpu_ns: u64) {
        for (probe, calls) in calls.into_iter().filter(|(_, calls)| *calls > 0) {
            *self.calls.entry(probe).or_default() += calls;
        }
        self.job_ns += cpu_ns;
    }

    /// The cost of the calls, the most expensive first. `price` returns name, site and price of a probe, or
    /// `None` if unknown.
    pub fn costs<'a>(&self, price: impl Fn(usize) -> Option<(&'a str, &'static str, f64)>) -> Vec<ProbeCost> {
        let cost = |(probe, calls): (&usize, &u64)| {
            let (name, site, call_ns) = price(*probe)?;
            Some(ProbeCost {
                name: name.to_owned(),
                site,
                calls: *calls,
                call_ns,
                ns: *calls as f64 * call_ns,
            })
        };
        let mut costs: Vec<ProbeCost> = self.calls.iter().filter_map(cost).collect();
        costs.sort_by(|one, other| {
            other
                .ns
                .total_cmp(&one.ns)
                .then_with(|| one.name.cmp(&other.name))
        });
        costs
    }

    /// The costs of the last period, in which the agent used `agent_ns` of CPU time in `elapsed_ns`.
    pub fn recent(&self, costs: &[ProbeCost], agent: Option<(u64, u64)>) -> RecentCost {
        let probes: f64 = costs.iter().map(|cost| cost.ns).sum();
        let most_expensive = costs.first();
        RecentCost {
            probes: share(probes, self.job_ns),
            most_expensive: most_expensive
                .and_then(|cost| Some((cost.name.clone(), share(cost.ns, self.job_ns)?))),
            agent: agent.and_then(|(cpu_ns, elapsed_ns)| share(cpu_ns as f64, elapsed_ns)),
            together: agent.and_then(|(cpu_ns, _)| share(probes + cpu_ns as f64, self.job_ns)),
            slowdown: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process() -> impl Strategy<Value = (Vec<(usize, u64)>, u64)> {
        let calls = prop::collection::vec((0_usize..5, 0_u64..1_000_000), 0..8);
        (calls, 0_u64..10_000_000_000)
    }

    fn priced(probe: usize) -> Option<(&'static str, &'static str, f64)> {
        let name = ["a", "b", "c", "d"].get(probe)?;
        Some((name, "emulated", 100.0 * (1 + probe) as f64))
    }

    fn sum(costs: &[ProbeCost]) -> f64 {
        costs.iter().map(|cost| cost.ns).sum()
    }

    proptest! {
        #[test]
        fn the_cost_of_several_processes_is_the_sum_of_their_costs(processes in prop::collection::vec(process(), 0..6)) {
            let mut together = Account::default();
            let mut apart = 0.0;
            for (calls, cpu_ns) in &processes {
                together.add(calls.iter().copied(), *cpu_ns);
                let mut one = Account::default();
                one.add(calls.iter().copied(), *cpu_ns);
                apart += sum(&one.costs(priced));
            }
            prop_assert!((sum(&together.costs(priced)) - apart).abs() <= 1e-6 * apart.max(1.0));
            prop_assert_eq!(together.job_ns, processes.iter().map(|(_, cpu_ns)| cpu_ns).sum::<u64>());
        }

        #[test]
        fn the_most_expensive_probe_comes_first_and_uncalled_ones_are_left_out((calls, cpu_ns) in process()) {
            let mut account = Account::default();
            account.add(calls, cpu_ns);
            let costs = account.costs(priced);
            prop_assert!(costs.is_sorted_by(|one, other| one.ns >= other.ns));
            prop_assert!(costs.iter().all(|cost| cost.calls > 0));
        }

        #[test]
        fn the_most_expensive_probe_costs_no_more_than_all_probes_and_these_no_more_than_all((calls, cpu_ns) in process(), agent_ns in 0_u64..1_000_000_000) {
            let mut account = Account::default();
            account.add(calls, cpu_ns);
            let late = account.recent(&account.costs(priced), Some((agent_ns, 1_000_000_000)));
            prop_assert_eq!(late.probes.is_some(), cpu_ns > 0);
            if let (Some(probes), Some(together)) = (late.probes, late.together) {
                prop_assert!(probes <= together * (1.0 + 1e-12));
                prop_assert!(late.most_expensive.is_none_or(|(_, part)| part <= probes * (1.0 + 1e-12)));
            }
        }
    }

    #[test]
    fn a_start_in_which_everything_was_watched_is_compensated_by_what_the_windows_spare() {
        // Three seconds at 20 % of two CPUs, and 0.01 CPUs for the agent: 1.2 s + 0.2 s of 20 s, of which the
        // budget is 0.4 s; the windows spare 40 % of the remaining 0.01 CPUs.
        let mut view = CostView {
            probes: vec![ProbeCost {
                ns: 1.2e9,
                ..ProbeCost::default()
            }],
            job_ns: 40_000_000_000,
            agent: AgentCost {
                cpu_ns: 200_000_000,
                ..AgentCost::default()
            },
            ..CostView::default()
        };
        let above = |view: &CostView| view.above_budget(Duration::from_secs(20));
        let until_s = |view: &CostView| Some(above(view)?.until_ns? / 1e9);
        assert_eq!(above(&view), None, "nothing is sampled");
        view.windows = Some(WindowsView {
            functions: vec!["f".to_owned()],
            part: 0.05,
            budget: BudgetShare::default(),
            cuts_sequence: true,
        });
        view.recent.agent = Some(0.01);
        let within = until_s(&view).unwrap();
        assert!((within - 269.0).abs() < 1.0, "{within}");
        assert_eq!(above(&view).map(|above| above.share), Some(0.035));
        view.recent.agent = Some(0.017);
        assert!(above(&view).is_some(), "the agent takes nearly all");
        assert_eq!(until_s(&view), None);
        view.probes[0].ns = 0.2e9;
        assert_eq!(above(&view), None, "it is within the budget");
    }

    #[test]
    fn a_job_without_cpu_time_has_no_share_rather_than_none() {
        let mut account = Account::default();
        account.add([(0, 5)], 0);
        let late = account.recent(&account.costs(priced), None);
        assert_eq!((late.probes, late.agent, late.together), (None, None, None));
        assert_eq!(sum(&account.costs(priced)), 500.0);
    }
}
