//! Parallel regions of OpenMP, probed without a rule: all the time if that costs the program little,
//! otherwise occasionally. The measurements are kept with each process (`profile`).

use std::ops::Range;

use profile::CALL_NS;
use profile::format::{count, percent};

use super::{BudgetEffect, BudgetEffects};

/// Mean share of the program's time that the probes may cost: the complete profile must stay below 1 %. Time in
/// which it waits for a CPU does not count, since the cost is of the time that it runs.
const BUDGET: f64 = 0.003;

/// They are attached until they have cost this much, in nanoseconds.
const SPEND_NS: f64 = 20e6;

/// Least part of the time that a program which wants to run is assumed to run.
const RUNS_MIN: f64 = 0.01;

/// Least time for which they are then detached.
const REST_NS_MIN: u64 = 5_000_000_000;

/// The probe requests of regions, and when they are probed.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    wanted: Range<usize>,
    /// Since when they are probed; `None` while they are detached.
    pub since_ns: Option<u64>,
    /// Until when they are detached.
    until_ns: u64,
    /// Calls by slot when they were attached.
    before: Vec<f64>,
    is_said: bool,
}

/// Measurements of their probes at a check.
#[derive(Clone, Debug, Default)]
pub struct RegionCounts {
    /// By slot, calls of regions and their bodies so far, as many as one thread makes of them.
    pub calls: Vec<f64>,
    /// Of the time in which the threads of the job could run, the share in which they waited for a CPU.
    pub waiting: f64,
    /// A rule counts them for a while and must not be disturbed.
    pub is_used: bool,
    /// A change is compared by iterations that the regions form: a verdict must not wait for the next window.
    pub is_judged: bool,
    /// Links are being closed.
    pub is_closing: bool,
}

impl Regions {
    pub fn new(wanted: Range<usize>) -> Regions {
        Regions {
            wanted,
            ..Regions::default()
        }
    }

    /// The indices of their probe requests.
    pub fn wanted(&self) -> Range<usize> {
        self.wanted.clone()
    }

    /// Whether they are probed, now or occasionally.
    pub fn is_there(&self) -> bool {
        self.since_ns.is_some() || self.until_ns > 0
    }

    /// Records that they are probed from now on, with the calls counted before.
    pub fn begin(&mut self, now_ns: u64, calls: Vec<f64>) {
        (self.since_ns, self.before) = (Some(now_ns), calls);
    }

    /// Records that they are no longer probed.
    pub fn rest(&mut self) {
        self.since_ns = None;
    }

    /// Keeps the cost of the probes within bounds.
    pub fn look(&mut self, look: &RegionCounts, now_ns: u64) -> BudgetEffects {
        let Some(since_ns) = self.since_ns else {
            let is_due = look.is_judged || now_ns >= self.until_ns;
            let goes_on = self.is_there() && is_due && !look.is_used && !look.is_closing;
            return goes_on
                .then_some(BudgetEffect::AttachRegions)
                .into_iter()
                .collect();
        };
        let before = self.before.iter().copied().chain(std::iter::repeat(0.0));
        let calls = look.calls.iter().zip(before);
        let most = calls.map(|(calls, before)| calls - before).fold(0.0, f64::max);
        // As if it ran all the time.
        let runs = (1.0 - look.waiting).max(RUNS_MIN);
        let cost = CALL_NS * most / runs;
        let elapsed = now_ns.saturating_sub(since_ns) as f64;
        let is_cheap = cost <= SPEND_NS || cost <= BUDGET * elapsed;
        if !look.is_used && (is_cheap || look.is_judged) {
            return BudgetEffects::new();
        }
        let until_ns = now_ns.max(since_ns + (cost / BUDGET) as u64);
        self.until_ns = until_ns.max(now_ns + REST_NS_MIN);
        let is_new = !look.is_used && !std::mem::replace(&mut self.is_said, true);
        let share = cost / elapsed.max(1.0);
        let notice = is_new.then_some(BudgetEffect::SayRegionsRest(share));
        [BudgetEffect::DetachRegions].into_iter().chain(notice).collect()
    }
}

/// The note when they are first detached: the rate of regions a second, and the share of a thread's time that
/// their probes cost at most.
pub fn notice_of_rest(rate: f64, share: f64) -> String {
    let cost = match share < 1.0 {
        true => format!("may cost {}", percent(share)),
        false => "may take longer than they do".to_owned(),
    };
    format!(
        "note: parallel regions are probed in sampling windows: probing all ({} a second) {cost}, more than {} of the time",
        count(rate.round()),
        percent(BUDGET),
    )
}
