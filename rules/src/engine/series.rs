//! Time-ordered samples, and the change of a counter within a window. Independent of what is sampled.
//!
//! The samples of a counter rarely fall on the boundaries of a window. Its change is taken between the last
//! sample at or before the first boundary (otherwise the first one after it) and the last sample at or before
//! the second boundary, and extrapolated at that rate to the duration of the window. Samples further than
//! half a window from their boundary give no value.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::unsampled::Unsampled;
use crate::value::Time;

/// Samples kept of one series; a window of an hour sampled every 4 s needs 900.
const SAMPLES_MAX: usize = 1024;
/// MPI functions whose calls are counted in one process.
const CALLS_MAX: usize = 1024;

/// Two samples, the earlier first.
type Ends<T> = ((Time, T), (Time, T));

/// Samples in the order of their times.
#[derive(Clone, Debug)]
pub(super) struct Series<T>(pub(super) VecDeque<(Time, T)>);

impl<T> Default for Series<T> {
    fn default() -> Series<T> {
        Series(VecDeque::new())
    }
}

impl<T: Copy> Series<T> {
    /// A sample with the time of the last one replaces it; an earlier one is ignored.
    pub(super) fn push(&mut self, time: Time, value: T) {
        match self.0.back_mut() {
            Some((last, _)) if time < *last => return,
            Some((last, old)) if time == *last => {
                *old = value;
                return;
            }
            _ => self.0.push_back((time, value)),
        }
        if self.0.len() > SAMPLES_MAX {
            // The oldest is the base of the open window's change; the second is dispensable.
            self.0.remove(1);
        }
    }

    /// Forgets the samples that no window beginning at `floor` or later needs.
    pub(super) fn forget(&mut self, floor: Time) {
        while self.0.get(1).is_some_and(|(time, _)| *time <= floor) {
            self.0.pop_front();
        }
    }

    /// The last sample within the window, boundaries included.
    pub(super) fn last_in(&self, start: Time, end: Time) -> Option<(Time, T)> {
        self.0
            .iter()
            .rev()
            .copied()
            .find(|(time, _)| *time <= end)
            .filter(|(time, _)| *time >= start)
    }

    /// The two samples between which the window's change is taken.
    pub(super) fn ends(&self, start: Time, end: Time) -> Result<Ends<T>, Unsampled> {
        self.ends_since(Time(0), start, end)
    }

    /// As `ends`, with the samples from `since` on.
    fn ends_since(&self, since: Time, start: Time, end: Time) -> Result<Ends<T>, Unsampled> {
        let slack = end.since(start) / 2;
        let samples = || self.0.iter().copied().filter(|(time, _)| *time >= since);
        let last = self.last_in(start.max(since), end);
        let last = last.ok_or(Unsampled::Unobserved)?;
        let at_boundary = samples().rev().find(|(time, _)| *time <= start);
        let fresh = at_boundary.filter(|(time, _)| start.since(*time) <= slack);
        let first = fresh.or_else(|| samples().find(|(time, _)| *time > start));
        let first = first.filter(|(time, _)| *time < last.0).ok_or(Unsampled::Once)?;
        if first.0.since(start) > slack || end.since(last.0) > slack {
            return Err(Unsampled::TooShort);
        }
        Ok((first, last))
    }
}

/// Interned function names, because hundreds of ranks use the same hundreds of names. Bounded by the limits
/// of the processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn of(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// Counters of the calls of each MPI function in one process, all observed at the same times. Only the few
/// that change between two observations have a series.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) observed: Series<()>,
    /// Totals that have not changed within any window, with the time since which they are known.
    still: BTreeMap<Arc<str>, (Time, u64)>,
    /// The latest first observation of a function.
    all_known: Time,
    /// The series of the other functions.
    changed: BTreeMap<Arc<str>, Series<u64>>,
}

impl Calls {
    pub(super) fn call(&mut self, names: &mut Names, call: &str, time: Time, total: u64) {
        self.observed.push(time, ());
        if let Some(series) = self.changed.get_mut(call) {
            if series.0.back().is_none_or(|(_, last)| *last != total) {
                series.push(time, total);
            }
            return;
        }
        match self.still.get(call).copied() {
            Some((_, same)) if same == total => {}
            Some((known, before)) => {
                self.still.remove(call);
                let series = self.changed.entry(names.of(call)).or_default();
                series.push(known, before);
                series.push(time, total);
            }
            // Totals of surplus functions are ignored: MPI has some hundred.
            None if self.still.len() + self.changed.len() >= CALLS_MAX => {}
            None => {
                self.still.insert(names.of(call), (time, total));
                self.all_known = self.all_known.max(time);
            }
        }
    }

    pub(super) fn forget(&mut self, floor: Time) {
        self.observed.forget(floor);
        self.changed.retain(|call, series| {
            series.forget(floor);
            let has_changed = series.0.len() > 1;
            let still = series.0.front().filter(|_| !has_changed);
            self.still.extend(still.map(|total| (Arc::clone(call), *total)));
            has_changed
        });
    }

    /// The changes within the window; functions that were not called in it are left out.
    pub(super) fn changes(&self, start: Time, end: Time) -> Result<BTreeMap<String, f64>, Unsampled> {
        let of_all = self.observed.ends(start, end)?;
        let ends = |known: Time| match known <= of_all.0.0 {
            true => Ok(of_all),
            false => self.observed.ends_since(known, start, end),
        };
        if self.all_known > of_all.0.0 {
            self.still
                .values()
                .try_for_each(|(known, _)| ends(*known).map(drop))?;
        }
        let change = |(call, series): (&Arc<str>, &Series<u64>)| {
            let known = series.0.front().map_or(end, |(time, _)| *time);
            let ((first, ()), (last, ())) = ends(known)?;
            let at = |time| series.last_in(Time(0), time).map_or(0, |(_, total)| total);
            let change = at(last).checked_sub(at(first));
            let change = change.ok_or(Unsampled::Backwards)?;
            Ok((change > 0).then(|| (call.to_string(), change as f64 * scale(first, last, start, end))))
        };
        let changes = self.changed.iter().map(change);
        changes.filter_map(Result::transpose).collect()
    }
}

/// The factor that scales a change between two samples to the duration of the window.
pub(super) fn scale(first: Time, last: Time, start: Time, end: Time) -> f64 {
    match (last.since(first), end.since(start)) {
        (covered, duration) if covered == duration => 1.0,
        (covered, duration) => duration as f64 / covered as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The change of each function, from series with every sample.
    fn of_each(
        reported: &[(u64, [u64; 3])],
        (start, end): (Time, Time),
    ) -> Result<Vec<(usize, f64)>, Unsampled> {
        let change = |function: usize| {
            let mut series = Series::default();
            reported
                .iter()
                .for_each(|(ms, totals)| series.push(Time(ms * MS), totals[function]));
            let ((first, before), (last, after)) = series.ends(start, end)?;
            let change = (after - before) as f64 * scale(first, last, start, end);
            Ok((change > 0.0).then_some((function, change)))
        };
        (0..3)
            .filter_map(|function| change(function).transpose())
            .collect()
    }

    proptest::proptest! {
        #[test]
        fn of_calls_that_are_kept_when_they_change_the_changes_are_those_of_every_sample(
            steps in proptest::collection::vec((1..200_u64, [0..3_u64, 0..2_u64, 0..40_u64]), 1..30),
            (start, length) in (0..2_000_u64, 1..2_000_u64),
            floor in proptest::option::of(0..2_000_u64),
        ) {
            let (mut calls, mut names, mut reported) = (Calls::default(), Names::default(), Vec::new());
            let (mut now, mut totals) = (0, [0; 3]);
            for (wait, more) in steps {
                now += wait;
                // Few functions are called between two observations.
                let more = more.map(|more| if more < 30 { more / 2 } else { more });
                totals = std::array::from_fn(|function| totals[function] + more[function]);
                reported.push((now, totals));
                for (function, total) in totals.iter().enumerate() {
                    calls.call(&mut names, &function.to_string(), Time(now * MS), *total);
                }
            }
            let (start, end) = (Time(start * MS), Time((start + length) * MS));
            if let Some(floor) = floor {
                calls.forget(Time(floor * MS).min(start));
            }
            let changes = calls.changes(start, end);
            let changes = changes.map(|changes| -> Vec<(usize, f64)> {
                changes.into_iter().map(|(call, change)| (call.parse().unwrap(), change)).collect()
            });
            proptest::prop_assert_eq!(changes, of_each(&reported, (start, end)));
        }
    }
}
