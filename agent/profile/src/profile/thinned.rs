//! Totals at moments of a run that are equally far apart, however long it is.

/// Minimum time between two moments, in nanoseconds.
pub(super) const LENGTH_NS: u64 = 1_000_000_000;

/// At most `MAX` moments, each with totals that grow over the run. When there are more, every second one is
/// dropped: the difference of the totals of two neighbours then covers both buckets between them, as if they had
/// been one from the start.
#[derive(Debug)]
pub(super) struct Thinned<T, const MAX: usize> {
    moments: Vec<(u64, T)>,
    length_ns: u64,
}

impl<T, const MAX: usize> Default for Thinned<T, MAX> {
    fn default() -> Thinned<T, MAX> {
        Thinned {
            moments: Vec::new(),
            length_ns: LENGTH_NS,
        }
    }
}

impl<T: Copy, const MAX: usize> Thinned<T, MAX> {
    /// Whether [`Thinned::add`] would keep totals of the time `at_ns`.
    pub(super) fn is_due(&self, at_ns: u64) -> bool {
        let last = self.moments.last();
        last.is_none_or(|(last_ns, _)| at_ns.saturating_sub(*last_ns) >= self.length_ns)
    }

    /// Adds totals, unless the last ones are too near; times only grow.
    pub(super) fn add(&mut self, at_ns: u64, totals: T) {
        if !self.is_due(at_ns) {
            return;
        }
        if self.moments.len() == MAX {
            let mut is_kept = false;
            self.moments.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.length_ns *= 2;
            return self.add(at_ns, totals);
        }
        if self.moments.len() == self.moments.capacity() {
            // A vector that grows by itself would end with twice the room that it needs.
            let more = self.moments.len().max(4).min(MAX - self.moments.len());
            self.moments.reserve_exact(more);
        }
        self.moments.push((at_ns, totals));
    }

    /// The buckets between the moments, each with its totals at both ends; the last one ends with `newest`.
    pub(super) fn buckets(&self, newest: (u64, T)) -> impl Iterator<Item = ((u64, T), (u64, T))> {
        let goes_on = self
            .moments
            .last()
            .is_some_and(|(last_ns, _)| newest.0 > *last_ns);
        let ends = self
            .moments
            .iter()
            .copied()
            .skip(1)
            .chain(goes_on.then_some(newest));
        self.moments.iter().copied().zip(ends)
    }

    /// Memory of the moments at most, in bytes.
    #[cfg(test)]
    pub(super) const BYTES_MAX: usize = MAX * size_of::<(u64, T)>();

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.moments.capacity() * size_of::<(u64, T)>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Totals that grow by one a nanosecond, but not in `gap`.
        #[test]
        fn a_series_of_any_length_is_as_if_built_with_its_last_length_and_a_gap_stays_a_gap(
            steps in prop::collection::vec(1u64..3 * LENGTH_NS, 1..300),
            gap in (0u64..200, 8u64..100),
        ) {
            let (from, until) = (gap.0 * LENGTH_NS, (gap.0 + gap.1) * LENGTH_NS);
            let total = |at: u64| at.min(from) + at.saturating_sub(until);
            let mut series: Thinned<u64, 16> = Thinned::default();
            let mut at = 0;
            let mut times = vec![0];
            series.add(0, 0);
            for step in steps {
                at += step;
                times.push(at);
                series.add(at, total(at));
                prop_assert!(series.moments.len() <= 16 && series.bytes() <= Thinned::<u64, 16>::BYTES_MAX);
            }
            let buckets: Vec<_> = series.buckets((at, total(at))).collect();
            // They cover the run without a hole, and keep each sum.
            prop_assert_eq!(buckets.first().map_or(0, |bucket| bucket.0.0), 0);
            prop_assert_eq!(buckets.last().map_or(at, |bucket| bucket.1.0), at);
            prop_assert!(buckets.windows(2).all(|pair| pair[0].1 == pair[1].0));
            let sum: u64 = buckets.iter().map(|(begin, end)| end.1 - begin.1).sum();
            prop_assert_eq!(sum, total(at));
            // Each boundary has the totals that were read then: merged buckets are those that were built at once.
            prop_assert!(series.moments.iter().all(|(at, kept)| times.contains(at) && *kept == total(*at)));
            // A bucket in the gap is empty, also after it was merged.
            let inside = buckets.iter().filter(|(begin, end)| begin.0 >= from && end.0 <= until);
            for (begin, end) in inside {
                prop_assert_eq!(begin.1, end.1);
            }
        }
    }

    #[test]
    fn however_long_a_run_is_at_least_half_of_the_buckets_are_used() {
        let mut series: Thinned<u64, 64> = Thinned::default();
        for second in 0..100_000 {
            series.add(second * LENGTH_NS, second);
            assert!(series.moments.len() >= 32.min(second as usize + 1) && series.moments.len() <= 64);
        }
        // Merging buckets is the same as building them with this length from the start.
        let mut at_once: Thinned<u64, 64> = Thinned {
            length_ns: series.length_ns,
            ..Thinned::default()
        };
        (0..100_000).for_each(|second| at_once.add(second * LENGTH_NS, second));
        assert_eq!(series.moments, at_once.moments);
    }
}
