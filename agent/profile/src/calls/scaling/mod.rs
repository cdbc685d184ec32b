//! Scaling of a program with parallel regions: for each team size, the time of an iteration of the detected
//! loop, and the lost threads by cause.
//!
//! For an iteration of length T with p threads, let s be the time of its first thread outside regions. W, A,
//! I and X are the times *working*, *starting*, *waiting* and *ending* in regions, summed over the threads. U
//! is the time of the threads that are not in a smaller team, while its region runs. Then exactly
//!
//! > p T = p s + W + A + I + X + U
//!
//! Let W(1) be the work of a single thread. The speedup is S(p) = (s + W(1)) / T. The lost threads p - S(p)
//! are the sum of (p - 1) s / T (sequential code), (A + X) / T (start and end of regions), I / T (imbalance),
//! U / T (small teams) and (W - W(1)) / T (*work inflation*: caches, memory bandwidth, clock). The speedup as
//! a ratio of two measurements is SelfAnalyzer's (thesis of Corbalan, Fig. 4.5 to 4.7).
//!
//! Pure: regions and iterations carry their times.

mod curve;
mod hint;
mod losses;
mod prediction;
#[cfg(test)]
mod tests;
mod visits;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

pub use self::curve::{Baseline, Ratio, ScalingView, SizeView};
pub use self::hint::SpeedupHint;
pub use self::losses::{Inflation, Losses};
pub use self::prediction::{PredictedSize, ScalingLaw, ScalingPrediction};
pub use self::visits::Visit;
use self::visits::Visits;
use super::IterationTeams;
use super::teams::TeamParts;
use crate::fieldwise::fieldwise;

/// Maximum number of stored regions. They are stored until their iterations have ended.
const REGIONS_MAX: usize = 1 << 14;

/// Number of regions that stay stored after their iterations were processed, because a loop that is detected
/// later reaches back that far.
const REGIONS_KEPT: usize = rules::period::WINDOW;

/// Maximum number of call sites whose team sizes are compared with their previous ones. Regions of further
/// call sites share one entry.
const SITES_MAX: usize = 256;

/// Maximum number of team sizes with results. Iterations with further sizes are only counted.
const SIZES_MAX: usize = 64;

/// An iteration is not used if more than this share of its threads waited for a CPU.
const PREEMPTED: f64 = 0.05;

/// Maximum number of stored readings of waiting threads. A long iteration needs several of them.
const READINGS_MAX: usize = 64;

/// Weight of the newest measurement in the mean of a team size (Fig. 4.7).
const NEWEST: f64 = 0.4;

/// After a change of the team iterations are used once two in a row differ by no more than this share (S4-27), or
/// after this number of them.
const SETTLED: f64 = 0.03;
const SETTLING_MAX: u32 = 4;

/// A measurement has at least this many iterations, and at least the time below.
const ITERATIONS_MIN: u64 = 3;
const MEASUREMENT_NS: f64 = 100_000_000.0;

/// The reason why an iteration is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnusedIteration {
    /// A region had another team size than at its previous execution (S4-9).
    TeamChanged,
    /// The team changed shortly before, and times of iterations still differ.
    Settling,
    /// The threads waited for a CPU or for their quota, or were stopped (S4-10).
    Preempted,
    /// Calls of a region in the iteration were missed.
    CallsMissed,
    /// No thread was seen to run a region: the functions that the regions run are not probed.
    BodiesUnknown,
    /// The iteration contains no region, or a region ends after it.
    NotParallel,
    /// There are more regions or team sizes than the bounds permit.
    TooMany,
}

impl UnusedIteration {
    pub fn reason(self) -> &'static str {
        match self {
            UnusedIteration::TeamChanged => "the size of a team changed",
            UnusedIteration::Settling => {
                "the time of an iteration had not settled after a change of the team"
            }
            UnusedIteration::Preempted => "its threads waited for a CPU, or were stopped",
            UnusedIteration::CallsMissed => "not all of its regions were seen",
            UnusedIteration::BodiesUnknown => {
                "the functions that its regions run have no symbols, or are too many"
            }
            UnusedIteration::NotParallel => "it has no complete parallel region",
            UnusedIteration::TooMany => "it has more regions or team sizes than are kept",
        }
    }
}

/// The parts of an iteration, in nanoseconds. All but `time` and `sequential` are sums over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct IterationParts {
    pub time: f64,
    /// Time of the first thread outside regions.
    pub sequential: f64,
    pub working: f64,
    pub starting: f64,
    pub waiting: f64,
    pub ending: f64,
    /// Time of threads that are not in a smaller team, while its region runs.
    pub left_out: f64,
}

/// The results of one loop.
#[derive(Clone, Debug, Default)]
struct LoopSizes {
    number: u32,
    sizes: BTreeMap<u32, Size>,
    left_out: BTreeMap<UnusedIteration, u64>,
    /// Team size of the last used iteration.
    latest: u32,
    /// Since the team changed: time of the last iteration, and how many more may be left out.
    settling: Option<(f64, u32)>,
}

/// The iterations with one team size.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    count: u64,
    /// When its first iteration ended.
    since_ns: u64,
    until_ns: u64,
    /// Moving average of the measurements; the newest one has the weight [`NEWEST`].
    mean: IterationParts,
    has_mean: bool,
    /// Sum over the iterations of the next measurement, and their number.
    sum: IterationParts,
    summed: u64,
    /// Mean of the iterations' times, and the sum of squared deviations from it (Welford's algorithm).
    time_mean: f64,
    time_squares: f64,
}

/// Sums over all regions of the first thread so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct RegionSums {
    region: u64,
    team: u64,
    working: u64,
    starting: u64,
    waiting: u64,
    ending: u64,
    /// Number of regions whose team had another size than before.
    changes: u64,
    /// Number of regions of which calls were missed.
    missed: u64,
    /// Number of regions of which no body was seen.
    unknown: u64,
    /// Time of the probes of these regions, in nanoseconds.
    probes: u64,
}

/// A region, with the sums over all earlier ones.
#[derive(Clone, Copy, Debug)]
struct RegionBegin {
    begin_ns: u64,
    end_ns: u64,
    threads: u32,
    before: RegionSums,
}

/// Measures the scaling of one process.
#[derive(Clone, Debug, Default)]
pub struct Scaling {
    pub baseline: Baseline,
    regions: VecDeque<RegionBegin>,
    /// Begin of the newest region that was dropped.
    dropped_ns: Option<u64>,
    sums: RegionSums,
    /// Readings: their time by CLOCK_MONOTONIC, and the mean number of threads that waited for a CPU since
    /// the previous one.
    waiting: VecDeque<(u64, f64)>,
    /// Team size of the last region, by call site.
    sites: BTreeMap<u64, u32>,
    current: LoopSizes,
    visits: Visits,
    /// The former loop with the most used iterations.
    earlier: Option<LoopSizes>,
}

impl Scaling {
    /// Adds a region of the first thread after its end, with its parts or the reason why they are not known,
    /// and the time that its probes took of the first thread.
    pub(super) fn region(
        &mut self,
        site: u64,
        (begin_ns, end_ns): (u64, u64),
        parts: Result<&TeamParts, &UnusedIteration>,
        probes_ns: u64,
    ) {
        // A region inside this one, of the same thread, is part of its work.
        while let Some(inner) = self
            .regions
            .back()
            .copied()
            .filter(|inner| inner.begin_ns >= begin_ns)
        {
            self.sums = inner.before;
            self.regions.pop_back();
        }
        if self.regions.len() == REGIONS_MAX {
            self.dropped_ns = self.regions.pop_front().map(|region| region.begin_ns);
        }
        self.regions.push_back(RegionBegin {
            begin_ns,
            end_ns,
            threads: parts.map_or(0, |parts| parts.threads),
            before: self.sums,
        });
        let sums = &mut self.sums;
        sums.region += end_ns - begin_ns;
        sums.probes += probes_ns;
        let parts = match parts {
            Ok(parts) => parts,
            Err(UnusedIteration::BodiesUnknown) => {
                sums.unknown += 1;
                return;
            }
            Err(_) => {
                sums.missed += 1;
                return;
            }
        };
        sums.team += u64::from(parts.threads) * (end_ns - begin_ns);
        sums.working += parts.working_ns;
        sums.starting += parts.starting_ns;
        sums.waiting += parts.waiting_ns;
        sums.ending += parts.ending_ns;
        let site = match self.sites.len() < SITES_MAX || self.sites.contains_key(&site) {
            true => site,
            false => 0,
        };
        let before = self.sites.insert(site, parts.threads);
        sums.changes += u64::from(before.is_some_and(|before| before != parts.threads));
    }

    /// Marks a time in which regions were not recorded: iterations that contain it cannot be used.
    pub fn gap(&mut self) {
        self.dropped_ns = self
            .regions
            .back()
            .map(|region| region.begin_ns)
            .or(self.dropped_ns);
        self.regions.clear();
    }

    /// Adds the mean number of threads that waited for a CPU since the previous reading.
    pub fn waiting(&mut self, threads: f64, now_ns: u64) {
        if self.waiting.len() == READINGS_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((now_ns, threads));
    }

    /// Adds an iteration of the first thread after its end. `loop_number` counts the detected loops. Returns what
    /// its regions do.
    pub fn iteration(
        &mut self,
        loop_number: u32,
        range: &Range<u64>,
    ) -> Result<IterationTeams, UnusedIteration> {
        if self.current.number != loop_number {
            let left = std::mem::take(&mut self.current);
            self.current.number = loop_number;
            let count = |sizes: &LoopSizes| sizes.sizes.values().map(|size| size.count).sum::<u64>();
            if count(&left) > self.earlier.as_ref().map_or(0, count) {
                self.earlier = Some(left);
            }
        }
        let parts = self.parts(range);
        let own_ns = self.own_ns();
        self.visits
            .iteration(parts.map(|(threads, _)| threads), range, own_ns);
        let settled = self.current.settle(parts, (range.end - range.start) as f64);
        if let Err(reason) = settled.and_then(|(threads, parts)| self.current.add(threads, &parts, range.end))
        {
            *self.current.left_out.entry(reason).or_default() += 1;
        }
        parts.map(|(threads, parts)| parts.of_team(threads))
    }

    /// Drops regions that are no longer needed, after all ended iterations were added.
    pub fn trim(&mut self) {
        while self.regions.len() > REGIONS_KEPT {
            self.dropped_ns = self.regions.pop_front().map(|region| region.begin_ns);
        }
    }

    /// Team size and parts of an iteration.
    fn parts(&self, range: &Range<u64>) -> Result<(u32, IterationParts), UnusedIteration> {
        if self
            .dropped_ns
            .is_some_and(|dropped_ns| range.start <= dropped_ns)
        {
            return Err(UnusedIteration::TooMany);
        }
        let at = |ns: u64| self.regions.partition_point(|region| region.begin_ns < ns);
        let (from, to) = (at(range.start), at(range.end));
        let inside = || self.regions.range(from..to);
        let threads = inside().map(|region| region.threads).max().unwrap_or_default();
        if from == to || self.regions[to - 1].end_ns > range.end {
            return Err(UnusedIteration::NotParallel);
        }
        let sums = |index: usize| self.regions.get(index).map_or(self.sums, |region| region.before);
        let sums = sums(to) - sums(from);
        match sums {
            RegionSums { missed: 1.., .. } => return Err(UnusedIteration::CallsMissed),
            RegionSums { unknown: 1.., .. } => return Err(UnusedIteration::BodiesUnknown),
            RegionSums { changes: 1.., .. } => return Err(UnusedIteration::TeamChanged),
            _ if self.waited(range) > PREEMPTED * f64::from(threads) => {
                return Err(UnusedIteration::Preempted);
            }
            _ => {}
        }
        let time_ns = (range.end - range.start).saturating_sub(sums.probes);
        let all = u64::from(threads) * sums.region;
        Ok((
            threads,
            IterationParts {
                time: time_ns as f64,
                sequential: time_ns.saturating_sub(sums.region) as f64,
                working: sums.working as f64,
                starting: sums.starting as f64,
                waiting: sums.waiting as f64,
                ending: sums.ending as f64,
                left_out: (all - sums.team) as f64,
            },
        ))
    }

    /// The greatest number of waiting threads in a reading of this time.
    fn waited(&self, range: &Range<u64>) -> f64 {
        let from = self
            .waiting
            .partition_point(|(until_ns, _)| *until_ns <= range.start);
        let readings = self.waiting.range(from..);
        readings.map(|(_, threads)| *threads).fold(0.0, f64::max)
    }

    /// The results of the current loop, or else of the former loop with the most used iterations; `None`
    /// without a measurement.
    fn shown(&self) -> Option<&LoopSizes> {
        let has_result = |sizes: &&LoopSizes| sizes.sizes.values().any(|size| size.has_mean);
        Some(&self.current)
            .filter(has_result)
            .or(self.earlier.as_ref().filter(has_result))
    }

    /// The iterations that are not used, by reason.
    pub fn left_out(&self) -> Vec<(UnusedIteration, u64)> {
        let of = self.shown().unwrap_or(&self.current);
        of.left_out
            .iter()
            .map(|(reason, count)| (*reason, *count))
            .collect()
    }
}

fieldwise! {
    RegionSums { region, team, working, starting, waiting, ending, changes, missed, unknown, probes }
}

impl LoopSizes {
    /// Leaves out iterations after a change of the team, because data moves.
    fn settle<T>(&mut self, parts: Result<T, UnusedIteration>, time_ns: f64) -> Result<T, UnusedIteration> {
        match (&parts, self.settling) {
            (Err(UnusedIteration::TeamChanged), _) => self.settling = Some((time_ns, SETTLING_MAX)),
            (Ok(_), Some((before_ns, left)))
                if left > 0 && (time_ns - before_ns).abs() > SETTLED * before_ns =>
            {
                self.settling = Some((time_ns, left - 1));
                return Err(UnusedIteration::Settling);
            }
            (Ok(_), Some(_)) => self.settling = None,
            _ => {}
        }
        parts
    }

    fn add(&mut self, threads: u32, parts: &IterationParts, until_ns: u64) -> Result<(), UnusedIteration> {
        if self.sizes.len() == SIZES_MAX && !self.sizes.contains_key(&threads) {
            return Err(UnusedIteration::TooMany);
        }
        self.latest = threads;
        self.sizes.entry(threads).or_default().add(parts, until_ns);
        Ok(())
    }
}

impl Size {
    fn add(&mut self, parts: &IterationParts, until_ns: u64) {
        if self.count == 0 {
            self.since_ns = until_ns;
        }
        self.count += 1;
        self.until_ns = until_ns;
        let deviation = parts.time - self.time_mean;
        self.time_mean += deviation / self.count as f64;
        self.time_squares += deviation * (parts.time - self.time_mean);
        self.sum = self.sum.zip(parts, |sum, part| sum + part);
        self.summed += 1;
        if self.summed < ITERATIONS_MIN || self.sum.time < MEASUREMENT_NS {
            return;
        }
        let count = std::mem::take(&mut self.summed) as f64;
        let newest = std::mem::take(&mut self.sum).zip(&IterationParts::default(), |sum, _| sum / count);
        self.mean = match self.has_mean {
            true => self
                .mean
                .zip(&newest, |old, new| (1.0 - NEWEST) * old + NEWEST * new),
            false => newest,
        };
        self.has_mean = true;
    }
}

impl IterationParts {
    fn of_team(&self, threads: u32) -> IterationTeams {
        IterationTeams {
            threads,
            sequential_ns: self.sequential as u64,
            working_ns: self.working as u64,
            overhead_ns: (self.starting + self.ending) as u64,
            waiting_ns: self.waiting as u64,
        }
    }

    fn zip(&self, other: &IterationParts, f: impl Fn(f64, f64) -> f64) -> IterationParts {
        IterationParts {
            time: f(self.time, other.time),
            sequential: f(self.sequential, other.sequential),
            working: f(self.working, other.working),
            starting: f(self.starting, other.starting),
            waiting: f(self.waiting, other.waiting),
            ending: f(self.ending, other.ending),
            left_out: f(self.left_out, other.left_out),
        }
    }
}
