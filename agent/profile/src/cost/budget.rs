//! What watching may cost, and how it is kept to: which functions are watched in windows, how long these are
//! and how far apart. Time, costs and the seed of chance are handed in; attaches nothing and measures
//! nothing.
//!
//! A hit costs what the exception costs, so only a probe that is not there is cheaper. Windows and the gaps
//! between them have random lengths: a program whose phases come in a row is met in all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use super::unwatched::PRICE_ERROR;

/// Looks in a row, a second apart, that find the costs too high before anything is done, and windows that
/// find them low before all is watched again.
const IN_A_ROW: u32 = 3;

/// Unless they take more than this part of the job's CPU time: then it is done at once.
const JOB_PART_MAX: f64 = 0.5;

/// After this many expensive looks, the budget is enforced even if processes keep joining.
const EXPENSIVE_MAX: u32 = 10;

/// Windows for new processes may take at most this much more, in total, than the gaps have saved.
const EARLY_NS_MAX: f64 = 10e9;

/// From the begin of a window to that of the next, on average, in nanoseconds.
const CYCLE_NS: f64 = 8e9;

/// Probes are never attached for less, on average.
const ATTACHED_NS_MIN: f64 = 60e6;

/// A window lasts at least this many times what attaching takes: while attaching it costs and measures
/// nothing, some milliseconds for each process.
const TIMES_ATTACHING: f64 = 4.0;

/// And about as long until they are off.
const CLOSING_NS: f64 = 10e6;

/// Functions that were not called when the others began to be watched in windows, and are by now, may take
/// this part of what all may.
const BESIDE: f64 = 0.25;

/// No gap is longer than this.
const GAP_NS_MAX: f64 = 300e9;

/// If the agent and requested probes take all of the budget, the windows still have this part of it.
const PART_MIN: f64 = 0.25;

/// All is watched again where that would cost less than this part of what it may.
const BACK: f64 = 0.7;

/// Windows are never a greater part of the time.
const WINDOWS_MAX: f64 = 0.8;

/// A window that has cost so many times as much as it was to is over.
const OVERSPENT: f64 = 4.0;

/// The part of the job's CPU time that probes and agent may cost together; none for no bound.
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
#[error("`{0}` is not a share of the job's CPU time: write 1%, 0.5% or none")]
pub struct BudgetShareError(String);

impl FromStr for BudgetShare {
    type Err = BudgetShareError;

    /// `1%`, `0.5 %`, `none`.
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
    /// It is in no sequence of calls, as a polling function of MPI.
    pub is_apart: bool,
}

/// What all costs now, in CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What the job takes, our probes included.
    pub job: f64,
    /// What the agent takes.
    pub agent: f64,
    /// Hits of functions of which a rule or a recording needs every one: they are never left out.
    pub requested: f64,
    /// Those of functions that rules only count: they rest where that is too much.
    pub counted: f64,
    /// Those that may be sampled.
    pub functions: Vec<BudgetFunction>,
}

impl Load {
    /// The cost of those that may be sampled, together.
    pub fn of_functions(&self) -> f64 {
        self.of(|_| true)
    }

    /// The cost of those that are selected.
    fn of(&self, is_selected: impl Fn(u32) -> bool) -> f64 {
        let resolved = self
            .functions
            .iter()
            .filter(|function| is_selected(function.probe));
        resolved.map(|function| function.cost).sum()
    }

    /// What all of it may take. A job that waits more than it computes may spend that part of a CPU: what it
    /// is kept from is time then, not CPU time.
    fn allowed(&self, share: f64) -> f64 {
        share * self.job.max(1.0)
    }

    /// What the other functions may take.
    fn left(&self, share: f64) -> f64 {
        let allowed = self.allowed(share);
        (allowed - self.agent - self.requested - self.counted).max(PART_MIN * allowed)
    }

    /// What those that rules only count may take: what all others leave of it.
    fn left_to_counted(&self, share: f64) -> f64 {
        let allowed = self.allowed(share);
        (allowed - self.agent - self.requested - self.of_functions()).max(PART_MIN * allowed)
    }
}

/// Those that are in no sequence of calls, where that is enough. Else all, for a sequence that lacks one of
/// its functions is none.
fn chosen(load: &Load, share: f64) -> BTreeSet<u32> {
    let others = load.functions.iter().filter(|function| !function.is_apart);
    let is_enough = others.map(|function| function.cost).sum::<f64>() <= load.left(share) / 2.0;
    let chosen = load
        .functions
        .iter()
        .filter(|function| function.is_apart || !is_enough);
    chosen.map(|function| function.probe).collect()
}

/// How much of the time these are watched, while the others are all the time.
fn part(load: &Load, share: f64, functions: &BTreeSet<u32>) -> f64 {
    let sampled = load.of(|probe| functions.contains(&probe));
    let left = load.left(share) - load.of(|probe| !functions.contains(&probe));
    match sampled > 0.0 {
        true => (left / (sampled * (1.0 + PRICE_ERROR))).clamp(1e-4, WINDOWS_MAX),
        false => WINDOWS_MAX,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    Stay,
    /// These are watched in windows from now on, and a gap begins.
    Sample(BTreeSet<u32>),
    Open,
    Shut,
    /// All are watched all the time again.
    Watch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Always,
    Open {
        since_ns: u64,
        until_ns: u64,
        /// CPU time that its hits take when it has cost far too much.
        most_ns: f64,
    },
    Shut {
        until_ns: u64,
        then_ns: u64,
    },
}

#[derive(Clone, Debug)]
pub struct Windows {
    budget: BudgetShare,
    chance: Chance,
    phase: Phase,
    functions: BTreeSet<u32>,
    /// What each function takes while it is watched, over the last windows.
    costs: BTreeMap<u32, f64>,
    in_a_row: u32,
    /// Looks in a row that found the costs too high, with or without new processes.
    expensive: u32,
    part: f64,
    /// What it took to attach the probes of the last window.
    attaching_ns: f64,
    /// Time of windows that gaps have not made up for yet.
    early_ns: f64,
}

impl Windows {
    pub fn new(budget: BudgetShare, seed: u64) -> Windows {
        Windows {
            budget,
            chance: Chance(seed | 1),
            phase: Phase::Always,
            functions: BTreeSet::new(),
            costs: BTreeMap::new(),
            in_a_row: 0,
            expensive: 0,
            part: 1.0,
            attaching_ns: 0.0,
            early_ns: 0.0,
        }
    }

    /// What they keep to.
    pub fn budget(&self) -> BudgetShare {
        self.budget
    }

    /// Those that are watched in windows; none while all are watched all the time.
    pub fn functions(&self) -> &BTreeSet<u32> {
        &self.functions
    }

    /// A window is open: how much CPU time its hits may take until it is over early.
    pub fn most_ns(&self) -> Option<f64> {
        match self.phase {
            Phase::Open { most_ns, .. } => Some(most_ns),
            _ => None,
        }
    }

    /// When the next turn is due; none while all are watched all the time.
    pub fn next_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Always => None,
            Phase::Open { until_ns, .. } | Phase::Shut { until_ns, .. } => Some(until_ns),
        }
    }

    /// The part of the time that windows are, as planned.
    pub fn part(&self) -> f64 {
        self.part
    }

    /// What all together may take, in CPUs; none where there is no bound.
    pub fn allowed(&self, load: &Load) -> Option<f64> {
        self.budget.0.map(|share| load.allowed(share))
    }

    /// How long functions that rules only count rest, which were watched for so long and cost what the load
    /// says: until the budget has made up for it. None where they were within it.
    pub fn rest_ns(&self, load: &Load, watched_ns: u64) -> Option<u64> {
        let left = load.left_to_counted(self.budget.0?);
        let rest_ns = (load.counted / left - 1.0) * watched_ns as f64;
        (rest_ns > 0.0).then(|| rest_ns.min(GAP_NS_MAX) as u64)
    }

    /// Once a second, while all are watched all the time.
    pub fn look(&mut self, load: &Load, now_ns: u64) -> Turn {
        let Some(share) = self.budget.0.filter(|_| self.phase == Phase::Always) else {
            return Turn::Stay;
        };
        let is_over = load.job > 0.0 && load.of_functions() > load.left(share);
        (self.in_a_row, self.expensive) = match is_over {
            true => (self.in_a_row + 1, self.expensive + 1),
            false => (0, 0),
        };
        let takes_most = load.of_functions() > JOB_PART_MAX * load.job;
        if self.in_a_row < IN_A_ROW && self.expensive < EXPENSIVE_MAX && !(is_over && takes_most) {
            return Turn::Stay;
        }
        self.costs = load
            .functions
            .iter()
            .map(|function| (function.probe, function.cost))
            .collect();
        self.sample(load, share, now_ns)
    }

    /// Somebody has come: whether the gap may end now, before its time, for him to be seen for so long.
    pub fn may_open(&self, now_ns: u64, for_ns: u64) -> bool {
        let Phase::Shut { until_ns, .. } = self.phase else {
            return false;
        };
        let rest_ns = until_ns.saturating_sub(now_ns) as f64;
        self.early_ns + self.made_up_by(rest_ns) + for_ns as f64 <= EARLY_NS_MAX
    }

    /// Somebody has come who is to be seen without a gap until then: no window ends before, nor is a gap
    /// begun for what it costs by then. But where one comes after the other that has an end.
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

    /// The time of windows that a gap makes up for.
    fn made_up_by(&self, gap_ns: f64) -> f64 {
        gap_ns * self.part / (1.0 - self.part)
    }

    /// A gap is over: the probes of what was not watched in it begin to be attached, and
    /// [`Windows::functions`] are fewer from now on, where not all of them are called.
    pub fn open(&mut self, now_ns: u64) -> Turn {
        let Phase::Shut { until_ns, then_ns } = self.phase else {
            return Turn::Stay;
        };
        // Those that are not called cost nothing: they are watched all the time from here on, and only the
        // others come and go.
        let is_called = |probe: &u32| self.costs.get(probe).is_some_and(|cost| *cost > 0.0);
        if self.functions.iter().any(is_called) {
            self.functions.retain(is_called);
        }
        // What a gap that ends before its time has not made up for, those that follow do.
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
        Turn::Open
    }

    /// The probes of the window that has begun are attached.
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

    /// A window is over: its functions are estimated from the window, all others from window and gap
    /// together.
    pub fn shut(&mut self, load: &Load, now_ns: u64) -> Turn {
        let Some(share) = self.budget.0 else {
            return Turn::Stay;
        };
        // One of them may have been requested meanwhile.
        let is_there = |probe: &u32| load.functions.iter().any(|function| function.probe == *probe);
        self.functions.retain(is_there);
        let mut smooth = load.clone();
        for function in &mut smooth.functions {
            // What rises is believed at once, what falls by and by: windows are short, and one may have met a
            // pause.
            let before = self.costs.get(&function.probe).copied().unwrap_or(function.cost);
            let weight = if function.cost > 2.0 * before { 1.0 } else { 0.25 };
            function.cost = before + weight * (function.cost - before);
            self.costs.insert(function.probe, function.cost);
        }
        let is_under = smooth.of_functions() <= BACK * smooth.left(share);
        self.in_a_row = if is_under { self.in_a_row + 1 } else { 0 };
        if self.in_a_row >= IN_A_ROW {
            (self.phase, self.in_a_row, self.part) = (Phase::Always, 0, 1.0);
            self.early_ns = 0.0;
            self.functions.clear();
            return Turn::Watch;
        }
        self.sample(&smooth, share, now_ns)
    }

    /// Plans anew, and begins a gap. Functions that are watched in windows stay so until all are watched
    /// again.
    fn sample(&mut self, load: &Load, share: f64, now_ns: u64) -> Turn {
        let chosen = chosen(load, share);
        let beside = load.of(|probe| chosen.contains(&probe) && !self.functions.contains(&probe));
        // All that are chosen go at once: each time some more do, those beside them are off for a moment.
        let is_new = self.phase == Phase::Always || beside > BESIDE * load.left(share);
        if self.phase == Phase::Always {
            (self.in_a_row, self.expensive) = (0, 0);
        }
        if is_new {
            self.functions.extend(chosen);
        }
        self.part = part(load, share, &self.functions);
        let (window_ns, gap_ns) = self.lengths();
        // Where attaching took longer than was thought the gap makes up for it.
        let attached_ns = match self.phase {
            Phase::Open { since_ns, .. } => now_ns.saturating_sub(since_ns) as f64 + CLOSING_NS,
            _ => 0.0,
        };
        let early_ns = self.early_ns + attached_ns;
        let gap_ns = gap_ns.max((early_ns / self.part - early_ns).min(GAP_NS_MAX));
        self.early_ns = (early_ns - self.made_up_by(gap_ns)).clamp(0.0, EARLY_NS_MAX);
        self.phase = Phase::Shut {
            until_ns: now_ns + gap_ns as u64,
            then_ns: window_ns,
        };
        if is_new {
            Turn::Sample(self.functions.clone())
        } else {
            Turn::Shut
        }
    }

    /// Of the next window and of the gap before it.
    fn lengths(&mut self) -> (u64, f64) {
        let cycle = CYCLE_NS * self.chance.between(0.5, 1.5);
        let least = ATTACHED_NS_MIN.max(TIMES_ATTACHING * self.attaching_ns);
        let least = least * self.chance.between(0.75, 1.25);
        let attached = (self.part * cycle).max(least);
        let gap = (attached / self.part - attached).min(GAP_NS_MAX);
        ((attached - CLOSING_NS) as u64, gap + CLOSING_NS)
    }
}

/// Numbers that no program goes by (xorshift64*, Marsaglia 2003 and Vigna 2016): nothing depends on their
/// quality but that they differ.
#[derive(Clone, Debug)]
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
