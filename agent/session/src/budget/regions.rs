//! Parallel regions of OpenMP, probed without a rule: all the time where that costs the program little, else
//! now and then. What is seen of them is kept with each process (`profile`).

use std::ops::Range;

use profile::CALL_NS;
use profile::format::{count, percent};

use super::{BudgetEffect, BudgetEffects};

/// What the probes may cost of the program's time, on average: all of the profile is to stay below 1 %.
const BUDGET: f64 = 0.003;

/// They stay until they have cost so much, in nanoseconds.
const SPEND_NS: f64 = 20e6;

/// And then rest for so long at least.
const REST_NS_MIN: u64 = 5_000_000_000;

/// Where regions stand among what is wanted, and when they are probed.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    wanted: Range<usize>,
    /// Since when they are probed; none while they rest.
    pub since_ns: Option<u64>,
    /// Until when they rest.
    until_ns: u64,
    /// Calls by slot when they were switched on.
    before: Vec<f64>,
    is_said: bool,
}

/// What is seen of their probes at a look.
#[derive(Clone, Debug, Default)]
pub struct RegionCounts {
    /// By slot, calls of regions and their bodies so far, as many as one thread makes of them.
    pub calls: Vec<f64>,
    /// A rule counts them for a while, which is not disturbed.
    pub is_used: bool,
    /// Links are being closed.
    pub is_closing: bool,
}

impl Regions {
    /// These of what is wanted.
    pub fn new(wanted: Range<usize>) -> Regions {
        Regions {
            wanted,
            ..Regions::default()
        }
    }

    /// Which of the wanted they are.
    pub fn wanted(&self) -> Range<usize> {
        self.wanted.clone()
    }

    /// Whether they are probed, now or now and then.
    pub fn is_there(&self) -> bool {
        self.since_ns.is_some() || self.until_ns > 0
    }

    /// They are probed from now on; so many calls were counted before.
    pub fn begin(&mut self, now_ns: u64, calls: Vec<f64>) {
        (self.since_ns, self.before) = (Some(now_ns), calls);
    }

    /// They are not probed any more.
    pub fn rest(&mut self) {
        self.since_ns = None;
    }

    /// Keeps what the probes cost within bounds.
    pub fn look(&mut self, look: &RegionCounts, now_ns: u64) -> BudgetEffects {
        let Some(since_ns) = self.since_ns else {
            let goes_on = self.is_there() && now_ns >= self.until_ns && !look.is_used && !look.is_closing;
            return goes_on
                .then_some(BudgetEffect::AttachRegions)
                .into_iter()
                .collect();
        };
        let before = self.before.iter().copied().chain(std::iter::repeat(0.0));
        let calls = look.calls.iter().zip(before);
        let most = calls.map(|(calls, before)| calls - before).fold(0.0, f64::max);
        let cost = CALL_NS * most;
        let elapsed = now_ns.saturating_sub(since_ns) as f64;
        if !look.is_used && (cost <= SPEND_NS || cost <= BUDGET * elapsed) {
            return BudgetEffects::new();
        }
        let until_ns = now_ns.max(since_ns + (cost / BUDGET) as u64);
        self.until_ns = until_ns.max(now_ns + REST_NS_MIN);
        let is_new = !std::mem::replace(&mut self.is_said, true) && !look.is_used;
        let share = cost / elapsed.max(1.0);
        let notice = is_new.then_some(BudgetEffect::SayRegionsRest(share));
        [BudgetEffect::DetachRegions].into_iter().chain(notice).collect()
    }
}

/// What is said of it at the first time: so many regions a second, whose probes would cost this share of a
/// thread's time.
pub fn notice_of_rest(rate: f64, share: f64) -> String {
    format!(
        "note: parallel regions are probed in sampling windows: {} a second are so short that probing all would cost about {}",
        count(rate.round()),
        percent(share),
    )
}
