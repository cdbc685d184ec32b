//! The measured team sizes of a loop, and their speedup as a ratio of two measurements.

use std::time::Duration;

use super::{IterationParts, LoopSizes, Losses, Scaling, ScalingPrediction, Size, UnusedIteration};

/// Threads of the reference (S4-7). If this size was not measured, the next smaller one is the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline(pub u32);

impl Default for Baseline {
    fn default() -> Baseline {
        Baseline(4)
    }
}

/// Two-sided quantile of the normal distribution for 95 %.
pub(super) const WITHIN: f64 = 1.96;

/// The speedup as a ratio of two measurements (Fig. 4.5): S(p) = T(B) / T(p) x AF(B).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Threads of the reference, B.
    pub baseline: u32,
    /// The sequential share of the busy time of an iteration of the reference: s / (s + W).
    pub sequential: f64,
    /// The sequential share by Fig. 4.6, which assumes that all threads work from begin to end of each
    /// region.
    pub sequential_of_source: f64,
    /// The speedup of the reference by Amdahl's law, AF(B).
    pub amdahl: f64,
    pub speedup: f64,
    /// T(B) / T(p), the shape of the curve. It needs no law, so it holds also if the speedup is not reliable (S4-28).
    pub relative: f64,
    /// Whether the iteration is shorter than that of the reference by more than the ratio of the threads
    /// (S4-28).
    pub is_superlinear: bool,
}

/// The iterations with one team size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizeView {
    pub threads: u32,
    pub iterations: u64,
    /// Time since the last of the iterations ended.
    pub age: Duration,
    /// Mean time of recent iterations, in nanoseconds.
    pub time_ns: f64,
    /// Half the width of the 95 % confidence interval of the mean, in nanoseconds; `None` for one iteration.
    pub within_ns: Option<f64>,
    pub losses: Losses,
    /// `None` if this size is the only one.
    pub ratio: Option<Ratio>,
}

/// The scaling of a process, for display.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingView {
    /// The measured sizes, ascending.
    pub sizes: Vec<SizeView>,
    /// Threads of the largest team that ran before the reference was first measured: it may have spread the data over
    /// memory nodes, so that the reference is slow (S4-27). `None` if there was no larger one.
    pub reference_after: Option<u32>,
    /// Threads of the last iteration. `sizes` lacks this size until it is measured.
    pub threads: u32,
    /// Other sizes; `None` if fewer than three were measured.
    pub prediction: Option<ScalingPrediction>,
    /// Iterations that are not used, by reason.
    pub left_out: Vec<(UnusedIteration, u64)>,
}

impl ScalingView {
    /// The team size of the last iteration; `None` until it is measured.
    pub fn now(&self) -> Option<&SizeView> {
        self.sizes.iter().find(|size| size.threads == self.threads)
    }
}

impl Scaling {
    /// The number of measured team sizes, and the lost threads of the last iterations; `None` until their size is
    /// measured.
    pub fn losses(&self) -> Option<(usize, Losses)> {
        let of = self.shown()?;
        let size = of.sizes.get(&of.latest).filter(|size| size.has_mean)?;
        Some((
            of.measured().count(),
            Losses::of(of.latest, &size.mean, of.single()),
        ))
    }

    /// The serial fraction of the largest measured size (Karp and Flatt, CACM 1990): the share of a single thread's
    /// time that more threads do not shorten, whatever the reason. With one thread only, that of the time outside
    /// regions. `None` until a size is measured.
    pub fn serial_fraction(&self) -> Option<f64> {
        let of = self.shown()?;
        let (threads, size) = of.measured().last()?;
        let losses = Losses::of(*threads, &size.mean, of.single());
        let others = f64::from(*threads) - 1.0;
        let fraction = match others > 0.0 {
            true => (f64::from(*threads) / losses.speedup - 1.0) / others,
            false => size.mean.sequential / (size.mean.sequential + size.mean.working),
        };
        fraction.is_finite().then(|| fraction.clamp(0.0, 1.0))
    }

    /// For display; `None` before the end of the first iteration.
    pub fn view(&self, now_ns: u64) -> Option<ScalingView> {
        let left_out = self.left_out();
        let Some(of) = self.shown() else {
            let view = ScalingView {
                left_out,
                ..ScalingView::default()
            };
            return (!view.left_out.is_empty()).then_some(view);
        };
        let single = of.single();
        let reference = of.reference(self.baseline);
        let view = |(threads, size): (&u32, &Size)| SizeView {
            threads: *threads,
            iterations: size.count,
            age: Duration::from_nanos(now_ns.saturating_sub(size.until_ns)),
            time_ns: size.mean.time,
            within_ns: size.within_ns(),
            losses: Losses::of(*threads, &size.mean, single),
            ratio: reference.map(|reference| Ratio::of(reference, (*threads, &size.mean))),
        };
        let sizes: Vec<SizeView> = of.measured().map(view).collect();
        Some(ScalingView {
            prediction: ScalingPrediction::of(&sizes),
            reference_after: reference.and_then(|(threads, _)| of.larger_before(threads)),
            sizes,
            threads: of.latest,
            left_out,
        })
    }
}

impl LoopSizes {
    pub(super) fn measured(&self) -> impl Iterator<Item = (&u32, &Size)> {
        self.sizes.iter().filter(|(_, size)| size.has_mean)
    }

    /// The reference of all ratios; `None` if only one size was measured.
    fn reference(&self, baseline: Baseline) -> Option<(u32, &IterationParts)> {
        let mut measured = self.measured();
        let (first, second) = (measured.next()?, measured.next()?);
        let others = [first, second].into_iter().chain(measured);
        let within = others.take_while(|(threads, _)| **threads <= baseline.0);
        let (threads, size) = within.last().unwrap_or(first);
        Some((*threads, &size.mean))
    }
}

impl LoopSizes {
    /// The largest size above this one that was in use before it.
    fn larger_before(&self, threads: u32) -> Option<u32> {
        let since_ns = self.sizes.get(&threads)?.since_ns;
        let mut larger = self.sizes.range(threads + 1..).rev();
        let found = larger.find(|(_, size)| size.since_ns < since_ns);
        found.map(|(threads, _)| *threads)
    }
}

impl Ratio {
    pub(super) fn of(
        (baseline, there): (u32, &IterationParts),
        (threads, here): (u32, &IterationParts),
    ) -> Ratio {
        let b = f64::from(baseline);
        let sequential = there.sequential / (there.sequential + there.working).max(1.0);
        let regions = there.time - there.sequential;
        let amdahl = 1.0 / (sequential + (1.0 - sequential) / b);
        let ratio = there.time / here.time.max(1.0);
        Ratio {
            baseline,
            sequential,
            sequential_of_source: there.sequential / (there.sequential + regions * b).max(1.0),
            amdahl,
            speedup: ratio * amdahl,
            relative: ratio,
            is_superlinear: threads > baseline && ratio > f64::from(threads) / b,
        }
    }
}

impl Size {
    pub(super) fn within_ns(&self) -> Option<f64> {
        let count = self.count as f64;
        (self.count > 1).then(|| WITHIN * (self.time_squares / (count - 1.0) / count).sqrt())
    }
}
