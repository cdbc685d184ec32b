//! The start, the liveness and the failures of a session.

use std::time::Duration;

use job::{Job, host, job_id, monotonic_ns, unix_s};
use probe::kernel::KernelError;
use profile::format::duration;

use crate::{
    exit::Failure,
    priority::RealTimeClass,
    watchdog::{LoopProgress, LoopStep},
};

/// Where and when a session began.
pub(super) struct Start {
    pub(super) host: String,
    /// The id of the job in the batch system, or similar.
    pub(super) job_id: String,
    pub(super) armed_ns: u64,
    /// `armed_ns` in seconds since 1970.
    pub(super) armed_unix_s: f64,
}

impl Start {
    pub(super) fn new(job: &Job, armed_ns: u64) -> Start {
        Start {
            host: host(),
            job_id: job_id(job),
            armed_ns,
            armed_unix_s: unix_s(),
        }
    }

    pub(super) fn since_armed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns))
    }
}

/// How the session proves that it is alive.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub(super) progress: LoopProgress,
    /// Until there are first numbers.
    pub(super) real_time: Option<RealTimeClass>,
    /// The step of the loop, and when it began, by CLOCK_MONOTONIC.
    step: Option<(LoopStep, u64)>,
    /// What is missing because a step took long, in words.
    pub(super) stalled: Option<String>,
    /// How often that was so.
    stalls: u32,
}

/// A step of the loop that takes so long, in nanoseconds, is reported: the kernel may keep a call that attaches or
/// detaches probes waiting for all CPUs.
const STALL_NS: u64 = 3_000_000_000;

/// Stalls beyond this number are not reported.
const STALLS_MAX: u32 = 8;

impl Liveness {
    /// The loop begins this step.
    pub(super) fn begin(&mut self, step: LoopStep, now_ns: u64) {
        self.progress.begin(step);
        let Some((ended, began_ns)) = self.step.replace((step, now_ns)) else {
            return;
        };
        let took_ns = now_ns.saturating_sub(began_ns);
        if ended == LoopStep::Waiting || took_ns < STALL_NS || self.stalls == STALLS_MAX {
            return;
        }
        self.stalls += 1;
        self.stalled = Some(format!(
            "tuneagent stood still for {} while {}: numbers of this time are missing or too low",
            duration(took_ns as f64),
            ended.name()
        ));
    }
}

pub(super) fn kernel_failure(error: KernelError) -> Failure {
    match error {
        KernelError::Permission(_) => Failure::not_permitted(error),
        KernelError::Verifier { .. } => Failure::invalid(format!(
            "{error}\nwhat works on this machine: tuneagent doctor; all that the verifier says: TUNEAGENT_LOG=debug"
        )),
        other => Failure::invalid(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_seconds_is_reported_and_not_for_ever() {
        let mut liveness = Liveness::default();
        let mut after = |step, at_ns| {
            liveness.begin(step, at_ns);
            liveness.stalled.take()
        };
        assert_eq!(after(LoopStep::ReadCounters, 5), None);
        assert_eq!(after(LoopStep::Waiting, 2_900_000_005), None);
        assert_eq!(after(LoopStep::ReadHits, 60_000_000_000), None);
        let expected = "tuneagent stood still for 29.3 s while reading hits: numbers of this time are missing or too low";
        assert_eq!(
            after(LoopStep::Waiting, 89_300_000_000).as_deref(),
            Some(expected)
        );
        let steps = (100..200).filter_map(|minutes| after(LoopStep::ReadHits, minutes * 60_000_000_000));
        assert_eq!(steps.count(), STALLS_MAX as usize - 1);
    }
}
