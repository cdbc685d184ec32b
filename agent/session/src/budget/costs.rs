//! Accounts for the costs of the session: calls and CPU time of the job, and the agent's own. The costs are
//! computed in [`profile::cost`].

use std::collections::{BTreeMap, VecDeque};

use plan::Cost;

use profile::cost::{
    Account, AgentCost, CostView, Fullness, HoldTotals, Prices, Probed, Slowdown, UnreadView,
};
use profile::probe::Probe;
use profile::{Metered, Profile, Usage};

/// Approximate time span of recent rates.
const PERIOD_NS: u64 = 1_000_000_000;

/// Least interval between reads of the agent's own counters, in nanoseconds.
const LOOK_NS: u64 = 400_000_000;

/// The accounts of a session.
#[derive(Debug, Default)]
pub struct Costs {
    arming_ns: u64,
    /// The agent's own costs, the newest last; what was spent before the first reading is separate.
    looks: VecDeque<(u64, AgentCost)>,
    starting_ns: Option<u64>,
    /// How busy the machine was, over the session and since the last view of recent costs.
    fullness: Fullness,
    seen_ns: u64,
    /// How functions are probed, with the numbers of sites and probe requests for which that is valid.
    probed: ((usize, usize), BTreeMap<u32, Probed>),
}

/// Data that the view of costs needs in addition to [`Costs`].
pub struct CostContext<'a> {
    pub prices: Prices,
    pub profile: &'a Profile,
    pub probes: &'a [Probe],
    pub held: BTreeMap<&'static str, HoldTotals>,
    /// How long hits were unread.
    pub unread: Option<UnreadView>,
    /// When all probes were armed.
    pub armed_ns: u64,
    pub is_recorded: bool,
}

impl Costs {
    /// The costs of a session that took `arming_ns` to arm.
    pub(crate) fn armed_in(arming_ns: u64) -> Costs {
        Costs {
            arming_ns,
            ..Costs::default()
        }
    }

    /// Records how many CPUs are idle since the last call.
    pub fn see_idle(&mut self, idle: f64, now_ns: u64) {
        if self.seen_ns > 0 {
            self.fullness.add(idle, now_ns.saturating_sub(self.seen_ns));
        }
        self.seen_ns = now_ns;
    }

    /// Whether the agent's own counters are due to be read.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let is_new = |(at_ns, _): &(u64, AgentCost)| now_ns.saturating_sub(*at_ns) < LOOK_NS;
        !self.looks.back().is_some_and(is_new)
    }

    /// Records the costs of the agent's processes since their start. The counters of an ended process are
    /// lost; what was read of it stays.
    pub fn take(&mut self, now_ns: u64, mut sum: AgentCost) {
        sum.starting_ns = *self.starting_ns.get_or_insert(sum.cpu_ns);
        sum.cpu_ns = sum.cpu_ns.saturating_sub(sum.starting_ns);
        sum.cpu_ns = sum.cpu_ns.max(self.agent().cpu_ns);
        self.looks.push_back((now_ns, sum));
        while self.looks.len() > 2 && now_ns.saturating_sub(self.looks[1].0) >= PERIOD_NS {
            self.looks.pop_front();
        }
    }

    /// What the agent's own processes took.
    pub fn agent(&self) -> AgentCost {
        self.looks.back().map(|(_, last)| *last).unwrap_or_default()
    }

    /// How each function is or was probed.
    pub fn probed(&self) -> &BTreeMap<u32, Probed> {
        &self.probed.1
    }

    /// Updates how functions are probed, if the numbers of sites or probe requests differ from the last call.
    /// Functions that are detached for a while stay known.
    pub fn take_probed(&mut self, of: (usize, usize), probed: impl FnOnce() -> BTreeMap<u32, Probed>) {
        if self.probed.0 != of {
            self.probed.0 = of;
            self.probed.1.extend(probed());
        }
    }

    /// Recent CPU time of the agent, and the time span, in nanoseconds.
    fn recent_agent_cpus(&self) -> Option<(u64, u64)> {
        let ((from, first), (until, last)) = self.looks.front().zip(self.looks.back())?;
        Some((last.cpu_ns - first.cpu_ns, until - from)).filter(|(_, elapsed)| *elapsed > 0)
    }

    /// The view of all costs. `recent` are the shares of hits, and of hits and agent, over the last window
    /// and gap, if functions are sampled.
    pub fn view(&self, shown: CostContext<'_>, recent: Option<Option<(f64, f64)>>) -> CostView {
        let prices = &shown.prices;
        let price = |probe: usize| {
            let known = shown.probes.get(probe)?;
            let probed = self.probed.1.get(&u32::try_from(probe).ok()?)?;
            Some((
                known.name.as_str(),
                site_name(probed.entry),
                prices.call_ns(probed),
            ))
        };
        let watched_ns = shown.profile.read_ns.saturating_sub(shown.armed_ns).max(1);
        let sum = |usage: fn(&Metered) -> Option<Usage>, span_ns: Option<u64>| {
            let (mut account, mut slowdown) = (Account::default(), Slowdown::default());
            for usage in shown.profile.processes.iter().filter_map(usage) {
                let ns = |(probe, calls): &(usize, u64)| price(*probe).map(|(_, _, ns)| ns * *calls as f64);
                let probes_ns = usage.calls.iter().filter_map(ns).sum();
                // A process that lived for a part of the session wanted CPUs for that part.
                let part = span_ns.map_or(1.0, |ns| (usage.elapsed_ns as f64 / ns as f64).min(1.0));
                slowdown.delay(probes_ns, usage.cpu_ns, usage.unhindered_ns, part * usage.wanted);
                account.add(usage.calls, usage.cpu_ns);
            }
            (account, slowdown)
        };
        let (all, mut slowdown) = sum(Metered::usage, Some(watched_ns));
        let (late, mut recent_slowdown) = sum(Metered::recent_usage, None);
        let mut late = late.recent(&late.costs(price), self.recent_agent_cpus());
        let overall = CostView {
            probes: all.costs(price),
            job_ns: all.job_ns,
            ..CostView::default()
        };
        // The last second may cover a complete window, or none.
        if let Some(shares) = recent {
            (late.probes, late.together) = shares.unzip();
            late.most_expensive = None;
            // The process that was delayed most since the start still is.
            recent_slowdown.probes = match (late.probes, overall.probes_share()) {
                (Some(recent), Some(mean)) if mean > 0.0 => slowdown.probes * recent / mean,
                _ => slowdown.probes,
            };
        }
        let full = self.fullness.part();
        recent_slowdown.delay_by_agent(late.agent.unwrap_or_default(), full);
        late.slowdown = late.agent.map(|_| recent_slowdown);
        slowdown.delay_by_agent(self.agent().cpu_ns as f64 / watched_ns as f64, full);
        CostView {
            arming_ns: self.arming_ns,
            held: shown.held,
            agent: self.agent(),
            slowdown,
            recent: late,
            unread: shown.unread,
            is_recorded: shown.is_recorded,
            prices: shown.prices,
            ..overall
        }
    }
}

/// The name in the report.
fn site_name(site: Cost) -> &'static str {
    match site {
        Cost::Optimised => "optimised",
        Cost::Emulated => "emulated",
        Cost::Stepped => "stepped",
        Cost::Unknown => "unknown",
    }
}
