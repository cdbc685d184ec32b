//! What is read of processes and CPUs becomes observations of the engine.

use rules::{Measure, Observation, ProcessId, Time};

use super::{RuleBook, hearing::Counted};
use crate::{
    evidence::{Busy, CpuShare},
    session::{
        meter::{Reading, has_mpi},
        probes::Probe,
    },
};

impl RuleBook {
    /// What a process has counted.
    pub fn observe(&mut self, slot: u32, reading: &Reading, probes: &[Probe]) {
        let (process, time) = (Some(ProcessId(slot)), Time(reading.at_ns));
        let mut counters = Vec::new();
        if has_mpi(probes) {
            counters.extend([
                (Measure::MpiTime, reading.mpi_ns),
                (Measure::MpiCalls, reading.mpi_calls(probes)),
                (Measure::MpiBytes, reading.mpi_bytes_sent(probes)),
            ]);
        }
        if let Some(counted) = &reading.counters {
            counters.extend([
                (Measure::CpuTime, counted.cpu_ns),
                (Measure::RunqueueTime, counted.runqueue_ns),
                (Measure::SwitchesInvoluntary, counted.switches_involuntary),
                (Measure::SwitchesVoluntary, counted.switches_voluntary),
                (Measure::FaultsMinor, counted.faults_minor),
            ]);
            let gauges = [
                (Measure::Threads, counted.threads),
                (Measure::MemoryResident, counted.resident_bytes),
            ];
            for (measure, value) in gauges {
                self.tell(Observation::Gauge {
                    process,
                    measure,
                    time,
                    value: value as f64,
                });
            }
        }
        let gauges = [
            (Measure::CpusAvailable, reading.cpus),
            (Measure::UsefulShare, reading.useful),
            (Measure::IterationTime, reading.iteration_ns),
        ];
        for (measure, value) in gauges {
            let Some(value) = value else { continue };
            self.tell(Observation::Gauge {
                process,
                measure,
                time,
                value,
            });
        }
        for (measure, total) in counters {
            self.tell(Observation::Counter {
                process,
                measure,
                time,
                total,
            });
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.totals(slot, reading, probes);
        }
        let counted = reading.totals.iter().zip(0..);
        let counted: Vec<Counted> = counted
            .map(|(totals, probe)| Counted::of(totals, reading.time_ns(probe)))
            .collect();
        self.hear_totals(slot, time, probes, &counted);
    }

    /// How many CPUs the job may use, and how many of them others keep busy.
    pub fn observe_cpus(&mut self, share: &CpuShare, busy: Option<Busy>, now_ns: u64) {
        let time = Time(now_ns);
        let gauges = [
            (Measure::JobCpus, Some(share.cpus())),
            (Measure::CpusBusyByOthers, busy.map(|busy| busy.by_others)),
            (
                Measure::CpusFree,
                busy.map(|busy| share.cpus_beside(busy.by_others)),
            ),
            (Measure::CpusIdle, busy.map(|busy| busy.idle)),
        ];
        for (measure, value) in gauges {
            let Some(value) = value else { continue };
            let process = None;
            self.tell(Observation::Gauge {
                process,
                measure,
                time,
                value,
            });
        }
        if let Some(total) = share.throttled_ns {
            let (process, measure) = (None, Measure::CpuThrottled);
            self.tell(Observation::Counter {
                process,
                measure,
                time,
                total,
            });
        }
    }
}
