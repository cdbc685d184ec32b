//! Keeps the cost of watching within a budget: decides which functions are sampled in windows, how long the
//! windows are and how far apart. Time, costs and the random seed are passed in; nothing is attached or
//! measured here.
//!
//! The cost of a hit is mostly that of the exception, so only detaching the probe makes it cheaper. Windows
//! and the gaps between them have random lengths, so that periodic phases of a program are all sampled.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use super::unwatched::PRICE_ERROR;

/// Consecutive checks, a second apart, that must find the costs too high before sampling begins; and
/// consecutive windows that must find them low before everything is watched again.
const IN_A_ROW: u32 = 3;

/// The same before sampling begins if the functions cost more than [`FAR_OVER`] times what they may. Ranks that
/// share CPUs and wait for each other are slowed by much more than their share of CPU time says.
const FAR_OVER_IN_A_ROW: u32 = 2;
const FAR_OVER: f64 = 5.0;

/// If the functions take more than this part of the job's CPU time, sampling begins at once.
const JOB_PART_MAX: f64 = 0.2;

/// After this many checks with high costs, the budget is enforced even if processes keep joining.
const EXPENSIVE_MAX: u32 = 10;

/// Windows for new processes may take at most this much time, in total, beyond what gaps have compensated.
const EARLY_NS_MAX: f64 = 10e9;

/// Mean time from the begin of a window to the begin of the next, in nanoseconds.
const CYCLE_NS: f64 = 8e9;

/// The same while a change is on trial: a value of half a second then has calls of its own.
const JUDGED_CYCLE_NS: f64 = 250e6;

/// Minimum mean time for which probes are attached.
const ATTACHED_NS_MIN: f64 = 60e6;

/// A window lasts at least this many times as long as attaching, which takes some milliseconds for each
/// process: meanwhile hits cost time but measure nothing.
const TIMES_ATTACHING: f64 = 4.0;

/// Approximate time for detaching, in which hits still cost time.
const CLOSING_NS: f64 = 10e6;

/// Functions that were not called when sampling of the others began, but are called now, may take this part
/// of the budget for functions.
const BESIDE: f64 = 0.25;

/// Functions outside the sequence of calls that take this part of the budget together are not sampled.
const RARE: f64 = 0.1;

/// Maximum length of a gap.
const GAP_NS_MAX: f64 = 300e9;

/// Minimum part of the budget for windows if the agent and requested probes take all of it.
const PART_MIN: f64 = 0.25;

/// Everything is watched again if that would cost less than this part of the budget.
const BACK: f64 = 0.7;

/// Windows take at most this part of the time.
const WINDOWS_MAX: f64 = 0.8;

/// A window ends early if it has cost this many times its planned cost.
const OVERSPENT: f64 = 4.0;

/// The part of the job's CPU time that probes and agent may cost together; `None` for no bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetShare(pub Option<f64>);

impl Default for BudgetShare {
    fn default() -> BudgetShare {
        BudgetShare(Some(0.01))
    }
}

impl fmt::Display for BudgetShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(share) => write!(f, "{}%", (share * 1e6).round() / 1e4),
            None => f.write_str("none"),
        }
    }
}

/// A text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share of the job's CPU time: expected one such as 1% or 0.5%, or none")]
pub struct BudgetShareError(String);

impl FromStr for BudgetShare {
    type Err = BudgetShareError;

    /// Accepts `1%`, `0.5 %`, `none`.
    fn from_str(text: &str) -> Result<BudgetShare, BudgetShareError> {
        if text == "none" {
            return Ok(BudgetShare(None));
        }
        let number = text.strip_suffix('%').map(str::trim);
        let percent: Option<f64> = number.and_then(|number| number.parse().ok());
        match percent.filter(|percent| *percent > 0.0 && *percent <= 100.0) {
            Some(percent) => Ok(BudgetShare(Some(percent / 100.0))),
            None => Err(BudgetShareError(text.to_owned())),
        }
    }
}

/// A function that may be sampled: no request needs every call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetFunction {
    pub probe: u32,
    /// CPUs that its hits take while it is watched.
    pub cost: f64,
    /// It is not part of the sequence of calls, such as a polling function of MPI.
    pub is_apart: bool,
}

/// All current costs, in CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// CPU use of the job, including our probes.
    pub job: f64,
    /// CPU use of the agent.
    pub agent: f64,
    /// Cost of functions of which a rule or a recording needs every hit: these are never sampled.
    pub requested: f64,
    /// Cost of functions that rules only count: these are paused if they cost too much.
    pub counted: f64,
    /// Functions that may be sampled.
    pub functions: Vec<BudgetFunction>,
}

impl Load {
    /// Total cost of the functions that may be sampled.
    pub fn of_functions(&self) -> f64 {
        self.of(|_| true)
    }

    /// Total cost of the selected functions.
    fn of(&self, is_selected: impl Fn(u32) -> bool) -> f64 {
        let resolved = self
            .functions
            .iter()
            .filter(|function| is_selected(function.probe));
        resolved.map(|function| function.cost).sum()
    }

    /// The budget in CPUs. A job that waits more than it computes is treated as one that uses a full CPU: for
    /// it the budget bounds elapsed time, not CPU time.
    fn allowed(&self, share: f64) -> f64 {
        share * self.job.max(1.0)
    }

    /// The part of the budget for functions that may be sampled.
    fn left(&self, share: f64) -> f64 {
        let allowed = self.allowed(share);
        (allowed - self.agent - self.requested - self.counted).max(PART_MIN * allowed)
    }

    /// The part of the budget for functions that rules only count: what all others leave.
    fn left_to_counted(&self, share: f64) -> f64 {
        let allowed = self.allowed(share);
        (allowed - self.agent - self.requested - self.of_functions()).max(PART_MIN * allowed)
    }
}

/// The functions to sample: the expensive ones of those outside the sequence of calls if that is enough. Otherwise also
/// all of the sequence, because a sequence that lacks one of its functions is useless. Functions that are called so
/// rarely that they cost next to nothing are watched all the time: their calls may be longer than a window, which would
/// miss their begin.
fn chosen(load: &Load, share: f64) -> BTreeSet<u32> {
    let functions = load.functions.iter();
    let (mut apart, others): (Vec<_>, Vec<_>) = functions.partition(|function| function.is_apart);
    let cost = |function: &&BudgetFunction| function.cost;
    let is_enough = others.iter().map(cost).sum::<f64>() <= load.left(share) / 2.0;
    apart.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut cost = 0.0;
    let mut is_cheap = |function: &BudgetFunction| {
        cost += function.cost;
        cost <= RARE * load.left(share)
    };
    let expensive = apart.iter().skip_while(|function| is_cheap(function)).copied();
    let sequence = others.iter().filter(|_| !is_enough).copied();
    expensive.chain(sequence).map(|function| function.probe).collect()
}

/// The part of the time in which these functions can be watched, while the others are watched all the time.
fn part(load: &Load, share: f64, functions: &BTreeSet<u32>) -> f64 {
    let sampled = load.of(|probe| functions.contains(&probe));
    let left = load.left(share) - load.of(|probe| !functions.contains(&probe));
    match sampled > 0.0 {
        true => (left / (sampled * (1.0 + PRICE_ERROR))).clamp(1e-4, WINDOWS_MAX),
        false => WINDOWS_MAX,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum SamplingStep {
    Stay,
    /// Samples these functions in windows from now on; a gap begins.
    Sample(BTreeSet<u32>),
    Open,
    Close,
    /// Watches all functions all the time again.
    Watch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Always,
    Open {
        since_ns: u64,
        until_ns: u64,
        /// CPU time of its hits at which the window ends early.
        most_ns: f64,
    },
    Gap {
        until_ns: u64,
        then_ns: u64,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Windows {
    budget: BudgetShare,
    chance: Chance,
    phase: Phase,
    functions: BTreeSet<u32>,
    /// Cost of each function while it is watched, smoothed over the last windows.
    costs: BTreeMap<u32, f64>,
    in_a_row: u32,
    /// Consecutive checks that found the costs too high. Unlike `in_a_row`, new processes do not reset it.
    expensive: u32,
    part: f64,
    /// Time that it took to attach the probes of the last window.
    attaching_ns: f64,
    /// Time of windows that gaps have not compensated yet.
    early_ns: f64,
    /// A change is on trial that is judged by what is sampled.
    is_judged: bool,
}

impl Windows {
    pub fn new(budget: BudgetShare, seed: u64) -> Windows {
        Windows {
            budget,
            chance: Chance(seed | 1),
            part: 1.0,
            ..Windows::default()
        }
    }

    /// The budget that is enforced.
    pub fn budget(&self) -> BudgetShare {
        self.budget
    }

    /// The functions that are sampled in windows; empty while everything is watched all the time.
    pub fn functions(&self) -> &BTreeSet<u32> {
        &self.functions
    }

    /// CPU time that the hits of the open window may take until it ends early; `None` if no window is open.
    pub fn most_ns(&self) -> Option<f64> {
        match self.phase {
            Phase::Open { most_ns, .. } => Some(most_ns),
            _ => None,
        }
    }

    /// When the next step is due; `None` while everything is watched all the time.
    pub fn next_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Always => None,
            Phase::Open { until_ns, .. } | Phase::Gap { until_ns, .. } => Some(until_ns),
        }
    }

    /// The planned part of the time in windows.
    pub fn part(&self) -> f64 {
        self.part
    }

    /// The budget in CPUs; `None` if there is no bound.
    pub fn allowed(&self, load: &Load) -> Option<f64> {
        self.budget.0.map(|share| load.allowed(share))
    }

    /// Whether a change is on trial that is judged by what is sampled: windows then follow each other so closely
    /// that no compared value is extrapolated from a time before the change. They exceed the budget, by half of
    /// the cost of watching everything at most.
    pub fn judge(&mut self, is_judged: bool, now_ns: u64) {
        if let (true, false, Phase::Open { until_ns, .. } | Phase::Gap { until_ns, .. }) =
            (is_judged, self.is_judged, &mut self.phase)
        {
            *until_ns = now_ns.min(*until_ns);
        }
        self.is_judged = is_judged;
    }

    /// How long functions that rules only count must be paused, after being watched for `watched_ns` at the
    /// cost in `load`, to stay within the budget. `None` if they did not exceed it.
    pub fn rest_ns(&self, load: &Load, watched_ns: u64) -> Option<u64> {
        let left = load.left_to_counted(self.budget.0?);
        let rest_ns = (load.counted / left - 1.0) * watched_ns as f64;
        (rest_ns > 0.0).then(|| rest_ns.min(GAP_NS_MAX) as u64)
    }

    /// To be called once a second while everything is watched all the time.
    pub fn look(&mut self, load: &Load, now_ns: u64) -> SamplingStep {
        let Some(share) = self.budget.0.filter(|_| self.phase == Phase::Always) else {
            return SamplingStep::Stay;
        };
        let is_over = load.job > 0.0 && load.of_functions() > load.left(share);
        (self.in_a_row, self.expensive) = match is_over {
            true => (self.in_a_row + 1, self.expensive + 1),
            false => (0, 0),
        };
        let enough = match load.of_functions() {
            cost if cost > JOB_PART_MAX * load.job => 1,
            cost if cost > FAR_OVER * load.left(share) => FAR_OVER_IN_A_ROW,
            _ => IN_A_ROW,
        };
        if self.in_a_row < enough && self.expensive < EXPENSIVE_MAX {
            return SamplingStep::Stay;
        }
        self.costs = load
            .functions
            .iter()
            .map(|function| (function.probe, function.cost))
            .collect();
        self.sample(load, share, now_ns)
    }

    /// A process has joined: whether the gap may end early, so that the process is watched for `for_ns`.
    pub fn may_open(&self, now_ns: u64, for_ns: u64) -> bool {
        let Phase::Gap { until_ns, .. } = self.phase else {
            return false;
        };
        let rest_ns = until_ns.saturating_sub(now_ns) as f64;
        self.early_ns + self.made_up_by(rest_ns) + for_ns as f64 <= EARLY_NS_MAX
    }

    /// A process has joined that should be watched without a gap until `least_ns`: the window does not end
    /// before, and its cost until then does not begin a gap. If processes keep joining, the total of such
    /// time is bounded.
    pub fn stay_open(&mut self, least_ns: u64) {
        self.in_a_row = 0;
        let left_ns = (EARLY_NS_MAX - self.early_ns).max(0.0) as u64;
        if let Phase::Open {
            since_ns,
            until_ns,
            most_ns,
        } = &mut self.phase
        {
            let least_ns = least_ns.min(*since_ns + left_ns);
            (*until_ns, *most_ns) = ((*until_ns).max(least_ns), f64::INFINITY);
        }
    }

    /// The time of windows that a gap compensates.
    fn made_up_by(&self, gap_ns: f64) -> f64 {
        gap_ns * self.part / (1.0 - self.part)
    }

    /// A gap ends, and attaching the probes begins. Removes functions that are not called from
    /// [`Windows::functions`], unless none is called.
    pub fn open(&mut self, now_ns: u64) -> SamplingStep {
        let Phase::Gap { until_ns, then_ns } = self.phase else {
            return SamplingStep::Stay;
        };
        // Functions that are not called cost nothing: they are watched all the time from here on, and only
        // the probes of the others are attached and detached.
        let is_called = |probe: &u32| self.costs.get(probe).is_some_and(|cost| *cost > 0.0);
        if self.functions.iter().any(is_called) {
            self.functions.retain(is_called);
        }
        // Later gaps compensate for the rest of a gap that ends early.
        self.early_ns += self.made_up_by(until_ns.saturating_sub(now_ns) as f64);
        let expected: f64 = self
            .functions
            .iter()
            .filter_map(|probe| self.costs.get(probe))
            .sum();
        self.phase = Phase::Open {
            since_ns: now_ns,
            until_ns: now_ns + then_ns,
            most_ns: OVERSPENT * expected * then_ns as f64,
        };
        SamplingStep::Open
    }

    /// The probes of the current window are attached.
    pub fn attached(&mut self, now_ns: u64) {
        let Phase::Open {
            since_ns,
            until_ns,
            most_ns,
        } = &mut self.phase
        else {
            return;
        };
        let planned_ns = (*until_ns - *since_ns).max(1) as f64;
        self.attaching_ns = now_ns.saturating_sub(*since_ns) as f64;
        *until_ns = (*until_ns).max(now_ns + ((TIMES_ATTACHING - 1.0) * self.attaching_ns) as u64);
        *most_ns *= (*until_ns - *since_ns) as f64 / planned_ns;
    }

    /// A window ends. The costs of its functions are from the window, those of all others from window and gap
    /// together.
    pub fn close_window(&mut self, load: &Load, now_ns: u64) -> SamplingStep {
        let Some(share) = self.budget.0 else {
            return SamplingStep::Stay;
        };
        // A request may need every call of one of them by now.
        let is_there = |probe: &u32| load.functions.iter().any(|function| function.probe == *probe);
        self.functions.retain(is_there);
        let mut smooth = load.clone();
        for function in &mut smooth.functions {
            // Accept rising costs at once and falling ones gradually, because a short window may have hit a
            // pause of the program.
            let before = self.costs.get(&function.probe).copied().unwrap_or(function.cost);
            let weight = if function.cost > 2.0 * before { 1.0 } else { 0.25 };
            function.cost = before + weight * (function.cost - before);
            self.costs.insert(function.probe, function.cost);
        }
        let is_under = smooth.of_functions() <= BACK * smooth.left(share);
        self.in_a_row = if is_under { self.in_a_row + 1 } else { 0 };
        if self.in_a_row >= IN_A_ROW && !self.is_judged {
            (self.phase, self.in_a_row, self.part) = (Phase::Always, 0, 1.0);
            self.early_ns = 0.0;
            self.functions.clear();
            return SamplingStep::Watch;
        }
        self.sample(&smooth, share, now_ns)
    }

    /// Makes a new plan, and begins a gap. Functions that are sampled stay so until everything is watched
    /// again.
    fn sample(&mut self, load: &Load, share: f64, now_ns: u64) -> SamplingStep {
        let chosen = chosen(load, share);
        let beside = load.of(|probe| chosen.contains(&probe) && !self.functions.contains(&probe));
        // Add all chosen functions at once: each change of the set detaches other functions for a moment.
        let is_new = self.phase == Phase::Always || beside > BESIDE * load.left(share);
        if self.phase == Phase::Always {
            (self.in_a_row, self.expensive) = (0, 0);
        }
        if is_new {
            self.functions.extend(chosen);
        }
        self.part = part(load, share, &self.functions);
        let (window_ns, mut gap_ns) = self.lengths();
        if !self.is_judged {
            gap_ns = self.compensating(gap_ns, now_ns);
        }
        self.phase = Phase::Gap {
            until_ns: now_ns + gap_ns as u64,
            then_ns: window_ns,
        };
        if is_new {
            SamplingStep::Sample(self.functions.clone())
        } else {
            SamplingStep::Close
        }
    }

    /// The length of a gap that compensates for a window longer than planned, as attaching may take long.
    fn compensating(&mut self, gap_ns: f64, now_ns: u64) -> f64 {
        let attached_ns = match self.phase {
            Phase::Open { since_ns, .. } => now_ns.saturating_sub(since_ns) as f64 + CLOSING_NS,
            _ => 0.0,
        };
        let early_ns = self.early_ns + attached_ns;
        let gap_ns = gap_ns.max((early_ns / self.part - early_ns).min(GAP_NS_MAX));
        self.early_ns = (early_ns - self.made_up_by(gap_ns)).clamp(0.0, EARLY_NS_MAX);
        gap_ns
    }

    /// Lengths of the next window and of the gap before it.
    fn lengths(&mut self) -> (u64, f64) {
        let mean = if self.is_judged { JUDGED_CYCLE_NS } else { CYCLE_NS };
        let cycle = mean * self.chance.between(0.5, 1.5);
        let least = ATTACHED_NS_MIN.max(TIMES_ATTACHING * self.attaching_ns);
        let least = least * self.chance.between(0.75, 1.25);
        let attached = (self.part * cycle).max(least);
        let gap = match self.is_judged {
            true => (cycle - attached).max(attached),
            false => (attached / self.part - attached).min(GAP_NS_MAX),
        };
        ((attached - CLOSING_NS) as u64, gap + CLOSING_NS)
    }
}

/// Pseudo-random numbers that no program follows (xorshift64*, Marsaglia 2003 and Vigna 2016). Their
/// statistical quality does not matter. The seed must not be 0.
#[derive(Clone, Debug, Default)]
struct Chance(u64);

impl Chance {
    fn between(&mut self, least: f64, most: f64) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        least + (most - least) * number as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
