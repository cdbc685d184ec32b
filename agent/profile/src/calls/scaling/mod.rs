//! How a program with parallel regions scales: for each size of its teams the time of an iteration of the
//! detected loop, and the threads that are lost.
//!
//! For an iteration of length T with p threads, let s be the time of its first thread outside regions, W, A,
//! I and X the times *working*, *starting*, *waiting* and *ending* in regions, summed over the threads, and U
//! the time of threads that a smaller team leaves out. Then exactly
//!
//! > p T = p s + W + A + I + X + U
//!
//! With W(1) for the work of a single thread, the speedup is S(p) = (s + W(1)) / T, and the lost threads
//! p - S(p) are the sum of (p - 1) s / T (sequential code), (A + X) / T (start and end of regions), I / T
//! (imbalance), U / T (small teams) and (W - W(1)) / T (*work inflation*: caches, memory bandwidth, clock).
//! The ratio of two measurements is SelfAnalyzer's (thesis of Corbalan, Fig. 4.5 to 4.7).
//!
//! Pure: times come with regions and iterations.

mod curve;
mod losses;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

pub use self::curve::{Ratio, ScalingView, SizeView};
pub use self::losses::{Inflation, Losses};
use super::teams::TeamParts;

/// Regions whose begins are kept, for iterations that end later.
const REGIONS_MAX: usize = 1 << 14;

/// Regions that are kept once their iterations were taken: a loop that is found later reaches back that far.
const REGIONS_KEPT: usize = rules::period::WINDOW;

/// Call sites of regions whose team sizes are compared; regions of others are compared with one another.
const SITES_MAX: usize = 256;

/// Team sizes with results of their own; iterations with further sizes are only counted.
const SIZES_MAX: usize = 64;

/// Iterations are left out if more than this share of their threads waited for a CPU on average.
const PREEMPTED: f64 = 0.05;

/// Readings of waiting threads that are kept, for iterations that are longer than the time between two.
const READINGS_MAX: usize = 64;

/// Weight of the newest iterations in the values of a team size (Fig. 4.7).
const NEWEST: f64 = 0.4;

/// Iterations that make one measurement: at least this many, over at least the time below.
const ITERATIONS_MIN: u64 = 3;
const MEASUREMENT_NS: f64 = 100_000_000.0;

/// Why an iteration is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnusedIteration {
    /// A region had another team size than at its previous execution (S4-9).
    TeamChanged,
    /// Its threads waited for a CPU, for their quota, or were stopped (S4-10).
    Preempted,
    /// A region of the iteration was not seen completely.
    CallsMissed,
    /// No region lies in it, or one begins in it and ends after it.
    NotParallel,
    /// More regions, or team sizes, than are kept.
    TooMany,
}

impl UnusedIteration {
    pub fn reason(self) -> &'static str {
        match self {
            UnusedIteration::TeamChanged => "the size of a team changed",
            UnusedIteration::Preempted => "its threads waited for a CPU, or were stopped",
            UnusedIteration::CallsMissed => "not all of its regions were seen",
            UnusedIteration::NotParallel => "it has no complete parallel region",
            UnusedIteration::TooMany => "it has more regions or team sizes than are kept",
        }
    }
}

/// The parts of an iteration, in nanoseconds; all but the first two are summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct IterationParts {
    pub time: f64,
    /// Time of the first thread outside regions.
    pub sequential: f64,
    pub working: f64,
    pub starting: f64,
    pub waiting: f64,
    pub ending: f64,
    /// Time in regions of the threads that a smaller team leaves out.
    pub left_out: f64,
}

/// The results of one loop.
#[derive(Clone, Debug, Default)]
struct LoopSizes {
    number: u32,
    sizes: BTreeMap<u32, Size>,
    left_out: BTreeMap<UnusedIteration, u64>,
    /// Team size of the last iteration that was used.
    latest: u32,
}

/// The iterations with one team size.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    count: u64,
    until_ns: u64,
    /// Mean of an iteration, the newest measurements weighted by [`NEWEST`].
    mean: IterationParts,
    has_mean: bool,
    /// Iterations of the next measurement, and their number.
    sum: IterationParts,
    summed: u64,
    /// Sum of the squared deviations of the iterations' times from their mean, by Welford.
    time_mean: f64,
    time_squares: f64,
}

/// Sums over the regions of the first thread so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct RegionSums {
    region: u64,
    team: u64,
    working: u64,
    starting: u64,
    waiting: u64,
    ending: u64,
    /// Regions whose team had another size than before.
    changes: u64,
    /// Regions that were not seen completely.
    missed: u64,
}

/// A region, with the sums before it.
#[derive(Clone, Copy, Debug)]
struct RegionBegin {
    begin_ns: u64,
    end_ns: u64,
    threads: u32,
    before: RegionSums,
}

/// How one process scales.
#[derive(Clone, Debug, Default)]
pub struct Scaling {
    regions: VecDeque<RegionBegin>,
    /// Begin of the newest region that is no longer kept.
    dropped_ns: Option<u64>,
    sums: RegionSums,
    /// The threads that waited for a CPU, and until when, by CLOCK_MONOTONIC.
    waiting: VecDeque<(u64, f64)>,
    /// The team size of the last region by call site.
    sites: BTreeMap<u64, u32>,
    current: LoopSizes,
    /// Of the loops that were left, the one with the most iterations in use.
    earlier: Option<LoopSizes>,
}

impl Scaling {
    /// A region of the first thread has ended; `None` if it was not seen completely.
    pub(super) fn region(&mut self, site: u64, (begin_ns, end_ns): (u64, u64), parts: Option<&TeamParts>) {
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
        let Some(parts) = parts else {
            sums.missed += 1;
            return;
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

    /// Regions were not recorded for some time.
    pub fn gap(&mut self) {
        self.dropped_ns = self
            .regions
            .back()
            .map(|region| region.begin_ns)
            .or(self.dropped_ns);
        self.regions.clear();
    }

    /// So many threads waited for a CPU since the last use of this function, on average.
    pub fn waiting(&mut self, threads: f64, now_ns: u64) {
        if self.waiting.len() == READINGS_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((now_ns, threads));
    }

    /// An iteration of the first thread has ended. `loop_number` counts the loops that were found.
    pub fn iteration(&mut self, loop_number: u32, range: &Range<u64>) {
        if self.current.number != loop_number {
            let left = std::mem::take(&mut self.current);
            self.current.number = loop_number;
            let count = |sizes: &LoopSizes| sizes.sizes.values().map(|size| size.count).sum::<u64>();
            if count(&left) > self.earlier.as_ref().map_or(0, count) {
                self.earlier = Some(left);
            }
        }
        let parts = self.parts(range);
        if let Err(reason) = parts.and_then(|(threads, parts)| self.current.add(threads, &parts, range.end)) {
            *self.current.left_out.entry(reason).or_default() += 1;
        }
    }

    /// All iterations that have ended were taken.
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
        let sums = sums(to).since(&sums(from));
        match sums {
            RegionSums { missed: 1.., .. } => return Err(UnusedIteration::CallsMissed),
            RegionSums { changes: 1.., .. } => return Err(UnusedIteration::TeamChanged),
            _ if self.waited(range) > PREEMPTED * f64::from(threads) => {
                return Err(UnusedIteration::Preempted);
            }
            _ => {}
        }
        let time_ns = range.end - range.start;
        let all = u64::from(threads) * sums.region;
        Ok((
            threads,
            IterationParts {
                time: time_ns as f64,
                sequential: (time_ns - sums.region) as f64,
                working: sums.working as f64,
                starting: sums.starting as f64,
                waiting: sums.waiting as f64,
                ending: sums.ending as f64,
                left_out: (all - sums.team) as f64,
            },
        ))
    }

    /// The threads that waited for a CPU, in the worst reading of this time.
    fn waited(&self, range: &Range<u64>) -> f64 {
        let from = self
            .waiting
            .partition_point(|(until_ns, _)| *until_ns <= range.start);
        let readings = self.waiting.range(from..);
        readings.map(|(_, threads)| *threads).fold(0.0, f64::max)
    }

    /// The results of the loop that the program is in, or was in for more iterations.
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

impl RegionSums {
    fn since(&self, before: &RegionSums) -> RegionSums {
        RegionSums {
            region: self.region - before.region,
            team: self.team - before.team,
            working: self.working - before.working,
            starting: self.starting - before.starting,
            waiting: self.waiting - before.waiting,
            ending: self.ending - before.ending,
            changes: self.changes - before.changes,
            missed: self.missed - before.missed,
        }
    }
}

impl LoopSizes {
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
