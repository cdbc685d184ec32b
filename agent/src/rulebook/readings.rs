//! Converts readings of processes and CPUs to observations of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use abi::Totals;
use job::os_metrics::{Busy, CpuLimits, CpuShare};
use profile::probe::Probe;
use profile::{BoundarySide, IterationBoundary, Losses, Reading};
use rules::{LoopIteration, LoopNumber, Machine, Measure, Observation, ProcessId, Scalar, Subject, Time};

use super::{ProbePlaces, RuleBook, ingest::ProbeCounters};

/// Results of a reading, reused while the following readings have the same totals.
#[derive(Debug)]
pub(super) struct Summed {
    of: Arc<[Totals]>,
    /// Includes calls that were still open, whose time grows at each reading.
    has_open: bool,
    calls: u64,
    sent_bytes: u64,
    counted: Arc<[ProbeCounters]>,
}

impl Summed {
    fn of(reading: &Reading, places: &ProbePlaces) -> Summed {
        let counted = reading.totals.iter().zip(0..);
        let counted = counted.map(|(totals, probe)| ProbeCounters::of(totals, reading.time_ns(probe)));
        let of_mpi = places.mpi.iter();
        let of_mpi = of_mpi.filter_map(|(place, sends)| Some((reading.totals.get(*place)?, *sends)));
        let (calls, sent_bytes) = of_mpi.fold((0, 0), |(calls, bytes), (totals, sends)| {
            (calls + totals.calls, bytes + if sends { totals.bytes } else { 0 })
        });
        Summed {
            of: Arc::clone(&reading.totals),
            has_open: !reading.open.is_empty(),
            calls,
            sent_bytes,
            counted: counted.collect(),
        }
    }

    fn is_of(&self, reading: &Reading) -> bool {
        Arc::ptr_eq(&self.of, &reading.totals) && !self.has_open && reading.open.is_empty()
    }
}

/// The measures of how a process scales.
fn scaling((sizes, losses): &(usize, Losses)) -> Vec<(Measure, f64)> {
    let mut measures = vec![
        (Measure::ScalingThreads, f64::from(losses.threads)),
        (Measure::ScalingSizes, *sizes as f64),
        (Measure::ScalingSpeedup, losses.speedup),
        (Measure::LostSequential, losses.sequential),
        (Measure::LostImbalance, losses.imbalance),
        (Measure::LostOverhead, losses.starting_and_ending),
        (Measure::LostSmallTeams, losses.small_teams),
    ];
    let inflation = losses.inflation.threads();
    measures.extend(inflation.map(|threads| (Measure::LostInflation, threads)));
    measures
}

/// What is kept of the last reading of a process.
#[derive(Default)]
pub(super) struct LastReading {
    /// The MPI functions that were observed last, with their values. Most ranks sleep or compute between two
    /// readings, so that hundreds of functions are unchanged.
    pub(super) calls: Option<(BTreeSet<Measure>, Arc<[ProbeCounters]>)>,
    summed: Option<Summed>,
    /// The last moment at which the time inside MPI was unknown, until it is known.
    mpi_unknown: Option<MpiMoment>,
}

/// The time of a process inside MPI at a reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MpiMoment {
    at_ns: u64,
    inside_ns: u64,
    waited_ns: Option<u64>,
}

impl MpiMoment {
    /// What is observed at a reading: nothing while the time inside MPI is unknown, and with the first one at
    /// which it is known also the one before, `unknown`, at which it began.
    fn known(unknown: &mut Option<MpiMoment>, reading: &Reading) -> impl Iterator<Item = MpiMoment> + use<> {
        let now = MpiMoment {
            at_ns: reading.at_ns,
            inside_ns: reading.mpi_ns,
            waited_ns: reading.mpi_waited_ns,
        };
        let before = match reading.is_mpi_unknown {
            true => {
                *unknown = Some(now);
                None
            }
            false => unknown.take(),
        };
        before.into_iter().chain((!reading.is_mpi_unknown).then_some(now))
    }
}

impl RuleBook {
    /// Observes a reading of a process.
    pub(crate) fn observe(&mut self, slot: u32, reading: &Reading, probes: &[Probe], places: &ProbePlaces) {
        let (of, time) = (Subject::Process(ProcessId(slot)), Time(reading.at_ns));
        let last = self.last_readings.entry(slot).or_default();
        let known = last.summed.take().filter(|known| known.is_of(reading));
        let summed = known.unwrap_or_else(|| Summed::of(reading, places));
        let mut counters = Vec::new();
        let mut gauges = vec![
            (Measure::CpusAvailable, reading.cpus),
            (Measure::UsefulShare, reading.useful),
            (Measure::IterationTime, reading.iteration_ns),
            (Measure::ScalingSerial, reading.serial_fraction),
        ];
        if !places.mpi.is_empty() {
            counters.extend([
                (Measure::MpiCalls, summed.calls),
                (Measure::MpiBytes, summed.sent_bytes),
            ]);
            for moment in MpiMoment::known(&mut last.mpi_unknown, reading) {
                let time = Time(moment.at_ns);
                let waited = moment.waited_ns.map(|ns| (Measure::MpiRunqueueTime, ns));
                for (measure, total) in [(Measure::MpiTime, moment.inside_ns)].into_iter().chain(waited) {
                    self.report(Observation::counter(of, measure, time, total));
                }
            }
        }
        if let Some(counted) = &reading.counters {
            counters.extend([
                (Measure::CpuTime, counted.cpu_ns),
                (Measure::RunqueueTime, counted.runqueue_ns),
                (Measure::RunqueueBound, counted.runqueue_bound_ns),
                (Measure::SwitchesInvoluntary, counted.switches_involuntary),
                (Measure::SwitchesVoluntary, counted.switches_voluntary),
                (Measure::FaultsMinor, counted.faults_minor),
            ]);
            if let Some((read, written)) = counted.moved_bytes {
                counters.extend([(Measure::IoRead, read), (Measure::IoWritten, written)]);
            }
            gauges.extend([
                (Measure::CpusBound, Some(counted.cpus_bound as f64)),
                (Measure::Threads, Some(counted.threads as f64)),
                (Measure::MemoryResident, Some(counted.resident_bytes as f64)),
                (
                    Measure::MemoryFreed,
                    counted.freed_bytes.map(|bytes| bytes as f64),
                ),
            ]);
        }
        if let Some((visit, loss)) = reading.visit {
            let threads = f64::from(visit.threads.unwrap_or_default());
            gauges.extend([
                (Measure::ScalingVisit, Some(threads)),
                (Measure::ScalingLoss, Some(loss)),
            ]);
        }
        let gauges = gauges
            .into_iter()
            .filter_map(|(measure, value)| Some((measure, value?)));
        for (measure, value) in gauges.chain(reading.losses.iter().flat_map(scaling)) {
            self.report(Observation::gauge(of, measure, time, value));
        }
        for (measure, total) in counters {
            self.report(Observation::counter(of, measure, time, total));
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.totals(slot, reading, probes);
        }
        self.ingest_totals(slot, time, probes, places, &summed.counted);
        self.last_readings.entry(slot).or_default().summed = Some(summed);
    }

    /// Whether iterations of the detected loops must be passed in.
    pub(crate) fn follows_loop(&self) -> bool {
        self.is_recorded() || self.engine.rules().any(|(_, rule, _)| rule.follows_loop())
    }

    /// An iteration of the detected loop of a process begins or ends. The caller numbers it.
    pub(crate) fn observe_iteration(&mut self, number: LoopNumber, boundary: &IterationBoundary) {
        let (process, time) = (ProcessId(boundary.slot), Time(boundary.time_ns));
        let thread = boundary.thread;
        let observation = match boundary.side {
            BoundarySide::Begin(_) => Observation::IterationBegan {
                process,
                thread,
                number,
                time,
            },
            BoundarySide::End { begin_ns, teams } => {
                self.seen.is_due = true;
                Observation::IterationEnded(LoopIteration {
                    process,
                    thread,
                    number,
                    begin: Time(begin_ns),
                    end: time,
                    teams: teams.map_err(str::to_owned),
                })
            }
        };
        self.report(observation);
    }

    /// All begins and ends of a process's iterations up to this time have been passed in.
    pub(crate) fn loop_watermark(&mut self, slot: u32, time_ns: u64) {
        let (process, time) = (ProcessId(slot), Time(time_ns));
        self.report(Observation::LoopWatermark { process, time });
    }

    /// Observes the values of variables that rules would write.
    pub(crate) fn observe_variables(&mut self, slot: u32, held: Vec<(String, f64)>, now_ns: u64) {
        for (name, value) in held {
            self.report(Observation::Variable {
                process: ProcessId(slot),
                name,
                time: Time(now_ns),
                value: Scalar::Number(value),
            });
        }
    }

    /// Observes the number of CPUs that the job may use, and how many of them other processes keep busy.
    pub(crate) fn observe_cpus(
        &mut self,
        share: &CpuShare,
        limits: &CpuLimits,
        busy: Option<Busy>,
        now_ns: u64,
    ) {
        let (time, of) = (Time(now_ns), Subject::Machine(Machine(0)));
        let started = limits.started.len();
        let gauges = [
            (Measure::JobCpus, Some(share.cpus())),
            (Measure::CpusBusyByOthers, busy.map(|busy| busy.by_others)),
            (
                Measure::CpusFree,
                busy.map(|busy| share.cpus_beside(busy.by_others)),
            ),
            (Measure::CpusIdle, busy.map(|busy| share.idle(busy))),
            (Measure::CpusStarted, (started > 0).then_some(started as f64)),
        ];
        for (measure, value) in gauges {
            let Some(value) = value else { continue };
            self.report(Observation::gauge(of, measure, time, value));
        }
        if let Some(total) = share.throttled_ns {
            let measure = Measure::CpuThrottled;
            self.report(Observation::counter(of, measure, time, total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_inside_mpi_is_observed_from_the_reading_before_the_first_call_on() {
        let mut unknown = None;
        let mut observed = |at_ns, mpi_ns, is_mpi_unknown| {
            let reading = Reading {
                at_ns,
                mpi_ns,
                is_mpi_unknown,
                ..Reading::default()
            };
            let moments = MpiMoment::known(&mut unknown, &reading);
            moments
                .map(|moment| (moment.at_ns, moment.inside_ns))
                .collect::<Vec<_>>()
        };
        assert_eq!(observed(1, 0, true), []);
        assert_eq!(observed(2, 0, true), []);
        assert_eq!(observed(3, 5, false), [(2, 0), (3, 5)]);
        assert_eq!(observed(4, 6, false), [(4, 6)]);
    }

    #[test]
    fn what_a_reading_comes_to_is_kept_until_calls_are_counted_or_one_is_open() {
        let places = ProbePlaces {
            mpi: vec![(0, true), (2, false)],
            ..ProbePlaces::default()
        };
        let totals = |calls, bytes| Totals {
            calls,
            bytes,
            ..Totals::default()
        };
        let of = |calls: u64| Reading {
            totals: Arc::new([totals(calls, 10 * calls), totals(50, 500), totals(3, 30)]),
            ..Reading::default()
        };
        let mut reading = of(4);
        let summed = Summed::of(&reading, &places);
        // The second is no MPI function, and the third sends nothing.
        assert_eq!(
            (summed.calls, summed.sent_bytes, summed.counted.len()),
            (7, 40, 3)
        );
        assert!(summed.is_of(&reading));
        assert!(!summed.is_of(&of(5)));
        reading.open = vec![(2, 70)];
        assert!(!summed.is_of(&reading));
        let open = Summed::of(&reading, &places);
        assert!(!open.is_of(&reading), "it is longer by now");
        assert_eq!(
            (open.counted[2].time_ns, open.counted[2].time_with_open_ns),
            (0, 70)
        );
    }
}
