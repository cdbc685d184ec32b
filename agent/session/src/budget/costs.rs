//! Takes account of what the session costs: calls and CPU time of the job, the agent's own. What it comes to
//! is [`profile::cost`]'s.

use std::collections::{BTreeMap, VecDeque};

use plan::Cost;

use profile::cost::{
    Account, AgentCost, CostView, Fullness, HoldTotals, Prices, Probed, Slowdown, UnreadView,
};
use profile::probe::Probe;
use profile::{Metered, Profile, Usage};

/// Rates speak of about this much time.
const PERIOD_NS: u64 = 1_000_000_000;

/// The agent's own counters are read this often at most, in nanoseconds.
const LOOK_NS: u64 = 400_000_000;

/// What a session takes note of.
#[derive(Debug, Default)]
pub struct Costs {
    arming_ns: u64,
    /// The agent's own, the newest last; what was spent before the first is apart.
    looks: VecDeque<(u64, AgentCost)>,
    starting_ns: Option<u64>,
    /// How full the machine was, over the session and since the last look of late.
    fullness: Fullness,
    seen_ns: u64,
    /// How functions are probed, and of how many sites and probe requests that is true.
    probed: ((usize, usize), BTreeMap<u32, Probed>),
}

/// What costs are shown of, beside what is kept here.
pub struct CostContext<'a> {
    pub prices: Prices,
    pub profile: &'a Profile,
    pub probes: &'a [Probe],
    pub held: BTreeMap<&'static str, HoldTotals>,
    /// How long hits lay unread.
    pub unread: Option<UnreadView>,
    /// When all probes were armed.
    pub armed_ns: u64,
}

impl Costs {
    /// Of a session that took so long to arm.
    pub(crate) fn armed_in(arming_ns: u64) -> Costs {
        Costs {
            arming_ns,
            ..Costs::default()
        }
    }

    /// So many CPUs are idle since the last time.
    pub fn see_idle(&mut self, idle: f64, now_ns: u64) {
        if self.seen_ns > 0 {
            self.fullness.add(idle, now_ns.saturating_sub(self.seen_ns));
        }
        self.seen_ns = now_ns;
    }

    /// Whether it is time to read the agent's own counters.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let is_new = |(at_ns, _): &(u64, AgentCost)| now_ns.saturating_sub(*at_ns) < LOOK_NS;
        !self.looks.back().is_some_and(is_new)
    }

    /// The agent's processes have taken so much since they began. One that has ended is lost to us: what was
    /// seen of it stays.
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

    /// How each function is probed, or was.
    pub fn probed(&self) -> &BTreeMap<u32, Probed> {
        &self.probed.1
    }

    /// How functions are probed, where there are other sites or probe requests than at the last look. What
    /// was taken off for a while is known all the same.
    pub fn take_probed(&mut self, of: (usize, usize), probed: impl FnOnce() -> BTreeMap<u32, Probed>) {
        if self.probed.0 != of {
            self.probed.0 = of;
            self.probed.1.extend(probed());
        }
    }

    /// Time on a CPU and time, of late.
    fn agent_of_late(&self) -> Option<(u64, u64)> {
        let ((from, first), (until, last)) = self.looks.front().zip(self.looks.back())?;
        Some((last.cpu_ns - first.cpu_ns, until - from)).filter(|(_, elapsed)| *elapsed > 0)
    }

    /// What it came to. `of_late` are the shares of hits, and of hits and agent, over the last window and
    /// gap, where functions are sampled.
    pub fn view(&self, shown: CostContext<'_>, of_late: Option<Option<(f64, f64)>>) -> CostView {
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
        let sum = |usage: fn(&Metered) -> Option<Usage>| {
            let (mut account, mut slowdown) = (Account::default(), Slowdown::default());
            for usage in shown.profile.processes.iter().filter_map(usage) {
                let ns = |(probe, calls): &(usize, u64)| price(*probe).map(|(_, _, ns)| ns * *calls as f64);
                let probes_ns = usage.calls.iter().filter_map(ns).sum();
                slowdown.delay(probes_ns, usage.cpu_ns, usage.unhindered_ns);
                account.add(usage.calls, usage.cpu_ns);
            }
            (account, slowdown)
        };
        let (all, mut slowdown) = sum(Metered::usage);
        let (late, mut slowdown_of_late) = sum(Metered::usage_of_late);
        let mut late = late.of_late(&late.costs(price), self.agent_of_late());
        // The last second may be all of a window, or none.
        if let Some(shares) = of_late {
            (late.probes, late.together) = shares.unzip();
            late.dearest = None;
            slowdown_of_late.probes = slowdown.probes;
        }
        let full = self.fullness.part();
        slowdown_of_late.agent = late.agent.unwrap_or_default() * full;
        late.slowdown = late.agent.map(|_| slowdown_of_late);
        let watched_ns = shown.profile.read_ns.saturating_sub(shown.armed_ns).max(1);
        slowdown.agent = self.agent().cpu_ns as f64 / watched_ns as f64 * full;
        CostView {
            arming_ns: self.arming_ns,
            job_ns: all.job_ns,
            held: shown.held,
            agent: self.agent(),
            slowdown,
            of_late: late,
            unread: shown.unread,
            windows: None,
            required: None,
            probes: all.costs(price),
            prices: shown.prices,
        }
    }
}

/// As the report has it.
fn site_name(site: Cost) -> &'static str {
    match site {
        Cost::Optimised => "optimised",
        Cost::Emulated => "emulated",
        Cost::Stepped => "stepped",
        Cost::Unknown => "unknown",
    }
}
