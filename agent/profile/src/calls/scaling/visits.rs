//! The team size that a program should visit next, so that its best size is found with a small loss of time.
//!
//! The program's own size is measured first, then the reference (S4-7), then sizes between the fastest one and its
//! measured neighbours: the one that halves the range in which the best size may lie. A visit is over once the
//! mean time of an iteration is known well enough. The loss of a visit is planned before it begins, from the size
//! above it: an iteration takes at most as much longer as there are fewer threads (S4-31).
//!
//! Pure: decides nothing but the size; a rule compares the loss with its budget.

use std::{collections::BTreeMap, ops::Range};

use super::{Baseline, LoopSizes, MEASUREMENT_NS, Scaling, Size, UnusedIteration, curve::WITHIN};

/// A mean is known well enough if half the width of its interval is at most this share of it.
const PRECISION: f64 = 0.03;

/// Used iterations after which a mean counts as known, and the least number of them.
const ITERATIONS: Range<f64> = 3.0..30.0;

/// Iterations at the begin of a visit that are expected to be unused.
const UNUSED: f64 = 3.0;

/// Time until a change is made and until its reversal, in nanoseconds.
const LATENCY_NS: f64 = 1_000_000_000.0;

/// The next step of measuring the times by team size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// `None` if nothing is left to measure, or its own size is not measured.
    pub threads: Option<u32>,
    /// Time that was lost to visits so far and is planned for this one, in nanoseconds.
    pub loss_ns: f64,
}

/// The visits so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    /// The size that the program had at first.
    own: Option<u32>,
    /// The size in the last iteration with a known one.
    at: u32,
    until_ns: u64,
    /// Time lost by size, in nanoseconds.
    lost: BTreeMap<u32, f64>,
}

impl Visits {
    /// Adds an iteration. Its team was `threads`, or it cannot be used. `own_ns` is the time of an iteration with the
    /// program's own size.
    pub(super) fn iteration(
        &mut self,
        threads: Result<u32, UnusedIteration>,
        range: &Range<u64>,
        own_ns: Option<f64>,
    ) {
        let since_ns = std::mem::replace(&mut self.until_ns, range.end).max(1);
        if let Ok(threads) = threads {
            self.own.get_or_insert(threads);
            self.at = threads;
        }
        let is_visit =
            threads == Err(UnusedIteration::TeamChanged) || self.own.is_some_and(|own| own != self.at);
        let Some(own_ns) = own_ns.filter(|_| is_visit) else {
            return;
        };
        // Iterations between these two were not seen.
        let elapsed_ns = range.end.saturating_sub(since_ns) as f64;
        let time_ns = (range.end - range.start).max(1) as f64;
        *self.lost.entry(self.at).or_default() += elapsed_ns * (1.0 - own_ns / time_ns).max(0.0);
    }
}

impl Scaling {
    /// Time of an iteration with the program's own size, in nanoseconds; `None` until it is measured.
    pub(super) fn own_ns(&self) -> Option<f64> {
        let size = self.current.sizes.get(&self.visits.own?)?;
        size.has_mean.then_some(size.mean.time)
    }

    /// The next step of measuring the times by team size; `None` before the first iteration.
    pub fn visit(&self) -> Option<Visit> {
        let own = self.visits.own?;
        let lost_ns = self.visits.lost.values().sum();
        let Some((threads, bound_ns)) = self.current.next(own, self.baseline) else {
            return Some(Visit {
                threads: None,
                loss_ns: lost_ns,
            });
        };
        let lost_there_ns = self.visits.lost.get(&threads).copied().unwrap_or_default();
        let planned_ns = self.current.planned_loss_ns(own, bound_ns);
        Some(Visit {
            threads: Some(threads),
            loss_ns: lost_ns + (planned_ns - lost_there_ns).max(0.0),
        })
    }
}

impl LoopSizes {
    /// The next size to measure and an upper bound of the time of an iteration with it, in nanoseconds; `None` if
    /// `own` is not known well enough, or nothing is left to measure.
    fn next(&self, own: u32, baseline: Baseline) -> Option<(u32, f64)> {
        let known = self.measured().filter(|(_, size)| size.is_known());
        let times: BTreeMap<u32, f64> = known.map(|(threads, size)| (*threads, size.mean.time)).collect();
        times.get(&own)?;
        let threads = next_size(own, baseline, &times)?;
        let (above, above_ns) = times.range(threads..).next()?;
        let scaled_ns = above_ns * f64::from(*above) / f64::from(threads);
        // Between two sizes the time is at most the greater of theirs.
        let below_ns = times
            .range(..threads)
            .next_back()
            .map_or(f64::INFINITY, |(_, ns)| *ns);
        Some((threads, scaled_ns.min(below_ns.max(*above_ns))))
    }

    fn planned_loss_ns(&self, own: u32, bound_ns: f64) -> f64 {
        let Some(size) = self.sizes.get(&own) else {
            return 0.0;
        };
        let wanted = (WITHIN * size.relative_deviation() / PRECISION).powi(2).ceil();
        let count = wanted.clamp(ITERATIONS.start, ITERATIONS.end) + UNUSED;
        let visit_ns = (count * bound_ns).max(MEASUREMENT_NS) + LATENCY_NS;
        visit_ns * (1.0 - size.mean.time / bound_ns.max(1.0)).max(0.0)
    }
}

impl Size {
    fn is_known(&self) -> bool {
        let is_precise = self
            .within_ns()
            .is_some_and(|within| within <= PRECISION * self.time_mean);
        is_precise || self.count as f64 >= ITERATIONS.end
    }

    fn relative_deviation(&self) -> f64 {
        let variance = self.time_squares / (self.count.max(2) - 1) as f64;
        variance.sqrt() / self.time_mean.max(1.0)
    }
}

/// The size to measure next: the reference, then the middle of the greater gap between the fastest
/// size and its measured neighbours. Sizes are the own one divided by powers of two.
pub(super) fn next_size(own: u32, baseline: Baseline, times: &BTreeMap<u32, f64>) -> Option<u32> {
    let baseline = baseline.0.min(own);
    if !times.contains_key(&baseline) {
        return Some(baseline);
    }
    let halves = (0..u32::BITS)
        .map(|power| own >> power)
        .take_while(|size| *size > 0);
    let mut sizes: Vec<u32> = halves.chain([baseline]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (best, _) = times.iter().min_by(|one, other| one.1.total_cmp(other.1))?;
    let below = times.range(..best).next_back().map_or(0, |(size, _)| *size);
    let above = times.range(best + 1..).next().map_or(own + 1, |(size, _)| *size);
    let gap = |from: u32, to: u32| -> Vec<u32> {
        let inside = sizes.iter().filter(|size| **size > from && **size < to);
        inside.copied().collect()
    };
    let (down, up) = (gap(below, *best), gap(*best, above));
    let gap = if up.len() < down.len() { down } else { up };
    gap.get(gap.len() / 2).copied()
}
