//! Observations, kept as long as an open window needs them, and their change or level within a window.

use std::collections::{BTreeMap, VecDeque};

use super::output::Observation;
use super::series::{Calls, Names, Series, scale};
use super::unsampled::Unsampled;
use crate::eval::HitsInWindow;
use crate::hit::Hit;
use crate::ids::{ProbeId, RuleId};
use crate::measure::{Measure, MeasureKind};
use crate::value::{ProcessId, Subject, Time};

/// Hits kept of one probe in one process; further ones count as lost and make the window's values none.
const HITS_MAX: usize = 65536;

/// Minimum time between two removals of samples that are no longer needed.
const FORGETS_NS: u64 = 50_000_000;

/// Totals of a probe in one process, and its hits if each is delivered.
#[derive(Clone, Debug, Default)]
struct ProbeSeries {
    /// Count, and sum of durations in nanoseconds.
    totals: Series<(u64, u64)>,
    hits: VecDeque<Hit>,
}

/// All observations that an open window may need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    counters: BTreeMap<(Subject, Measure), Series<u64>>,
    calls: BTreeMap<ProcessId, BTreeMap<Measure, Calls>>,
    /// Names of the called functions.
    names: Names,
    gauges: BTreeMap<(Subject, Measure), Series<f64>>,
    probes: BTreeMap<(ProcessId, RuleId, ProbeId), ProbeSeries>,
    /// The `floor` of the last removal.
    forgotten: Time,
}

impl Samples {
    /// Stores a measurement; other observations are ignored.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        match *observation {
            Observation::Counter {
                of,
                measure,
                time,
                total,
            } => self.counter(of, measure, time, total),
            Observation::CallCounter {
                process,
                measure,
                ref call,
                time,
                total,
            } => self.call((process, measure), call, time, total),
            Observation::Gauge {
                of,
                measure,
                time,
                value,
            } if value.is_finite() => self.gauge(of, measure, time, value),
            Observation::ProbeTotals {
                rule,
                probe,
                process,
                time,
                count,
                duration_sum_ns,
            } => self.totals((rule, probe, process), time, (count, duration_sum_ns)),
            _ => {}
        }
    }

    fn counter(&mut self, of: Subject, measure: Measure, time: Time, total: u64) {
        self.counters.entry((of, measure)).or_default().push(time, total);
    }

    fn call(&mut self, (process, measure): (ProcessId, Measure), call: &str, time: Time, total: u64) {
        let calls = self.calls.entry(process).or_default().entry(measure).or_default();
        calls.call(&mut self.names, call, time, total);
    }

    pub(crate) fn calls_stand(&mut self, process: ProcessId, time: Time) {
        let calls = self
            .calls
            .get_mut(&process)
            .into_iter()
            .flat_map(BTreeMap::values_mut);
        calls.for_each(|calls| calls.observed.push(time, ()));
    }

    fn gauge(&mut self, of: Subject, measure: Measure, time: Time, value: f64) {
        self.gauges.entry((of, measure)).or_default().push(time, value);
    }

    fn totals(
        &mut self,
        (rule, probe, process): (RuleId, ProbeId, ProcessId),
        time: Time,
        totals: (u64, u64),
    ) {
        self.probes
            .entry((process, rule, probe))
            .or_default()
            .totals
            .push(time, totals);
    }

    pub(crate) fn hit(&mut self, (rule, probe, process): (RuleId, ProbeId, ProcessId), hit: Hit) {
        let hits = &mut self.probes.entry((process, rule, probe)).or_default().hits;
        if hits.len() < HITS_MAX {
            hits.push_back(hit);
        }
    }

    /// Forgets the probes of a rule.
    pub(crate) fn drop_rule(&mut self, rule: RuleId) {
        self.probes.retain(|(_, of, _), _| *of != rule);
    }

    pub(crate) fn drop_process(&mut self, process: ProcessId) {
        for measure in Measure::ALL {
            let of = (Subject::Process(process), *measure);
            self.counters.remove(&of);
            self.gauges.remove(&of);
        }
        self.calls.remove(&process);
        let of = self.probes.range((process, RuleId(0), ProbeId(0))..);
        let of = of.map(|(of, _)| *of).take_while(|(of, _, _)| *of == process);
        for of in of.collect::<Vec<_>>() {
            self.probes.remove(&of);
        }
    }

    /// Forgets the samples that no window beginning at `floor` or later needs. Not at each call, because
    /// searching all series takes longer than most ticks.
    pub(crate) fn forget(&mut self, floor: Time) {
        if floor.since(self.forgotten) < FORGETS_NS {
            return;
        }
        self.forgotten = floor;
        self.counters.values_mut().for_each(|series| series.forget(floor));
        self.gauges.values_mut().for_each(|series| series.forget(floor));
        let calls = self.calls.values_mut().flat_map(BTreeMap::values_mut);
        calls.for_each(|calls| calls.forget(floor));
        for series in self.probes.values_mut() {
            series.totals.forget(floor);
            // The change counts from the base sample on, so its hits must be kept too.
            let base = series
                .totals
                .0
                .front()
                .map_or(floor, |(time, _)| (*time).min(floor));
            series.hits.retain(|hit| hit.time > base);
        }
    }

    /// The change of a counter within the window, in nanoseconds, bytes, or a count.
    pub(crate) fn change(
        &self,
        of: Subject,
        measure: Measure,
        (start, end): (Time, Time),
    ) -> Result<f64, Unsampled> {
        let series = self.counters.get(&(of, measure)).ok_or(Unsampled::Unobserved)?;
        let ((first, before), (last, after)) = series.ends(start, end)?;
        Ok(grown(before, after)? as f64 * scale(first, last, start, end))
    }

    /// The changes of a counter within the window for each MPI function that the process called.
    pub(crate) fn changes_of_calls(
        &self,
        (process, measure): (ProcessId, Measure),
        (start, end): (Time, Time),
    ) -> Result<BTreeMap<String, f64>, Unsampled> {
        let calls = self.calls.get(&process).and_then(|calls| calls.get(&measure));
        calls.ok_or(Unsampled::Unobserved)?.changes(start, end)
    }

    /// The last level within the window.
    pub(crate) fn level(
        &self,
        of: Subject,
        measure: Measure,
        (start, end): (Time, Time),
    ) -> Result<f64, Unsampled> {
        let series = self.gauges.get(&(of, measure));
        let last = series.and_then(|series| series.last_in(start, end));
        let none = match measure {
            Measure::ScalingVisit | Measure::ScalingLoss => Unsampled::NoIteration,
            Measure::MemoryFreed => Unsampled::TooLittleFreed,
            _ => Unsampled::Unobserved,
        };
        last.map(|(_, value)| value).ok_or(none)
    }

    /// The total or level at a time: the last sample up to it.
    pub(crate) fn at(&self, of: Subject, measure: Measure, time: Time) -> Result<f64, Unsampled> {
        let never = Unsampled::UnobservedUpTo;
        match measure.kind() {
            MeasureKind::Counter => {
                let series = self.counters.get(&(of, measure)).ok_or(never)?;
                series
                    .last_in(Time(0), time)
                    .map(|(_, total)| total as f64)
                    .ok_or(never)
            }
            MeasureKind::Gauge => {
                let series = self.gauges.get(&(of, measure)).ok_or(never)?;
                series.last_in(Time(0), time).map(|(_, level)| level).ok_or(never)
            }
        }
    }

    /// All hits of a probe within the window, between the totals that are nearest to its boundaries.
    pub(crate) fn each_hit(
        &self,
        (rule, probe, process): (RuleId, ProbeId, ProcessId),
        (start, end): (Time, Time),
    ) -> Result<Vec<&Hit>, Unsampled> {
        let series = self
            .probes
            .get(&(process, rule, probe))
            .ok_or(Unsampled::Unobserved)?;
        let ((first, before), (last, after)) = series.totals.ends(start, end)?;
        series.within(first, last, grown(before.0, after.0)?)
    }

    /// The hits of a probe within the window, between the totals that are nearest to its boundaries: a count
    /// is an integer, and each hit is in one window. `each` if the least and the greatest are needed.
    pub(crate) fn hits(
        &self,
        (rule, probe, process): (RuleId, ProbeId, ProcessId),
        each: bool,
        (start, end): (Time, Time),
    ) -> Result<HitsInWindow, Unsampled> {
        let series = self
            .probes
            .get(&(process, rule, probe))
            .ok_or(Unsampled::Unobserved)?;
        let ((first, before), (last, after)) = series.totals.ends(start, end)?;
        let count = grown(before.0, after.0)?;
        Ok(HitsInWindow {
            count,
            sum_ns: grown(before.1, after.1)?,
            ends: match each {
                true => series.ends_of_hits(first, last, count)?,
                false => None,
            },
        })
    }
}

fn grown(before: u64, after: u64) -> Result<u64, Unsampled> {
    after.checked_sub(before).ok_or(Unsampled::Backwards)
}

impl ProbeSeries {
    /// The hits after `first` up to `last`, without duplicates, if all `counted` were delivered.
    fn within(&self, first: Time, last: Time, counted: u64) -> Result<Vec<&Hit>, Unsampled> {
        let within = self.hits.iter();
        let mut hits: Vec<&Hit> = within
            .filter(|hit| hit.time > first && hit.time <= last)
            .collect();
        hits.sort_by(|one, two| one.order(two));
        hits.dedup_by(|one, two| one.order(two).is_eq());
        if hits.len() as u64 != counted {
            let delivered = hits.len();
            return Err(Unsampled::Undelivered { delivered, counted });
        }
        Ok(hits)
    }

    /// Least and greatest duration in seconds, if all `counted` hits were delivered.
    fn ends_of_hits(&self, first: Time, last: Time, counted: u64) -> Result<Option<(f64, f64)>, Unsampled> {
        let durations: Vec<u64> = self
            .within(first, last, counted)?
            .iter()
            .map(|hit| hit.duration_ns)
            .collect();
        let ends = durations.iter().min().zip(durations.iter().max());
        Ok(ends.map(|(low, high)| (*low as f64 / 1e9, *high as f64 / 1e9)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Machine;

    const MS: u64 = 1_000_000;
    const MACHINE: Subject = Subject::Machine(Machine(0));

    #[test]
    fn calls_that_stand_are_as_if_each_was_observed_again() {
        let of = (ProcessId(1), Measure::MpiCalls);
        let (mut reported, mut stood) = (Samples::default(), Samples::default());
        for samples in [&mut reported, &mut stood] {
            samples.call(of, "MPI_Send", Time(100 * MS), 7);
            samples.call(of, "MPI_Recv", Time(100 * MS), 0);
            samples.call((ProcessId(2), Measure::MpiCalls), "MPI_Send", Time(100 * MS), 3);
        }
        for ms in [500, 800] {
            reported.call(of, "MPI_Send", Time(ms * MS), 7);
            reported.call(of, "MPI_Recv", Time(ms * MS), 0);
            stood.calls_stand(of.0, Time(ms * MS));
        }
        assert_eq!(format!("{reported:?}"), format!("{stood:?}"));
    }

    #[test]
    fn a_function_that_is_observed_late_counts_from_then_on() {
        let of = (ProcessId(1), Measure::MpiCalls);
        let mut samples = Samples::default();
        for (ms, total) in [(500, 7), (600, 8), (1000, 9)] {
            samples.call(of, "MPI_Send", Time(ms * MS), total);
        }
        samples.call(of, "MPI_Recv", Time(1000 * MS), 3);
        assert_eq!(samples.changes_of_calls(of, WINDOW), Err(Unsampled::Once));
        samples.calls_stand(of.0, Time(1500 * MS));
        let changes = samples.changes_of_calls(of, (Time(1000 * MS), Time(1500 * MS)));
        assert_eq!(changes, Ok(BTreeMap::new()));
    }

    const WINDOW: (Time, Time) = (Time(500 * MS), Time(1000 * MS));

    fn hit(ms: u64, duration_ns: u64) -> Hit {
        Hit {
            time: Time(ms * MS),
            process: ProcessId(1),
            rank: None,
            host: None,
            thread: 0,
            duration_ns,
            captures: Default::default(),
        }
    }

    fn change(samples: &[(u64, u64)]) -> Result<f64, Unsampled> {
        let mut store = Samples::default();
        for (ms, total) in samples {
            store.counter(MACHINE, Measure::CpuThrottled, Time(ms * MS), *total);
        }
        store.change(MACHINE, Measure::CpuThrottled, WINDOW)
    }

    #[test]
    fn a_change_is_exact_on_the_boundaries_and_at_the_rate_of_the_samples_off_them() {
        assert_eq!(change(&[(500, 10), (1000, 17)]), Ok(7.0));
        assert_eq!(
            change(&[(0, 0), (500, 10), (750, 99), (1000, 17), (1500, 90)]),
            Ok(7.0)
        );
        assert_eq!(change(&[(480, 0), (880, 80)]), Ok(100.0));
        assert_eq!(change(&[(600, 0), (1000, 80)]), Ok(100.0));
    }

    #[test]
    fn a_counter_that_was_not_followed_has_a_reason_and_no_change() {
        assert_eq!(change(&[]), Err(Unsampled::Unobserved));
        assert_eq!(change(&[(500, 1)]), Err(Unsampled::Once));
        assert_eq!(change(&[(100, 0), (400, 1)]), Err(Unsampled::Unobserved));
        assert_eq!(change(&[(100, 0), (900, 1)]), Err(Unsampled::Once));
        assert_eq!(change(&[(800, 0), (1000, 1)]), Err(Unsampled::TooShort));
        assert_eq!(change(&[(500, 9), (1000, 1)]), Err(Unsampled::Backwards));
    }

    #[test]
    fn a_hit_that_is_delivered_twice_counts_once() {
        let of = (RuleId(0), ProbeId(0), ProcessId(1));
        let mut store = Samples::default();
        store.totals(of, Time(500 * MS), (0, 0));
        for (ms, duration_ns) in [(700, 9), (600, 7), (700, 9)] {
            store.hit(of, hit(ms, duration_ns));
        }
        store.totals(of, Time(1000 * MS), (2, 16));
        assert_eq!(store.each_hit(of, WINDOW).map(|hits| hits.len()), Ok(2));
        // A duplicate does not make up for a lost hit.
        store.totals(of, Time(1000 * MS), (3, 20));
        assert_eq!(
            store.each_hit(of, WINDOW),
            Err(Unsampled::Undelivered {
                delivered: 2,
                counted: 3
            })
        );
    }

    #[test]
    fn forgetting_keeps_the_base_of_the_open_window() {
        let mut store = Samples::default();
        let at = |i: u64| Time(i * FORGETS_NS);
        for i in 0..5000 {
            store.counter(MACHINE, Measure::CpuThrottled, at(i), i);
        }
        let change =
            |store: &Samples, from| store.change(MACHINE, Measure::CpuThrottled, (at(from), at(4999)));
        assert_eq!(change(&store, 0), Ok(4999.0));
        store.forget(at(4990));
        assert_eq!(change(&store, 4990), Ok(9.0));
        assert_eq!(
            store
                .counters
                .values()
                .map(|series| series.0.len())
                .sum::<usize>(),
            10
        );
    }
}
