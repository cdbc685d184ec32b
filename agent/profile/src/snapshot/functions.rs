//! Totals by function: of one process, and their sums over processes.

use serde::{Deserialize, Serialize};

use crate::cost::Estimate;

/// Totals of one process in one function since the probes were armed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTotals {
    pub name: String,
    pub calls: u64,
    /// Calls inside another watched MPI function. No other number contains them.
    pub nested: u64,
    /// Time inside calls that returned or are still open, in nanoseconds; `None` if calls are only counted,
    /// or if none has returned.
    pub time_ns: Option<u64>,
    /// Calls whose return was recorded, and their time in nanoseconds: without open calls, and without those
    /// that never returned.
    pub returned: u64,
    pub returned_ns: u64,
    /// Of `calls`, those that have not returned yet, and their time in nanoseconds, which is in `time_ns` and in no mean.
    #[serde(default)]
    pub under_way: u64,
    #[serde(default)]
    pub under_way_ns: u64,
    /// `None` if the function carries no bytes, or an unknown number.
    pub bytes: Option<u64>,
    /// The direction of the bytes. It does not travel between machines: the name of the function gives it.
    #[serde(skip)]
    pub bytes_kind: Option<&'static str>,
    /// Calls whose bytes are unknown.
    pub bytes_unknown: u64,
    /// The number of messages of each size, by [`abi::Sizes::bucket`]; empty if not counted.
    pub sizes: Vec<u64>,
    /// Calls that were not timed: nested too deeply, or without a return.
    pub untimed: u64,
    /// The untimed calls that were left without a return.
    pub unreturned: u64,
    /// Calls per second in the last period.
    pub calls_per_s: f64,
    /// Share of the last period spent inside.
    pub share: f64,
    /// Mean duration in the last period, in nanoseconds; `None` if no call ended in it.
    pub mean_ns: Option<f64>,
    /// Distribution of durations; `None` if not requested, or if there was no room.
    pub durations: Option<Histogram>,
    /// Set if the function was watched in sampling windows: then calls, time and bytes are extrapolated to
    /// the complete time. `None` if all calls were counted.
    pub estimate: Option<Estimate>,
    /// The part of the time in which the function was counted; calls, time and bytes cover only this part.
    /// `None` if it was counted all the time.
    pub counted: Option<f64>,
    /// It is not being counted now, so its calls per second are unknown.
    pub is_resting: bool,
}

impl FunctionTotals {
    /// MPI reserves the prefix of its names.
    pub fn is_of_mpi(&self) -> bool {
        self.name.starts_with("MPI_")
    }

    /// Mean duration of all calls that returned, in nanoseconds; `None` if none has.
    pub fn mean_of_returned_ns(&self) -> Option<f64> {
        (self.returned > 0).then(|| self.returned_ns as f64 / self.returned as f64)
    }

    pub(super) fn add(&mut self, other: &FunctionTotals) {
        let weighted =
            |function: &FunctionTotals| function.mean_ns.map_or(0.0, |mean| mean * function.calls_per_s);
        let rate = |function: &FunctionTotals| {
            if function.mean_ns.is_some() {
                function.calls_per_s
            } else {
                0.0
            }
        };
        let (sum, weight) = (weighted(self) + weighted(other), rate(self) + rate(other));
        self.mean_ns = (weight > 0.0).then(|| sum / weight);
        let exact = |of: &FunctionTotals| {
            let all = || Estimate::exact(of.calls, of.bytes.unwrap_or_default());
            of.estimate.unwrap_or_else(all)
        };
        let is_estimated = self.estimate.or(other.estimate).is_some();
        self.estimate = is_estimated.then(|| exact(self).and(exact(other)));
        let part = |of: &FunctionTotals| of.counted.unwrap_or(1.0);
        self.counted = (self.counted.or(other.counted)).map(|_| part(self).min(part(other)));
        self.is_resting &= other.is_resting;
        self.calls += other.calls;
        self.nested += other.nested;
        // One of the two may have only calls that did not return.
        let both = self.time_ns.zip(other.time_ns).map(|(a, b)| a + b);
        self.time_ns = both.or(self.time_ns).or(other.time_ns);
        self.bytes = self.bytes.zip(other.bytes).map(|(a, b)| a + b);
        self.bytes_unknown += other.bytes_unknown;
        if self.sizes.len() < other.sizes.len() {
            self.sizes.resize(other.sizes.len(), 0);
        }
        for (count, more) in self.sizes.iter_mut().zip(&other.sizes) {
            *count += more;
        }
        self.returned += other.returned;
        self.returned_ns += other.returned_ns;
        self.under_way += other.under_way;
        self.under_way_ns += other.under_way_ns;
        self.untimed += other.untimed;
        self.unreturned += other.unreturned;
        self.calls_per_s += other.calls_per_s;
        self.share += other.share;
        if let Some(more) = &other.durations {
            self.durations.get_or_insert_default().merge(more);
        }
    }
}

/// Numbers of calls by duration, in powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// By [`abi::Durations::bucket`], up to the longest call.
    counts: Vec<u64>,
}

impl Histogram {
    /// From the kernel side's counts, by [`abi::Durations::bucket`].
    pub fn of(mut counts: Vec<u64>) -> Histogram {
        while counts.last() == Some(&0) {
            counts.pop();
        }
        Histogram { counts }
    }

    #[cfg(test)]
    fn add(&mut self, duration_ns: u64) {
        let index = abi::Durations::bucket(duration_ns);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    pub fn merge(&mut self, other: &Histogram) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    pub fn calls(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Lower bound in nanoseconds and number of calls of each bucket, from the shortest call to the longest;
    /// includes empty buckets in between.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let buckets = self.counts.iter().enumerate();
        let buckets = buckets.map(|(index, count)| (abi::Durations::least_ns(index), *count));
        buckets.skip_while(|(_, count)| *count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_did_not_return_have_no_part_in_the_mean() {
        let of = |calls, returned, returned_ns, time_ns| FunctionTotals {
            calls,
            returned,
            returned_ns,
            time_ns,
            unreturned: calls - returned,
            ..FunctionTotals::default()
        };
        for (function, mean_ns) in [
            (of(10, 10, 500, Some(500)), Some(50.0)),
            // One call is open, and has taken longer than all others.
            (of(11, 10, 500, Some(5000)), Some(50.0)),
            (of(863, 0, 0, None), None),
        ] {
            assert_eq!(function.mean_of_returned_ns(), mean_ns, "{function:?}");
        }
        let mut both = of(4, 0, 0, None);
        both.add(&of(2, 2, 60, Some(60)));
        assert_eq!((both.time_ns, both.mean_of_returned_ns()), (Some(60), Some(30.0)));
        assert_eq!(both.unreturned, 4);
    }

    #[test]
    fn durations_are_counted_between_powers_of_two() {
        let mut histogram = Histogram::default();
        for duration_ns in [0, 1, 2, 3, 1024, 2047, 2048] {
            histogram.add(duration_ns);
        }
        let filled: Vec<(u64, u64)> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0, 2), (2, 2), (1024, 2), (2048, 1)]);
        let mut longer = Histogram::default();
        longer.add(u64::MAX);
        longer.merge(&histogram);
        assert_eq!((longer.calls(), longer.buckets().last()), (8, Some((1 << 63, 1))));
        assert_eq!(Histogram::default().buckets().next(), None);
    }

    #[test]
    fn the_histogram_of_the_kernel_side_is_that_of_the_same_calls() {
        let mut counts = vec![0; abi::Durations::BUCKETS];
        let mut histogram = Histogram::default();
        for duration_ns in [0, 900, 1024, 3_000_000_000] {
            counts[abi::Durations::bucket(duration_ns)] += 1;
            histogram.add(duration_ns);
        }
        assert_eq!(Histogram::of(counts), histogram);
        assert_eq!(
            Histogram::of(vec![0; abi::Durations::BUCKETS]),
            Histogram::default()
        );
    }
}
